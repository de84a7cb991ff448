"""Tables of what models on features reach: pictures by settings and on the test set, tables by map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from discreet.simulation.points import Interval, mean_interval
from discreet.simulation.results import Row, Table
from discreet_research.bench.rows import by_seed, difference, grouped, half_interval

TREES = "trees"


def choice_tables(rows: Sequence[Row]) -> list[Table]:
    """For each set: accuracy on the records that were held out, by settings; the best of all is bold."""
    return [_choice(problem, of_problem) for problem, of_problem in grouped(rows, "problem").items()]


def best_settings(rows: Sequence[Row]) -> str:
    """The method that is best on average over seeds; of equal ones the first."""
    means = {method: _mean(of_method, "accuracy") for method, of_method in grouped(rows, "method").items()}
    return str(max(means, key=lambda method: means[method]))


def _choice(problem: str, rows: Sequence[Row]) -> Table:
    best, rates = best_settings(rows), sorted({(row["learning_rate"], row["ema"] or 0.0) for row in rows})
    lines = []
    for (batch, epochs), of_length in grouped(rows, "batch", "epochs").items():
        cells = []
        for rate, ema in rates:
            of_cell = [row for row in of_length if (row["learning_rate"], row["ema"] or 0.0) == (rate, ema)]
            told = half_interval((row["accuracy"] for row in of_cell), digits=2)
            cells.append(f"**{told}**" if of_cell and of_cell[0]["method"] == best else told)
        lines.append((str(batch), str(epochs), *cells))
    columns = [f"{rate:g}" + (f", averaged {ema:g}" if ema else "") for rate, ema in rates]
    return Table(
        title=problem,
        columns=("batch", "epochs", *columns),
        rows=tuple(lines),
        note="Accuracy in percent on records of the training set that nothing was trained on, by learning rate; "
        "averaged: a moving average of the weights with that decay. Bold: the best, which features-pictures trains.",
    )


def picture_tables(rows: Sequence[Row]) -> list[Table]:
    """A line a set."""
    lines = []
    for (problem, method), of_set in grouped(rows, "problem", "method").items():
        accuracies = [row["accuracy"] for row in of_set]
        lines.append(
            (
                problem,
                method,
                half_interval(accuracies, digits=2),
                f"{100 * min(accuracies):.2f} to {100 * max(accuracies):.2f}",
                str(len(accuracies)),
                f"{of_set[0]['noise_multiplier']:.3f}",
                f"{_mean(of_set, 'cpu_seconds'):.0f}",
            )
        )
    columns = ("set", "settings", "accuracy, %", "seeds from, to", "seeds", "noise multiplier", "CPU seconds")
    return [
        Table(
            title="Scattering and one linear layer, (3, 1e-5)",
            columns=columns,
            rows=tuple(lines),
            note="On the test set, once a seed, with 95% intervals over seeds. Clip 0.1, momentum 0.9. Seconds are of "
            "one model on one core, features aside.",
        )
    ]


def rate_tables(rows: Sequence[Row]) -> list[Table]:
    """For each table: AUC by map and learning rate; the best of a map is bold."""
    tables = []
    for problem, of_problem in grouped(rows, "problem").items():
        rates = sorted({row["learning_rate"] for row in of_problem if not automatic(row)})
        lines = []
        for name, of_map in grouped(of_problem, "features").items():
            by_rate = grouped((row for row in of_map if not automatic(row)), "learning_rate")
            best = best_rate(of_map) if by_rate else None
            cells = [_auc(row["auc"] for row in by_rate.get(rate, [])) for rate in rates]
            marked = [f"**{cell}**" if rate == best else cell for rate, cell in zip(rates, cells, strict=True)]
            lines.append((name, *marked, _auc(row["auc"] for row in of_map if automatic(row))))
        columns = ("features", *(f"{rate:g}" for rate in rates), "auto")
        note = "AUC of private models by learning rate, means with 95% intervals over seeds. Bold: the best rate of a "
        note += "map. Auto: by the rule for public numbers."
        tables.append(Table(title=problem, columns=columns, rows=tuple(lines), note=note))
    return tables


def automatic(row: Row) -> bool:
    """Whether the rule chose its settings; rows of before there was a choice do not say."""
    return bool(row.get("automatic"))


def best_rate(rows: Sequence[Row]) -> float:
    """The learning rate that is best on average over maps and seeds."""
    by_rate = grouped((row for row in rows if not automatic(row)), "learning_rate")
    means = {rate: _mean(of_rate, "auc") for rate, of_rate in by_rate.items()}
    return float(max(means, key=lambda rate: means[rate]))


def table_tables(rows: Sequence[Row]) -> list[Table]:
    """A table of data each: every map with and without privacy, and boosted trees."""
    return [_maps(problem, of_problem) for problem, of_problem in grouped(rows, "problem").items()]


def _maps(problem: str, rows: Sequence[Row]) -> Table:
    trees = by_seed((row for row in rows if row["features"] == TREES), "auc")
    lines = []
    for name, of_map in grouped(rows, "features").items():
        plain = by_seed((row for row in of_map if not row["private"]), "auc")
        private = [row for row in of_map if row["private"]]
        fixed = by_seed((row for row in private if not automatic(row)), "auc")
        auto = by_seed(filter(automatic, private), "auc")
        cells = [_auc(values.values()) for values in (fixed, auto, plain)]
        gaps = [_gap(difference(*pair)) for pair in ((fixed, plain), (fixed, trees), (auto, plain), (auto, trees))]
        lines.append((name, str(of_map[0]["inputs"]), *cells, *gaps))
    return Table(
        title=problem,
        columns=(
            *("features", "inputs", "private", "auto", "not private"),
            *("private less not", "private less trees", "auto less not", "auto less trees"),
        ),
        rows=tuple(lines),
        note="AUC on the test part, means with 95% intervals over seeds; differences are paired by seed. Auto: "
        "private, with settings by the rule for public numbers. Not private: logistic regression on the same features "
        "and labels; trees: boosted trees on the columns.",
    )


def _auc(values: Iterable[float]) -> str:
    sample = list(values)
    if not sample:
        return "-"
    mean = mean_interval(sample)
    half = f" ± {mean.high - mean.value:.4f}" if math.isfinite(mean.high) else ""
    return f"{mean.value:.4f}{half}"


def _gap(gap: Interval | None) -> str:
    if gap is None:
        return "-"
    return f"{gap.value:+.4f} ({gap.low:+.4f} to {gap.high:+.4f})"


def _mean(rows: Iterable[Row], column: str) -> float:
    return float(np.mean([row[column] for row in rows]))
