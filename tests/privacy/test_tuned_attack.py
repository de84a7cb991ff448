"""The price of the best of K runs under attack; planted mistakes are caught.

Exact enumeration of small mechanisms, the exact delta of Gaussian scores, and searches drawn by the sampler.
"""

import math
from functools import cache
from itertools import islice

import numpy as np
import pytest
from scipy import integrate, stats

from discreet.noise.stream import Stream
from discreet.noise.tuned import run_count
from discreet.privacy.accounting.rdp import ORDERS, rdp_epsilon
from discreet.privacy.events import Gaussian
from discreet.privacy.tuned import Tuned, runs_of, tuned_rdp

pytestmark = pytest.mark.thorough

LAWS = [runs_of(mean=m, eta=e) for e in ("-0.5", 0, "0.4", 1) for m in (2, 8)]
LAWS += [runs_of(mean=m, law="poisson") for m in (1.2, 8)]
NAMES = [f"{law.name}-{getattr(law, 'eta', '')}-{law.mean:.3g}" for law in LAWS]
SMALL = np.array([1.05, 1.5, 2.0, 4.0, 8.0, 32.0, 256.0])


@cache
def weights(law, tail=1e-10):
    kept, total = [], 0.0
    for one in islice(law.probabilities(), 200_000):
        kept.append(one)
        total += one
        if 1 - total < tail:
            break
    return np.array(kept)


def best_of(pmf, law):
    """The exact distribution of the best of K, outcomes in the order of their scores: summed over k, no f'."""
    p, k = weights(law), np.arange(1, weights(law).size + 1)
    below = np.concatenate([[0.0], np.cumsum(pmf)])
    at_most = np.array([(p * min(b, 1.0) ** k).sum() for b in below]) / p.sum()
    return np.diff(at_most)


def divergence(p, q, orders):
    keep = p > 0
    logs = orders[:, None] * np.log(p[keep]) + (1 - orders[:, None]) * np.log(q[keep])
    return np.logaddexp.reduce(logs, axis=1) / (orders - 1)


def both(p, q, orders):
    return np.maximum(divergence(p, q, orders), divergence(q, p, orders))


def pairs():
    rng = np.random.default_rng(0)
    for _ in range(5):
        p = rng.dirichlet(np.full(6, 0.5)) + 1e-6
        q = p * np.exp(rng.normal(0, rng.uniform(0.1, 2), 6))
        yield p / p.sum(), q / q.sum()
    for rare, ratio in ((1e-3, 1e3), (1e-4, 30), (0.02, 5)):  # a rare best outcome that tells much
        yield np.array([1 - rare, rare]), np.array([1 - rare / ratio, rare / ratio])
        yield np.array([rare, 1 - rare]), np.array([rare / ratio, 1 - rare / ratio])


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_no_enumerated_search_costs_more_than_it_is_priced(law):
    for p, q in pairs():
        run, wide = both(p, q, SMALL), both(p, q, ORDERS)
        truth = both(best_of(p, law), best_of(q, law), SMALL)
        assert (truth <= tuned_rdp(run, SMALL, wide, ORDERS, law) + 1e-9).all()


def test_the_enumeration_catches_a_forgotten_number_of_runs():
    """Without log E[K] / (a-1) the price is false; so is "a search costs what a run does"."""
    law, order = runs_of(mean=10, eta="-0.5"), np.array([2.0])
    rare = np.array([1 - 1e-3, 1e-3]), np.array([1 - 1e-6, 1e-6])
    run, wide = both(*rare, order), both(*rare, ORDERS)
    truth = both(best_of(rare[0], law), best_of(rare[1], law), order)[0]
    right = tuned_rdp(run, order, wide, ORDERS, law)[0]
    assert right >= truth
    assert right - math.log(law.mean) < 0.85 * truth
    assert run[0] < 0.5 * truth


def test_the_enumeration_catches_a_forgotten_second_term():
    """r(a) + log E[K] / (a-1) alone, without what tails of the other neighbour add, is too low at large orders."""
    law, order = runs_of(mean=40, eta=1), np.array([64.0])
    high, low = 0.05 * math.e, 0.05
    p, q = np.array([1 - high - low, high, low]), np.array([1 - high - low, low, high])
    run = both(p, q, order)
    truth = both(best_of(p, law), best_of(q, law), order)
    assert (run + math.log(law.mean) / 63 < 0.9 * truth).all()
    assert (tuned_rdp(run, order, both(p, q, ORDERS), ORDERS, law) >= truth).all()


