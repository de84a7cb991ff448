"""Individual rates, as the code has them: a record asked from above trains in the high cohort, its null in the low one.

Divergences of a step and of whole plans are computed, both directions (docs/proofs/individual-rates.md).
"""

import functools
from decimal import Decimal
from itertools import product
from math import exp, log

import numpy as np
import pytest
import torch
from scipy.stats import norm

from discreet.api import plan
from discreet.privacy.accounting.pld import pld_pair
from discreet.privacy.events import PoissonSampledGaussian
from discreet.records import Selection
from discreet.selectors import into_cohorts
from discreet.selectors.threshold_selector import coins_for, is_above
from discreet.trainers.dp_sgd import Settings
from discreet.trainers.dp_sgd.batches import micro_batches
from discreet.trainers.dp_sgd.cohorts import MISSING, CohortRecords
from discreet.trainers.dp_sgd.gradients import RecordGradients
from discreet.trainers.dp_sgd.optimization import cross_entropy

pytestmark = pytest.mark.thorough

QUERIES, EPSILON, DELTA, ASKED = 4, 6.0, 1e-4, 2
SHAPE = {"epsilon": 6, "delta": "1e-4", "initial": 400, "queries": [200] * QUERIES, "batch": 100, "epochs": 3}
CAPS = {"free": None, "small": ("0.3",) * QUERIES}
WHOLE = 2**63


@functools.cache
def made_plan(missed=None):
    return plan(**SHAPE, selection_epsilon=ASKED, individual_rates=True, missed=missed, accountant="pld")


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_the_null_of_a_record_from_above_enters_the_low_cohort(threshold):
    made, scores = made_plan(CAPS["small"]), np.array([1.0, 0.0])
    for one, label in ((0, "phase-1/high"), (1, "phase-1/low")):
        above = frozenset({"r"}) if is_above(scores, threshold, (0.0, 1.0))[one] else frozenset()
        entered = into_cohorts(made, 1, Selection(ids=("r",), mechanism="threshold-response", above=above))
        assert [name for name, ids in entered.items() if ids] == [label]


# -- one step: sums by the trainer's own code, over all masks


RATES, SIGMA, CLIP = {"high": 0.15, "low": 0.4}, 0.8, 0.5
OTHERS = {"high": [(3.0, 0), (1.0, 1)], "low": [(2.0, 1)]}
NULL = (0.0, MISSING)
GRID = np.linspace(-12, 12, 200_001)


def density(unit, part):
    """Of the noisy sum, along the one direction that gradients have, with ``unit`` in a cohort."""
    rows = {name: others + ([unit] if name == part else []) for name, others in OTHERS.items()}
    cohorts = {
        name: CohortRecords(x=np.array([[x] for x, _ in all_of], dtype=np.float32), y=np.array([y for _, y in all_of]))
        for name, all_of in rows.items()
    }
    module = torch.nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        module.weight.zero_()
    gradients, found = RecordGradients(module, cross_entropy), np.zeros_like(GRID)
    usable = {name: cohort.labelled(2) for name, cohort in cohorts.items()}
    places = [(name, place) for name, cohort in cohorts.items() for place in range(len(cohort))]
    for mask in product((False, True), repeat=len(places)):
        weight = np.prod(
            [RATES[name] if drawn else 1 - RATES[name] for (name, _), drawn in zip(places, mask, strict=True)]
        )
        sampled = {
            name: np.array(
                [place for (one, place), drawn in zip(places, mask, strict=True) if drawn and one == name],
                dtype=np.int64,
            )
            for name in cohorts
        }
        total = gradients.zero()
        for piece in micro_batches(
            sampled, cohorts, usable, Settings(clip=CLIP), by_person=False, seed=1, device=torch.device("cpu")
        ):
            total += gradients.clipped_sum(piece.rows[:, None], piece.targets, clip=CLIP, usable=piece.usable)
        assert float(total.sum()) == pytest.approx(0, abs=1e-6)  # along (1, -1) alone
        middle = float(total[0] - total[1]) / 2**0.5
        found += weight * norm.pdf(GRID, middle, SIGMA * CLIP)
    return found


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - exp(epsilon) * q, 0).sum() * (GRID[1] - GRID[0]))


