"""The crowd paper's Figs. 2 and 3 and its Table 1 as tables, and what a sketch alone would have released.

The crowd paper's Figs. 1 to 4 as charts, and scores beside random asking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter

from discreet.simulation.points import Interval, mean_interval
from discreet.simulation.results import Chart, Panel, Row, Series, Table, percent
from discreet_research.bench.crowd_log import BASELINE, BETAS, KS, gate_name
from discreet_research.bench.rows import chart_of, curve, grouped, level, mean_points, values_in

_SEEDS = "Means over seeds, with 95% intervals."
_K_1 = "With k = 1 a value that one person has is shown with chance beta: no (epsilon, delta) of Table 1 holds."


def final(rows: Sequence[Row], method: str) -> list[Row]:
    """The last round of every seed."""
    of_method = [row for row in rows if row["method"] == method and row["axis"] == "labels"]
    return list({row["seed"]: row for row in sorted(of_method, key=itemgetter("at"))}.values())


def first(rows: Sequence[Row], method: str) -> list[Row]:
    """Before anybody was asked: what the bootstrap labels give."""
    return [row for row in rows if row["method"] == method and row["axis"] == "labels" and row["at"] == 0]


def accuracy_of(rows: Sequence[Row]) -> Interval | None:
    """Of some rows of different seeds."""
    return mean_interval([row["accuracy"] for row in rows]) if rows else None


def gate_tables(rows: Sequence[Row]) -> list[Table]:
    """Figs. 2 and 3, Table 1, and false releases by sketches."""
    return [_accuracy_table(rows), _budget_table(rows), *_table_1(rows), _promises(), _sketches(rows)]


def _accuracy_table(rows: Sequence[Row]) -> Table:
    lines = _by_setting(lambda k, beta: percent(accuracy_of(final(rows, gate_name(k, beta)))))
    base, begun = accuracy_of(final(rows, BASELINE.name)), accuracy_of(first(rows, BASELINE.name))
    return Table(
        title="Fig. 2: accuracy by k and beta, %",
        columns=("k", *(f"beta = {beta:g}" for beta in BETAS)),
        rows=(*lines, ("1, beta = 1: NOT PRIVATE", percent(base), "", "", "")),
        note=f"Everything that is released is asked about. The bootstrap labels alone give {percent(begun)}. {_SEEDS} "
        f"{_K_1}",
    )


def _budget_table(rows: Sequence[Row]) -> Table:
    def cell(k: int, beta: float) -> str:
        ends = final(rows, gate_name(k, beta))
        if not ends:
            return "-"
        right = mean_interval([row["right"] for row in ends])
        return f"{mean_interval([row['released'] for row in ends]).value:,.0f} ({100 * right.value:.1f}% right)"

    return Table(
        title="Fig. 3: the annotation budget: texts that are released, and the share of them that the crowd gets right",
        columns=("k", *(f"beta = {beta:g}" for beta in BETAS)),
        rows=(*_by_setting(cell), ("1, beta = 1: NOT PRIVATE", cell(1, 1.0), "", "", "")),
        note="Each text is answered by three people. Means over seeds.",
    )


def _by_setting(cell: Callable[[int, float], str]) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{k}{': no promise' if k == 1 else ''}", *(cell(k, beta) for beta in BETAS)) for k in KS)


def _table_1(rows: Sequence[Row]) -> list[Table]:
    """Accuracies in the cells where the promise holds, exactly computed; where the paper errs is marked."""
    from discreet.gates.published_bounds import DELTAS, EPSILONS, cells

    known = {(cell.delta, cell.k, cell.epsilon, cell.beta): cell for cell in cells()}
    accuracies = {(k, beta): accuracy_of(final(rows, gate_name(k, beta))) for k in KS for beta in BETAS}
    tables, more, fewer = [], 0, 0
    for epsilon in EPSILONS:
        lines = []
        for delta in DELTAS:
            for k in KS[1:]:
                line = [f"{delta:g}", str(k)]
                for beta in BETAS:
                    cell, mean = known[delta, k, epsilon, beta], accuracies[k, beta]
                    more, fewer = more + (cell.holds and not cell.shaded), fewer + (cell.shaded and not cell.holds)
                    mark = "+" if cell.holds and not cell.shaded else "-" if cell.shaded and not cell.holds else ""
                    shown = f"{100 * mean.value:.1f}" if cell.holds and mean is not None else ""
                    line.append(shown + mark)
                lines.append(tuple(line))
        tables.append(
            Table(
                title=f"Table 1, epsilon = {epsilon:g}: accuracy where (epsilon, delta) holds, %",
                columns=("delta", "k", *(f"beta = {beta:g}" for beta in BETAS)),
                rows=tuple(lines),
            )
        )
    note = (
        f"Filled where the exact profile keeps the promise. +: the paper leaves this cell empty ({more} of 256 cells); "
        f"-: the paper fills it, and it does not hold ({fewer}). One value a person."
    )
    return [*tables[:-1], Table(**{**tables[-1].__dict__, "note": note})]


def _promises() -> Table:
    """What each setting keeps, exactly."""
    from discreet.gates import Profile

    def cell(k: int, beta: float) -> str:
        return f"{Profile(k=k, beta=beta).delta(1.0):.2g}"

    return Table(
        title="What each setting costs one value: delta at epsilon = 1, exact, both directions",
        columns=("k", *(f"beta = {beta:g}" for beta in BETAS)),
        rows=(*_by_setting(cell), ("1, beta = 1: NOT PRIVATE", "1", "", "", "")),
        note="k-anonymity alone (beta = 1) has delta 1 at every epsilon: whether one person was there decides.",
    )


def _sketches(rows: Sequence[Row]) -> Table:
    """Values that count-mean-min would have let out although fewer than k people kept them."""
    matching = [row for row in rows if row["axis"] == "sketch"]
    widths, lines = sorted(values_in(matching, "at")), []
    for k in KS[1:]:
        for beta in BETAS:
            line = [str(k), f"{beta:g}"]
            for width in widths:
                here = [row for row in matching if row["method"] == gate_name(k, beta) and row["at"] == width]
                parts = [mean_interval([row[name] for row in here]).value for name in ("false", "missed")]
                line.append(f"{parts[0]:,.1f} / {parts[1]:,.1f}")
            released = final(rows, gate_name(k, beta))
            line.append(f"{mean_interval([row['released'] for row in released]).value:,.0f}" if released else "-")
            lines.append(tuple(line))
    return Table(
        title="What count-mean-min alone would have released wrongly: values below k, / values missed",
        columns=("k", "beta", *(f"width {width:,.0f}" for width in widths), "released by exact counting"),
        rows=tuple(lines),
        note="Depth 4, conservative update, as the paper counts. Every value below k that is let out breaks the "
        "promise; here sketches never decide. Means over seeds.",
    )


def asking_tables(rows: Sequence[Row]) -> list[Table]:
    """Scores beside random asking, orders of training, and ways to make one label of three answers."""
    tables = []
    for problem, of_problem in grouped([row for row in rows if row["axis"] == "labels"], "problem").items():
        marks = [at for at in (200, 1_000, 2_000) if any(row["at"] == at for row in of_problem)]
        lines = []
        for method, of_method in grouped(of_problem, "method").items():
            cells = [percent(accuracy_of([row for row in of_method if row["at"] == at])) for at in marks]
            right = mean_interval([row["right"] for row in final(of_problem, method)]).value
            lines.append((method, *cells, f"{100 * right:.1f}"))
        tables.append(
            Table(
                title=f"{problem}: accuracy after so many questions, %",
                columns=("gate and score", *(f"{at:,}" for at in marks), "labels right at the end, %"),
                rows=tuple(lines),
                note=f"{_SEEDS} k=1, beta=1 is the whole log, and NOT PRIVATE.",
            )
        )
    return tables


_COLORS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


def gate_charts(rows: Sequence[Row]) -> list[Chart]:
    """Four figures."""
    return [
        Chart(name="crowd-fig-1", panels=_views(rows)),
        Chart(name="crowd-fig-2-3-4", panels=(_fig_2(rows), _fig_3(rows), _fig_4(rows)), columns=3),
    ]


def _mean(rows: Sequence[Row], column: str) -> float:
    return mean_interval([row[column] for row in rows]).value


def _views(rows: Sequence[Row]) -> tuple[Panel, ...]:
    """What the first model thinks of the log's values, and how often they are there; of the first seed."""
    of_method = [row for row in rows if row["method"] == BASELINE.name and row["seed"] == 0]

    def histogram(axis: str, title: str, x_label: str) -> Panel:
        points = sorted((row["at"], row["share"]) for row in of_method if row["axis"] == axis)
        edges = (*(at for at, _ in points), 1.0)
        series = Series(name="share of values", x=edges, y=tuple(share for _, share in points), kind="filled")
        return Panel(title=title, x_label=x_label, y_label="share of distinct values", series=(series,))

    ranks = sorted((row["at"], row["share"]) for row in of_method if row["axis"] == "rank")
    seen = sorted((row["at"], row["share"]) for row in of_method if row["axis"] == "seen")
    curve = Series(
        name="times a value is there", x=tuple(math.log10(at) for at, _ in ranks), y=tuple(times for _, times in ranks)
    )
    bars = Series(
        name="share of values",
        x=(*(at - 0.5 for at, _ in seen), seen[-1][0] + 0.5),
        y=tuple(share for _, share in seen),
        kind="filled",
    )
    return (
        histogram("confidence", "(a) confidence of the bootstrapped model", "largest probability"),
        histogram("uncertainty", "(b) its uncertainty", "entropy, in bits"),
        Panel(
            title="(c) how often values are seen",
            x_label="times seen (10: ten or more)",
            y_label="share of distinct values",
            series=(bars,),
        ),
        Panel(
            title="(d) frequency by rank",
            x_label="rank, log10",
            y_label="times seen",
            series=(curve,),
            logarithmic=True,
        ),
    )


