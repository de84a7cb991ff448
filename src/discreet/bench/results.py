"""Results on disk: while a run goes on, one Parquet file a case; when all are there, one file for the experiment.

A case's file appears whole or not at all, so a run that was killed goes on where it was. A row is one phase of one
case. Audience: owner; the data are public and every row is a simulation.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._version import __version__
from discreet.bench.cases import Runnable
from discreet.errors import BadInput

FORMAT = "discreet.bench/1"
Row = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """Results of the experiment ``name`` in ``place``."""

    place: Path
    name: str

    @property
    def whole(self) -> Path:
        """All finished cases, once a run is complete."""
        return self.place / f"{self.name}.parquet"

    @property
    def plans(self) -> Path:
        """Plans, which all seeds share."""
        return self.place / f"{self.name}.plans"

    @property
    def pieces(self) -> Path:
        """Cases of a run that is not complete."""
        return self.place / f"{self.name}.pieces"

    def done(self) -> set[str]:
        """Digests of finished cases."""
        found = {path.stem for path in self.pieces.glob("*.parquet")} if self.pieces.is_dir() else set()
        if self.whole.exists():
            found |= set(_read(self.whole, ["case"])["case"])
        return found

    def seeds(self) -> int:
        """One more than the highest seed there is a finished case of; 0 for none."""
        found = [_read(path, ["seed"])["seed"] for path in self._files()]
        return max((max(seeds) + 1 for seeds in found if seeds), default=0)

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
        found, mine = self._by_case(), 0
        wanted = {case.digest for case in cases if case.digest not in found}
        made_of = {(row["problem"], row.get("made_of")) for rows in found.values() for row in rows}
        for other in others:
            for digest, rows in other._by_case().items():
                if digest not in wanted:
                    continue
                same_records(made_of, rows)
                wanted.remove(digest)
                self._keep(digest, rows)
                mine += 1
        return mine

    def gather(self) -> None:
        """One file of all finished cases, whatever run they are of; the pieces go."""
        if not self.pieces.is_dir():
            return
        _write([row for mine in self._by_case().values() for row in mine], self.whole)
        for path in self.pieces.iterdir():  # also what a killed run was writing; a run has its lock
            path.unlink()
        self.pieces.rmdir()

    def rows(self, cases: Iterable[Runnable]) -> list[Row]:
        """Rows of those of ``cases`` that are finished, in their order."""
        found = self._by_case()
        return [row for case in cases for row in found.get(case.digest, [])]

    def _by_case(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for path in self._files():
            seen = set(found)
            for row in _rows(path):
                if row["case"] not in seen:
                    found.setdefault(row["case"], []).append(row)
        return found


def same_records(seen: set[tuple[Any, Any]], rows: Sequence[Row]) -> None:
    """Refuse rows of a problem that others were made of other files of; older rows do not say."""
    for row in rows:
        told = (row["problem"], row.get("made_of"))
        others = {made for problem, made in seen if problem == told[0] and None not in (made, told[1])}
        if others - {told[1]}:
            raise BadInput(
                f"joining results of {told[0]}", "they were made of other files of the data", "Join those of one set"
            )
        seen.add(told)


def values_in(rows: Sequence[Row], column: str) -> list[Any]:
    """The different values of a column, in the order they come."""
    return list(dict.fromkeys(row[column] for row in rows))


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
    found: dict[str, list[Any]] = table.to_pydict()
    return found


def _rows(path: Path) -> list[Row]:
    columns = _read(path)
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
