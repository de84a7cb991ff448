"""Public labelled texts of a file: gold labels, evaluation, and true labels of a simulated crowd.

Guarantee: a file that does not fit is refused with counts and lines alone: no text, no label is echoed.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from discreet.config import CrowdConfig
from discreet.gates.normalising import Normaliser

TEXT, LABEL = "text", "label"
_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """Texts as the gate normalises them, each with a declared class."""

    texts: tuple[str, ...] = field(repr=False)
    labels: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)


def labelled_texts(config: CrowdConfig, path: str, key: str) -> LabelledTexts:
    """Of the file that ``key`` names; a text that is there twice must be labelled alike."""
    place = config.resolve(path)
    if not place.is_file():
        raise config.error(key, "there is no such file", f"Name a CSV or JSONL file with columns {TEXT} and {LABEL}")
    normal, known = Normaliser(config.gate.normalisation), set(config.task.classes)
    found: dict[str, str] = {}
    strange = clashes = 0
    try:
        rows = list(_rows(place))
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        raise config.error(
            key, f"it is not a table with columns {TEXT} and {LABEL}", "Save it as UTF-8 CSV or JSONL with both"
        ) from None
    for text, label in rows:
        form = normal.one(text)
        if label not in known or form is None:
            strange += 1
            continue
        clashes += found.setdefault(form, label) != label
    if strange or clashes or not found:
        fact = f"{strange} of its {len(rows)} rows have no text or a label outside the classes"
        if not strange:
            fact = f"{clashes} of its rows label a text otherwise than another row" if clashes else "it has no rows"
        raise config.error(key, fact, "Correct them")
    return LabelledTexts(texts=tuple(found), labels=tuple(found.values()))


def _rows(place: Path) -> Iterator[tuple[str, str]]:
    with place.open(encoding="utf-8-sig", newline="") as file:
        if place.suffix.lower() in _LINES:
            forms = (json.loads(line) for line in file if line.strip())
            yield from ((str(form[TEXT]), str(form[LABEL])) for form in forms)
            return
        for row in csv.DictReader(file):
            if row[TEXT] is None or row[LABEL] is None:
                raise ValueError
            yield row[TEXT], row[LABEL]
