"""The table of the census: every built-in part, the contract it keeps, and the replay that it is in."""

from decimal import Decimal
from functools import partial

import numpy as np
from entries import Cited, Entry, Free
from learning_scenes import stream
from scenes import SCENES, selecting

from discreet.gates import CrowdGate, text_log
from discreet.oracles.registry import PageOracle
from discreet.records import Selection
from discreet.scorers import OwnScore, RandomScore
from discreet.scorers.acquisition_functions import SCORERS as DECLARED
from discreet.selectors import SELECTORS as DECLARED_SELECTORS
from discreet.selectors import NearPrivate, SelectorRequest
from discreet.testing import check_gate, check_predictor, check_scorer, check_selector, check_trainer
from discreet.testing.oracles import QUESTIONS

NO_NOISE = Free("a score is the owner's; what is drawn from it pays. The contract replays it through coins")
PUBLIC = Free("it reads public records, and a model that is private already: post-processing")
PEOPLE = Free("people answer, or their files: an answer depends on its own record, and is the owner's")


def scorer(kind, several=False):
    def contract():
        for clip in (None, 0.2):
            check_scorer(partial(kind, classes=3, clip=clip), classes=3, several_labels=several)

    return Entry(contract, NO_NOISE)


def own_score():
    check_scorer(lambda: OwnScore(function=lambda p: 1 - p.max(axis=1), range=(0, 1)))
    check_scorer(lambda: OwnScore(function=lambda d: d.std(axis=(0, 2)), range=(0, 1), needs="draws"))


def name_of(kind):
    return f"{kind.__module__.removeprefix('discreet.')}.{kind.__qualname__}"


SCORERS = {
    **{
        name_of(kind): scorer(kind, several=place == 1)
        for part in DECLARED
        for place, kind in enumerate(part.makes)
        if kind is not RandomScore
    },
    "scorers.acquisition_functions.OwnScore": Entry(own_score, NO_NOISE),
    "scorers.acquisition_functions.RandomScore": Entry(lambda: check_scorer(RandomScore), NO_NOISE),
}

# -- selectors

BY_NAME = Cited("selectors/test_selectors.py::test_the_contract_holds", "check_selector")
FREE_PUBLIC = Entry(
    Cited("selectors/test_public_selectors.py::test_the_contract_of_selectors", "check_selector"), PUBLIC
)


class Near:
    """NearPrivate with its public records: what the contract calls scores are those of the private ones."""

    name = NearPrivate.name

    def __init__(self):
        self.inner = NearPrivate(support_epsilon=1, noise_multiplier=4.0, uncertain=40, components=2, norm=1.0)

    def price(self, k, pool_size):
        return self.inner.price(k, pool_size)

    def select(self, *, ids, scores, k, receipt, phase=0):
        if not len(ids):  # without a public record it refuses: selectors/test_near_private.py
            return Selection(ids=(), mechanism=self.name)
        count, rng = len(ids), np.random.default_rng(4)
        private = np.asarray(scores, dtype=np.float64)
        return self.inner.select(
            ids=ids,
            scores=np.linspace(0.1, 0.4, count),
            k=k,
            receipt=receipt,
            phase=phase,
            embeddings=rng.normal(size=(count, 3)),
            private_scores=private,
            private_embeddings=rng.normal(size=(count, 3)),
        )


SELECTORS = {
    "selectors.quality.RandomSelector": Entry(BY_NAME, Free("it reads no record")),
    "selectors.quality.ExactTopK": Entry(BY_NAME, Free("not private, and its selections say so")),
    "selectors.top_k.LaplaceTopK": Entry(BY_NAME, ["laplace top-k"]),
    "selectors.top_k.GaussianTopK": Entry(BY_NAME, ["gaussian top-k", "gaussian top-k of a subsample"]),
    "selectors.threshold_selector.ThresholdSelector": Entry(
        BY_NAME, ["threshold response", "threshold response, declared"]
    ),
    "selectors.top_k.ExponentialSelector": Entry(
        Cited("selectors/test_named_and_shards.py::test_the_contract_holds", "check_selector"), ["exponential"]
    ),
    "selectors.hidden_threshold.HiddenThresholdSelector": Entry(
        Cited("selectors/test_hidden_selector.py::test_the_contract_holds", "check_selector"), ["hidden threshold"]
    ),
    "selectors.k_centre.KCentreSelector": Entry(
        Cited("selectors/test_k_centre.py::test_the_contract_holds", "check_selector"), ["k-centre"]
    ),
    "selectors.near_private.NearPrivate": Entry(lambda: check_selector(Near), ["near private"]),
    "selectors.public_selectors.DiversePublic": FREE_PUBLIC,
    "selectors.public_selectors.GreedyKCentre": FREE_PUBLIC,
    "selectors.public_selectors.UncertainPublic": FREE_PUBLIC,
}


