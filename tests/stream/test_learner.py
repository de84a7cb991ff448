"""The learner: River's loop, labels that are late or never come, windows, resets, and what it refuses."""

import math

import numpy as np
import pytest
from stream_scenes import BERNOULLI, GAMMA, learner, one_by_one, records, settings

from discreet.errors import BadInput, InvalidCheckpoint, ReceiptRefused
from discreet.noise import Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.stream import (
    AskEverything,
    BalancedSlab,
    BernoulliAsking,
    ConstantStep,
    DriftWatch,
    ExponentialAsking,
    FixedSlab,
    GammaNoise,
    GaussianNoise,
    Immediate,
    InverseStep,
    MiniBatch,
    OneSidedAsking,
    ShrinkingSlab,
    SlidingWindow,
    StreamLearner,
    StreamModel,
    StreamSettings,
    charge_stream,
    stream_terms,
)

QUIET = GammaNoise(epsilon=10**6)
"""So little noise that a step is what the formula says."""


def test_rivers_loop_learns():
    x, y = records(6_000, d=5, seed=2)
    made = learner(features=5, noise=GaussianNoise(noise_multiplier=0.5), window=MiniBatch(20), step=ConstantStep(0.3))
    one_by_one(made, x, y)
    good = np.isfinite(x).all(axis=1)
    assert (made.predict_many(x[good]) == y[good]).mean() > 0.9
    row = x[good][0]
    chances = made.predict_proba_one(row)
    assert sum(chances.values()) == pytest.approx(1)
    assert max(chances, key=chances.get) == made.predict_one(row)
    assert made.predict_proba_many(x[good])[0] == pytest.approx(list(chances.values()))
    assert made.arrived == 6_000
    assert 0 < made.labelled == made.asked < 6_000
    assert made.waiting == ()


def test_an_update_is_the_formula():
    """w - eta_t (lambda w - (1/B) sum y x 1[hinge > 0]), then the ball: theory.md, section 7."""
    made = learner(
        features=2,
        asking=AskEverything(),
        noise=QUIET,
        window=MiniBatch(2),
        step=InverseStep(0.4),
        regularization=0.5,
    )
    w = np.zeros(2)
    rows = [([0.6, 0.0], 1), ([0.0, 0.5], 0), ([0.3, 0.3], 1), ([-0.4, 0.1], 1), ([0.9, 0.9], 1), ([0.1, 0.2], 0)]
    for t in range(1, 4):
        batch = rows[2 * t - 2 : 2 * t]
        total = np.zeros(2)
        for x, y in batch:
            point = np.array(x) / max(1.0, math.hypot(*x))
            sign = 2 * y - 1
            total += sign * point * (sign * (w @ point) < 1)
            assert made.ask(np.array(x))
            made.learn_one(np.array(x), y)
        rate = 0.4 / t
        w = w - rate * (0.5 * w - total / 2)
        w /= max(1.0, np.linalg.norm(w))
        assert made.update()
        assert made.model().weights == pytest.approx(w, abs=1e-4)
        assert made.updates == made.version == t


def test_late_and_missing_labels_leave_b_and_the_time_alone():
    """Three windows of two asked records. One label never comes, one comes a window late."""
    made = learner(
        features=1, asking=AskEverything(), noise=QUIET, window=MiniBatch(2), step=ConstantStep(1.0), ball=9.0
    )
    for number in range(2):
        assert made.ask([1.0], id=f"r{number}")
    made.learn_late("r0", 1)
    assert made.update()
    assert made.model().weights == pytest.approx([1 / 2], abs=1e-4)  # B = 2, though one label came
    made.ask([0.4], id="r2")
    assert made.learn_late("r1", 1)  # late: enters this window, does not count in its B
    made.ask([0.6], id="r3")
    assert made.waiting == ("r2", "r3")
    made.learn_late("r2", 1)
    made.learn_late("r3", None)  # will not come
    assert made.waiting == ()
    assert made.update()
    assert made.model().weights == pytest.approx([1 / 2 + (1.0 + 0.4) / 2], abs=1e-4)
    assert (made.labelled, made.asked, made.updates) == (3, 4, 2)


