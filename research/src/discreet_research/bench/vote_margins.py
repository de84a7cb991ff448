"""How clear votes are: the (nu, Delta) of an approximately high-margin problem, estimated from votes.

Definition 10 of the paper on teachers asks that all but a share nu of questions have an expected margin |E h(x) - 1/2|
above Delta. (It prints the inequality the other way round; the sentence below it and its use say what is meant.) K
votes estimate E h(x) of a question; for several classes the margin is half the lead of the winner, as a share, which
for two classes is the same. **Audience: owner**: it reads votes, and nothing in it is paid for. On public data that
plays the private, as in the bench, it may be published.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]


def expected_margins(counts: Any) -> Floats:
    """Half the lead of the winner of each question, as a share of the teachers: in [0, 1/2]. ``counts``: (n, C)."""
    votes = np.asarray(counts)
    if votes.ndim != 2 or votes.shape[1] < 2 or votes.dtype.kind not in "iu" or not votes.size or votes.min() < 0:
        raise BadInput("votes to measure", "they are not counts, a row a question, a column a class", "Give counts")
    ordered = np.sort(votes, axis=1)
    totals = np.maximum(votes.sum(axis=1), 1)
    return np.asarray((ordered[:, -1] - ordered[:, -2]) / totals / 2, dtype=np.float64)


def approximate_margin(counts: Any, margins: Any, *, gamma: float = 0.05) -> list[tuple[float, float, float]]:
    """For each Delta of ``margins``: Delta, the estimated nu, and an upper bound on nu with chance 1 - gamma.

    The bound is Hoeffding's for n questions, and for K votes each: a question whose true margin is Delta or less shows
    one above Delta + t with chance at most 2 exp(-2 K t^2).
    """
    leads = expected_margins(counts)
    teachers = int(np.asarray(counts)[0].sum())
    shift = math.sqrt(math.log(4 / gamma) / (2 * max(teachers, 1)))
    spread = math.sqrt(math.log(2 / gamma) / (2 * len(leads)))
    rows = []
    for margin in np.asarray(margins, dtype=np.float64).tolist():
        nu = float((leads <= margin).mean())
        seen = float((leads <= margin + shift).mean())
        rows.append((margin, nu, min(1.0, (seen + spread) / (1 - gamma / 2))))
    return rows