def declared(part):
    """A selector as its declaration builds it, for one query of epsilon 2."""
    delta = Decimal("1e-6") if part.option("delta") else Decimal(0)
    return part.build(SelectorRequest(epsilon=Decimal(2), delta=delta))


def other_selectors():
    """Paid selectors that the table above does not name: their declaration is enough for contract and replay."""
    entries, scenes = {}, {}
    for part in DECLARED_SELECTORS:
        if part.one_query and part.prices and name_of(kind := type(declared(part))) not in SELECTORS:
            module, scene = kind.__module__.removeprefix("discreet.selectors."), f"declared {part.name}"
            entries[name_of(kind)] = Entry(partial(check_selector, partial(declared, part)), [scene])
            scenes[scene] = selecting(partial(declared, part), module)
    return entries, scenes


OTHERS, OTHER_SCENES = other_selectors()

# -- feature maps

FROM_ONE = Free("a public function of one record: nothing is fitted to records, and nothing is drawn")


def feature(*tests):
    return Entry(Cited(*tests, "check_feature_map"), FROM_ONE)


TABLES_TEST = "features/test_tables.py::test_it_keeps_the_contract"
FEATURES = {
    "features.scattering.Scattering": feature("features/test_scattering.py::test_it_keeps_the_contract"),
    "features.random_fourier.RandomFourier": feature("features/test_random_fourier.py::test_it_keeps_the_contract"),
    "features.image_encoder.ImageEncoder": feature("features/test_encoders.py::test_an_onnx_file_keeps_the_contract"),
    "features.text_encoder.TextEncoder": feature(
        "features/test_encoders.py::test_a_sentence_encoder_keeps_the_contract"
    ),
    "features.scikit_learn.ScikitLearn": feature("features/test_scikit_learn.py::test_it_keeps_the_contract"),
    "features.text.HashedText": feature("features/test_text.py::test_it_keeps_the_contract"),
    **{f"features.bins.{kind}": feature(TABLES_TEST) for kind in ("Bins", "Spline", "Standardise", "OneHot")},
}


# -- the gate: Spark is held to the local engine's output, text by text


def gate():
    check_gate(lambda: CrowdGate(k=3, beta=0.5, counts=True, values=2))
    rows = CrowdGate(k=4, beta=0.5, persons=False)
    check_gate(lambda: rows, rows=lambda pairs: text_log([text for _, text in pairs]))


# -- oracles


def oracle(test, replay=PEOPLE):
    return Entry(Cited(test, "check_oracle"), replay)


def pages():
    """Published is asked, told is answered: there is nothing to hand over or to collect."""
    made = PageOracle()
    assert made.collect() == []
    made.ask(QUESTIONS)
    assert made.collect() == made.collect() == []
    assert made.shown_to(QUESTIONS) == []


ANSWERS = ["answers, gaussian", "answers, laplace", "answers, confident", "answers, sparse"]
TEACHERS = "oracles/test_teacher_oracle.py::test_the_contract_of_oracles"


class Aggregated(Cited):
    """Aggregators are named by their price there (`AGGREGATORS`), not by class."""

    def problem(self, part):
        return super().problem("AGGREGATORS")