def _fig_2(rows: Sequence[Row]) -> Panel:
    series = []
    for beta, color in zip(BETAS, _COLORS, strict=True):
        points = {k: accuracy_of(final(rows, gate_name(k, beta))) for k in KS}
        known = {k: point for k, point in points.items() if point is not None}
        series.append(curve(f"beta = {beta:g}", known, color=color))
    begun = [row for row in rows if row["axis"] == "labels" and row["at"] == 0]
    for name, of, color in (
        ("k=1, beta=1: not private", final(rows, BASELINE.name), "0.5"),
        ("bootstrap labels alone", begun, "0.8"),
    ):
        if of:
            series.append(level(name, _mean(of, "accuracy"), (1.0, 500.0), color))
    return Panel(
        title="Fig. 2: accuracy at different k (k=1: no promise)",
        x_label="k",
        y_label="accuracy, %",
        series=tuple(series),
    )


def _fig_3(rows: Sequence[Row]) -> Panel:
    series = [
        Series(
            name=f"beta = {beta:g}",
            x=tuple(float(k) for k in KS),
            y=tuple(_mean(final(rows, gate_name(k, beta)), "released") for k in KS),
            color=color,
        )
        for beta, color in zip(BETAS, _COLORS, strict=True)
        if all(final(rows, gate_name(k, beta)) for k in KS)
    ]
    return Panel(
        title="Fig. 3: budget at different k",
        x_label="k",
        y_label="texts to label",
        series=tuple(series),
        logarithmic=True,
    )


