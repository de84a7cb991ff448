"""What cannot be trained is found before anything is charged; what a model keeps of records stays behind."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from training_runs import blobs, phase_of, trained

from discreet.errors import BadInput
from discreet.models import build_model
from discreet.testing import check_neighbours
from discreet.trainers.dp_sgd import DPSGD, MISSING, CohortRecords, Settings, charge_training
from discreet.trainers.dp_sgd.engine.parts import margin
from discreet.trainers.dp_sgd.gradients import RecordGradients
from discreet.trainers.dp_sgd.optimization import cross_entropy
from discreet.trainers.torch_predictor import TorchPredictor

PHASE = phase_of({"a": 0.5, "b": 0.5}, steps=3)
COHORTS = {"a": blobs(6), "b": blobs(6, seed=1)}


def raising(parameters):
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "foo"},
        {"optimizer": raising},
        {"optimizer": "SparseAdam"},
        {"optimizer": torch.optim.LBFGS},
        {"optimizer_options": {"wings": 2}},
        {"schedule": lambda share: -1.0 if share > 0.5 else 1.0},
        {"schedule": lambda share: 1 / (share - 1 / 3)},
        {"augment": lambda x, g: None},
        {"augment": lambda x, g: x[:, :2]},
    ],
    ids=["name", "raises", "sparse", "lbfgs", "options", "negative", "divides", "nothing", "shape"],
)
def test_check_finds_it(linear, settings):
    with pytest.raises(BadInput):
        DPSGD(linear, classes=3, settings=Settings(**settings)).check(phase=PHASE, cohorts=COHORTS)


class Noisy(nn.Linear):
    def forward(self, rows):
        return super().forward(rows + random.random())


@pytest.mark.parametrize("kind", ["numpy", "python", "model", "loss"])
def test_draws_from_generators_that_no_step_seeds_are_refused(linear, kind):
    """Their seed may be known (numpy.random.seed(0) in a script), and a phase that goes on would not repeat them."""
    settings = {
        "numpy": {"augment": lambda x, g: x + np.random.normal()},
        "python": {"augment": lambda x, g: x + random.random()},
        "model": {},
        "loss": {"loss": lambda outputs, target: outputs.sum() * random.random()},
    }[kind]
    model = Noisy(5, 3) if kind == "model" else linear
    with pytest.raises(BadInput, match="global generator of Python or numpy"):
        DPSGD(model, classes=3, settings=Settings(**settings)).check(phase=PHASE, cohorts=COHORTS)


def test_check_tries_every_cohort_and_the_directory(linear, tmp_path):
    wide = CohortRecords(x=np.zeros((4, 7), np.float32), y=np.zeros(4, int))
    with pytest.raises(BadInput, match="made-up"):
        DPSGD(linear, classes=3).check(phase=PHASE, cohorts=COHORTS | {"b": wide})
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="directory"):
        DPSGD(linear, classes=3, checkpoints=tmp_path / "file").check(phase=PHASE, cohorts=COHORTS)
    betas = {"betas": (torch.tensor(0.9), torch.tensor(0.99))}
    unstorable = Settings(optimizer="adam", optimizer_options=betas | {"foreach": False})
    with pytest.raises(BadInput):
        DPSGD(linear, classes=3, settings=unstorable, checkpoints=tmp_path / "kept").check(phase=PHASE, cohorts=COHORTS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "linear"},
        {"model": dict},
        {"task": "multi-class"},
        {"classes": "3"},
        {"watch": 5},
        {"settings": {"clip": 1}},
    ],
    ids=["name", "class", "task", "classes", "watch", "dict"],
)
def test_a_trainer_of_nonsense_is_refused_at_once(linear, wrong):
    options = {"model": linear, "classes": 3} | wrong
    with pytest.raises(BadInput):
        DPSGD(options.pop("model"), **options)


def test_a_class_is_a_function_that_makes_a_model():
    class Small(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(5, 3))

    DPSGD(Small, classes=3).check(phase=PHASE, cohorts=COHORTS)
    with pytest.raises(BadInput, match="TypeError"):
        DPSGD(nn.Linear, classes=3).check(phase=PHASE, cohorts=COHORTS)


def test_nonsense_in_place_of_phase_cohorts_or_start(linear):
    trainer = DPSGD(linear, classes=3)
    for options in (
        {"phase": None, "cohorts": COHORTS},
        {"phase": PHASE, "cohorts": [COHORTS["a"]]},
        {"phase": PHASE, "cohorts": COHORTS, "start": "x"},
        {"phase": PHASE, "cohorts": COHORTS, "start": TorchPredictor(nn.Linear(5, 4))},
    ):
        with pytest.raises(BadInput):
            trainer.check(**options)
    for x in (None, "abc", [["a"]], np.array([object()])):
        with pytest.raises(BadInput):
            CohortRecords(x=x, y=np.zeros(1, int))
    for y in (None, "a"):
        with pytest.raises(BadInput):
            CohortRecords(x=np.zeros((1, 2)), y=y)


class Keeps(nn.Module):
    """Remembers what it has seen, as models in the field do."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls, self.seen = nn.Linear(5, 3), 0, []

    def forward(self, x):
        self.calls += 1
        self.last = self.layer(x)
        self.seen.append(x)
        return self.last


