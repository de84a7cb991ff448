"""Statistics of attacks: exact lower bounds of shares, and whether two samples have one distribution."""

from __future__ import annotations

from typing import Any

import numpy as np


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
    _, indices = np.unique(labels, return_inverse=True)
    table = np.stack([np.bincount(part, minlength=int(indices.max()) + 1) for part in np.split(indices, [len(first)])])
    rare = table.sum(axis=0) < 20
    pooled = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    return float(stats.chi2_contingency(pooled, correction=False).pvalue) if pooled.shape[1] > 1 else 1.0
