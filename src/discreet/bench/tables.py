"""A table as a value, and its two forms: Markdown for files, rich for a screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.bench.intervals import Interval


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
