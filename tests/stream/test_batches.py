"""Batches decide as single records do, to the bit, whatever the parts and wherever they are cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from stream_scenes import ASKINGS, NOISES, WINDOWS, learner, one_by_one, plain, records, settings

from discreet.errors import BadInput
from discreet.noise import RecordingSource, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.stream import (
    AskEverything,
    BalancedSlab,
    DriftWatch,
    ExponentialAsking,
    MiniBatch,
    ShrinkingSlab,
    SlidingWindow,
    StreamLearner,
    stream_terms,
)


def same(left, right):
    assert plain(left.state()) == plain(right.state())
    assert left.model().weights.tobytes() == right.model().weights.tobytes()


@pytest.mark.parametrize("asking", ASKINGS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("noise", NOISES)
def test_a_batch_with_its_labels_is_the_loop(asking, window, noise):
    parts = {"asking": ASKINGS[asking], "window": WINDOWS[window], "noise": NOISES[noise]}
    x, y = records()
    single, many = learner(**parts), learner(**parts)
    bits = one_by_one(single, x, y)
    assert np.array_equal(many.ask_and_learn_many(x, y), bits)
    assert 0 < bits.sum() < 600
    assert single.updates > 5
    same(single, many)


@pytest.mark.parametrize(
    "parts",
    [
        {"loss": "logistic"},
        {"classes": 3},
        {"classes": 3, "loss": "multiclass-hinge", "asking": ExponentialAsking(epsilon=1)},
        {"classes": 3, "slab": BalancedSlab(0.2, [0.6, 0.3, 0.1])},
        {"slab": BalancedSlab(0.2, [0.9, 0.1])},
        {"slab": ShrinkingSlab()},
        {"slab": ShrinkingSlab(0.9, least=0.3), "asking": ExponentialAsking(epsilon=1, form="paper")},
        {"asking": AskEverything()},
        {"drift": DriftWatch(epsilon=1, window=30, most=0.3)},
        {"drift": DriftWatch(epsilon=1, window=30, most=0.3), "loss": "logistic", "window": SlidingWindow(4)},
        {"patience": 20},
        {"radius": 0.7, "ball": 3.0, "regularization": 0.1},
        {"window": SlidingWindow(1)},
        {"window": SlidingWindow(5000)},
        {"window": MiniBatch(100)},
    ],
)
def test_every_part_decides_the_same(parts):
    parts = {"window": MiniBatch(5)} | parts
    x, y = records(classes=parts.get("classes", 2))
    single, many = learner(**parts), learner(**parts)
    assert np.array_equal(many.ask_and_learn_many(x, y), one_by_one(single, x, y))
    same(single, many)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("asking", ASKINGS)
def test_without_labels_in_between_it_is_asking_one_by_one(window, asking):
    parts = {"window": WINDOWS[window], "asking": ASKINGS[asking], "patience": 100}
    x, y = records()
    single, many = learner(**parts), learner(**parts)
    bits = np.array([single.ask(row) for row in x])
    assert np.array_equal(many.ask_many(x), bits)
    same(single, many)
    taken = sum(single.learn_late(int(place), int(y[place])) for place in np.flatnonzero(bits))
    assert many.learn_many(x[bits], y[bits]) == taken == many.labelled > 0
    same(single, many)


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 400), max_size=6),
    seed=st.integers(0, 50),
    window=st.sampled_from(sorted(WINDOWS)),
    asking=st.sampled_from(sorted(ASKINGS)),
)
def test_wherever_a_batch_is_cut(cuts, seed, window, asking):
    parts = {"window": WINDOWS[window], "asking": ASKINGS[asking]}
    x, y = records(400, seed=seed)
    whole, cut = learner(seed=seed, **parts), learner(seed=seed, **parts)
    wanted = whole.ask_and_learn_many(x, y)
    found = [
        one_by_one(cut, x[a:b], y[a:b]) if (a + b) % 3 == 0 else cut.ask_and_learn_many(x[a:b], y[a:b])
        for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 400], strict=True)
    ]
    assert np.array_equal(np.concatenate(found), wanted)
    same(whole, cut)


def test_a_recorded_run_is_the_same_run():
    made = settings(window=MiniBatch(5), drift=DriftWatch(epsilon=1, window=30, most=0.3))
    x, y = records(200)
    plainly = StreamLearner.simulated(made, seed=9)
    terms = stream_terms(Budget(epsilon=9, delta=0), asking=made.asking, noise=made.noise, drift=made.drift)
    tape = RecordingSource(Seeded(9))
    recorded = StreamLearner.of(made, ledger=Ledger.create(MemorySink(), terms, source=tape))
    assert np.array_equal(recorded.ask_and_learn_many(x, y), plainly.ask_and_learn_many(x, y))
    same(recorded, plainly)
    kinds = [call.mechanism for call, _ in tape.tape.calls]
    assert kinds.count("stream-coins") == 200
    assert kinds.count("stream-noise") == plainly.live_state.noises > 10
    assert kinds.count("stream-count") == plainly.live_state.checks > 0


def test_labels_of_those_who_are_not_asked_are_not_looked_at():
    class Guarded(list):
        seen = ()

        def __getitem__(self, place):
            self.seen = (*self.seen, place)
            return super().__getitem__(place)

    x, y = records(300)
    guarded = Guarded(y.tolist())
    bits = learner(window=MiniBatch(5)).ask_and_learn_many(x, guarded)
    assert sorted(guarded.seen) == np.flatnonzero(bits).tolist()


def test_labels_may_be_missing_or_of_any_declared_kind():
    x, _ = records(300)
    names = np.array(["no", "yes"], dtype=object)[(x[:, 1] > 0).astype(int)]
    names[::3] = None
    single, many = (learner(classes=("no", "yes"), window=MiniBatch(5)) for _ in range(2))
    for row, label in zip(x, names.tolist(), strict=True):
        if single.ask(row):
            single.learn_one(row, label)
    many.ask_and_learn_many(x, names)
    same(single, many)
    assert many.labelled < many.asked
    for wrong in (np.full(300, 2), np.full(300, -1), ["maybe"] * 300, [[1]] * 300):
        with pytest.raises(BadInput, match="not one of the classes"):
            learner(asking=AskEverything()).ask_and_learn_many(x, wrong)


def test_ids_are_the_users_own():
    x, y = records(200)
    ids = [f"id-{place}" for place in range(200)]
    made = learner()
    bits = made.ask_many(x, ids=ids)
    asked = np.flatnonzero(bits)
    assert made.waiting == tuple(f"id-{place}" for place in asked)
    some = asked[::2]
    made.learn_many(x[some], y[some], ids=[ids[place] for place in some])
    assert made.labelled == some.size
    assert len(made.waiting) == asked.size - some.size
    with pytest.raises(BadInput, match="has no label yet"):
        made.ask_many(x[:1], ids=[made.waiting[0]])
    with pytest.raises(BadInput, match="two of them"):
        made.ask_many(x[:2], ids=["a", "a"])
    for wrong in ({"ids": ["a"]}, {"y": y[:3]}):
        with pytest.raises(BadInput, match="for each"):
            made.ask_and_learn_many(x[:2], **({"y": y[:2]} | wrong))
    with pytest.raises(BadInput, match="for each"):
        made.learn_many(x[:2], y[:1])
    with pytest.raises(BadInput, match="said yes to last"):
        made.learn_many(x[:2], y[:2])
    assert made.learn_many(x[:1], y[:1], ids=["nobody"]) == 0
    bits = made.ask_many(x)
    with pytest.raises(BadInput, match="said yes to last"):
        made.learn_many(x[bits][::-1], y[bits])
    assert made.learn_many(x[bits], y[bits]) == bits.sum()
    with pytest.raises(BadInput, match="said yes to last"):
        made.learn_many(x[bits], y[bits])


def test_nothing_arrives_in_an_empty_batch():
    made = learner()
    assert made.ask_many(np.empty((0, 4))).size == 0
    assert made.ask_and_learn_many(np.empty((0, 4)), []).size == 0
    assert made.arrived == 0


class BrokenLabels(list):
    """Labels of which one cannot be read."""

    def __getitem__(self, number):
        if number == 150:
            raise OSError("gone")
        return super().__getitem__(number)


def test_a_learner_goes_on_after_labels_that_cannot_be_read():
    for window in (SlidingWindow(4), MiniBatch(9)):
        made = learner(window=window, asking=AskEverything(), loss="logistic")
        x, y = records()
        with pytest.raises(OSError, match="gone"):
            made.ask_and_learn_many(x, BrokenLabels(y.tolist()))
        arrived = made.arrived
        assert made.ask_and_learn_many(x, y).all()
        assert made.arrived == arrived + len(x)