@pytest.mark.parametrize("law", [runs_of(mean=10), runs_of(mean=10, eta=1), runs_of(mean=4, law="poisson")])
@pytest.mark.parametrize("shift", [1.0, -1.0, 0.25])
def test_an_exact_attack_on_gaussian_scores_stays_within_the_claim(law, shift):
    """Runs that release a score N(0, 1) or N(shift, 1): the best of K has density phi f'(Phi)."""
    delta = 1e-4
    claim = rdp_epsilon(Tuned(events=(Gaussian(noise_multiplier=1 / abs(shift)),), runs=law), delta)
    for left, right in ((0.0, shift), (shift, 0.0)):
        assert _delta_of(lambda t, c: _best_density(t, c, law), left, right, claim) <= delta


def test_the_attack_catches_a_released_and_a_fixed_number_of_runs():
    """Were K released as well, or always as large as it may be, the same claim would be broken."""
    law, delta, shift = runs_of(mean=10), 1e-4, 0.5
    claim = rdp_epsilon(Tuned(events=(Gaussian(noise_multiplier=1 / shift),), runs=law), delta)

    def fixed(count):
        return lambda t, c: count * stats.norm.pdf(t - c) * stats.norm.cdf(t - c) ** (count - 1)

    most = law.quantile(0.99)
    assert (
        _delta_of(fixed(most), shift, 0.0, claim) > 2 * delta or _delta_of(fixed(most), 0.0, shift, claim) > 2 * delta
    )
    shown = sum(
        chance * max(0.0, _delta_of(fixed(k), 0.0, shift, claim))
        for k, chance in enumerate(islice(law.probabilities(), 300), start=1)
        if k % 3 == 0 or k < 3
    )  # a third of the terms is a lower bound
    assert shown > 2 * delta


def _best_density(t, centre, law):
    return stats.norm.pdf(t - centre) * np.exp(law.log_slope(stats.norm.sf(np.atleast_1d(t) - centre)))


def _delta_of(density, left, right, epsilon):
    grid = np.linspace(-9, 9, 6001)
    gap = np.maximum(np.ravel(density(grid, left)) - math.exp(epsilon) * np.ravel(density(grid, right)), 0)
    return integrate.simpson(gap, x=grid)


def _searches(draw, shift, seed):
    """The best of K scores N(shift, 1), K by ``draw``; many searches."""
    stream, rng = Stream(b"attack" * 6, str(seed).encode()), np.random.default_rng(seed)
    counts = np.array([draw(stream) for _ in range(8_000)])
    return stats.norm.ppf(rng.uniform(size=counts.size) ** (1 / counts)) + shift


def _proven_loss(inside, outside, delta):
    """A lower bound of epsilon: the event's probability from below against its other from above, 99.9% each."""
    low = stats.beta.ppf(1e-3, inside.sum(), inside.size - inside.sum() + 1) if inside.any() else 0.0
    high = stats.beta.ppf(1 - 1e-3, outside.sum() + 1, outside.size - outside.sum())
    return math.log(max(low - delta, 1e-12) / high)


def test_searches_by_the_sampler_stay_within_the_claim_and_a_fixed_number_of_runs_does_not():
    law, delta, shift = runs_of(mean=10), 1e-4, 0.5
    claim = rdp_epsilon(Tuned(events=(Gaussian(noise_multiplier=1 / shift),), runs=law), delta)

    def worst(draw):
        null, present = _searches(draw, 0.0, 1), _searches(draw, shift, 2)
        found = []
        for cut in np.linspace(-1, 4, 26):
            for left, right in ((null, present), (present, null)):
                found += [_proven_loss(left <= cut, right <= cut, delta), _proven_loss(left > cut, right > cut, delta)]
        return max(found)

    honest = worst(lambda stream: run_count(stream, law))
    assert 0.3 * claim < honest <= claim
    assert worst(lambda stream: law.quantile(0.995)) > claim