def _fig_4(rows: Sequence[Row]) -> Panel:
    series = []
    for beta, color in zip(BETAS, _COLORS, strict=True):
        ends = [final(rows, gate_name(k, beta)) for k in KS]
        points = sorted((_mean(end, "released"), 100 * _mean(end, "accuracy")) for end in ends if end)
        series.append(
            Series(
                name=f"beta = {beta:g}",
                x=tuple(math.log10(labels) for labels, _ in points),
                y=tuple(accuracy for _, accuracy in points),
                color=color,
            )
        )
    return Panel(
        title="Fig. 4: accuracy by budget", x_label="labels, log10", y_label="accuracy, %", series=tuple(series)
    )


def asking_charts(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy by questions: one panel for the gate, one for the whole log."""
    problem = values_in(rows, "problem")[:1]
    of_problem = [row for row in rows if row["problem"] in problem and row["axis"] == "labels"]
    panels = []
    for (k, beta), here in grouped(of_problem, "k", "beta").items():
        name = gate_name(k, beta)
        series = [
            curve(method.removeprefix(f"{name}, "), mean_points(of_method, "at"))
            for method, of_method in grouped(here, "method").items()
        ]
        title = f"{name}{': the whole log, not private' if beta == 1 else ''}"
        panels.append(Panel(title=title, x_label="questions", y_label="accuracy, %", series=tuple(series)))
    return chart_of("crowd-asking", panels)
