"""The door: what each mechanism demands, what it derives from the receipt, and what it never says."""

import math
import threading
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import (
    Seeded,
    SparseVector,
    coins,
    discrete_laplace,
    exponential,
    gamma_direction,
    gaussian,
    highest,
    laplace,
    numerator,
    poisson_mask,
    release_key,
    threshold_coins,
)
from discreet.noise.additive_noise import Lattice
from discreet.noise.stream import ONE
from discreet.privacy.budget import Budget
from discreet.privacy.events import (
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSampledGaussian,
    Pure,
    ThresholdResponse,
)
from discreet.privacy.ledger import Ledger, MemorySink, adaptive

STEP = PoissonSampledGaussian(sampling_rate=0.3, noise_multiplier=2.0)


@pytest.fixture
def ledger():
    return Ledger.create(MemorySink(), adaptive(Budget(epsilon=10**6, delta="1e-6")), source=Seeded(1))


def paid(ledger, event, count=1, who="pool"):
    return ledger.charge(event=event, count=count, who=who, why="test")


MECHANISMS = {
    "laplace": (Laplace(epsilon=1), lambda r: laplace(1.0, sensitivity=1.0, receipt=r)),
    "discrete-laplace": (DiscreteLaplace(epsilon=1), lambda r: discrete_laplace(3, receipt=r)),
    "gaussian": (Gaussian(noise_multiplier=1.0), lambda r: gaussian([1.0], sensitivity=1.0, receipt=r)),
    "gamma": (Pure(epsilon=1), lambda r: gamma_direction([1.0], sensitivity=1.0, receipt=r)),
    "coins": (ThresholdResponse(asked=1, missed=1), lambda r: coins([5, 6], null=5, receipt=r)),
    "threshold": (
        ThresholdResponse(asked=1, missed=1),
        lambda r: threshold_coins(np.array([True]), high=ONE // 4, low=ONE // 5, receipt=r),
    ),
    "exponential": (Pure(epsilon=1), lambda r: exponential([0.0, 1.0], sensitivity=1.0, receipt=r)),
    "sparse-vector": (Pure(epsilon=1), lambda r: SparseVector(receipt=r).above(1e9, 0.0)),
    "mask": (STEP, lambda r: poisson_mask(10, receipt=r)),
    "key": (Pure(epsilon=1), release_key),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_demands_a_receipt_and_refuses_a_spent_one(ledger, name):
    event, draw = MECHANISMS[name]
    for forgery in (None, "receipt", object(), 7):
        with pytest.raises(ReceiptRefused):
            draw(forgery)
    receipt = paid(ledger, event)
    draw(receipt)
    with pytest.raises(ReceiptRefused, match="spent"):
        draw(receipt)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_refuses_a_receipt_for_something_else(ledger, name):
    event, draw = MECHANISMS[name]
    other = Gaussian(noise_multiplier=1.0) if not isinstance(event, Gaussian) else Laplace(epsilon=1)
    receipt = paid(ledger, other)
    with pytest.raises(ReceiptRefused, match="charged for"):
        draw(receipt)
    assert receipt.used("release", "pool") == 0


def test_a_ledger_without_a_source_draws_nothing():
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=10, delta="1e-6")))
    with pytest.raises(ReceiptRefused, match="source"):
        laplace(1.0, sensitivity=1.0, receipt=paid(ledger, Laplace(epsilon=1)))


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: laplace(1.0, sensitivity=0.0, receipt=r),
        lambda r: laplace(1.0, sensitivity=-1.0, receipt=r),
        lambda r: laplace(1.0, sensitivity=math.nan, receipt=r),
        lambda r: laplace(1.0, sensitivity=1e300, receipt=r),
        lambda r: laplace("secret", sensitivity=1.0, receipt=r),
        lambda r: laplace(1.0, sensitivity="secret", receipt=r),
    ],
)
def test_a_bad_argument_costs_nothing_and_is_not_echoed(ledger, draw):
    receipt = paid(ledger, Laplace(epsilon=1))
    with pytest.raises(BadInput) as caught:
        draw(receipt)
    assert "secret" not in str(caught.value)
    laplace(1.0, sensitivity=1.0, receipt=receipt)  # the draw is still there


