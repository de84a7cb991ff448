"""What an evaluation tells the public: metrics with intervals and baselines, from a table of counts.

Guarantee: arithmetic alone. That the counts are public, or were paid for, is for whoever made them
(`discreet.trainers.evaluation`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.trainers.metrics import (
    Curve,
    Estimate,
    Floats,
    Metric,
    Uncertainty,
    f1_of,
    log_loss,
    macro,
    macro_f1,
    share,
)

FORMAT = "discreet.evaluation/1"
EDGES = tuple(round(float(edge), 4) for edge in 1 / (1 + np.exp(-np.linspace(-1, 1, 21) * math.log(99))))
"""Of score bins: even in log-odds from .01 to .99."""
METRICS = (
    "accuracy",
    "balanced-accuracy",
    "auc",
    "average-precision",
    "f1",
    "log-loss",
    "calibration-error",
)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Metrics with 95% intervals, overall, by class or label, and by subgroup. Audience: public.

    metrics     overall, those that the records and the table can tell, in the order of `METRICS`
    per_class   a tuple of metrics for each class (label), in their order; empty where classes were not told apart
    confusion   records by true class (rows) and answer (columns); noisy if they were paid for
    groups      by the name of a declared subgroup, its metrics
    table       what was counted, and the counts; noisy if they were paid for
    """

    kind: Literal["public", "paid"]
    metrics: tuple[Metric, ...]
    epsilon: Decimal
    per_class: tuple[tuple[Metric, ...], ...] = ()
    confusion: tuple[tuple[int, ...], ...] | None = None
    groups: Mapping[str, tuple[Metric, ...]] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    simulation: bool = False

    def metric(self, name: str) -> Metric:
        """The overall metric of that name."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        names = ", ".join(metric.name for metric in self.metrics)
        raise BadInput(f"the metric {name!r}", "this evaluation does not tell it", f"It tells {names}")

    @property
    def accuracy(self) -> float:
        """The share of right answers; 0 where it cannot be told (the interval is then 0 to 1)."""
        return self.metric("accuracy").value or 0.0

    @property
    def low(self) -> float:
        """The low end of the interval of `accuracy`."""
        return self.metric("accuracy").low

    @property
    def high(self) -> float:
        """The high end of the interval of `accuracy`."""
        return self.metric("accuracy").high

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json`` and reports. An end of an interval that is infinite is None."""
        return {
            "format": FORMAT,
            "simulation": self.simulation,
            "audience": "public",
            "kind": self.kind,
            "accuracy": self.accuracy,
            "interval": [self.low, self.high],
            "metrics": _forms(self.metrics),
            "per_class": [_forms(metrics) for metrics in self.per_class],
            "confusion": None if self.confusion is None else [list(row) for row in self.confusion],
            "groups": {name: _forms(metrics) for name, metrics in self.groups.items()},
            "table": dict(self.table),
            "epsilon": str(self.epsilon),
        }


def _forms(metrics: Sequence[Metric]) -> dict[str, dict[str, float | None]]:
    forms = [{key: value for key, value in asdict(metric).items() if key != "name"} for metric in metrics]
    finite = [{key: value if value != math.inf else None for key, value in form.items()} for form in forms]
    return {metric.name: form for metric, form in zip(metrics, finite, strict=True)}


