"""What comes out of public data: accuracy by labels, by clusters and by checkpoints, and differences paired over seeds.

A question is answered *yes* only where the whole 95% interval of the paired difference is on its side, *the opposite*
where it is on the other, and *not shown* otherwise; each interval is for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.simulation.points import mean_interval
from discreet.simulation.results import Chart, Panel, Row, Series, Table, percent
from discreet_research.bench.rows import (
    by_seed,
    chart_of,
    curve,
    difference,
    grouped,
    mean_points,
    points_of,
    values_in,
)
from discreet_research.bench.stream_tables import answer

DIVERSE, NEAR, RANDOM = "DiversePublic", "NearPrivate", "random"
_QUESTION = ("question", "where", "difference, points", "answer")
NOTE = (
    "Test accuracy in percent, means over seeds with 95% intervals by Student's t. Every method ends at the same total "
    "epsilon: one that pays for looking starts from an earlier checkpoint. Simulations on public sets."
)


def label_tables(rows: Sequence[Row]) -> list[Table]:
    """Figures 1 and 3: accuracy by labels, what was asked in vain, and who leads in either."""
    tables = []
    for problem, of_problem in grouped(rows, "problem").items():
        tables.append(_accuracies(of_problem, problem))
        if any(row["polluted"] is not None for row in of_problem):
            tables += [_polluted(of_problem, problem), _least_polluted(of_problem, problem)]
        tables.append(_questions(of_problem, problem))
    return tables


def _counts(rows: Sequence[Row]) -> list[int]:
    """Of labels; 0 is the checkpoint."""
    return sorted({row["labels"] for row in rows if row["labels"]})


def _accuracies(rows: Sequence[Row], problem: str) -> Table:
    counts, lines = _counts(rows), []
    for method, of_method in grouped(rows, "method").items():
        first = [row for row in of_method if row["labels"] == 0]
        cells = [_cell([row["accuracy"] for row in of_method if row["labels"] == count]) for count in counts]
        spent = max(row["epsilon"] for row in of_method)
        lines.append((method, str(len(first)), f"{spent:.2f}", _cell([row["checkpoint"] for row in first]), *cells))
    return Table(
        title=f"{problem}: accuracy by labels",
        columns=("method", "seeds", "epsilon", "its checkpoint", *(f"{count} labels" for count in counts)),
        rows=tuple(lines),
        note=NOTE,
    )


def _polluted(rows: Sequence[Row], problem: str) -> Table:
    counts, methods = _counts(rows), values_in(rows, "method")
    lines = [
        (method, *(_cell([*_by_seed(rows, method, count, "polluted").values()]) for count in counts))
        for method in methods
    ]
    return Table(
        title=f"{problem}: share of labels spent on pollution",
        columns=("method", *(f"{count} labels" for count in counts)),
        rows=tuple(lines),
        note="In percent of what was asked. People skip a record of another set: it teaches nothing.",
    )


def _least_polluted(rows: Sequence[Row], problem: str) -> Table:
    lines: list[tuple[str, ...]] = []
    for count in _counts(rows):
        for other in [method for method in values_in(rows, "method") if method != NEAR]:
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
    return by_seed([row for row in rows if (row["method"], row["labels"]) == (method, count)], what)


def _asked(question: str, count: int, first: dict[int, float], second: dict[int, float]) -> list[tuple[str, ...]]:
    """The line of a question, if seeds have both."""
    gap = difference(first, second)
    return [] if gap is None else [(question, f"{count} labels", points_of(gap), answer(gap))]


def _questions(rows: Sequence[Row], problem: str) -> Table:
    methods, lines = values_in(rows, "method"), list[tuple[str, ...]]()
    for count in _counts(rows):
        for method in methods:
            pair = (_by_seed(rows, method, count, what) for what in ("accuracy", "checkpoint"))
            lines += _asked(f"{method} over its checkpoint", count, *pair)
        diverse = [(DIVERSE, other) for other in methods if other not in (DIVERSE, NEAR)]
        for better, other in diverse + [(NEAR, other) for other in methods if other != NEAR]:
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
    for (method, labels), same in grouped([row for row in rows if row["labels"]], "method", "labels").items():
        each = int(method.split()[0])
        lines.append((str(labels // each), str(each), str(labels), _cell([row["accuracy"] for row in same])))
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
    for problem, of_problem in grouped(rows, "problem").items():
        counts, lines = _counts(of_problem), []
        for epochs, of_epoch in sorted(grouped(of_problem, "epochs").items()):
            first = [row for row in of_epoch if row["labels"] == 0]
            cells = [_cell([row["accuracy"] for row in of_epoch if row["labels"] == count]) for count in counts]
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
    problems = grouped(rows, "problem").items()
    return chart_of(name, (_panel(of_problem, problem, "labels", "labels") for problem, of_problem in problems))


def cluster_charts(rows: Sequence[Row]) -> list[Chart]:
    """Figure 4a."""
    clusters = [row | {"clusters": row["labels"] // int(row["method"].split()[0])} for row in rows if row["labels"]]
    return chart_of("public-clusters", [_panel(clusters, "DiversePublic", "clusters", "clusters")])


def checkpoint_charts(rows: Sequence[Row]) -> list[Chart]:
    """Figures 5a and 5c by epochs, and 5b: what checkpoints cost."""
    named = [row | {"method": _line_of(row)} for row in rows]
    panels = [
        _panel(of_problem, problem, "epochs", "epochs of the checkpoint")
        for problem, of_problem in grouped(named, "problem").items()
    ]
    series = []
    for name, first in grouped([row for row in rows if row["labels"] == 0], "problem").items():
        prices = dict(sorted((row["epochs"], row["checkpoint_epsilon"]) for row in first))
        series.append(Series(name=f"epsilon of the checkpoint, {name}", x=tuple(prices), y=tuple(prices.values())))
    panels.append(Panel(title="5b: price", x_label="epochs", y_label="epsilon", series=tuple(series)))
    return chart_of("public-checkpoints", panels, columns=3)


def _line_of(row: Row) -> str:
    return f"{row['labels']} labels" if row["labels"] else "the checkpoint"


def _panel(rows: Sequence[Row], title: str, along: str, label: str) -> Panel:
    series = tuple(curve(method, mean_points(of, along)) for method, of in grouped(rows, "method").items())
    return Panel(title=title, x_label=label, y_label="accuracy, %", series=series)
