"""Tests of samples whose power is known: each would reject a scale that is wrong by a tenth.

A p-value below `SURELY` is a rejection; a true null is rejected about once in a million runs. The samples the noise
contract takes are large enough that a scale off by 10% is rejected all but surely (docs/proofs/statistics.md has the
arithmetic and the measurement).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

SURELY = 1e-6
ENOUGH = 40_000
"""Draws at which a Kolmogorov-Smirnov or chi-square test rejects a scale 10% off with power above 0.999."""


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


def lowest_share(heads: Any, tosses: int, level: float) -> Any:
    """The lower end of Clopper and Pearson: the share is above it but for a chance of ``level``, exactly.

    The upper end is one minus that of the other side of the coin.
    """
    from scipy import stats

    seen = np.asarray(heads, dtype=np.float64)
    return np.where(seen > 0, stats.beta.ppf(level, np.maximum(seen, 1), tosses - seen + 1), 0.0)


def same_law_pvalue(first: Any, second: Any) -> float:
    """Chi-square: do two samples of labels come from one law? Labels seen less than twenty times are put together."""
    from scipy import stats

    labels = np.concatenate([first, second])
    _, place = np.unique(labels, return_inverse=True)
    table = np.stack([np.bincount(part, minlength=int(place.max()) + 1) for part in np.split(place, [len(first)])])
    rare = table.sum(axis=0) < 20
    kept = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    kept = kept[:, kept.sum(axis=0) > 0]
    return float(stats.chi2_contingency(kept, correction=False).pvalue) if kept.shape[1] > 1 else 1.0