def test_the_windows_close_though_no_label_ever_comes():
    for window, expected in ((SlidingWindow(5), 4), (MiniBatch(4), 5), (Immediate(), 20)):
        made = learner(features=1, asking=AskEverything(), window=window)
        for _ in range(20):
            made.ask([0.5])
        made.update()
        assert made.updates == expected


def test_an_empty_window_changes_nothing_draws_nothing_and_does_not_count():
    made = learner(features=1, asking=OneSidedAsking(asked=1, low=1e-9), window=SlidingWindow(3), slab=ShrinkingSlab())
    before = made.model()
    for _ in range(30):
        assert not made.ask([0.5])
    assert not made.update()
    assert made.model() == before or made.model().sha256 == before.sha256
    assert (made.updates, made.version, made.live_state.noises) == (0, 0, 0)


def test_a_late_label_waits_for_a_window_that_is_not_empty():
    """Asked in one window, labelled in the next, which is empty: it teaches in the one after."""
    asking = OneSidedAsking(asked=1, missed=1)
    made = learner(
        seed=4, features=1, asking=asking, noise=QUIET, window=SlidingWindow(1), step=ConstantStep(1.0), ball=9.0
    )
    while not made.ask([0.5], id="late"):
        pass
    made.update()
    assert made.model().weights == pytest.approx([0.0], abs=1e-4)
    asked = made.ask(None, id="other")
    made.learn_late("late", 1)
    while not asked:
        assert not made.update()
        assert made.model().weights == pytest.approx([0.0], abs=1e-4)
        asked = made.ask(None, id="other")
    assert made.update()
    assert made.model().weights == pytest.approx([0.5], abs=1e-4)


def test_a_record_teaches_once_and_only_if_it_was_asked():
    made = learner(features=1, asking=AskEverything(), noise=QUIET)
    x = np.array([0.5])
    with pytest.raises(BadInput, match="not asked"):
        made.learn_one(x, 1)
    made.ask(x)
    made.learn_one(x, 1)
    with pytest.raises(BadInput, match="has its label"):
        made.learn_one(x, 1)
    made.ask(x)
    with pytest.raises(BadInput, match="asked last"):
        made.learn_one(np.array([0.6]), 1)
    made.learn_one(np.array([0.5]), 1)  # another object, the same record
    made.ask(x, id="a")
    with pytest.raises(BadInput, match="not asked"):
        made.learn_one(x, 1, id="b")
    with pytest.raises(BadInput, match="has no label yet"):
        made.ask(x, id="a")
    made.learn_one(x, 1, id="a")
    assert not made.learn_late("a", 1)
    assert made.labelled == 3
    rare = learner(features=1, asking=OneSidedAsking(asked=1, low=1e-9))
    assert not rare.ask(x)
    with pytest.raises(BadInput, match="not asked"):
        rare.learn_one(x, 1)


def test_a_wrong_label_costs_nothing_and_is_not_echoed():
    made = learner(features=1, asking=AskEverything(), classes=("normal", "attack"))
    x = np.array([0.5])
    made.ask(x)
    with pytest.raises(BadInput) as refused:
        made.learn_one(x, "a secret")
    assert "secret" not in str(refused.value)
    made.learn_one(x, "attack")
    assert made.predict_one(x) in ("normal", "attack")


def test_a_broken_record_is_a_null():
    """Asked as its null would be, taught nothing, counted in B."""
    made = learner(features=2, asking=AskEverything(), noise=QUIET, window=MiniBatch(2), step=ConstantStep(1.0))
    made.ask(None)
    made.learn_one(None, 1)
    made.ask([0.6, 0.0])
    made.learn_one([0.6, 0.0], 1)
    made.update()
    assert made.model().weights == pytest.approx([0.3, 0.0], abs=1e-4)
    assert made.predict_one([np.nan, 1.0]) == 0
    assert made.labelled == 2
    chances = [learner(seed=seed, features=2).ask(None) for seed in range(400)]
    assert 60 < sum(chances) < 160  # about .27; at w = 0 a record would be asked with .73
    assert sum(learner(seed=seed, features=2).ask([0.0, 0.0]) for seed in range(400)) > 240