ORACLES = {
    "oracles.programs.SimulatedOracle": oracle("oracles/test_simulated_oracle.py::test_it_keeps_the_contract"),
    "oracles.programs.CallableOracle": oracle("oracles/test_callable_oracle.py::test_it_keeps_the_contract"),
    "oracles.file_oracle.FileOracle": oracle("oracles/test_file_oracle.py::test_it_keeps_the_contract"),
    "oracles.label_studio.oracle.LabelStudioOracle": oracle(
        "integration/test_label_studio_traps.py::test_it_keeps_the_contract_of_oracles"
    ),
    "oracles.registry.PageOracle": Entry(pages, PEOPLE),
    "oracles.teachers.TeacherOracle": oracle(TEACHERS, ["teachers"]),
    "oracles.teachers.NoisyMaximum": Entry(Aggregated(TEACHERS, "check_oracle"), ANSWERS[:2]),
    "oracles.teachers.ConfidentMaximum": Entry(Aggregated(TEACHERS, "check_oracle"), ANSWERS[2:3]),
    "oracles.teachers.StableAnswer": Entry(Aggregated(TEACHERS, "check_oracle"), ANSWERS[3:]),
}

# -- trainers and what they make

LUCK = np.random.default_rng(0)
X, Y = LUCK.normal(size=(40, 4)).astype(np.float32), LUCK.integers(0, 3, 40)
X += 3 * np.eye(3, 4, dtype=np.float32)[Y]
NAMES = ("a", "b", "c")


def dp_sgd():
    import torch

    from discreet.trainers.dp_sgd import DPSGD, Settings

    for engine in ("auto", "reference"):  # the compiled one is held to torch's sums: trainers/test_engine_kernels.py
        torch.manual_seed(3)
        model = torch.nn.Linear(5, 3)
        check_trainer(partial(DPSGD, model, classes=3, settings=Settings(engine=engine)))


def fine_tuned(y=Y):
    from discreet.models import build_model
    from discreet.trainers.dp_sgd import CohortRecords, Settings
    from discreet.trainers.fine_tune import FineTuning

    start = build_model("mlp", inputs=(4,), classes=3, hidden=[6], dropout=0.2)
    tuning = FineTuning(settings=Settings(learning_rate=0.1, device="cpu"), epochs=2, batch=8)
    return start, tuning.train(start, CohortRecords(x=X, y=y))


def fine_tuning():
    """The same labels make the same model; without one it is the start's; it learns; and it is a predictor."""
    (start, made), (_, again) = fine_tuned(), fine_tuned()
    assert made.weights() == again.weights()
    check_predictor(made, X[:10], classes=3)
    untaught = fine_tuned(np.full(40, -1))[1]
    assert all((a == b).all() for a, b in zip(start.parameters(), untaught.module.parameters(), strict=True))


TEXTS = [f"{word} number {place}" for place in range(12) for word in ("apple", "stone", "river")]
TEXT_LABELS = ["a", "b", "c"] * 12


class Rows(list):
    """Texts by an array of places."""

    def __getitem__(self, places):
        return Rows(list.__getitem__(self, int(place)) for place in places)


def text_classifier():
    from discreet.trainers.text_classifier import TextSettings, train_texts

    settings = TextSettings(features=256, epochs=2)
    made = train_texts(TEXTS, TEXT_LABELS, classes=NAMES, settings=settings)
    assert made.to_bytes() == train_texts(TEXTS, TEXT_LABELS, classes=NAMES, settings=settings).to_bytes()
    check_predictor(made, Rows(TEXTS[:9]), classes=3)


def student(name):
    """Within its cap, no record twice, the same each time; and what it is stored as is a predictor."""

    def contract():
        from sklearn.linear_model import LogisticRegression

        from discreet.trainers import students
        from discreet.trainers.students.stored import StudentModel

        asked, made = [], []
        for _ in range(2):
            asked.append([])

            def ask(places):
                asked[-1].extend(places)
                return [None if place % 7 == 0 else NAMES[Y[place]] for place in places]

            way = getattr(students, name)
            made.append(way(X, ask, classes=NAMES, estimator=LogisticRegression(), answers=20, seed=3))
        assert asked[0] == asked[1] == list(made[0].asked)
        assert len(set(asked[0])) == len(asked[0]) <= 20
        assert (made[0].predict(X) == made[1].predict(X)).all()
        stored = StudentModel(model=made[0].model, classes=3, ids=(), codes=np.array([], dtype=np.int64), flat=True)
        check_predictor(stored, X[:10], classes=3)

    return contract


