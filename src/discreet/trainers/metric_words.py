"""An evaluation in words and cells, from its stored form (`Evaluation.to_json`). Audience: public.

Guarantee: reads that form and nothing else; all of it is public or was paid for. An accuracy is never shown alone: the
share of the largest class, which a constant answer would have, stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LOWER_IS_BETTER = ("log-loss", "calibration-error")
MAJORITY = "majority"
"""The baseline of accuracy: always the largest class."""
IN_PERCENT = ("accuracy", "balanced-accuracy", "precision", "recall")
_SPELLED = {"auc": "AUC", "f1": "F1"}
_SUMMARY = ("auc", "balanced-accuracy")

Form = Mapping[str, Any]


def title_of(name: str) -> str:
    """A metric's name as people write it."""
    return _SPELLED.get(name, name.replace("-", " "))


def value_of(name: str, value: float | None) -> str:
    """A metric's value: in percent, or with three decimals; a dash where it is not known."""
    if value is None:
        return "-"
    return f"{value:.1%}" if name in IN_PERCENT else f"{value:.3f}"


def interval_of(name: str, metric: Form) -> str:
    """The ends of a metric's interval."""
    high = "no limit" if metric["high"] is None else value_of(name, metric["high"])
    return f"{value_of(name, metric['low'])} to {high}"


def majority_words(form: Form) -> str:
    """The baseline of an evaluation's accuracy."""
    baseline = form["metrics"]["accuracy"]["baseline"]
    return f"{MAJORITY} not counted" if baseline is None else f"{MAJORITY} {value_of('accuracy', baseline)}"


def source_words(form: Form) -> str:
    """Where an evaluation is from, and its price."""
    return "public" if form["kind"] == "public" else f"paid, epsilon {form['epsilon']}"


def evaluation_words(form: Form) -> str:
    """One line: accuracy with its interval and the majority baseline, AUC and balanced accuracy, where it is from."""
    metrics = form["metrics"]
    accuracy = metrics["accuracy"]
    words = f"accuracy {value_of('accuracy', accuracy['value'])} ({interval_of('accuracy', accuracy)}"
    others = [f"{title_of(name)} {value_of(name, metrics[name]['value'])}" for name in _SUMMARY if name in metrics]
    return f"{', '.join([f'{words}, {majority_words(form)})', *others])}; {source_words(form)}"


HEAD = ("metric", "value", "95% interval", "constant answer")


def metric_rows(metrics: Mapping[str, Form]) -> list[tuple[str, str, str, str]]:
    """A row a metric, under `HEAD`. A constant answer is made by the class shares; of accuracy it is the majority."""
    rows = []
    for name, metric in metrics.items():
        baseline = value_of(name, metric["baseline"])
        shown = f"{baseline} ({MAJORITY})" if name == "accuracy" and metric["baseline"] is not None else baseline
        rows.append((title_of(name), value_of(name, metric["value"]), interval_of(name, metric), shown))
    return rows


def metric_columns(what: str, parts: Mapping[str, Mapping[str, Form]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table with a row a class or group and a column a metric; beside accuracy the majority."""
    names: Sequence[str] = list(dict.fromkeys(name for metrics in parts.values() for name in metrics))
    head = [what]
    for name in names:
        head += [title_of(name), MAJORITY] if name == "accuracy" else [title_of(name)]
    rows = []
    for part, metrics in parts.items():
        row = [part]
        for name in names:
            metric = metrics.get(name, {"value": None, "baseline": None})
            row.append(value_of(name, metric["value"]))
            row += [value_of(name, metric["baseline"])] if name == "accuracy" else []
        rows.append(row)
    return head, rows
