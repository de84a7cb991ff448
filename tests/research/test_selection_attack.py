"""Selectors lose no more than is claimed, both ways; whatever is wrong with them is found; fast runs are real ones.

The quick part attacks small scenes with 10^5 runs, the long part the worst ones with 10^6;
benchmarks/selection_attack.py writes what those prove to docs/reference/selection-attack.md.
"""

from dataclasses import replace

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.records import Selection
from discreet.selectors import ExponentialSelector, GaussianTopK, LaplaceTopK
from discreet.testing.noise import SURELY
from discreet_research.selection_attacks import (
    PathLoss,
    SelectionAttack,
    SelectionClaim,
    SelectorRuns,
    Views,
    attack_selection,
)
from discreet_research.selection_attacks.planted_selections import planted_mistakes
from discreet_research.selection_attacks.sample_tests import lowest_share, same_law_pvalue
from discreet_research.selection_attacks.selection_cases import (
    CLIPPED,
    COUNTED,
    DECLARED,
    EXPONENTIAL,
    GAUSSIAN,
    LAPLACE,
    SAMPLED,
    TELLING,
    Case,
    all_pay,
    by_shards,
    every_query,
    in_shards,
    one_sided,
    selection_cases,
    separate,
    shrinking,
)
from discreet_research.selection_attacks.selection_scenes import ExponentialRuns, ThresholdRuns, TopRuns

pytestmark = pytest.mark.thorough

TINY = separate(1, [1.0] * 4, 1)
COUNTED_ONCE = one_sided(1, "1", "1", threshold="1")
SMALL = [
    (TopRuns(selector=LAPLACE, scene=shrinking(2, [1.0, 1.0], 1)), lambda: one_sided(2, "1", "1"), 0.6),
    (TopRuns(selector=GAUSSIAN, scene=TINY), lambda: all_pay(GAUSSIAN, 1), 0.4),
    (TopRuns(selector=SAMPLED, scene=TINY), lambda: all_pay(SAMPLED, 1), 0.3),
    (ExponentialRuns(selector=EXPONENTIAL, scene=separate(1, [1.0] * 6, 1)), lambda: every_query(1, "2"), 0.5),
    (ThresholdRuns(selector=DECLARED, scene=shrinking(2, [0.0] * 3, 3)), lambda: one_sided(2, "1", "1"), 0.6),
    (ThresholdRuns(selector=COUNTED, scene=separate(1, [0.25] * 3, 1)), lambda: COUNTED_ONCE, 0.9),
    (ThresholdRuns(selector=DECLARED, scene=in_shards(2, 10, 0.0, 4)), lambda: by_shards(2, "1", "1", "0"), 0.7),
]  # fmt: skip
"""Each with the share of its claim that must be proved: an attack that proves little could not fail."""


@pytest.mark.parametrize(("campaign", "claims", "share"), SMALL, ids=[one[0].selector.name for one in SMALL])
def test_nothing_is_lost_beyond_the_claim(campaign, claims, share):
    found, claim = Case(name="small", campaign=campaign, claims=claims).attacked(runs=100_000)
    assert found.within(claim), found.excesses(claim)
    ways = [(getattr(found.whole, way), getattr(claim.whole, way)) for way in ("forward", "backward")]
    assert max(proved / claimed for proved, claimed in ways) > share


QUICK = [case for case in planted_mistakes() if "left out" not in case.name]


@pytest.mark.parametrize("case", QUICK, ids=[case.name for case in QUICK])
def test_a_planted_mistake_is_caught(case):
    found, claim = case.attacked(runs=case.runs)
    assert not found.within(claim)
    assert any("at least" in line for line in found.excesses(claim))


@pytest.mark.long
@pytest.mark.parametrize("case", planted_mistakes(), ids=[case.name for case in planted_mistakes()])
def test_a_planted_mistake_is_caught_again(case):
    found, claim = case.attacked(runs=max(case.runs, 100_000), seed=1)
    assert not found.within(claim)


@pytest.mark.long
@pytest.mark.parametrize("case", selection_cases(), ids=[case.name for case in selection_cases()])
def test_nothing_is_lost_beyond_the_claim_in_a_million_runs(case):
    found, claim = case.attacked(runs=10**6)
    assert found.within(claim), found.excesses(claim)


# -- fast runs are real ones

ONCE, TWICE = shrinking(1, [0.0, 0.6, 0.9], 2), shrinking(2, [0.0, 0.6, 0.9], 2)
TIES = {
    "laplace": (TopRuns, LAPLACE, LaplaceTopK(epsilon=3)),
    "clipped-laplace": (TopRuns, CLIPPED, replace(CLIPPED, epsilon=3)),
    "gaussian": (TopRuns, GAUSSIAN, GaussianTopK(noise_multiplier=0.4)),
    "subsampled-gaussian": (TopRuns, SAMPLED, replace(SAMPLED, noise_multiplier=0.3)),
    "exponential": (ExponentialRuns, EXPONENTIAL, ExponentialSelector(epsilon=6)),
    "declared": (ThresholdRuns, DECLARED, replace(DECLARED, asked=3, missed=3)),
    "counted": (ThresholdRuns, COUNTED, replace(COUNTED, threshold_epsilon=4)),
    "telling": (ThresholdRuns, TELLING, replace(TELLING, asked=3, missed=3)),
}
"""Fast runs, the selector, and one that is not it: the test must tell them apart."""


