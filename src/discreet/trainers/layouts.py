"""What an evaluation counts: one table of counts, declared beforehand, from which all metrics are computed.

Guarantee: a labelled record adds 1 to exactly `Layout.sensitivity` cells (of several labels: at most that), wherever
its prediction falls, and a record that is a null to none. Edges, threshold and groups are public declarations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.trainers.accuracy import EDGES, Evaluation, Measured
from discreet.trainers.metrics import Curve, Floats, Metric, Uncertainty

TABLES = ("accuracy", "confusion", "scores")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The table of an evaluation.

    classes     how many classes (or labels, if ``multilabel``) there are
    table       ``accuracy``: right and wrong answers. ``confusion``: true class by answer. ``scores``: by bins of the
                probabilities, which tells every metric. None: ``scores``, or ``confusion`` of more than two classes
    edges       of the bins, increasing, within 0 and 1; None: 21, even in log-odds from .01 to .99
    threshold   of two classes: the probability of the second from which it is the answer; None: the likelier class
    groups      names of subgroups, each with a table of its own
    """

    classes: int
    multilabel: bool = False
    table: str | None = None
    edges: tuple[float, ...] | None = None
    threshold: float | None = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.classes) is not int or self.classes < (1 if self.multilabel else 2):
            raise BadInput("an evaluation", "classes are counted by a whole number from 2", "Count again")
        tables = ("accuracy", "scores") if self.multilabel else TABLES
        if self.table is not None and self.table not in tables:
            raise BadInput(f"the table {self.table!r}", "there is none of that name", f"Choose {', '.join(tables)}")
        ends = (0.0, *(self.edges or EDGES), 1.0)
        if not all(low < high for low, high in pairwise(ends)):
            raise BadInput(
                "the edges of score bins", "they do not increase within 0 and 1", "Give e.g. (0.1, 0.5, 0.9)"
            )
        if self.edges is not None and len(self.edges) < 2:
            fact = "scores are clipped to the outermost, and there is only one"
            raise BadInput("the edges of score bins", fact, 'Give two or more, or table="confusion"')
        if self.threshold is not None and (self.multilabel or self.classes != 2 or not 0 < self.threshold < 1):
            fact = "it is for two classes, and between 0 and 1"
            raise BadInput("a decision threshold", fact, "Give e.g. threshold = 0.3, or remove it")
        if len(set(self.groups)) != len(self.groups):
            raise BadInput("the groups of an evaluation", "a name is there twice", "Name each group once")

    @property
    def name(self) -> str:
        """The table that is meant."""
        return self.table or ("scores" if self.multilabel or self.classes == 2 else "confusion")

    @property
    def cut(self) -> float:
        """The threshold, declared or not."""
        return 0.5 if self.threshold is None else self.threshold

    @property
    def bins(self) -> tuple[float, ...]:
        """The edges of bins; the threshold is one."""
        return tuple(sorted({*(self.edges or EDGES), self.cut}))

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the blocks: answers or scores, scores of more than two classes, the first block again for each group."""
        if self.name == "accuracy":
            first: tuple[int, ...] = (self.classes if self.multilabel else 1, 2)
        elif self.multilabel:
            first = (self.classes, 2, len(self.bins) + 1)
        elif self.name == "scores" and self.classes == 2:
            first = (2, len(self.bins) + 1)
        else:
            first = (self.classes, self.classes)
        several = self.name == "scores" and not self.multilabel and self.classes > 2
        return (
            first,
            *([(self.classes, 2, len(self.bins) + 1)] if several else []),
            *([(len(self.groups), *first)] if self.groups else []),
        )

    @property
    def sensitivity(self) -> int:
        """How many cells a record is in at most."""
        first = self.classes if self.multilabel else 1
        several = self.classes if len(self.shapes) - bool(self.groups) > 1 else 0
        return first + several + (first if self.groups else 0)

    def count(self, predicted: Floats, truth: NDArray[Any], groups: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """All cells, in a row. ``predicted``: finite probabilities. ``groups``: number of each record's, or -1."""
        records = len(predicted)
        parts: list[tuple[NDArray[Any], ...]]
        if self.multilabel:
            record, label = np.nonzero(~np.isnan(truth.astype(np.float64)))
            values, hits = predicted[record, label], (truth[record, label] > 0.5).astype(np.int64)
            if self.name == "accuracy":
                parts = [(label, ((values > 0.5) == hits).astype(np.int64))]
            else:
                parts = [(label, hits, self._bin(self._multilabel_scores(values)))]
        else:
            record, truth = np.arange(records), truth.astype(np.int64)
            answers = answers_of(predicted, self.threshold)
            if self.name == "accuracy":
                parts = [(np.zeros(records, dtype=np.int64), (answers == truth).astype(np.int64))]
            elif self.classes == 2 and self.name == "scores":
                parts = [(truth, self._bin(self.scores(predicted)))]
            else:
                parts = [(truth, answers)]
            if self.name == "scores" and self.classes > 2:
                number = np.tile(np.arange(self.classes), records)
                hits = (number == np.repeat(truth, self.classes)).astype(np.int64)
                parts.append((number, hits, self._bin(predicted.reshape(-1))))
        if self.groups:
            group = np.full(records, -1, dtype=np.int64) if groups is None else groups
            inside = group[record] >= 0
            parts.append((group[record][inside], *(part[inside] for part in parts[0])))
        cells = [np.zeros(shape, dtype=np.int64) for shape in self.shapes]
        for block, places in zip(cells, parts, strict=True):
            np.add.at(block, places, 1)
        return np.concatenate([block.reshape(-1) for block in cells])

    def scores(self, predicted: Floats) -> Floats:
        """Of the second of two classes. An exact tie is moved by one bit to the side of the class that is answered."""
        return self._sided(predicted[:, 1], answers_of(predicted, self.threshold) == 1)

    def _multilabel_scores(self, values: Floats) -> Floats:
        return self._sided(values, values > 0.5)

    def _sided(self, scores: Floats, above: NDArray[np.bool_]) -> Floats:
        return np.where(above, np.maximum(scores, self.cut), np.minimum(scores, math.nextafter(self.cut, 0)))

    def _bin(self, scores: Floats) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(self.bins, scores, side="right"), dtype=np.int64)

    def exact(self, predicted: Floats, truth: NDArray[Any], *, each: int = 1) -> Measured:
        """Public records, with every distinct score."""
        common: dict[str, Any] = {"uncertainty": Uncertainty(each=each), "edges": self.bins}
        if self.multilabel:
            known = ~np.isnan(truth.astype(np.float64))
            scores = self._multilabel_scores(predicted)
            labels = [
                Curve.of_scores(scores[known[:, label], label], truth[known[:, label], label] > 0.5)
                for label in range(self.classes)
            ]
            return Measured(curves=tuple(labels), multilabel=True, **common)
        truth = truth.astype(np.int64)
        if self.classes == 2:
            curve = Curve.of_scores(self.scores(predicted), truth == 1)
            return Measured(curves=(curve,), threshold=self.cut, **common)
        cells = np.zeros((self.classes, self.classes))
        np.add.at(cells, (truth, predicted.argmax(axis=1)), 1)
        curves = [Curve.of_scores(predicted[:, number], truth == number) for number in range(self.classes)]
        return Measured(cells=cells, curves=tuple(curves), **common)

    def _measured(self, blocks: Sequence[Floats], uncertainty: Uncertainty) -> Measured:
        common: dict[str, Any] = {"uncertainty": uncertainty, "edges": self.bins, "multilabel": self.multilabel}
        if self.name == "accuracy":
            return Measured(right=blocks[0], **common)
        if self.multilabel:
            return Measured(curves=tuple(Curve.of_bins(label, self.bins) for label in blocks[0]), **common)
        if self.name == "scores" and self.classes == 2:
            return Measured(curves=(Curve.of_bins(blocks[0], self.bins),), threshold=self.cut, **common)
        curves = tuple(Curve.of_bins(number, self.bins) for block in blocks[1:] for number in block)
        return Measured(cells=blocks[0], curves=curves, **common)

    def evaluation(
        self,
        kind: Literal["public", "paid"],
        cells: NDArray[Any],
        *,
        uncertainty: Uncertainty,
        epsilon: Decimal = Decimal(0),
        simulation: bool = False,
        exact: Measured | None = None,
        exact_groups: Sequence[Measured] | None = None,
    ) -> Evaluation:
        """What the counts of `count`, with or without noise, tell. ``exact``: where more than the table is known."""
        if isinstance(self.threshold, ChosenThreshold) and self.threshold.is_of(cells.tolist()):
            fact = "it was chosen on this table, so its metrics are too good to be true"
            raise BadInput(
                "measuring at a chosen threshold", fact, "Measure on other records, or on another paid table"
            )
        blocks, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            blocks.append(np.asarray(cells[start : start + size], dtype=np.float64).reshape(shape))
            start += size
        grouped = list(blocks.pop()) if self.groups else []
        whole = exact or self._measured(blocks, uncertainty)
        parts = exact_groups or [self._measured([block], uncertainty) for block in grouped]
        overall, per_class = whole.metrics()
        groups: dict[str, tuple[Metric, ...]] = {
            name: part.metrics()[0] for name, part in zip(self.groups, parts, strict=True)
        }
        return Evaluation(
            kind=kind,
            metrics=overall,
            per_class=per_class,
            confusion=whole.confusion(),
            groups=groups,
            table=self.to_json() | {"cells": [int(count) for count in cells]},
            epsilon=epsilon,
            simulation=simulation,
        )

    def to_json(self) -> dict[str, Any]:
        """The declaration: public."""
        return {
            "name": self.name,
            "classes": self.classes,
            "multilabel": self.multilabel,
            "threshold": self.threshold,
            "edges": list(self.bins) if self.name == "scores" else None,
            "groups": list(self.groups),
            "shapes": [list(shape) for shape in self.shapes],
        }