# -- what a table tells


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Counts of one set of records.

    cells       records by true class (rows) and columns of which ``answers`` says the class; of several labels: one
                such table a label, and ``cells`` is None
    curves      by score: one of the second of two classes, or one for each class (label)
    right       (part, wrong | right), where nothing else was counted
    """

    uncertainty: Uncertainty
    cells: Floats | None = None
    answers: NDArray[np.int64] | None = None
    curves: tuple[Curve, ...] = ()
    right: Floats | None = None
    multilabel: bool = False
    threshold: float = 0.5
    edges: tuple[float, ...] = EDGES

    def metrics(self) -> tuple[tuple[Metric, ...], tuple[tuple[Metric, ...], ...]]:
        """Overall metrics, and those of each class or label."""
        if self.right is not None:
            return self._of_right(self.right)
        if self.multilabel:
            return self._of_labels()
        cells, answers = self._answered()
        return self._of_classes(cells, answers)

    def confusion(self) -> tuple[tuple[int, ...], ...] | None:
        """Records by true class and answer; None where that was not counted."""
        if self.multilabel or self.right is not None:
            return None
        cells, answers = self._answered()
        columns = [cells[:, answers == answer].sum(axis=1) for answer in range(len(cells))]
        return tuple(tuple(round(count) for count in row) for row in np.stack(columns, axis=1).tolist())

    def _answered(self) -> tuple[Floats, NDArray[np.int64]]:
        if self.cells is None:
            return self.curves[0].cells, answers_at(self.curves[0], self.threshold)
        return self.cells, np.arange(len(self.cells)) if self.answers is None else self.answers

    def _of_right(self, right: Floats) -> tuple[tuple[Metric, ...], tuple[tuple[Metric, ...], ...]]:
        everything = share(right, [0, 1], 1, self._together(len(right))).named("accuracy")
        if len(right) == 1:
            return (everything,), ()
        parts = [share(part, [0, 1], 1, self.uncertainty).named("accuracy") for part in right]
        return (everything,), tuple((part,) for part in parts)

    def _together(self, labels: int) -> Uncertainty:
        """Of cells in which one record is ``labels`` times."""
        return Uncertainty(noise=self.uncertainty.noise, each=self.uncertainty.each * labels)

    def _of_classes(
        self, cells: Floats, answers: NDArray[np.int64]
    ) -> tuple[tuple[Metric, ...], tuple[tuple[Metric, ...], ...]]:
        count, own = len(cells), np.arange(len(cells))[:, None]
        shares = _shares(cells.sum(axis=1))
        majority = None if shares is None else float(shares.max())
        recalls, each = [], []
        for number in range(count):
            recall, named = answer_metrics(cells, answers, number, shares, self.uncertainty)
            recalls.append(recall)
            each.append(named)
        if count == 2:
            f1 = each[1]["f1"]
        else:
            f1 = macro_f1(cells, answers, self.uncertainty), _mean([named["f1"][1] for named in each])
        overall = {
            "accuracy": (share(cells, answers[None, :] == own, 1, self.uncertainty), majority),
            "balanced-accuracy": (macro(recalls, self.uncertainty, apart=True), 1 / count),
            "f1": f1,
        }
        curves = [self._of_curve(curve) for curve in self.curves]
        if len(curves) > 1:
            each = [{**named, **curve} for named, curve in zip(each, curves, strict=True)]
        if curves:
            overall |= _macros(curves, self.uncertainty)
            entropy = None if shares is None else float(-(shares * np.log(np.where(shares > 0, shares, 1))).sum())
            overall["log-loss"] = log_loss(self.curves, self.uncertainty), entropy
        return _named(overall), tuple(_named(named) for named in each)

    def _of_labels(self) -> tuple[tuple[Metric, ...], tuple[tuple[Metric, ...], ...]]:
        each = []
        own = np.arange(2)[:, None]
        for curve in self.curves:
            shares, answers = _shares(curve.cells.sum(axis=1)), answers_at(curve, self.threshold)
            base = None if shares is None else float(shares[1])
            recall, named = answer_metrics(curve.cells, answers, 1, shares, self.uncertainty)
            other, _ = answer_metrics(curve.cells, answers, 0, shares, self.uncertainty)
            entropy = None if base is None else float(-sum(q * math.log(q) for q in (base, 1 - base) if q > 0))
            named |= {
                "accuracy": (
                    share(curve.cells, answers[None, :] == own, 1, self.uncertainty),
                    None if base is None else max(base, 1 - base),
                ),
                "balanced-accuracy": (macro([recall, other], self.uncertainty, apart=True), 0.5),
                **self._of_curve(curve),
                "log-loss": (log_loss([curve], self.uncertainty), entropy),
            }
            each.append(named)
        names = [name for name in METRICS if name not in ("accuracy", "log-loss")]
        overall = _macros([{name: named[name] for name in names} for named in each], self.uncertainty)
        losses = [named["log-loss"] for named in each]
        overall["log-loss"] = (
            macro([loss for loss, _ in losses], self.uncertainty, most=math.inf),
            _mean([base for _, base in losses]),
        )
        cells = np.concatenate([curve.cells for curve in self.curves], axis=1)
        right = np.concatenate([answers_at(curve, self.threshold)[None, :] == own for curve in self.curves], axis=1)
        accuracy = share(cells, right, 1, self._together(len(self.curves)))
        overall["accuracy"] = accuracy, _mean([named["accuracy"][1] for named in each])
        return _named(overall), tuple(_named(named) for named in each)

    def _of_curve(self, curve: Curve) -> MetricValues:
        shares = _shares(curve.cells.sum(axis=1))
        return {
            "auc": (curve.auc(self.uncertainty), 0.5),
            "average-precision": (
                curve.average_precision(self.uncertainty),
                None if shares is None else float(shares[1]),
            ),
            "calibration-error": (curve.calibration_error(self.edges, self.uncertainty), 0.0),
        }


MetricValues = dict[str, tuple[Estimate, float | None]]


def answers_at(curve: Curve, threshold: float) -> NDArray[np.int64]:
    """The answer of each bin: 1 from ``threshold`` on, which is an edge where there are bins."""
    return (curve.low >= threshold).astype(np.int64)


def answer_metrics(
    cells: Floats, answers: NDArray[np.int64], number: int, shares: Floats | None, uncertainty: Uncertainty
) -> tuple[Estimate, MetricValues]:
    """Recall of a class, and precision, recall and F1 with their baselines. ``shares``: of all classes."""
    own = np.zeros((len(cells), 1))
    own[number] = 1
    answered = (answers == number)[None, :].astype(float)
    recall = share(cells, own * answered, own, uncertainty)
    either = np.maximum(own, answered)
    base = constant = None
    if shares is not None:
        base = float(shares[number])
        constant = 2 * base / (1 + base) if number == shares.argmax() else 0.0
    return recall, {
        "precision": (share(cells, own * answered, answered, uncertainty), base),
        "recall": (recall, None),
        "f1": (f1_of(share(cells, own * answered, either, uncertainty)), constant),
    }


def _macros(each: Sequence[MetricValues], uncertainty: Uncertainty) -> MetricValues:
    if len(each) == 1:
        return dict(each[0])
    return {
        name: (macro([values[name][0] for values in each], uncertainty), _mean([values[name][1] for values in each]))
        for name in each[0]
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _shares(totals: Floats) -> Floats | None:
    counts = np.maximum(totals, 0.0)
    return counts / counts.sum() if counts.sum() > 0 else None


def _named(values: MetricValues) -> tuple[Metric, ...]:
    order = {name: place for place, name in enumerate((*METRICS, "precision", "recall"))}
    names = sorted(values, key=lambda name: order[name])
    return tuple(values[name][0].named(name, values[name][1]) for name in names)
