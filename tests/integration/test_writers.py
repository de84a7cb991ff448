"""The person unit on real people: MNIST with its 539 writers."""

import numpy as np
import pytest
from real_data import data

from discreet.models import build_model
from discreet.noise import RecordingSource, Seeded
from discreet.planning import PlanRequest, make_plan
from discreet.pools.array_files import read_idx
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink, adaptive, terms_of
from discreet.privacy.plan import TrainingPhase
from discreet.testing import check_neighbours
from discreet.trainers.dp_sgd import DPSGD, MISSING, CohortRecords, Settings, charge_training
from discreet.trainers.evaluation import evaluate_public

pytestmark = pytest.mark.integration
MOST = 4
WRITERS = 539


def digits(kind, count=None):
    images = read_idx(data("mnist") / f"{kind}-images-idx3-ubyte.gz")[:count]
    labels = read_idx(data("mnist") / f"{kind}-labels-idx1-ubyte.gz")[:count]
    return images.reshape(len(images), -1).astype(np.float32) / 255, labels.astype(np.int64)


@pytest.fixture(scope="module")
def written():
    x, y = digits("train")
    table = read_idx(data("qmnist-writers") / "qmnist-train-labels-idx2-int.gz")
    assert (table[:60_000, 0] == y).all()  # the tables are aligned
    return CohortRecords(x=x, y=y, persons=table[:60_000, 2])


def planned(epsilon):
    budget = Budget(epsilon=epsilon, delta="1e-4", unit="person")
    return make_plan(PlanRequest(budget=budget, initial=WRITERS, batch=180, epochs=20, accountant="rdp"))


def trained(cohort, made, source, **settings):
    ledger, phase = Ledger.create(MemorySink(), terms_of(made), source=source), TrainingPhase.of(made, 0)
    trainer = DPSGD(
        build_model("linear", inputs=(784,), classes=10),
        classes=10,
        settings=Settings(records_per_person=MOST, micro_batch=2048, **settings),
    )
    return trainer.train(phase=phase, cohorts={"initial": cohort}, receipt=charge_training(ledger, phase))


@pytest.mark.parametrize("person_clip", ["each", "joint"])
def test_a_model_protects_writers_and_reads_other_writers(written, person_clip):
    assert written.units == WRITERS
    made = planned(8)
    assert made.budget.unit == "person"
    options = {"clip": 1.0, "learning_rate": 4.0} if person_clip == "joint" else {"clip": 4.0, "learning_rate": 1.0}
    predictor = trained(written, made, Seeded(0), person_clip=person_clip, **options)
    x, y = digits("t10k")
    found = evaluate_public(predictor, x, y, classes=10)
    assert found.accuracy > 0.75


def test_writers_are_sampled_and_give_at_most_m_pictures(written):
    made, source = planned(8), RecordingSource(Seeded(0))
    trained(written, made, source, clip=0.5)
    rate = TrainingPhase.of(made, 0).stages[0].cohorts[0][1].sampling_rate
    masks = np.stack([out for call, out in source.tape.calls if call.mechanism == "poisson-mask"])
    assert masks.shape[1] == WRITERS
    assert abs(masks.mean() - rate) < 5 * np.sqrt(rate * (1 - rate) / masks.size)
    sums = [call.inputs for call, _ in source.tape.calls if call.mechanism == "gaussian"]
    for mask, total in zip(masks, sums, strict=True):
        assert np.linalg.norm(total) <= 0.5 * mask.sum() * (1 + 1e-9)


@pytest.mark.parametrize("person_clip", ["each", "joint"])
def test_all_pictures_of_a_writer_nulled_move_a_sum_by_at_most_c(written, person_clip):
    budget = Budget(epsilon=8, delta="1e-4", unit="person")
    made = make_plan(PlanRequest(budget=budget, initial=WRITERS, batch=180, epochs=1, accountant="rdp"))
    phase = TrainingPhase.of(made, 0)

    def run(cohort, ledger):
        settings = Settings(records_per_person=MOST, micro_batch=1024, clip=0.3, person_clip=person_clip)
        trainer = DPSGD(build_model("linear", inputs=(784,), classes=10), classes=10, settings=settings)
        made = trainer.train(phase=phase, cohorts={"initial": cohort}, receipt=charge_training(ledger, phase))
        return [value.numpy() for value in made.module.state_dict().values()]

    others = []
    for writer in (0, 300):
        y = written.y.copy()
        y[written.owners == writer] = MISSING
        others.append(CohortRecords(x=written.x, y=y, persons=written.persons))
    ample = adaptive(Budget(epsilon=10**9, delta="1e-9", unit="person"))
    assert check_neighbours(run, written, neighbours=others, terms=ample).releases == 3 * phase.steps