def pvalue(left, right):
    rows = [np.column_stack([views.path, views.seen]) for views in (left, right)]
    label = np.unique(np.concatenate(rows), axis=0, return_inverse=True)[1]
    return same_law_pvalue(label[: len(rows[0])], label[len(rows[0]) :])


def compared(name, scene, real_runs, fast_runs):
    fast, selector, wrong = TIES[name]
    real = SelectorRuns(selector=selector, scene=scene).views(present=True, runs=real_runs, seed=1)
    same, other = (
        fast(selector=one, scene=scene).views(present=True, runs=fast_runs, seed=2) for one in (selector, wrong)
    )
    assert pvalue(real, same) > 1e-4
    assert pvalue(real, other) < SURELY


@pytest.mark.parametrize("name", TIES)
def test_fast_runs_have_the_law_of_select(name):
    compared(name, ONCE, 400, 10_000)


@pytest.mark.long
@pytest.mark.parametrize("name", TIES)
def test_fast_campaigns_have_the_law_of_select(name):
    compared(name, TWICE, 10_000, 100_000)


# -- any selector can be attacked, through select()


class Telling:
    """A user's own selector: it asks by noisy scores, and shows the asked in the order of true ones."""

    name = "telling"

    def __init__(self, inner, orderly):
        self.inner, self.orderly = inner, orderly

    def price(self, k, pool_size):
        return self.inner.price(k, pool_size)

    def select(self, *, ids, scores, k, receipt, phase=0):
        found = self.inner.select(ids=ids, scores=scores, k=k, receipt=receipt, phase=phase)
        value = dict(zip(ids, scores, strict=True))
        shown = sorted(found.ids, key=lambda one: value[one]) if self.orderly else found.ids
        return Selection(ids=tuple(shown), mechanism=self.name)


@pytest.mark.parametrize("orderly", [False, True])
def test_an_own_selector_is_attacked_as_it_is(orderly):
    claim = one_sided(1, "1", "1")
    campaign = SelectorRuns(selector=Telling(LAPLACE, orderly), scene=shrinking(1, [0.5] * 3, 2))
    found = attack_selection(campaign, paths=[loss.name for loss in claim.paths], runs=200)
    assert found.within(claim) is not orderly
    assert orderly == any(line.startswith("asked in query 1") for line in found.excesses(claim))


# -- the arithmetic


class Coin:
    """One query whose answer is a coin: p with the record, q with its null."""

    def __init__(self, p, q):
        self.chances = {True: p, False: q}

    def views(self, *, present, runs, seed):
        rng = np.random.default_rng(seed)
        return Views(path=(rng.random(runs) < self.chances[present]).astype(int), seen=np.zeros((runs, 1), dtype=int))


def test_a_known_loss_is_proved_and_not_exceeded():
    p, q = 0.5, 0.1
    for seed in range(10):
        found = attack_selection(Coin(p, q), paths=["no", "yes"], runs=20_000, seed=seed)
        truth = {"yes": np.log(p / q), "no": np.log((1 - p) / (1 - q))}
        for loss in found.paths:
            assert truth[loss.name] - 0.35 < loss.forward < truth[loss.name]
            assert -truth[loss.name] - 0.35 < loss.backward < -truth[loss.name]


def test_false_alarms_are_as_rare_as_the_level_says():
    """At a level of one in five, with everything claimed to be equal and being so, few of 100 attacks may object."""
    claim = SelectionClaim(paths=tuple(PathLoss(name=name, forward=0, backward=0) for name in ("no", "yes")))
    attacks = [
        attack_selection(Coin(0.3, 0.3), paths=["no", "yes"], runs=1000, seed=seed, level=0.2) for seed in range(100)
    ]
    assert sum(not found.within(claim) for found in attacks) < 20


def test_the_lower_end_is_that_of_clopper_and_pearson():
    from scipy import stats

    heads = np.array([0, 1, 7, 50, 100])
    for seen, low in zip(heads, lowest_share(heads, 100, 0.01), strict=True):
        known = stats.binomtest(int(seen), 100, alternative="greater").proportion_ci(0.99).low
        assert low == pytest.approx(known)


def test_delta_is_taken_off():
    free = attack_selection(Coin(0.02, 0.0), paths=["no", "yes"], runs=20_000)
    paid = attack_selection(Coin(0.02, 0.0), paths=["no", "yes"], runs=20_000, delta=0.03)
    assert free.whole.forward > 2
    assert paid.paths[1].forward == -np.inf


def test_nonsense_is_refused_in_words():
    with pytest.raises(BadInput, match="100 or more"):
        attack_selection(Coin(0.5, 0.5), paths=["no", "yes"], runs=10)
    found = attack_selection(Coin(0.5, 0.5), paths=["no", "yes"], runs=100)
    assert isinstance(found, SelectionAttack)
    with pytest.raises(BadInput, match="other paths"):
        found.within(one_sided(1, "1", "1"))


def test_whoever_was_asked_leaves_the_pool():
    views = SelectorRuns(selector=LAPLACE, scene=shrinking(3, [0.0], 1)).views(present=True, runs=50, seed=0)
    assert set(views.path) == {1, 2}  # two records, one asked in each query: nobody is left for the third
    assert (views.seen.reshape(50, 3, 4)[:, 2] == 0).all()