def test_epsilon_zero_has_no_noise(ledger):
    with pytest.raises(BadInput, match="epsilon=0"):
        laplace(1.0, sensitivity=1.0, receipt=paid(ledger, Laplace(epsilon=0)))


def test_values_that_are_not_finite_count_as_zero_without_a_word(ledger):
    hidden = laplace([math.nan, math.inf, -math.inf, 7.0], sensitivity=1.0, receipt=paid(ledger, Laplace(epsilon=1000)))
    assert np.abs(hidden - [0, 0, 0, 7]).max() < 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6),
    st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    st.floats(1e-3, 1e3),
)
def test_flooring_moves_neighbours_no_further_apart_than_the_noise_pays_for(values, gaps, scale):
    lattice = Lattice.under(scale, "test")
    here = np.array(values)
    there = here + np.array(gaps[: here.size])
    exact = [abs(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(here, there, strict=True)]
    l1, l2 = sum(exact), math.sqrt(float(sum(gap * gap for gap in exact)))
    steps = (lattice.floored(here) - lattice.floored(there)).astype(object)
    if float(l1) > 0:
        assert sum(abs(step) for step in steps) <= lattice.steps_l1(math.nextafter(float(l1), math.inf), here.size)
        assert math.sqrt(sum(step * step for step in steps)) <= lattice.steps_l2(l2 * (1 + 1e-12), here.size)


def test_noise_is_a_whole_number_of_steps_whatever_the_value(ledger):
    """No holes: outputs for any value lie on one grid, so low bits say nothing about it."""
    step = Lattice.under(1.0, "Laplace").step
    for value in (0.0, 1 / 3, 1e5 / 7, -0.1):
        noisy = laplace(np.full(1000, value), sensitivity=1.0, receipt=paid(ledger, Laplace(epsilon=1)))
        assert (noisy / step == np.rint(noisy / step)).all()


@pytest.mark.parametrize(
    ("event", "draw"),
    [
        (Gaussian(noise_multiplier=1e22), lambda r: gaussian([0.0], sensitivity=1.0, receipt=r)),
        (Pure(epsilon="1e-20"), lambda r: gamma_direction([0.0, 0.0], sensitivity=1.0, receipt=r)),
        (Laplace(epsilon="1e-30"), lambda r: laplace([0.0, 0.0], sensitivity=1.0, receipt=r)),
        (DiscreteLaplace(epsilon="1e-30"), lambda r: discrete_laplace(0, receipt=r)),
    ],
)
def test_noise_beyond_whole_numbers_is_refused_before_it_is_paid(ledger, event, draw):
    """Beyond 64 bits every draw would be the same number: no noise at all."""
    receipt = paid(ledger, event)
    with pytest.raises(BadInput, match="noise"):
        draw(receipt)
    assert receipt.used("release", "pool") == 0


@pytest.mark.parametrize("value", [1e7, -3e8, 12345678.5])
def test_ordinary_large_values_keep_their_meaning(ledger, value):
    assert laplace(value, sensitivity=1.0, receipt=paid(ledger, Laplace(epsilon=8))) == pytest.approx(value, abs=10)
    noisy = gaussian([value], sensitivity=1.0, receipt=paid(ledger, Gaussian(noise_multiplier=1.0)))
    assert noisy[0] == pytest.approx(value, abs=15)
    search = SparseVector(receipt=paid(ledger, Pure(epsilon=2)))
    assert not search.above(value - 1000, value)
    assert search.above(value + 1000, value)


def test_no_value_however_large_warns_or_fails(ledger):
    for value in (1e308, -1e308, 10**400, [10**400, 1.0], 5e-324):
        laplace(value, sensitivity=1.0, receipt=paid(ledger, Laplace(epsilon=1)))


def test_counts_beyond_64_bits_are_counts(ledger):
    for count in (2**63, 2**64, -(10**30), [1, 10**25]):
        noisy = discrete_laplace(count, receipt=paid(ledger, DiscreteLaplace(epsilon=1)))
        assert np.abs(np.asarray(noisy)).max() < 2**62


def test_one_charge_pays_for_one_release_a_key_or_noise(ledger):
    receipt = paid(ledger, Pure(epsilon=1))
    release_key(receipt)
    with pytest.raises(ReceiptRefused, match="spent"):
        laplace(1.0, sensitivity=1.0, receipt=receipt)


# -- coins


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, ONE),
    st.decimals("0", "12", places=6),
    st.decimals("0", "12", places=6),
)
def test_the_highest_coin_keeps_both_caps_and_the_next_one_does_not(null, asked, missed):
    top = highest(null, asked=asked, missed=missed)
    assert null <= top <= ONE

    def kept(numerators):
        by_asked = Decimal(numerators) <= Decimal(null) * asked.exp() * (1 + Decimal("1e-25"))
        by_missed = Decimal(ONE - null) <= Decimal(ONE - numerators) * missed.exp() * (1 + Decimal("1e-25"))
        return by_asked and by_missed

    assert top == null or kept(top)
    if top < ONE:
        assert not kept(top + 2)


