"""Every aggregator attacked at its claim, both directions, from its answers; and with half its noise, which shows.

Twins of small promises with a large delta, so that an attack can win: the chances of an answer under votes and under
votes with one vote moved are estimated from thousands of answers, bounded from the safe side, and compared with the
claim.
"""

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import beta, laplace

from discreet import Budget
from discreet.noise import Seeded, SparseVector, gaussian, noisy_winner
from discreet.planning.pate import price_answers
from discreet.privacy.events import DiscreteLaplace, Gaussian, Pure
from discreet.privacy.ledger import Ledger, MemorySink, adaptive

pytestmark = pytest.mark.thorough

AMPLE = Budget(epsilon=10**6, delta="1e-9")
DRAWS = 1500
BUDGET = Budget(epsilon="0.5", delta="0.05")


def drawn(event, draw, runs=DRAWS):
    """The share of draws that say yes, with a bound on either side (99.95% each)."""
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(11))
    draws = 2 if isinstance(event, DiscreteLaplace) else 1
    receipt = ledger.charge(event=event, count=draws * runs, who="private", why="attack")
    hits = sum(draw(receipt) for _ in range(runs))
    return beta.ppf(5e-4, hits, runs - hits + 1), beta.ppf(1 - 5e-4, hits + 1, runs - hits)


def proven(some, others, epsilon=0.5):
    """A lower bound on the divergence of two coins at e^epsilon: yes and no, both directions."""
    gaps = []
    for (low, high), (other_low, other_high) in ((some, others), (others, some)):
        gaps += [low - math.exp(epsilon) * other_high, (1 - high) - math.exp(epsilon) * (1 - other_low)]
    return max(gaps)


def noise_halved(event):
    if isinstance(event, DiscreteLaplace):
        return DiscreteLaplace(epsilon=2 * event.epsilon)
    return Gaussian(noise_multiplier=event.noise_multiplier / 2)


@pytest.mark.parametrize(("aggregator", "firsts", "runs"), [("gaussian", (51, 53), DRAWS), ("laplace", (51,), 6000)])
def test_noisy_maxima_keep_their_claim_and_half_the_noise_does_not(aggregator, firsts, runs):
    """One answer, at leads where one vote tells most: there the answer alone is as good as the noisy counts.

    By its law half the noise has a divergence of 0.23 (Gaussian) and 0.135 (Laplace); with so many runs it is found out
    99.9 times of 100. Laplace noise would be in 28 of 100 with 1500.
    """
    event = price_answers(aggregator, budget=BUDGET, teachers=100, answers=1).charges[0][0]
    best = {}
    for name, used in (("claimed", event), ("halved", noise_halved(event))):
        found = []
        for first in firsts:
            rows = np.array([first, 100 - first]), np.array([first - 1, 101 - first])
            shares = [
                drawn(used, lambda receipt, row=row: noisy_winner(row, receipt=receipt) == 1, runs) for row in rows
            ]
            found.append(proven(*shares))
        best[name] = max(found)
    assert best["claimed"] <= 0.05
    assert best["halved"] > 0.05


def test_confident_checks_keep_their_claim_and_half_the_noise_does_not():
    """The check alone is attacked, on questions near its threshold."""
    price = price_answers(
        "confident", budget=BUDGET, teachers=100, answers=1, checks=1, check_share=0.95, confident_share=0.5
    )
    best = {}
    for name, used in (("claimed", price.charges[0][0]), ("halved", noise_halved(price.charges[0][0]))):
        found = []
        for top in (49.0, 48.0):
            shares = [
                drawn(used, lambda receipt, at=at: gaussian(at, sensitivity=1.0, receipt=receipt) >= price.least)
                for at in (top, top + 1)
            ]
            found.append(proven(*shares))
        best[name] = max(found)
    assert best["claimed"] <= 0.05
    assert best["halved"] > 0.05


RUNS, QUESTIONS, THRESHOLD = 6000, 10, 20.0
LEFT, RIGHT = [20] * QUESTIONS + [20], [21] * QUESTIONS + [19]
"""One unit makes ten questions safer and the last one worse: together they tell most of the noise of the threshold."""


def stable_runs(epsilon, distances):
    """In how many epochs all questions but the last are stable and the last is not, bounded (99.95% each side)."""
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(13))
    receipt = ledger.charge(event=Pure(epsilon=epsilon), count=RUNS, who="private", why="attack")
    hits = 0
    for _ in range(RUNS):  # each begins an epoch of its own
        vector = SparseVector(receipt=receipt)
        first = next((place for place, d in enumerate(distances) if vector.above(-float(d), -THRESHOLD)), None)
        hits += first == len(distances) - 1
    return beta.ppf(5e-4, hits, RUNS - hits + 1), beta.ppf(1 - 5e-4, hits + 1, RUNS - hits)


def stable_chance(epsilon, distances):
    """The same chance by its integral over the noise of the threshold: no draw."""
    spread = 2 / epsilon
    bar = np.linspace(-40 * spread, 40 * spread, 400_001)
    chance = laplace.pdf(bar, scale=spread)
    for distance in distances[:-1]:
        chance = chance * laplace.cdf(distance - THRESHOLD + bar, scale=2 * spread)
    return np.trapezoid(chance * laplace.sf(distances[-1] - THRESHOLD + bar, scale=2 * spread), bar)


def test_sparse_vector_keeps_its_claim_and_half_the_noise_does_not():
    """One epoch, claimed at 2. The true loss of this event is 1.85, and 3.18 with half the noise.

    Chosen before anything was drawn: with these runs and bounds half the noise is found out 9,999 times of 10,000.
    """
    epsilon = Decimal(2)
    for used, breaks in ((epsilon, False), (2 * epsilon, True)):
        true = [stable_chance(float(used), row) for row in (LEFT, RIGHT)]
        assert math.log(true[1] / true[0]) == pytest.approx(3.18 if breaks else 1.85, abs=0.01)
        some, others = (stable_runs(used, row) for row in (LEFT, RIGHT))
        for (low, high), chance in zip((some, others), true, strict=True):
            assert low <= chance <= high  # drawn by the law that was meant
        loss = max(math.log(others[0] / some[1]), math.log(some[0] / others[1]))
        assert (loss > float(epsilon)) is breaks


def test_the_price_of_a_planted_half_is_above_the_budget():
    """The accountant sees it, too: a ledger committed to half the noise is refused."""
    from discreet.errors import BudgetExceeded

    for aggregator in ("gaussian", "laplace"):
        price = price_answers(aggregator, budget=BUDGET, teachers=100, answers=20)
        half = replace(price, charges=tuple((noise_halved(event), count) for event, count in price.charges))
        with pytest.raises(BudgetExceeded):
            Ledger.create(MemorySink(), half.terms())