def test_inside_the_slab_is_asked_more_often():
    made = learner(features=2, noise=QUIET, slab=FixedSlab(0.2), window=SlidingWindow(10**6))
    made.live_state.linear.set(np.array([1.0, 0.0]) / made.live_state.linear.ball.step)
    made.live_state.set_widths()
    near = np.mean([made.ask([0.199, 0.9]) for _ in range(3_000)])
    far = np.mean([made.ask([-0.201, 0.9]) for _ in range(3_000)])
    assert near == pytest.approx(math.e / (1 + math.e), abs=0.05)
    assert far == pytest.approx(1 / (1 + math.e), abs=0.05)
    made.change_slab(BalancedSlab(0.2, [0.8, 0.2]))  # 0.1 below the boundary, 0.4 above it
    assert made.slab.widths(0, 2) == pytest.approx((0.1414, 0.2828), abs=1e-4)
    assert np.mean([made.ask([0.28, 0.5]) for _ in range(3_000)]) > 0.6
    assert np.mean([made.ask([-0.28, 0.5]) for _ in range(3_000)]) < 0.4


def test_the_shrinking_slab_follows_updates():
    made = learner(features=1, asking=AskEverything(), slab=ShrinkingSlab(1.0), window=MiniBatch(2))
    for _ in range(7):
        made.ask([0.5])
    made.update()
    assert made.updates == 3
    assert made.live_state.widths == (0.25, 0.25)
    made.reset()
    assert made.live_state.widths == (1.0, 1.0)


def test_more_classes_are_learned_and_clipped_jointly():
    x, y = records(6_000, d=6, classes=3, seed=5, outside=0.0)
    for loss in ("softmax", "multiclass-hinge"):
        made = learner(
            features=6,
            classes=("a", "b", "c"),
            loss=loss,
            noise=GaussianNoise(noise_multiplier=0.3),
            window=MiniBatch(20),
            step=ConstantStep(0.5),
        )
        names = np.array(["a", "b", "c"])[y]
        made.ask_and_learn_many(x, names)
        good = np.isfinite(x).all(axis=1)
        assert (made.predict_many(x[good]) == names[good]).mean() > 0.8
        assert made.model().weights.shape == (3, 6)
        assert np.linalg.norm(made.model().weights) <= 1
        assert set(made.predict_proba_one(x[good][0])) == {"a", "b", "c"}


def test_logistic_loss_learns_two_classes():
    x, y = records(4_000, d=4, seed=6)
    made = learner(
        loss="logistic", noise=GaussianNoise(noise_multiplier=0.3), window=MiniBatch(20), step=ConstantStep(0.5)
    )
    made.ask_and_learn_many(x, y)
    good = np.isfinite(x).all(axis=1)
    assert (made.predict_many(x[good]) == y[good]).mean() > 0.9


def test_a_reset_begins_anew_and_noise_is_not_used_again():
    made = learner(features=1, asking=AskEverything(), window=Immediate())
    for _ in range(3):
        made.ask([0.5])
        made.learn_one([0.5], 1)
    made.update()
    version = made.version
    made.reset()
    assert made.version == version + 1
    assert (made.model().weights == 0).all()
    assert made.updates == 0
    first = learner(features=1, asking=AskEverything(), window=Immediate())
    for one in (first, made):
        one.ask([0.5])
        one.update()
    assert made.updates == first.updates == 1
    assert (made.live_state.noises, first.live_state.noises) == (4, 1)
    assert made.model().weights[0] != first.model().weights[0]


def test_drift_is_noticed_for_a_price():
    """The labels turn round after 3,000 records; a constant step forgets, and a watch throws the model away."""
    x, y = records(6_000, d=4, seed=7)
    turned = np.where(np.arange(6_000) < 3_000, y, 1 - y)
    watch = DriftWatch(epsilon="0.5", window=100, most=0.6)
    parts = {"noise": GaussianNoise(noise_multiplier=0.3), "window": MiniBatch(20), "step": InverseStep(1.0)}
    watched, careless = learner(drift=watch, **parts), learner(**parts)
    for one in (watched, careless):
        one.ask_and_learn_many(x, turned)
    good = np.isfinite(x).all(axis=1) & (np.arange(6_000) >= 4_000)
    right = [(one.predict_many(x[good]) == turned[good]).mean() for one in (watched, careless)]
    assert watched.live_state.resets == 1
    assert right[0] > 0.85
    assert right[1] < 0.5
    calm = learner(drift=watch, **parts)
    calm.ask_and_learn_many(x, y)
    assert calm.live_state.resets == 0
    assert calm.live_state.checks == calm.asked // 100


