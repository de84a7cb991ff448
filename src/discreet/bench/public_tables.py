"""What comes out of public data: accuracy by labels, by clusters and by checkpoints, and differences paired over seeds.

A question is answered *yes* only where the whole 95% interval of the paired difference is on its side, *the opposite*
where it is on the other, and *not shown* otherwise; each interval is for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.bench.charts import Chart, Panel, Series
from discreet.bench.intervals import mean_interval
from discreet.bench.results import Row, values_in
from discreet.bench.stream_tables import answer, difference, points_of
from discreet.bench.tables import Table, percent

DIVERSE, NEAR, RANDOM = "DiversePublic", "NearPrivate", "random"
_QUESTION = ("question", "where", "difference, points", "answer")
NOTE = (
    "Test accuracy in percent, means over seeds with 95% intervals by Student's t. Every method ends at the same total "
    "epsilon: one that pays for looking starts from an earlier checkpoint. Simulations on public sets."
)


def label_tables(rows: Sequence[Row]) -> list[Table]:
    """Figures 1 and 3: accuracy by labels, what was asked in vain, and who leads in either."""
    tables = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem]
        tables.append(_accuracies(mine, problem))
        if any(row["polluted"] is not None for row in mine):
            tables += [_polluted(mine, problem), _least_polluted(mine, problem)]
        tables.append(_questions(mine, problem))
    return tables


def _accuracies(rows: Sequence[Row], problem: str) -> Table:
    counts = sorted({row["labels"] for row in rows if row["labels"]})
    lines = []
    for method in values_in(rows, "method"):
        own = [row for row in rows if row["method"] == method]
        first = [row for row in own if row["labels"] == 0]
        cells = [_cell([row["accuracy"] for row in own if row["labels"] == count]) for count in counts]
        spent = max(row["epsilon"] for row in own)
        lines.append((method, str(len(first)), f"{spent:.2f}", _cell([row["checkpoint"] for row in first]), *cells))
    return Table(
        title=f"{problem}: accuracy by labels",
        columns=("method", "seeds", "epsilon", "its checkpoint", *(f"{count} labels" for count in counts)),
        rows=tuple(lines),
        note=NOTE,
    )


def _polluted(rows: Sequence[Row], problem: str) -> Table:
    counts = sorted({row["labels"] for row in rows if row["labels"]})
    lines = [
        (
            method,
            *(
                _cell([row["polluted"] for row in rows if (row["method"], row["labels"]) == (method, count)])
                for count in counts
            ),
        )
        for method in values_in(rows, "method")
    ]
    return Table(
        title=f"{problem}: share of labels spent on pollution",
        columns=("method", *(f"{count} labels" for count in counts)),
        rows=tuple(lines),
        note="In percent of what was asked. People skip a record of another set: it teaches nothing.",
    )


def _least_polluted(rows: Sequence[Row], problem: str) -> Table:
    counts = sorted({row["labels"] for row in rows if row["labels"]})
    lines: list[tuple[str, ...]] = []
    for count in counts:
        for other in [one for one in values_in(rows, "method") if one != NEAR]:
            shares = (_by_seed(rows, method, count, "polluted") for method in (other, NEAR))
            lines += _asked(f"{NEAR} below {other}", count, *shares)
    return Table(
        title=f"{problem}: who spends less on pollution",
        columns=_QUESTION,
        rows=tuple(lines),
        note="Differences of the shares above, paired over seeds, with 95% intervals.",
    )


def _cell(values: Sequence[float]) -> str:
    return percent(mean_interval(values)) if values else "-"


def _by_seed(rows: Sequence[Row], method: str, count: int, what: str = "accuracy") -> dict[int, float]:
    return {row["seed"]: row[what] for row in rows if (row["method"], row["labels"]) == (method, count)}


def _asked(question: str, count: int, first: dict[int, float], second: dict[int, float]) -> list[tuple[str, ...]]:
    """The line of a question, if seeds have both."""
    gap = difference(first, second)
    return [] if gap is None else [(question, f"{count} labels", points_of(gap), answer(gap))]


def _questions(rows: Sequence[Row], problem: str) -> Table:
    counts, methods = sorted({row["labels"] for row in rows if row["labels"]}), values_in(rows, "method")
    lines: list[tuple[str, ...]] = []
    for count in counts:
        for method in methods:
            pair = (_by_seed(rows, method, count, what) for what in ("accuracy", "checkpoint"))
            lines += _asked(f"{method} over its checkpoint", count, *pair)
        diverse = [(DIVERSE, one) for one in methods if one not in (DIVERSE, NEAR)]
        for better, other in diverse + [(NEAR, one) for one in methods if one != NEAR]:
            pair = (_by_seed(rows, method, count) for method in (better, other))
            lines += _asked(f"{better} over {other}", count, *pair)
    return Table(
        title=f"{problem}: who leads",
        columns=_QUESTION,
        rows=tuple(lines),
        note="Differences of accuracy, paired over seeds, with 95% intervals; above 0 is in favour of the question.",
    )


def cluster_tables(rows: Sequence[Row]) -> list[Table]:
    """Figure 4a: as many labels, in few large or many small clusters."""
    lines = []
    for row in [one for one in rows if one["labels"] and one["seed"] == min(r["seed"] for r in rows)]:
        same = [one for one in rows if (one["method"], one["labels"]) == (row["method"], row["labels"])]
        each = int(row["method"].split()[0])
        shown = _cell([one["accuracy"] for one in same])
        lines.append((str(row["labels"] // each), str(each), str(row["labels"]), shown))
    return [
        Table(
            title="DiversePublic: clusters, and how many are taken of each",
            columns=("clusters", "of each", "labels", "accuracy"),
            rows=tuple(sorted(lines, key=lambda line: (int(line[1]), int(line[0])))),
            note=NOTE,
        )
    ]


def checkpoint_tables(rows: Sequence[Row]) -> list[Table]:
    """Figure 5: from which checkpoint NearPrivate does best."""
    tables = []
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem]
        counts = sorted({row["labels"] for row in mine if row["labels"]})
        lines = []
        for epochs in sorted({row["epochs"] for row in mine}):
            own = [row for row in mine if row["epochs"] == epochs]
            first = [row for row in own if row["labels"] == 0]
            cells = [_cell([row["accuracy"] for row in own if row["labels"] == count]) for count in counts]
            prices = (f"{first[0]['checkpoint_epsilon']:.2f}", f"{first[0]['epsilon']:.2f}")
            lines.append((str(epochs), *prices, _cell([row["checkpoint"] for row in first]), *cells))
        tables.append(
            Table(
                title=f"{problem}: NearPrivate by its checkpoint",
                columns=("epochs", "epsilon of it", "total", "checkpoint", *(f"{count} labels" for count in counts)),
                rows=tuple(lines),
                note=NOTE.split(" Every method", maxsplit=1)[0],
            )
        )
    return tables


# -- charts


def label_charts(rows: Sequence[Row], name: str = "public-labels") -> list[Chart]:
    """A panel a problem: accuracy by labels."""
    panels = [
        _panel([row for row in rows if row["problem"] == problem], problem, "labels", "labels")
        for problem in values_in(rows, "problem")
    ]
    return [Chart(name=name, panels=tuple(panels))] if panels else []


def cluster_charts(rows: Sequence[Row]) -> list[Chart]:
    """Figure 4a."""
    clusters = [row | {"clusters": row["labels"] // int(row["method"].split()[0])} for row in rows if row["labels"]]
    return [Chart(name="public-clusters", panels=(_panel(clusters, "DiversePublic", "clusters", "clusters"),))]


def checkpoint_charts(rows: Sequence[Row]) -> list[Chart]:
    """Figures 5a and 5c by epochs, and 5b: what checkpoints cost."""
    panels = []
    for problem in values_in(rows, "problem"):
        mine = [row | {"method": _line_of(row)} for row in rows if row["problem"] == problem]
        panels.append(_panel(mine, problem, "epochs", "epochs of the checkpoint"))
    first = [row for row in rows if row["labels"] == 0]
    prices: dict[str, dict[float, float]] = {}
    for row in first:
        prices.setdefault(row["problem"], {})[row["epochs"]] = row["checkpoint_epsilon"]
    series = [
        Series(name=f"epsilon of the checkpoint, {name}", x=tuple(sorted(one)), y=tuple(one[k] for k in sorted(one)))
        for name, one in prices.items()
    ]
    panels.append(Panel(title="5b: price", x_label="epochs", y_label="epsilon", series=tuple(series)))
    return [Chart(name="public-checkpoints", panels=tuple(panels), columns=3)]


def _line_of(row: Row) -> str:
    return f"{row['labels']} labels" if row["labels"] else "the checkpoint"


def _panel(rows: Sequence[Row], title: str, along: str, label: str) -> Panel:
    series = []
    for method in values_in(rows, "method"):
        points: dict[Any, list[float]] = {}
        for row in rows:
            if row["method"] == method:
                points.setdefault(row[along], []).append(row["accuracy"])
        found = {at: mean_interval(values) for at, values in sorted(points.items())}
        whole = all(len(values) > 1 for values in points.values())
        series.append(
            Series(
                name=method,
                x=tuple(map(float, found)),
                y=tuple(100 * one.value for one in found.values()),
                low=tuple(100 * one.low for one in found.values()) if whole else (),
                high=tuple(100 * one.high for one in found.values()) if whole else (),
            )
        )
    return Panel(title=title, x_label=label, y_label="accuracy, %", series=tuple(series))