def test_caps_do_not_depend_on_the_callers_decimal_context():
    null, asked, missed = ONE // 2, Decimal(5), Decimal("0.15")
    truth = highest(null, asked=asked, missed=missed)
    with localcontext() as context:
        context.prec = 1
        assert highest(null, asked=asked, missed=missed) == truth
    assert math.log((ONE - null) / (ONE - truth)) == pytest.approx(0.15, abs=1e-12)
    assert highest(ONE // 2, asked=Decimal("1e7"), missed=Decimal("1e7")) == ONE - 1  # never certain
    assert highest(ONE, asked=Decimal(1), missed=Decimal(1)) == ONE
    assert highest(0, asked=Decimal("1e7"), missed=Decimal(1)) == 0


def test_a_pair_of_coins_that_costs_more_than_was_charged_is_refused(ledger):
    receipt = paid(ledger, ThresholdResponse(asked="0.5", missed="0.5"))
    low = numerator(0.1, up=True)
    with pytest.raises(BadInput, match="cost more"):
        threshold_coins(np.ones(3, dtype=bool), high=numerator(0.2, up=False), low=low, receipt=receipt)
    top = highest(low, asked=Decimal("0.5"), missed=Decimal("0.5"))
    threshold_coins(np.ones(3, dtype=bool), high=top, low=low, receipt=receipt)


def test_coins_outside_their_range_are_moved_to_its_ends(ledger):
    receipt = paid(ledger, ThresholdResponse(asked="0.5", missed="8"))
    low = numerator(0.1, up=True)
    tosses = coins([-5] * 20_000 + [ONE] * 20_000, null=low, receipt=receipt)
    assert tosses[:20_000].mean() == pytest.approx(0.1, abs=0.012)
    assert tosses[20_000:].mean() == pytest.approx(0.1 * math.exp(0.5), abs=0.015)


@pytest.mark.parametrize("probability", [0, 1, 0.5, 0.1, Fraction(1, 3), Decimal("0.3")])
def test_numerators_round_the_way_they_are_told(probability):
    down, up = numerator(probability, up=False), numerator(probability, up=True)
    assert Fraction(down, ONE) <= Fraction(probability) <= Fraction(up, ONE)
    assert up - down <= 1


# -- steps of training


def test_a_step_needs_its_masks_first_and_each_once(ledger):
    other = PoissonSampledGaussian(sampling_rate=0.1, noise_multiplier=2.0)
    receipt = ledger.charge_together({"initial": STEP, "phase-1": other}, count=2, why="train")
    for _ in range(2):
        with pytest.raises(ReceiptRefused, match="mask"):
            gaussian(np.zeros(3), sensitivity=1.0, receipt=receipt)
        first = poisson_mask(4000, receipt=receipt, who="initial")
        with pytest.raises(ReceiptRefused, match="mask"):
            gaussian(np.zeros(3), sensitivity=1.0, receipt=receipt)
        second = poisson_mask(4000, receipt=receipt, who="phase-1")
        assert first.mean() == pytest.approx(0.3, abs=0.04)
        assert second.mean() == pytest.approx(0.1, abs=0.03)
        gaussian(np.zeros(3), sensitivity=1.0, receipt=receipt)
    with pytest.raises(ReceiptRefused, match="spent"):
        poisson_mask(4000, receipt=receipt, who="initial")


def test_threads_get_no_noise_beyond_their_masks(ledger):
    receipt = paid(ledger, STEP, 50)
    for _ in range(10):
        poisson_mask(5, receipt=receipt)
    done = []

    def draw():
        for _ in range(10):
            try:
                gaussian([0.0], sensitivity=1.0, receipt=receipt)
                done.append(1)
            except ReceiptRefused:
                pass

    workers = [threading.Thread(target=draw) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(done) == 10


def test_groups_of_one_sum_share_one_noise(ledger):
    louder = PoissonSampledGaussian(sampling_rate=0.3, noise_multiplier=3.0)
    receipt = ledger.charge_together({"initial": STEP, "phase-1": louder}, why="train")
    for who in ("initial", "phase-1"):
        poisson_mask(5, receipt=receipt, who=who)
    with pytest.raises(ReceiptRefused, match="different noise"):
        gaussian(np.zeros(3), sensitivity=1.0, receipt=receipt)


def test_groups_charged_differently_are_not_served_at_once(ledger):
    receipt = ledger.charge_together({"a": Laplace(epsilon=1), "b": Laplace(epsilon=2)}, why="count")
    with pytest.raises(ReceiptRefused, match="different events"):
        laplace(1.0, sensitivity=1.0, receipt=receipt)
    laplace(1.0, sensitivity=1.0, receipt=receipt, who="a")


# -- the exponential mechanism at its edges


@pytest.mark.parametrize("scores", [[1e300, 0.0], [0.0, -1e300], [5e-324, 0.0], [math.nan, 0.0], [3.0] * 7])
def test_scores_of_any_size_are_chosen_from(ledger, scores):
    receipt = paid(ledger, Pure(epsilon=100), 20)
    picks = {exponential(scores, sensitivity=1.0, receipt=receipt) for _ in range(20)}
    assert picks <= set(range(len(scores)))
    if max(scores) > 1:
        assert picks == ({0} if len(scores) == 2 else picks)


def test_threads_get_one_yes_for_one_charge(ledger):
    search = SparseVector(receipt=paid(ledger, Pure(epsilon=100)))
    barrier, answers = threading.Barrier(4), []

    def ask():
        barrier.wait()
        for _ in range(20):
            try:
                answers.append(search.above(1000.0, 0.0))
            except ReceiptRefused:
                answers.append(False)

    workers = [threading.Thread(target=ask) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers.count(True) == 1


def test_a_sparse_vector_pays_once_for_many_noes(ledger):
    search = SparseVector(receipt=paid(ledger, Pure(epsilon=10), 2))
    assert [search.above(value, 50.0) for value in [0.0] * 20 + [100.0] + [0.0] * 20 + [100.0]].count(True) == 2
    with pytest.raises(ReceiptRefused, match="spent"):
        search.above(0.0, 50.0)


def test_the_same_seed_draws_the_same_in_another_ledger():
    def run(seed):
        ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=9, delta="1e-6")), source=Seeded(seed))
        return [laplace(0.0, sensitivity=1.0, receipt=paid(ledger, Laplace(epsilon=1))) for _ in range(3)]

    assert run(4) == run(4) != run(5)
    assert len(set(run(4))) == 3
