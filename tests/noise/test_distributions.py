"""Every mechanism has the distribution it names; the tests that say so reject a scale 10% off and reused noise."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from discreet.noise import OperatingSystem, Seeded, SparseVector, exponential, gamma_direction, gaussian, laplace
from discreet.noise.sources import Source
from discreet.privacy.budget import Budget
from discreet.privacy.events import Gaussian, Laplace, Pure
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.testing import check_source
from discreet.testing.noise import SURELY, goodness_of_fit, independence_pvalue, ks_pvalue, repeats, samples

pytestmark = pytest.mark.thorough

AMPLE = adaptive(Budget(epsilon=10**9, delta="1e-9"))
FEW = 2_000
"""Draws for bugs that no scale shows: reused words, a missing draw, a constant key are found in any number of them."""
SCALED = ("laplace", "gaussian", "discrete-laplace", "gamma-direction", "exponential", "coins")


@pytest.fixture(scope="module")
def drawn():
    return samples(Ledger.create(MemorySink(), AMPLE, source=Seeded(11)))


def test_each_mechanism_has_its_distribution(drawn):
    assert min(goodness_of_fit(drawn).values()) > SURELY


@pytest.mark.parametrize("wrong", [0.9, 1.1])
@pytest.mark.parametrize("name", SCALED)
def test_the_same_tests_reject_a_scale_that_is_a_tenth_off(drawn, name, wrong):
    assert goodness_of_fit(drawn, wrong=wrong)[name] < SURELY


@pytest.mark.parametrize("times", [20, pytest.param(100, marks=pytest.mark.long)])
def test_power_and_false_alarms_over_many_samples(times):
    """At 40,000 draws no right sample is rejected, and each that is 10% off, either way.

    20 of 20 show a power above 0.86 with 95% confidence, 100 of 100 above 0.97; the arithmetic says above 0.999.
    """
    ledger = Ledger.create(MemorySink(), AMPLE, source=Seeded(5))
    for _ in range(times):
        receipt = ledger.charge(event=Laplace(epsilon="0.5"), who="sample", why="power")
        sample = laplace(np.zeros(40_000), sensitivity=3.0, receipt=receipt)
        assert ks_pvalue(sample, stats.laplace(scale=6.0).cdf) > SURELY
        assert ks_pvalue(sample * 1.1, stats.laplace(scale=6.0).cdf) < SURELY
        assert ks_pvalue(sample * 0.9, stats.laplace(scale=6.0).cdf) < SURELY


def test_reused_noise_is_rejected(drawn):
    first = drawn["gaussian"]
    assert repeats(first) == 0
    assert repeats(first, first[:2]) == 1
    assert independence_pvalue(first, first) < SURELY
    shifted = np.concatenate([first[:20_000], first[:20_000]])
    assert independence_pvalue(shifted[:20_000], shifted[20_000:]) < SURELY
    mixed = 0.05 * first[:-1] + first[1:]  # a twentieth of the last draw leaks into the next
    assert independence_pvalue(first[:-1], mixed) < SURELY


class Scaled(Source):
    """A source whose real-valued outputs are 10% too small, what a wrong constant would do; or the same again."""

    simulation = True

    def __init__(self, factor=1.0, *, repeat=False):
        self.inner, self.factor, self.repeat, self.last = Seeded(3), factor, repeat, {}

    def perform(self, call, sampler):
        output = self.inner.perform(call, sampler)
        if call.mechanism not in ("laplace", "gaussian"):
            return output
        if self.repeat:
            output = self.last.setdefault((call.mechanism, call.inputs.shape), output)
        return output * self.factor


def test_the_contract_rejects_a_wrong_scale_and_a_source_that_repeats_itself():
    check_source(OperatingSystem)
    with pytest.raises(AssertionError, match="distribution"):
        check_source(lambda: Scaled(0.9))
    with pytest.raises(AssertionError, match="no laplace draw is used twice"):
        check_source(lambda: Scaled(repeat=True), draws=FEW)


class Lazy(Seeded):
    """A source with one bug of those below."""

    def __init__(self, bug):
        super().__init__(3)
        self.bug = bug

    def perform(self, call, sampler):
        ticket = call.ticket
        if self.bug == "parts":
            return super().perform(call, lambda streams: sampler(lambda _: streams(0)))
        if self.bug == "groups":
            call = dataclasses.replace(call, ticket=dataclasses.replace(ticket, who="*"))
        if self.bug == "scalars" and call.mechanism == "laplace" and call.inputs.ndim == 0:
            return call.inputs
        if self.bug == "masks" and call.mechanism == "poisson-mask":
            return np.ones(call.parameters["slots"], dtype=bool)
        if self.bug == "search" and call.mechanism == "sparse-vector":
            return bool(call.inputs >= call.parameters["threshold"])
        if self.bug == "keys" and call.mechanism == "release-key":
            return bytes(32)
        return super().perform(call, sampler)


BUGS = {
    "parts": "the parts of one draw share no words",
    "groups": "two groups of one receipt",
    "scalars": "single numbers",
    "masks": "a Poisson mask has its rate",
    "search": "a sparse vector at its threshold",
    "keys": "a key of its own",
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_contract_rejects_a_source_with_a_planted_bug(bug):
    """Each by the promise it breaks. None of these checks draws more when ``draws`` is larger."""
    with pytest.raises(AssertionError, match=BUGS[bug]):
        check_source(lambda: Lazy(bug), draws=FEW)


class Constant(OperatingSystem):
    """The same key in every process."""

    def __init__(self):
        super().__init__()
        self._key = bytes(32)


def test_two_production_sources_never_draw_the_same():
    class Fixed(Constant):
        def perform(self, call, sampler):
            from discreet.noise.sources import place_of
            from discreet.noise.stream import Stream

            return sampler(lambda part: Stream(self._key, place_of(call.ticket, part)))

    with pytest.raises(AssertionError, match="two sources never draw the same"):
        check_source(Fixed, draws=FEW)


def test_known_moments():
    ledger = Ledger.create(MemorySink(), AMPLE, source=Seeded(17))

    def paid(event, count=1):
        return ledger.charge(event=event, count=count, who="sample", why="moments")

    n = 400_000
    noise = laplace(np.full(n, 5.0), sensitivity=2.0, receipt=paid(Laplace(epsilon="0.5")))
    assert noise.mean() == pytest.approx(5, abs=5 * np.sqrt(32 / n))
    assert noise.var() == pytest.approx(2 * 4.0**2, rel=0.02)
    noise = gaussian(np.full(n, -3.0), sensitivity=2.0, receipt=paid(Gaussian(noise_multiplier=1.5)))
    assert noise.mean() == pytest.approx(-3, abs=5 * 3 / np.sqrt(n))
    assert noise.std() == pytest.approx(3, rel=0.01)
    assert stats.kurtosis(noise) == pytest.approx(0, abs=0.05)
    lengths = paid(Pure(epsilon=1), 2000)
    drawn = np.array([gamma_direction(np.zeros(50), sensitivity=1.0, receipt=lengths) for _ in range(2000)])
    assert np.linalg.norm(drawn, axis=1).mean() == pytest.approx(50, rel=0.02)  # theory: d M / eps
    assert np.abs(drawn.mean(axis=0)).max() < 1.5


def test_the_exponential_mechanisms_known_answer():
    """k = 100 picks at epsilon 1 in all, distances .1, .5, 1: .3326, .3333, .3341 (the probabilities, not a sample)."""
    each = np.exp(np.array([0.1, 0.5, 1.0]) * 0.01 / 2)
    assert (each / each.sum()).round(4).tolist() == [0.3326, 0.3333, 0.3341]
    ledger = Ledger.create(MemorySink(), AMPLE, source=Seeded(23))
    receipt = ledger.charge(event=Pure(epsilon="0.01"), count=6000, who="pool", why="pick")
    picks = [exponential([0.1, 0.5, 1.0], sensitivity=1.0, receipt=receipt) for _ in range(6000)]
    assert stats.chisquare(np.bincount(picks, minlength=3), each / each.sum() * 6000).pvalue > SURELY
    strong = ledger.charge(event=Pure(epsilon="2"), count=4000, who="pool", why="pick")
    picks = [exponential([0.0, 1.0, 3.0], sensitivity=1.0, monotone=True, receipt=strong) for _ in range(4000)]
    weights = np.exp(2 * np.array([0.0, 1.0, 3.0]))
    assert stats.chisquare(np.bincount(picks, minlength=3), weights / weights.sum() * 4000).pvalue > SURELY


def test_the_sparse_vector_answers_by_its_noise():
    """P[value + Lap(2 lambda) >= threshold + Lap(lambda)], lambda = 2 / eps, by quadrature, 4000 first answers."""
    ledger = Ledger.create(MemorySink(), AMPLE, source=Seeded(29))
    runs, epsilon, gap = 4000, 0.5, 3.0
    receipt = ledger.charge(event=Pure(epsilon=str(epsilon)), count=runs, who="pool", why="above")
    yes = sum(SparseVector(receipt=receipt).above(10.0, 10.0 + gap) for _ in range(runs))
    scale = 2 / epsilon
    grid = np.linspace(-400, 400, 800_001)
    step = grid[1] - grid[0]
    expected = (stats.laplace(scale=scale).pdf(grid) * stats.laplace(scale=2 * scale).sf(gap + grid)).sum() * step
    assert stats.binomtest(int(yes), runs, float(expected)).pvalue > SURELY
    assert stats.binomtest(int(yes), runs, float(expected) * 1.15).pvalue < SURELY