def test_what_a_model_keeps_of_records_does_not_leave_with_it():
    run = trained(Keeps(), COHORTS, PHASE)
    left = run.predictor.module
    assert (left.calls, left.seen) == (0, [])
    assert not hasattr(left, "last")
    assert np.isfinite(run.weights()).all()


def test_what_an_augmentation_says_of_a_record_stays_inside(linear, capfd):
    calls = []

    def tells(views, generator):
        calls.append(1)
        if len(calls) <= 3:  # the trials on made-up records
            return views
        raise ValueError(f"pixel out of range: {views.tolist()}")

    run = trained(linear, {"a": blobs(30)}, phase_of({"a": 1.0}), augment=tells)  # every record is a null to it
    assert not any(value.any() for value in run.inputs())
    assert capfd.readouterr() == ("", "")
    with pytest.raises(BadInput, match="pixel"):  # on made-up records it is heard
        trained(linear, {"a": blobs(30)}, phase_of({"a": 1.0}), augment=lambda views, generator: views.pixel)


def test_a_null_may_hold_anything():
    """A record that does not count is computed as zeros: not even a word outside the vocabulary stops a run."""
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 3))
    x = np.random.default_rng(0).integers(0, 10, (8, 3))
    x[5] = 999
    y = np.arange(8) % 3
    y[5] = MISSING
    run = trained(model, {"a": CohortRecords(x=x, y=y)}, phase_of({"a": 1.0}, steps=2))
    assert np.isfinite(run.weights()).all()


def test_a_record_the_model_cannot_take_is_a_null_too():
    """A word outside the vocabulary, in a record that counts: the step goes on without it."""
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 3))
    x = np.random.default_rng(0).integers(0, 10, (8, 3))
    x[5] = 999
    y = np.arange(8) % 3
    null = y.copy()
    null[5] = MISSING
    runs = [trained(model, {"a": CohortRecords(x=x, y=labels)}, phase_of({"a": 1.0})) for labels in (y, null)]
    np.testing.assert_array_equal(runs[0].weights(), runs[1].weights())  # not a bit of the others moves
    assert runs[0].inputs()[0].any()


def test_dropout_of_the_others_does_not_move_either():
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Dropout(0.5), nn.Linear(12, 3))
    x = np.random.default_rng(0).integers(0, 10, (8, 3))
    y = np.arange(8) % 3
    null = y.copy()
    null[2] = MISSING
    x[2] = 999

    def run(labels, ledger):
        trainer, phase = DPSGD(model, classes=3, settings=Settings(clip=0.1)), phase_of({"a": 1.0}, steps=2)
        records = {"a": CohortRecords(x=x, y=labels)}
        made = trainer.train(phase=phase, cohorts=records, receipt=charge_training(ledger, phase))
        return [value.numpy() for value in made.module.state_dict().values()]

    check_neighbours(run, y, neighbours=[null])


