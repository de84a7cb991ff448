"""SNLI, pairs of sentences, as it is published (Bowman et al. 2015): snli_1.0_train.jsonl, _dev and _test.

A line is a JSON object; read are pairID (the id), sentence1 (the premise), sentence2 (the hypothesis) and gold_label:
entailment, neutral, contradiction, or "-" where no majority of annotators agreed. Such a pair has no label: it keeps
its place with `NO_LABEL`, which trainers take for missing, and `labelled` leaves it out. A sentence that is missing or
no text makes its pair a null record. Parses and single annotators' labels are not read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.checks import check_size, existing_file, ids_of, reading
from discreet.pools.pool import ArrayPool

CLASSES = ("entailment", "neutral", "contradiction")
NO_CONSENSUS, NO_LABEL = "-", -1
_KEYS = ("pairID", "gold_label", "sentence1", "sentence2")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Pairs:
    """``y``: places in `CLASSES`, `NO_LABEL` where annotators did not agree. A sentence is None where there is none."""

    ids: list[str]
    premises: list[str | None]
    hypotheses: list[str | None]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.ids)

    def labelled(self) -> Pairs:
        """Those that annotators agreed on."""
        agreed = np.flatnonzero(self.y != NO_LABEL).tolist()
        return Pairs(
            ids=[self.ids[index] for index in agreed],
            premises=[self.premises[index] for index in agreed],
            hypotheses=[self.hypotheses[index] for index in agreed],
            y=self.y[agreed],
        )

    def pool(self) -> ArrayPool:
        """A pool of texts: premise, end of line, hypothesis. A pair without one of the two is a null record."""
        pairs = zip(self.premises, self.hypotheses, strict=True)
        texts = [None if first is None or second is None else f"{first}\n{second}" for first, second in pairs]
        return ArrayPool(ids=self.ids, text=texts)


def read_snli(path: Path | str) -> Pairs:
    """All pairs of a file, in its order."""
    file = existing_file(Path(path))
    with reading(file):
        lines = [line for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    rows = [_row(line) for line in lines]
    check_size(f"reading {file.name}", len(rows), None)
    wrong = sum(row is None for row in rows)
    if wrong:
        raise _broken(file, f"{wrong} of its lines are no JSON objects with {', '.join(_KEYS)}")
    known = [row for row in rows if row is not None]
    numbers = {name: number for number, name in enumerate(CLASSES)} | {NO_CONSENSUS: NO_LABEL}
    strange = sum(not isinstance(row["gold_label"], str) or row["gold_label"] not in numbers for row in known)
    if strange:
        raise _broken(file, f"{strange} labels are none of {', '.join(CLASSES)}, or {NO_CONSENSUS}")
    return Pairs(
        ids=ids_of([row["pairID"] for row in known], file.name),
        premises=[_text(row["sentence1"]) for row in known],
        hypotheses=[_text(row["sentence2"]) for row in known],
        y=np.array([numbers[row["gold_label"]] for row in known], dtype=np.int64),
    )


def _row(line: str) -> dict[str, Any] | None:
    try:
        form = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return form if isinstance(form, dict) and all(key in form for key in _KEYS) else None


def _text(value: Any) -> str | None:
    """What can be written as UTF-8 again: JSON allows halves of pairs, no file does."""
    if not isinstance(value, str) or not value.strip():
        return None
    try:
        value.encode()
    except UnicodeError:
        return None
    return value


def _broken(path: Path, fact: str) -> BadInput:
    return BadInput(f"reading {path.name}", fact, "Get the file again: the jsonl form of SNLI 1.0")