def test_patience_ends():
    made = learner(features=1, asking=AskEverything(), patience=3)
    for number in range(6):
        made.ask([0.5], id=f"r{number}")
    assert made.waiting == ("r3", "r4", "r5")
    assert not made.learn_late("r2", 1)
    assert made.learn_late("r3", 1)
    assert made.labelled == 1


def test_a_published_model_is_versioned_hashed_and_reads_back():
    made = learner(features=("height", "weight"), classes=("no", "yes"), asking=AskEverything(), window=Immediate())
    made.ask({"height": 0.5, "weight": -0.2})
    made.learn_one({"height": 0.5, "weight": -0.2}, "yes")
    made.update()
    model = made.model()
    form = model.to_json()
    assert (form["format"], form["version"], form["simulation"]) == ("discreet.stream-model/1", 1, True)
    assert form["claim"]["epsilon"] == 1
    assert StreamModel.from_json(form).sha256 == model.sha256
    x = np.array([[0.3, 0.4], [-0.3, 0.1]])
    assert np.array_equal(model.predict(x), made.predict_many(x))
    for key, value in (("version", 2), ("weights", [0.0, 0.0]), ("sha256", "0" * 64), ("more", 1)):
        with pytest.raises(InvalidCheckpoint):
            StreamModel.from_json(form | {key: value})
    with pytest.raises(InvalidCheckpoint):
        StreamModel.from_json({})


def test_exactly_one_of_receipt_and_ledger_pays():
    terms = stream_terms(Budget(epsilon=2, delta=0), asking=BERNOULLI, noise=GAMMA)
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(1))
    parts = {"features": 2, "asking": BERNOULLI, "noise": GAMMA}
    with pytest.raises(BadInput, match="exactly one"):
        StreamLearner(**parts)
    receipt = charge_stream(ledger, asking=BERNOULLI, noise=GAMMA)
    with pytest.raises(BadInput, match="exactly one"):
        StreamLearner(**parts, receipt=receipt, ledger=ledger)
    with pytest.raises(ReceiptRefused, match="something else"):
        StreamLearner(features=2, asking=BernoulliAsking(epsilon="0.5"), noise=GAMMA, receipt=receipt)
    with pytest.raises(ReceiptRefused, match="no receipt"):
        StreamLearner(**parts, receipt="receipt")
    StreamLearner(**parts, receipt=receipt)
    with pytest.raises(ReceiptRefused, match="spent"):
        StreamLearner(**parts, receipt=receipt)


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": 0},
        {"features": "abc"},
        {"features": ["a", "a"]},
        {"classes": 1},
        {"classes": ["a", "a"]},
        {"classes": "ab"},
        {"classes": 3, "loss": "hinge"},
        {"classes": 3, "loss": "logistic"},
        {"loss": "square"},
        {"radius": 0.0},
        {"ball": -1.0},
        {"regularization": float("nan")},
        {"patience": 0},
        {"asking": 1},
        {"noise": None},
        {"window": "immediate"},
        {"features": 1 << 21},
        {"asking": ExponentialAsking(epsilon=1, form="paper"), "slab": FixedSlab(0.2)},
    ],
)
def test_settings_without_meaning_are_refused_when_they_are_made(wrong):
    with pytest.raises(BadInput):
        settings(**wrong)


def test_settings_read_back_as_they_were_written():
    import json

    for made in (
        settings(),
        settings(
            features=("a", "b"),
            classes=("x", "y", "z"),
            slab=BalancedSlab(0.2, [0.5, 0.3, 0.2]),
            drift=DriftWatch(epsilon=1, window=5, most=0.5),
            patience=9,
            radius=2.0,
        ),
    ):
        form = json.loads(json.dumps(made.to_json()))
        assert StreamSettings.from_json(form) == made
        with pytest.raises(BadInput):
            StreamSettings.from_json(form | {"another": 1})


def test_a_repr_says_no_data():
    made = learner(features=1, asking=AskEverything())
    made.ask([0.123456])
    assert "0.123" not in repr(made)
    assert "1 arrived, 1 asked" in repr(made)
