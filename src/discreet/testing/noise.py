"""The contract of a source of randomness: every mechanism has its distribution, and nothing is drawn twice.

    def test_my_source():
        check_source(MySource)

``make_source`` makes a new source each time. Each check is a test that would reject a scale 10% off and noise that is
used twice. A p-value below `SURELY` is a rejection; a true null is rejected about once in a million runs. The samples
are so large that a scale off by 10% is rejected almost surely (docs/proofs/statistics.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.errors import ReceiptRefused
from discreet.noise import (
    SparseVector,
    coins,
    discrete_laplace,
    exponential,
    gamma_direction,
    gaussian,
    laplace,
    numerator,
    poisson_mask,
    release_key,
)
from discreet.noise.sources import Source, release
from discreet.privacy.events import (
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    PoissonSampledGaussian,
    Pure,
    ThresholdResponse,
)
from discreet.privacy.ledger import Ledger, MemorySink, Receipt, adaptive
from discreet.testing.neighbours import AMPLE

SURELY = 1e-6
ENOUGH = 40_000
"""Draws at which a Kolmogorov-Smirnov or chi-square test rejects a scale 10% off with power above 0.999."""
_SCORES = [0.0] * 20 + [6.0]
"""Twenty low scores against one: the share of the high one moves most with the scale."""


def check_source(make_source: Callable[[], Source], *, draws: int = ENOUGH) -> None:
    """Raise AssertionError with the first guarantee that a source does not keep."""
    source = make_source()
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=source)
    _holds(ledger.simulation == source.simulation, "a ledger of a simulated source says so")
    drawn = samples(ledger, draws)
    for name, pvalue in goodness_of_fit(drawn).items():
        _holds(pvalue > SURELY, f"{name} has the distribution it names (p={pvalue:.2g})")
    again = _real_samples(ledger, draws)
    for name in again:
        _holds(repeats(drawn[name], again[name]) == 0, f"no {name} draw is used twice")
        _holds(independence_pvalue(drawn[name], again[name]) > SURELY, f"{name} draws of two receipts are unrelated")
        _holds(independence_pvalue(drawn[name][:-1], drawn[name][1:]) > SURELY, f"{name} draws in a row are unrelated")
    _small_draws(ledger)
    _unrelated_streams(ledger)
    _spent_is_refused(ledger)
    if not source.simulation:
        other = Ledger.create(MemorySink(), adaptive(AMPLE), source=make_source())
        first, second = (
            _scalars(each, 4) for each in (Ledger.create(MemorySink(), adaptive(AMPLE), source=source), other)
        )
        _holds(len({*first, *second}) == 8, "two sources never draw the same")


def _scalars(ledger: Ledger, count: int) -> list[float]:
    receipt = _paid(ledger, Laplace(epsilon="0.5"), count)
    return [laplace(0.0, sensitivity=3.0, receipt=receipt) for _ in range(count)]


def _small_draws(ledger: Ledger, draws: int = 2000) -> None:
    """One number at a time, a mask, a sparse vector: what a source that knows only long arrays would miss."""
    from scipy import stats

    fit = ks_pvalue(_scalars(ledger, draws), stats.laplace(scale=6.0).cdf)
    _holds(fit > SURELY, f"single numbers have their distribution too (p={fit:.2g})")
    step = _paid(ledger, PoissonSampledGaussian(sampling_rate=0.3, noise_multiplier=2.0))
    taken = int(poisson_mask(draws, receipt=step).sum())
    _holds(coin_pvalue(taken, draws, 0.3) > SURELY, "a Poisson mask has its rate")
    yes = sum(SparseVector(receipt=_paid(ledger, Pure(epsilon=1))).above(5.0, 5.0) for _ in range(draws // 4))
    _holds(coin_pvalue(yes, draws // 4, 0.5) > SURELY, "a sparse vector at its threshold says yes half the time")


def _unrelated_streams(ledger: Ledger, draws: int = 2000) -> None:
    """Groups, kinds and parts of a draw, and keys, share no words."""
    both = ledger.charge(event=Gaussian(noise_multiplier=2.0), who=["a", "b"], why="contract")
    first, second = (gaussian(np.zeros(draws), sensitivity=1.0, receipt=both, who=who) for who in ("a", "b"))
    _holds(independence_pvalue(first, second) > SURELY, "two groups of one receipt have unrelated draws")
    receipt = _paid(ledger, Pure(epsilon=1))
    parts = release(
        receipt,
        "contract",
        lambda streams: [tuple(streams(part).words(4).tolist()) for part in (0, 1, 2)],
        inputs=None,
        measure="none",
        sensitivity=0.0,
    )
    _holds(len(set(parts)) == 3, "the parts of one draw share no words")
    keys = {int(release_key(_paid(ledger, Pure(epsilon=1))).words(["id"])[0]) for _ in range(8)}
    _holds(len(keys) == 8, "every release has a key of its own")


def _paid(ledger: Ledger, event: Event, count: int = 1) -> Receipt:
    return ledger.charge(event=event, count=count, who="sample", why="contract")


def _real_samples(ledger: Ledger, draws: int) -> dict[str, Any]:
    by_epsilon, by_sigma = _paid(ledger, Laplace(epsilon="0.5")), _paid(ledger, Gaussian(noise_multiplier=2.0))
    return {
        "laplace": laplace(np.zeros(draws), sensitivity=3.0, receipt=by_epsilon),
        "gaussian": gaussian(np.zeros(draws), sensitivity=3.0, receipt=by_sigma),
    }


def samples(ledger: Ledger, draws: int = ENOUGH) -> dict[str, Any]:
    """A sample of every mechanism, at scales that are not 1."""
    few = max(draws // 5, 500)
    lengths, choices = _paid(ledger, Pure(epsilon="0.5"), few), _paid(ledger, Pure(epsilon="1"), few)
    counts = _paid(ledger, DiscreteLaplace(epsilon="0.3", sensitivity=2))
    asked = _paid(ledger, ThresholdResponse(asked="3", missed="3"))
    return _real_samples(ledger, draws) | {
        "discrete-laplace": discrete_laplace(np.zeros(draws, dtype=np.int64), receipt=counts),
        "gamma-direction": np.array(
            [gamma_direction(np.zeros(4), sensitivity=3.0, receipt=lengths) for _ in range(few)]
        ),
        "exponential": np.array([exponential(_SCORES, sensitivity=1.0, receipt=choices) for _ in range(few)]),
        "coins": coins(np.full(draws, numerator(0.3, up=False)), null=numerator(0.1, up=True), receipt=asked),
    }


def goodness_of_fit(drawn: dict[str, Any], *, wrong: float = 1.0) -> dict[str, float]:
    """p-values of samples made at known scales; ``wrong`` multiplies the expected scale, to show the tests' power."""
    from scipy import stats

    weights = np.exp(np.array(_SCORES) / (2 * wrong))
    lengths = np.linalg.norm(drawn["gamma-direction"], axis=1)
    heads = int(np.asarray(drawn["coins"]).sum())
    return {
        "laplace": ks_pvalue(drawn["laplace"], stats.laplace(scale=6.0 * wrong).cdf),
        "gaussian": ks_pvalue(drawn["gaussian"], stats.norm(scale=6.0 * wrong).cdf),
        "discrete-laplace": chi_square_pvalue(drawn["discrete-laplace"], discrete_laplace_pmf(0.15 / wrong)),
        "gamma-direction": ks_pvalue(lengths, stats.gamma(4, scale=6.0 * wrong).cdf),
        "a direction": ks_pvalue(drawn["gamma-direction"][:, 0] / lengths, _cosine_cdf),
        "exponential": float(
            stats.chisquare(np.bincount(drawn["exponential"], minlength=len(_SCORES)), _shares(weights, drawn)).pvalue
        ),
        "coins": coin_pvalue(heads, len(drawn["coins"]), 0.3 * wrong),
    }


