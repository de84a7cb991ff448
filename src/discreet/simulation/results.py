"""Results on disk: while a run goes on, one Parquet file a case; when all are there, one file for the experiment.

A case's file appears whole or not at all, so a run that was killed goes on where it was. A row is one phase of one
case. Audience: owner; the data are public and every row is a simulation.

Tables (Markdown, JSON) and charts (drawn by matplotlib) of results are values of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from discreet._version import __version__
from discreet.errors import BadInput
from discreet.simulation.points import Interval

FORMAT = "discreet.bench/1"
Row = dict[str, Any]


class Runnable(Protocol):
    """What a bench runs and stores: named by its digest, and by words in the columns of its rows."""

    @property
    def digest(self) -> str:
        """Names the case: another setting anywhere is another case."""
        ...

    def names(self) -> dict[str, Any]:
        """Columns that every row of it has."""
        ...

    def plan_name(self) -> str | None:
        """The same for cases that wait for the same plan; None: its plan is there."""
        ...

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Make that plan, and keep it in the directory ``plans``."""
        ...

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """Its rows."""
        ...


@dataclass(frozen=True)
class Store:
    """Results of the experiment ``name`` in ``place``."""

    directory: Path
    name: str

    @property
    def whole(self) -> Path:
        """All finished cases, once a run is complete."""
        return self.directory / f"{self.name}.parquet"

    @property
    def plans(self) -> Path:
        """Plans, which all seeds share."""
        return self.directory / f"{self.name}.plans"

    @property
    def pieces(self) -> Path:
        """Cases of a run that is not complete."""
        return self.directory / f"{self.name}.pieces"

    def done(self) -> set[str]:
        """Digests of finished cases."""
        names = {path.stem for path in self.pieces.glob("*.parquet")} if self.pieces.is_dir() else set()
        if self.whole.exists():
            names |= set(_read(self.whole, ["case"])["case"])
        return names

    def seeds(self) -> int:
        """One more than the highest seed there is a finished case of; 0 for none."""
        columns = [_read(path, ["seed"])["seed"] for path in self._files()]
        return max((max(seeds) + 1 for seeds in columns if seeds), default=0)

    def _files(self) -> list[Path]:
        return [*sorted(self.pieces.glob("*.parquet")), *([self.whole] if self.whole.exists() else [])]

    def keep(self, case: Runnable, rows: Sequence[Row]) -> None:
        """Write a finished case."""
        self._keep(case.digest, [{"case": case.digest, **case.names()} | row for row in rows])

    def _keep(self, digest: str, rows: Sequence[Row]) -> None:
        self.pieces.mkdir(parents=True, exist_ok=True)
        _write(rows, self.pieces / f"{digest}.parquet")

    def take(self, others: Iterable[Store], cases: Iterable[Runnable]) -> int:
        """Take over those of ``cases`` that others have finished and this one has not; how many they were.

        A case is named by all its settings, so that one which two experiments share is the same. Records of a problem
        must be the same everywhere: another set of files is refused.
        """
        known, taken = self._by_case(), 0
        wanted = {case.digest for case in cases if case.digest not in known}
        made_of = {(row["problem"], row.get("made_of")) for rows in known.values() for row in rows}
        for other in others:
            for digest, rows in other._by_case().items():
                if digest not in wanted:
                    continue
                same_records(made_of, rows)
                wanted.remove(digest)
                self._keep(digest, rows)
                taken += 1
        return taken

    def gather(self) -> None:
        """One file of all finished cases, whatever run they are of; the pieces go."""
        if not self.pieces.is_dir():
            return
        _write([row for rows in self._by_case().values() for row in rows], self.whole)
        for path in self.pieces.iterdir():  # also what a killed run was writing; a run has its lock
            path.unlink()
        self.pieces.rmdir()

    def rows(self, cases: Iterable[Runnable]) -> list[Row]:
        """Rows of those of ``cases`` that are finished, in their order."""
        by_case = self._by_case()
        return [row for case in cases for row in by_case.get(case.digest, [])]

    def _by_case(self) -> dict[str, list[Row]]:
        cases: dict[str, list[Row]] = {}
        for path in self._files():
            seen = set(cases)
            for row in _rows(path):
                if row["case"] not in seen:
                    cases.setdefault(row["case"], []).append(row)
        return cases


