"""The crowd paper's Figs. 2 and 3 and its Table 1 as tables, and what a sketch alone would have released."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from discreet.bench.crowd_methods import BASELINE, BETAS, KS, gate_name
from discreet.bench.intervals import Interval, mean_interval
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table, percent

_SEEDS = "Means over seeds, with 95% intervals."
_K_1 = "With k = 1 a value that one person has is shown with chance beta: no (epsilon, delta) of Table 1 holds."


def final(rows: Sequence[Row], method: str) -> list[Row]:
    """The last round of every seed."""
    mine = [row for row in rows if row["method"] == method and row["axis"] == "labels"]
    last: dict[int, Row] = {}
    for row in mine:
        if row["seed"] not in last or row["at"] >= last[row["seed"]]["at"]:
            last[row["seed"]] = row
    return list(last.values())


def first(rows: Sequence[Row], method: str) -> list[Row]:
    """Before anybody was asked: what the bootstrap labels give."""
    return [row for row in rows if row["method"] == method and row["axis"] == "labels" and row["at"] == 0]


def accuracy_of(rows: Sequence[Row]) -> Interval | None:
    """Of some rows of different seeds."""
    return mean_interval([row["accuracy"] for row in rows]) if rows else None


def gate_tables(rows: Sequence[Row]) -> list[Table]:
    """Figs. 2 and 3, Table 1, and false releases by sketches."""
    return [_fig_2(rows), _fig_3(rows), *_table_1(rows), _promises(), _sketches(rows)]


def _fig_2(rows: Sequence[Row]) -> Table:
    lines = _by_setting(lambda k, beta: percent(accuracy_of(final(rows, gate_name(k, beta)))))
    base, begun = accuracy_of(final(rows, BASELINE.name)), accuracy_of(first(rows, BASELINE.name))
    return Table(
        title="Fig. 2: accuracy by k and beta, %",
        columns=("k", *(f"beta = {beta:g}" for beta in BETAS)),
        rows=(*lines, ("1, beta = 1: NOT PRIVATE", percent(base), "", "", "")),
        note=f"Everything that is released is asked about. The bootstrap labels alone give {percent(begun)}. {_SEEDS} "
        f"{_K_1}",
    )


def _fig_3(rows: Sequence[Row]) -> Table:
    def cell(k: int, beta: float) -> str:
        found = final(rows, gate_name(k, beta))
        if not found:
            return "-"
        right = mean_interval([row["right"] for row in found])
        return f"{mean_interval([row['released'] for row in found]).value:,.0f} ({100 * right.value:.1f}% right)"

    base = cell(1, 1.0)
    return Table(
        title="Fig. 3: the annotation budget: texts that are released, and the share of them that the crowd gets right",
        columns=("k", *(f"beta = {beta:g}" for beta in BETAS)),
        rows=(*_by_setting(cell), ("1, beta = 1: NOT PRIVATE", base, "", "", "")),
        note="Each text is answered by three people. Means over seeds.",
    )


def _by_setting(cell: Callable[[int, float], str]) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{k}{': no promise' if k == 1 else ''}", *(cell(k, beta) for beta in BETAS)) for k in KS)


def _table_1(rows: Sequence[Row]) -> list[Table]:
    """Accuracies in the cells where the promise holds, exactly computed; where the paper errs is marked."""
    from discreet.gates.paper_table import DELTAS, EPSILONS, cells

    known = {(cell.delta, cell.k, cell.epsilon, cell.beta): cell for cell in cells()}
    found = {(k, beta): accuracy_of(final(rows, gate_name(k, beta))) for k in KS for beta in BETAS}
    tables, more, fewer = [], 0, 0
    for epsilon in EPSILONS:
        lines = []
        for delta in DELTAS:
            for k in KS[1:]:
                line = [f"{delta:g}", str(k)]
                for beta in BETAS:
                    cell, mean = known[delta, k, epsilon, beta], found[k, beta]
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
    mine = [row for row in rows if row["axis"] == "sketch"]
    widths, lines = sorted(values_in(mine, "at")), []
    for k in KS[1:]:
        for beta in BETAS:
            line = [str(k), f"{beta:g}"]
            for width in widths:
                here = [row for row in mine if row["method"] == gate_name(k, beta) and row["at"] == width]
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
    for problem in values_in(rows, "problem"):
        mine = [row for row in rows if row["problem"] == problem and row["axis"] == "labels"]
        marks = [at for at in (200, 1_000, 2_000) if any(row["at"] == at for row in mine)]
        lines = []
        for method in values_in(mine, "method"):
            told = [row for row in mine if row["method"] == method]
            cells = [percent(accuracy_of([row for row in told if row["at"] == at])) for at in marks]
            right = mean_interval([row["right"] for row in final(mine, method)]).value
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