@pytest.mark.parametrize(("unit_in", "null_in"), [("high", "low"), ("low", "low"), ("high", "high")])
@pytest.mark.parametrize("record", [(-5.0, 0), (5.0, 0), (0.3, 1)])
def test_a_step_costs_the_rate_of_the_record_wherever_its_null_is(unit_in, null_in, record):
    there, null = density(record, unit_in), density(NULL, null_in)
    claimed = pld_pair(PoissonSampledGaussian(sampling_rate=RATES[unit_in], noise_multiplier=SIGMA), interval=1e-4)
    for epsilon in (0.02, 0.1, 0.3, 0.6, 1.0):
        forward, backward = claimed.deltas(epsilon)
        assert hockey_stick(there, null, epsilon) <= forward + 1e-7
        assert hockey_stick(null, there, epsilon) <= backward + 1e-7


def test_a_step_is_as_bad_as_it_is_claimed_to_be():
    """A rate below the record's own does not cover it."""
    there, null = density((-5.0, 0), "low"), density(NULL, "low")
    less = pld_pair(PoissonSampledGaussian(sampling_rate=RATES["high"], noise_multiplier=SIGMA), interval=1e-4)
    assert hockey_stick(there, null, 0.3) > less.deltas(0.3)[0]


# -- whole plans, over all patterns of sides


@functools.cache
def losses(made, path):
    """Of a path's whole training."""
    return pld_pair(next(one for one in made.trajectories if one.name == path).trained, interval=1e-3)


def worst_share(made, coins, *, trained_as=None, claimed=EPSILON):
    """The largest true delta of any pattern of sides and direction, as a share of the claimed one.

    ``trained_as``: of a broken campaign, the part whose rate a record of a part trains with.
    """
    trained = trained_as or {"high": "high", "low": "low"}
    pairs = {
        (query, part): losses(made, f"phase-{query}/{trained[part]}")
        for query in range(1, QUERIES + 1)
        for part in ("high", "low")
    }

    def true_delta(pattern, direction):
        total, reached, loss = 0.0, 1.0, 0.0
        for query, part in enumerate(pattern, start=1):
            low, high = coins[query - 1]
            there, null = (high if part == "high" else low), low
            p, q = (there, null) if direction == 0 else (null, there)
            total += reached * p * pairs[query, part].deltas(claimed - loss - log(p / q))[direction]
            reached, loss = reached * (1 - p), loss + log((1 - p) / (1 - q))
        return total + reached * max(0.0, 1 - exp(claimed - loss))

    patterns = list(product(("high", "low"), repeat=QUERIES))
    return max(true_delta(pattern, direction) for pattern in patterns for direction in (0, 1)) / DELTA


def coins_of(made, pool, above):
    """What the selector tosses in every query, if ``above`` of the pool are above the threshold."""
    missed = made.selection.missed
    tossed = [coins_for(200, pool - 200 * i, above, asked=Decimal(ASKED), missed=missed[i]) for i in range(QUERIES)]
    return [(one.low / WHOLE, one.high / WHOLE) for one in tossed]


@pytest.mark.parametrize("caps", CAPS)
@pytest.mark.parametrize(("pool", "above"), [(1600, 100), (1600, 400), (4000, 300)])
def test_every_pattern_of_sides_keeps_the_claim(caps, pool, above):
    made = made_plan(CAPS[caps])
    assert worst_share(made, coins_of(made, pool, above)) <= 0.95


def test_the_other_rate_would_not_keep_it():
    """A record from above that trained with the rate of those below would lose more than is claimed."""
    made = made_plan(CAPS["small"])
    coins = coins_of(made, 1600, 100)
    assert worst_share(made, coins, trained_as={"high": "low", "low": "low"}) > 1