def same_records(seen: set[tuple[Any, Any]], rows: Sequence[Row]) -> None:
    """Refuse rows of a problem that others were made of other files of; older rows do not say."""
    for row in rows:
        identity = (row["problem"], row.get("made_of"))
        others = {source for problem, source in seen if problem == identity[0] and None not in (source, identity[1])}
        if others - {identity[1]}:
            raise BadInput(
                f"joining results of {identity[0]}",
                "they were made of other files of the data",
                "Join those of one set",
            )
        seen.add(identity)


def _write(rows: Sequence[Row], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(name for row in rows for name in row)  # of all rows: pyarrow would take the first one's
    columns = {name: [row.get(name) for row in rows] for name in names}
    table = pyarrow.Table.from_pydict(columns).replace_schema_metadata(
        {"format": FORMAT, "discreet": __version__, "simulation": "true"}
    )
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    parquet.write_table(table, draft, compression="zstd")
    draft.replace(path)


def _read(path: Path, columns: list[str] | None = None) -> dict[str, list[Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path, columns=columns)
    except (pyarrow.ArrowException, OSError):
        raise BadInput(f"reading {path.name}", "it cannot be read as results", "Remove it, and run again") from None
    if (table.schema.metadata or {}).get(b"format") != FORMAT.encode():
        raise BadInput(f"reading {path.name}", f"it is not a file of {FORMAT}", "Give the directory of bench run")
    cells: dict[str, list[Any]] = table.to_pydict()
    return cells


def _rows(path: Path) -> list[Row]:
    columns = _read(path)
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@dataclass(frozen=True, kw_only=True)
class Table:
    """``rows`` of text under ``columns``; ``note`` says what the figures are."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """A heading, the table, the note."""
        head = f"| {' | '.join(self.columns)} |\n|{'---|' * len(self.columns)}"
        body = "\n".join(f"| {' | '.join(row)} |" for row in self.rows)
        return f"### {self.title}\n\n{head}\n{body}\n" + (f"\n{self.note}\n" if self.note else "")

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "note": self.note,
        }


def percent(interval: Interval | None, digits: int = 1) -> str:
    """A share with its 95% interval, in percent; a dash where none is told."""
    if interval is None:
        return "-"
    ends = (_percent(interval.low, digits), _percent(interval.high, digits))
    return f"{100 * interval.value:.{digits}f} ({ends[0]} to {ends[1]})"


def _percent(value: float, digits: int) -> str:
    return f"{100 * value:.{digits}f}" if abs(value) < 1e6 else "?"


Kind = Literal["line", "steps", "filled"]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points, with the ends of their intervals where there are any. ``filled`` and ``steps`` are histograms: y has one
    value fewer than x has edges.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    kind: Kind = "line"
    color: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One set of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    logarithmic: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """``name`` becomes the file's."""

    name: str
    panels: tuple[Panel, ...]
    columns: int = 2
    note: str = field(default="")


def draw(chart: Chart, path: Path) -> None:
    """To a picture, by matplotlib (extra ``plot``)."""
    from discreet.report.plan_figure import require_matplotlib

    require_matplotlib()
    from matplotlib.figure import Figure

    columns = min(chart.columns, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    page = Figure(figsize=(5.2 * columns, 3.6 * rows + 0.5), layout="constrained")
    axes = page.subplots(rows, columns, squeeze=False).ravel()
    for panel, cell in zip(chart.panels, axes, strict=False):
        _panel(cell, panel)
    for empty in axes[len(chart.panels) :]:
        empty.axis("off")
    handles: dict[str, Any] = {}
    for cell in axes:
        handles |= dict(zip(*reversed(cell.get_legend_handles_labels()), strict=True))
    room = 94 * columns  # letters of small print, beside the lines
    ncols = max(1, min(4, room // (6 + max(map(len, handles), default=1))))
    page.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols, fontsize=8)
    page.savefig(path, dpi=120)


def _panel(axes: Any, panel: Panel) -> None:
    for series in panel.series:
        color = {"color": series.color} if series.color else {}
        if series.kind == "line":
            line = axes.plot(series.x, series.y, "o-", markersize=3, label=series.name, **color)[0]
            if series.low:
                axes.fill_between(series.x, series.low, series.high, alpha=0.15, color=line.get_color(), linewidth=0)
        else:
            axes.stairs(series.y, series.x, fill=series.kind == "filled", label=series.name, alpha=0.9, **color)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axes.title.set_fontsize(10)
    if panel.logarithmic:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
