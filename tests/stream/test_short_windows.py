"""Short windows, decided as single records are: every counter, every sum, every model, to the bit."""

import numpy as np
import pytest
from stream_scenes import ASKINGS, NOISES, learner, one_by_one, plain, records, settings

from discreet.errors import BadInput, ReceiptRefused
from discreet.stream import (
    AskEverything,
    BalancedSlab,
    ConstantStep,
    DriftWatch,
    GammaNoise,
    Immediate,
    MiniBatch,
    ShrinkingSlab,
    SlidingWindow,
    StreamLearner,
    batches,
)
from discreet.stream.batches import fits
from discreet.stream.schedules import Window

pytestmark = pytest.mark.thorough

WINDOWS = [SlidingWindow(1), SlidingWindow(2), SlidingWindow(9), MiniBatch(1), MiniBatch(2), MiniBatch(11), Immediate()]


def same(one, many):
    assert plain(one.state()) | {"waiting": 0} == plain(many.state()) | {"waiting": 0}
    assert (one.model().weights == many.model().weights).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("asking", ["one-sided", "bernoulli", "everything"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_every_window(window, asking, noise, monkeypatch):
    rule = ASKINGS.get(asking, AskEverything())
    for chunk, seed in ((4096, 1), (7, 2), (1, 3)):
        monkeypatch.setattr(batches, "_CHUNK", chunk)
        x, y = records(n=300, seed=seed)
        one, many = (learner(seed=5, window=window, asking=rule, noise=NOISES[noise]) for _ in range(2))
        assert fits(many.live_state, y)
        bits = one_by_one(one, x, y)
        assert (many.ask_and_learn_many(x, y) == bits).all()
        same(one, many)


@pytest.mark.parametrize(
    "parts",
    [
        {"slab": ShrinkingSlab()},
        {"slab": BalancedSlab(0.2, [0.9, 0.1])},
        {"regularization": 0.1, "ball": 3.0, "radius": 0.7},
        {"step": ConstantStep(30.0)},
    ],
)
def test_other_parts(parts):
    x, y = records(n=400)
    one, many = (learner(window=SlidingWindow(5), **parts) for _ in range(2))
    bits = one_by_one(one, x, y)
    assert (many.ask_and_learn_many(x, y) == bits).all()
    same(one, many)


class Both(Window):
    """A window that closes by arrivals or by questions, whichever comes first."""

    def room(self, arrived, asked):
        return 9 - arrived, 3 - asked

    def to_json(self):
        return {"window": "both"}


def test_a_window_of_ones_own():
    x, y = records(n=400)
    one, many = (learner(window=Both()) for _ in range(2))
    bits = one_by_one(one, x, y)
    assert (many.ask_and_learn_many(x[:150], y[:150]) == bits[:150]).all()
    assert (many.ask_and_learn_many(x[150:], y[150:]) == bits[150:]).all()
    same(one, many)


def test_ways_may_change_in_the_middle_of_a_window():
    x, y = records(n=600)
    labels = [None if number % 5 == 0 else int(one) for number, one in enumerate(y)]
    one, many = (learner(window=MiniBatch(7)) for _ in range(2))
    for row, label in zip(x, labels, strict=True):
        if one.ask(row):
            one.learn_one(row, label)
    start = 0
    for place, size in enumerate([3, 50, 1, 0, 120, 200, 226]):
        part = slice(start, start + size)
        if place % 3 == 2:
            for row, label in zip(x[part], labels[part], strict=True):
                if many.ask(row):
                    many.learn_one(row, label)
        else:
            many.ask_and_learn_many(x[part], labels[part])
        start += size
    assert start == 600
    same(one, many)


def test_lessons_that_came_late_are_in_the_next_update():
    x, y = records(n=100)
    one, many = (learner(window=SlidingWindow(4), asking=AskEverything()) for _ in range(2))
    for made in (one, many):
        for number in range(3):
            made.ask(x[number], id=f"r{number}")
        made.learn_late("r0", int(y[0]))
    bits = one_by_one(one, x[3:], y[3:])
    assert (many.ask_and_learn_many(x[3:], y[3:]) == bits).all()
    same(one, many)
    for made in (one, many):
        made.learn_late("r2", int(y[2]))
        made.ask_many(x[:20])
    same(one, many)


def test_a_label_that_is_none_stops_at_its_record():
    x, _ = records(n=50)
    labels = [0] * 20 + ["?"] * 30
    many = learner(window=SlidingWindow(3), asking=AskEverything())
    with pytest.raises(BadInput, match="not one of the classes"):
        many.ask_and_learn_many(x, labels)
    assert (many.arrived, many.asked, many.labelled) == (21, 21, 20)
    seldom = learner(window=SlidingWindow(3), asking=ASKINGS["one-sided"])
    bits = learner(window=SlidingWindow(3), asking=ASKINGS["one-sided"]).ask_and_learn_many(x, [0] * 50)
    labels = ["?" if not bit else 0 for bit in bits]  # of records that are not asked they are not looked at
    assert (seldom.ask_and_learn_many(x, labels) == bits).all()


def test_what_does_not_fit_goes_the_other_ways():
    _, y = records(n=10)
    assert not fits(learner(window=Immediate()).live_state, None)
    assert not fits(learner(window=MiniBatch(100)).live_state, y)
    assert not fits(learner(window=Immediate(), loss="logistic").live_state, y)
    assert not fits(learner(window=Immediate(), asking=ASKINGS["exponential"]).live_state, y)
    assert not fits(learner(window=Immediate(), drift=DriftWatch(epsilon=1, window=9, most=0.5)).live_state, y)
    coarse = learner(window=Immediate(), noise=GammaNoise(epsilon="0.001"))  # a lattice coarser than records
    assert not fits(coarse.live_state, y)
    x, y = records(n=200)
    one = learner(window=Immediate(), noise=GammaNoise(epsilon="0.001"))
    assert (coarse.ask_and_learn_many(x, y) == one_by_one(one, x, y)).all()
    same(one, coarse)


def test_a_receipt_that_is_worthless_draws_nothing():
    x, y = records(n=20)
    made = StreamLearner.simulated(settings(window=Immediate()), seed=1)
    made.live_state.receipt._ledger.close()
    with pytest.raises(ReceiptRefused):
        made.ask_and_learn_many(x, y)
    assert np.count_nonzero(made.model().weights) == 0