LEARNT_ALONE = Free("a student sees public records and paid answers: post-processing")
TAUGHT = Cited("trainers/test_teachers.py::test_a_unit_is_with_one_teacher_whatever_else_is_there")
ROTATED = Cited("trainers/test_fine_tune.py::test_a_trunk_learns_by_rotations_and_keeps_its_head")
TORCH = Cited("trainers/test_torch_predictor.py::test_probabilities_in_pieces_are_those_of_the_whole")


def student_entry(name):
    return Entry(student(name), LEARNT_ALONE)


TRAINERS = {
    "trainers.dp_sgd.trainer.DPSGD": Entry(dp_sgd, ["dp-sgd"]),
    "trainers.fine_tune.FineTuning": Entry(fine_tuning, PUBLIC),
    "trainers.fine_tune.rotations": Entry(ROTATED, PUBLIC),
    "trainers.text_classifier.train_texts": Entry(text_classifier, PUBLIC),
    "trainers.text_classifier.TextClassifier": Entry(text_classifier, PUBLIC),
    "trainers.torch_predictor.TorchPredictor": Entry(fine_tuning, PUBLIC),
    "trainers.students.student.passive_student": student_entry("passive_student"),
    "trainers.students.student.margin_student": student_entry("margin_student"),
    "trainers.students.disagreement.disagreement_student": student_entry("disagreement_student"),
    "trainers.students.stored.StudentModel": student_entry("passive_student"),
    "trainers.teachers.training.train_teachers": Entry(
        Cited("oracles/test_teacher_oracle.py::test_one_record_changes_one_teacher"), ["teachers"]
    ),
}

# -- streams: each part in a stream of its own


def streams():
    from discreet.stream import (
        AskEverything,
        BalancedSlab,
        BernoulliAsking,
        DriftWatch,
        ExponentialAsking,
        FixedSlab,
        GammaNoise,
        GaussianNoise,
        Immediate,
        MiniBatch,
        OneSidedAsking,
        ShrinkingSlab,
        SlidingWindow,
    )

    return {
        "learner.StreamLearner": stream(drift=DriftWatch(epsilon=1, window=3, most=0.4)),
        "ask_rules.BernoulliAsking": stream(asking=BernoulliAsking(epsilon=1)),
        "ask_rules.OneSidedAsking": stream(asking=OneSidedAsking(asked=1, missed=2)),
        "ask_rules.ExponentialAsking": stream(asking=ExponentialAsking(epsilon=1)),
        "ask_rules.AskEverything": stream(asking=AskEverything()),
        "optimizer.GammaNoise": stream(noise=GammaNoise(epsilon=1)),
        "optimizer.GaussianNoise": stream(noise=GaussianNoise(noise_multiplier=2.0)),
        "schedules.MiniBatch": stream(window=MiniBatch(2)),
        "schedules.SlidingWindow": stream(window=SlidingWindow(3)),
        "schedules.Immediate": stream(window=Immediate()),
        "schedules.FixedSlab": stream(slab=FixedSlab(0.3)),
        "schedules.ShrinkingSlab": stream(slab=ShrinkingSlab()),
        "schedules.BalancedSlab": stream(slab=BalancedSlab(0.2, [0.9, 0.1])),
        "losses.Hinge": stream(loss="hinge"),
        "losses.Logistic": stream(loss="logistic"),
        "losses.MulticlassHinge": stream(classes=3, loss="multiclass-hinge"),
        "losses.Softmax": stream(classes=3),
    }


STREAM_SCENES = {f"stream, {name}": scene for name, scene in streams().items()}
STREAM_CONTRACTS = {
    "ask_rules": Cited("stream/test_asking.py::test_rules_read_back_as_they_were_written"),
    "learner": Cited("stream/test_stream_neighbours.py::test_the_kit_finds_the_planted_mistake", "check_neighbours"),
}
PARTS = Cited("stream/test_stream_parts.py::test_parts_read_back_as_they_were_written")
STREAMS = {
    f"stream.{name}": Entry(STREAM_CONTRACTS.get(name.partition(".")[0], PARTS), [f"stream, {name}"])
    for name in streams()
}

TABLE = {
    **SCORERS,
    **SELECTORS,
    **OTHERS,
    **FEATURES,
    "gates.gate.CrowdGate": Entry(gate, ["gate"]),
    **ORACLES,
    **TRAINERS,
    **STREAMS,
}

ALL_SCENES = {**SCENES, **STREAM_SCENES, **OTHER_SCENES}