def _shares(weights: Any, drawn: dict[str, Any]) -> Any:
    return weights / weights.sum() * len(drawn["exponential"])


def _cosine_cdf(x: Any) -> Any:
    """One coordinate of a uniform direction in four dimensions: density 2/pi sqrt(1 - x^2)."""
    x = np.clip(x, -1, 1)
    return 0.5 + (x * np.sqrt(1 - x * x) + np.arcsin(x)) / math.pi


def _spent_is_refused(ledger: Ledger) -> None:
    receipt = ledger.charge(event=Laplace(epsilon="1"), who="sample", why="contract")
    laplace(0.0, sensitivity=1.0, receipt=receipt)
    try:
        laplace(0.0, sensitivity=1.0, receipt=receipt)
    except ReceiptRefused:
        return
    raise AssertionError("the source's contract is broken: a spent receipt is refused")


def _holds(true: bool, line: str) -> None:
    if not true:
        raise AssertionError(f"the source's contract is broken: {line}")


def ks_pvalue(sample: Any, cdf: Callable[[Any], Any]) -> float:
    """Kolmogorov-Smirnov: does a continuous sample come from ``cdf``?"""
    from scipy import stats

    return float(stats.kstest(np.asarray(sample, dtype=np.float64).ravel(), cdf).pvalue)


def chi_square_pvalue(sample: Any, pmf: Callable[[Any], Any]) -> float:
    """Chi-square: do whole numbers come from ``pmf``? Rare values are pooled into two tails."""
    from scipy import stats

    values = np.asarray(sample).ravel().astype(np.int64)
    low, high = int(values.min()), int(values.max())
    support = np.arange(low, high + 1)
    expected = np.asarray(pmf(support), dtype=np.float64) * values.size
    common = np.flatnonzero(expected >= 10)
    first, last = int(common[0]), int(common[-1])
    seen = np.bincount(values - low, minlength=support.size)
    middle, wanted = seen[first : last + 1], expected[first : last + 1]
    rest = values.size - wanted.sum()
    statistic = float((((middle - wanted) ** 2) / wanted).sum())
    freedom = middle.size - 1
    if rest >= 10:
        statistic += (values.size - middle.sum() - rest) ** 2 / rest
        freedom += 1
    return float(stats.chi2.sf(statistic, freedom))


def coin_pvalue(heads: int, tosses: int, probability: float) -> float:
    """Exact binomial test of a coin."""
    from scipy import stats

    return float(stats.binomtest(heads, tosses, probability).pvalue)


def independence_pvalue(first: Any, second: Any) -> float:
    """Do two equally long samples look unrelated? By the correlation of their signed ranks."""
    from scipy import stats

    a, b = (np.asarray(part, dtype=np.float64).ravel() for part in (first, second))
    return float(stats.spearmanr(a, b).pvalue)


def repeats(*samples: Any) -> int:
    """How many pairs of neighbouring values were seen before: for noise that is never reused, 0.

    Single values of noise on a lattice meet by chance; two in a row do not.
    """
    pairs = [np.column_stack([row[:-1], row[1:]]) for row in (np.asarray(p, dtype=np.float64).ravel() for p in samples)]
    together = np.concatenate(pairs)
    return int(len(together) - len(np.unique(together, axis=0)))


def discrete_laplace_pmf(rate: float) -> Callable[[Any], Any]:
    """P[k] of two-sided geometric noise with exp(-rate |k|)."""
    return lambda k: math.tanh(rate / 2) * np.exp(-rate * np.abs(k))