class Folder:
    """A reader with broken pictures."""

    def __init__(self, x, broken):
        self._x, self._broken, self.shape, self.dtype = x, set(broken), x.shape, x.dtype

    def __len__(self):
        return len(self._x)

    def __getitem__(self, rows):
        if self._broken & set(np.arange(len(self._x))[rows].tolist()):
            raise OSError("cannot read /data/anna.png")
        return self._x[rows]


def test_a_record_that_cannot_be_read_is_a_null_and_a_reader_that_reads_nothing_says_so(linear):
    found = blobs(12)
    null = found.y.copy()
    null[5] = MISSING
    broken = trained(linear, {"a": CohortRecords(x=Folder(found.x, [5]), y=found.y)}, phase_of({"a": 1.0}))
    other = trained(linear, {"a": CohortRecords(x=found.x, y=null)}, phase_of({"a": 1.0}))
    np.testing.assert_array_equal(broken.weights(), other.weights())
    with pytest.raises(BadInput, match="OSError") as caught:
        trained(linear, {"a": CohortRecords(x=Folder(found.x, range(12)), y=found.y)}, phase_of({"a": 1.0}))
    assert "anna" not in str(caught.value)


def test_a_persons_mean_that_overflows_counts_nothing():
    engine = RecordGradients(nn.Linear(2, 1, bias=False), cross_entropy)
    rows = torch.tensor([[1e308, 0.0], [1e308, 0.0], [3.0, 4.0], [3.0, 4.0]], dtype=torch.float64)
    engine._gradients = lambda views, targets: {"weight": views}
    found = engine.clipped_sum(rows, torch.zeros(4), clip=1.0, together=2)
    torch.testing.assert_close(found, torch.tensor([0.6, 0.8], dtype=torch.float64))


def test_a_function_that_gives_away_its_own_model_gets_it_back_untouched():
    mine = nn.Linear(5, 3)
    before = mine.weight.detach().clone()
    trained(lambda: mine, COHORTS, PHASE)
    assert torch.equal(mine.weight, before)


def test_views_and_dropout_are_drawn_anew_in_every_step():
    noisy = {"augment": lambda x, g: x + torch.randn(x.shape, generator=g)}
    dropping = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3))
    for model, options in ((nn.Linear(5, 3), noisy), (dropping, {})):
        run = trained(model, {"a": blobs(8)}, phase_of({"a": 1.0}, steps=4), learning_rate=1e-9, **options)
        sums = run.inputs()
        assert all(np.abs(sums[k] - sums[0]).max() > 1e-3 for k in (1, 2, 3))


def test_noise_is_scaled_to_reach_and_not_to_c_alone(linear):
    for engine, least, most in (("reference", 0.0, 1e-9), ("auto", margin(256), 1.001 * margin(256))):
        run = trained(linear, {"a": blobs(8)}, phase_of({"a": 1.0}, steps=1), clip=0.5, engine=engine)
        (call,) = [call for call, _ in run.calls if call.mechanism == "gaussian"]
        assert 0.5 * (1 + least) < call.sensitivity < 0.5 * (1 + most)


def test_an_optimizer_may_be_given_as_a_class(linear):
    settings = {"learning_rate": 0.3, "optimizer_options": {"momentum": 0.5}}
    runs = [trained(linear, COHORTS, PHASE, optimizer=kind, **settings) for kind in ("sgd", torch.optim.SGD)]
    np.testing.assert_array_equal(runs[0].weights(), runs[1].weights())


def test_adaptive_clipping_spares_the_head():
    model = build_model("mlp", inputs=(5,), classes=3, hidden=(4,))
    run = trained(model, {"a": blobs(8)}, phase_of({"a": 1.0}, steps=1, sigma=50.0), adaptive_clip=1e-6)
    before, after = dict(model.named_parameters()), dict(run.predictor.module.named_parameters())
    moved = {name: float((after[name] - before[name]).detach().abs().max()) for name in before}
    assert all((size > 1e-3) == name.startswith("head") for name, size in moved.items())


def test_draws_use_the_dropout_wherever_it_is():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.head = nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5)), nn.Linear(6, 3)

        def features(self, x):
            return self.trunk(x)

        def forward(self, x):
            return self.head(self.features(x))

    draws = TorchPredictor(Inside()).sample_proba(blobs(4).x, 30)
    assert draws.std(axis=0).max() > 0.01