def answers_of(probabilities: NDArray[Any], threshold: float | None = None) -> NDArray[np.int64]:
    """The class of each record: the likeliest; with a ``threshold``, the second of two from that probability on."""
    if threshold is None:
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)
    return np.asarray(probabilities[:, 1] >= threshold, dtype=np.int64)


class ChosenThreshold(float):
    """A threshold that remembers the table that it was chosen on, so that it is not measured there."""

    def __new__(cls, value: float, cells: Sequence[int]) -> ChosenThreshold:
        """``cells``: of that table."""
        chosen = super().__new__(cls, value)
        chosen._cells = tuple(cells)
        return chosen

    _cells: tuple[int, ...]

    def is_of(self, cells: Sequence[int]) -> bool:
        """Whether these are the counts of that table."""
        return tuple(cells)[: len(self._cells)] == self._cells


def choose_threshold(evaluation: Evaluation | Mapping[str, Any], metric: str = "f1") -> ChosenThreshold:
    """The edge of a table of two classes at which ``metric`` (f1, balanced-accuracy or accuracy) is best.

    ``evaluation``: also the stored form of one, as in the status of a campaign.

    Free, for the table is public or paid for. The best of several values is too good to be true: measure at the
    threshold on another table, of other records or with other noise. A `Layout` of it refuses this table.
    """
    table = evaluation["table"] if isinstance(evaluation, Mapping) else evaluation.table
    if table.get("name") != "scores" or table["classes"] != 2 or table["multilabel"]:
        raise BadInput("choosing a threshold", "it takes a table of scores of two classes", "Evaluate with scores")
    if metric not in ("f1", "balanced-accuracy", "accuracy"):
        raise BadInput("choosing a threshold", f"{metric!r} does not depend on it", "Choose f1 or balanced-accuracy")
    edges, cells = table["edges"], np.array(table["cells"], dtype=np.float64)
    curve = Curve.of_bins(cells[: 2 * (len(edges) + 1)].reshape(2, -1), edges)

    def reached(edge: float) -> float:
        metrics, _ = Measured(curves=(curve,), threshold=edge, uncertainty=Uncertainty()).metrics()
        return next(each.value or 0.0 for each in metrics if each.name == metric)

    best = max(edges, key=lambda edge: (reached(edge), -abs(edge - 0.5)))
    return ChosenThreshold(best, table["cells"][: 2 * (len(edges) + 1)])


def measure(
    predicted: Any,
    truth: NDArray[Any],
    layout: Layout,
    groups: NDArray[np.int64] | None = None,
    *,
    records_per_person: int = 1,
) -> Evaluation:
    """On public records: nothing is charged, nothing hidden. Every metric, whatever the table of ``layout``.

    ``records_per_person`` widens intervals: records of a person may go together.
    """
    layout = replace(layout, table="scores")
    predicted = np.asarray(predicted, dtype=np.float64)
    usable = np.isfinite(predicted).all(axis=1)
    predicted, truth, groups = predicted[usable], truth[usable], groups if groups is None else groups[usable]
    members = [] if groups is None else [groups == number for number in range(len(layout.groups))]
    return layout.evaluation(
        "public",
        layout.count(predicted, truth, groups),
        uncertainty=Uncertainty(each=records_per_person),
        exact=layout.exact(predicted, truth, each=records_per_person),
        exact_groups=[layout.exact(predicted[rows], truth[rows], each=records_per_person) for rows in members],
    )
