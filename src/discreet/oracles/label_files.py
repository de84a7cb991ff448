"""Labels by record, out of a file: true ones for a simulation, public ones, or ones that were there before a campaign.

Columns ``record`` and ``label``, in CSV or JSONL as answers are. A record whose label is empty or a skip has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from discreet.oracles.cells import AnswerWords, NotReadable
from discreet.oracles.files_in import label_in, name_in, refused, rows_of, unanswered
from discreet.records import Value


def read_labels(path: Path | str, *, multilabel: bool = False, words: AnswerWords | None = None) -> dict[str, Value]:
    """The label of every record that has one; a record that stands there twice is refused."""
    place, said = Path(path), words or AnswerWords()
    found: dict[str, Value] = {}
    for line, cells in rows_of(place):
        if unanswered(cells):
            continue
        try:
            value, record = label_in(cells, said, multilabel), name_in(cells, "record")
        except NotReadable as why:
            raise refused(place, f"line {line}: {why}") from None
        if record in found:
            raise refused(place, f"line {line}: its record stands there twice")
        if value is not None:
            found[record] = value
    return found


@dataclass(frozen=True, kw_only=True)
class PrivateLabels:
    """Labels of private records by record, and how many rows could not be read. Audience: owner."""

    values: dict[str, Value] = field(repr=False)
    records: frozenset[str] = field(repr=False)
    """Ids that stand in the file, with a label or without."""
    unreadable: int = field(repr=False)


def read_private_labels(path: Path | str, *, words: AnswerWords | None = None) -> PrivateLabels:
    """As `read_labels`, of one label a record, but a cell that cannot be read only makes its record one without a
    label: an error would be a function of private cells. What is refused depends on the header and on ids alone.
    """
    place, said = Path(path), words or AnswerWords()
    found: dict[str, Value] = {}
    seen: set[str] = set()
    lines: list[int] = []
    for line, cells in rows_of(place, passed=lines.append):
        try:
            record = name_in(cells, "record")
        except NotReadable:
            lines.append(line)
            continue
        if record in seen:
            raise refused(place, f"line {line}: its record stands there twice")
        seen.add(record)
        if unanswered(cells):
            continue
        try:
            value = label_in(cells, said, False)
        except NotReadable:
            lines.append(line)
            continue
        if value is not None:
            found[record] = value
    return PrivateLabels(values=found, records=frozenset(seen), unreadable=len(lines))
