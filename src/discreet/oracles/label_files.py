"""Labels by record, out of a file: true ones for a simulation, public ones, or ones that were there before a campaign.

Columns ``record`` and ``label``, in CSV or JSONL as answers are. A record whose label is empty or a skip has none.
"""

from __future__ import annotations

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
