"""An accuracy and its interval, from counts of right and wrong: what an evaluation tells the public.

Guarantee: arithmetic alone. That the counts are public, or were paid for, is for whoever made them
(`discreet.trainers.evaluation`, `discreet.trainers.text_classifier`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FORMAT = "discreet.evaluation/1"
_HALF_ERROR = 0.025
_NORMAL = 2.241402727604947
"""Two-sided 97.5% of a Gaussian."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Accuracy with a 95% interval, and by class or label. Audience: public."""

    kind: Literal["public", "paid"]
    accuracy: float
    low: float
    high: float
    parts: tuple[float, ...]
    epsilon: Decimal
    simulation: bool = False

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json`` and reports."""
        return {
            "format": FORMAT,
            "simulation": self.simulation,
            "audience": "public",
            "kind": self.kind,
            "accuracy": self.accuracy,
            "interval": [self.low, self.high],
            "parts": list(self.parts),
            "epsilon": str(self.epsilon),
        }


def evaluation_of(
    kind: Literal["public", "paid"],
    cells: NDArray[Any],
    *,
    noise: float,
    each: int,
    epsilon: Decimal,
    simulation: bool,
) -> Evaluation:
    """From cells (part, wrong | right). ``noise``: the scale of what was added to a cell.

    ``each``: how many cells a unit may be in. Its answers may all go together, so it counts as one of the sample.
    """
    counts = np.asarray(cells, dtype=np.float64)
    right, total = float(counts[:, 1].sum()), float(counts.sum())
    accuracy = _share(right, total)
    # each of the two errors stays within its part with 97.5%: all noisy cells by a union bound, the sample by Wilson
    spread = noise * math.log(counts.size / _HALF_ERROR) * len(counts) / max(total, 1.0)
    below, above = _wilson(accuracy, max(total / each, 1.0))
    return Evaluation(
        kind=kind,
        accuracy=accuracy,
        low=max(0.0, below - spread),
        high=min(1.0, above + spread),
        parts=tuple(_share(row[1], row.sum()) for row in counts),
        epsilon=epsilon,
        simulation=simulation,
    )


def count_cells(parts: NDArray[Any], right: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Cells (part, wrong | right) of answers: the part of each, and whether it was right."""
    cells = np.zeros((count, 2), dtype=np.int64)
    np.add.at(cells, (parts, right.astype(int)), 1)
    return cells


def public_accuracy(probabilities: NDArray[Any], truth: NDArray[Any], classes: int) -> Evaluation:
    """On public records of the class numbers ``truth``: nothing is charged, nothing hidden."""
    cells = count_cells(truth, probabilities.argmax(axis=1) == truth, classes)
    return evaluation_of("public", cells, noise=0.0, each=1, epsilon=Decimal(0), simulation=False)


def _wilson(share: float, size: float) -> tuple[float, float]:
    """Where the true share is, when ``share`` was found in a sample of ``size``."""
    square = _NORMAL**2 / size
    middle = (share + square / 2) / (1 + square)
    half = _NORMAL / (1 + square) * math.sqrt(share * (1 - share) / size + square / (4 * size))
    return middle - half, middle + half


def _share(right: float, total: float) -> float:
    return float(min(max(right / total, 0.0), 1.0)) if total > 0 else 0.0
