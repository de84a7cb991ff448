"""Public records with their labels: what a dry run is made on.

They are declared as the campaign's pool is, so one file of the same form is enough. Their labels are in it, under a
name of their own, or in a file beside it. A record without a label is left out. Nothing here is private.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.oracles import AnswerWords, read_labels
from discreet.oracles.question_files import NotReadable
from discreet.pools import ArrayPool, Pool
from discreet.pools.file_columns import columns_of
from discreet.pools.opening import READERS
from discreet.recipes.labelled_records import answer_words, pool_like
from discreet.records import Value

LABEL = "label"


@dataclass(frozen=True, kw_only=True)
class LabelledSource:
    """Where public records and their labels are.

    label    the column or array of labels in the file itself; ``folder`` for pictures: the one they are in
    labels   or a CSV or JSONL file with columns record and label
    """

    path: Path
    label: str = LABEL
    labels: Path | None = None

    def digest(self) -> str:
        """Of the contents: other data are another dry run."""
        return contents_digest([self.path, *([] if self.labels is None else [self.labels])], self.label)


def contents_digest(files: Iterable[Path], word: str = "") -> str:
    """Of files, and of folders with the names of what is in them (folders may be labels), wherever they are."""
    digest = hashlib.sha256(word.encode())
    for file in files:
        for part in sorted(file.rglob("*")) if file.is_dir() else [file]:
            if part.is_file():
                digest.update(str(part.relative_to(file)).encode())
                with part.open("rb") as content:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, repr=False)
class Labelled:
    """Records and their labels, by id."""

    pool: Pool
    labels: dict[str, Value]

    def part(self, places: Sequence[int]) -> ArrayPool:
        """Some of the records, in memory."""
        pool = self.pool
        chosen = np.asarray(places, dtype=np.int64)
        return ArrayPool(
            ids=[pool.ids[row] for row in chosen.tolist()],
            x=None if pool.x is None else np.asarray(pool.x[chosen]),
            text=None if pool.text is None else list(pool.text[chosen]),
            persons=None if pool.persons is None else [pool.persons[row] for row in chosen.tolist()],
        )


def read_labelled(config: CampaignConfig, data: LabelledSource) -> Labelled:
    """Open the records as the pool is declared, and find their labels."""
    if config.pool.kind == "arrays":
        raise BadInput("a dry run", "the campaign's pool was given in Python", "Declare a file of the same form")
    if not data.path.exists():
        raise BadInput(f"--data {data.path.name}", "it is not there", "Check the path")
    pool = pool_like(config, str(data.path.absolute()))
    if data.labels is not None:
        several = config.task.kind == "multilabel"
        labels: dict[str, Value] = read_labels(data.labels, multilabel=several, words=answer_words(config))
    else:
        cells = _cells(config, data)
        if len(cells) != len(pool):
            raise BadInput(
                f"labels in {data.path.name}", f"{len(cells)} for {len(pool)} records", "Give one for each record"
            )
        labels = {name: cell for name, cell in zip(pool.ids, cells, strict=True) if cell is not None}
    return Labelled(pool=pool, labels=_checked(config, data, pool, labels))


def _checked(config: CampaignConfig, data: LabelledSource, pool: Pool, labels: dict[str, Value]) -> dict[str, Value]:
    known, ids = set(config.task.classes), set(pool.ids)
    strange = sum(not set(value if isinstance(value, tuple) else (value,)) <= known for value in labels.values())
    if strange:
        raise BadInput(
            f"labels of {data.path.name}",
            f"{strange} of {len(labels)} are outside the campaign's classes",
            "Give records of the same task, or rename their classes",
        )
    usable = {name: value for name, value in labels.items() if name in ids}
    if not usable:
        raise BadInput(f"labels of {data.path.name}", "none of them is of a record in it", "Check the ids")
    return usable


def _cells(config: CampaignConfig, data: LabelledSource) -> list[Value | None]:
    """A label a record, in the file's order; None where there is none."""
    words, several = answer_words(config), config.task.kind == "multilabel"
    try:
        return [_value(cell, words, several=several) for cell in _column(config, data)]
    except NotReadable as problem:
        raise BadInput(f"labels in {data.path.name}", str(problem), "Write them as answers are written") from None


def _column(config: CampaignConfig, data: LabelledSource) -> list[Any]:
    kind, path, name = config.pool.kind, data.path, data.label
    try:
        if kind == "npz":
            with np.load(path, allow_pickle=False) as arrays:
                return list(arrays[name].tolist())
        if kind in READERS.having("columns"):
            return [cell for block in columns_of(path, kind, [name]) for cell in block[name].to_pylist()]
        if kind == "images" and name == "folder":
            return [
                record.split("/")[-2] if "/" in record else None
                for record in pool_like(config, str(path.absolute())).ids
            ]
    except (KeyError, ValueError):
        raise BadInput(
            f"labels in {path.name}", f"it has nothing called {name}", "Name it with --label, or give --labels"
        ) from None
    raise BadInput(f"labels in {path.name}", f"files of kind {kind} have none", "Give them in a file: --labels")


def _value(cell: Any, words: AnswerWords, *, several: bool) -> Value | None:
    """A class as it is written, a whole number without a point; of several labels a list, or a cell as in answers. An
    empty cell is a record without a label; an empty list, or the word for it, a record that has none of the labels.
    """
    if isinstance(cell, list | tuple):
        return tuple(str(part) for part in cell) if several else words.value(str(cell), multilabel=False)
    if cell is None or cell != cell or cell == "":  # noqa: PLR0124 - what is no number is not equal to itself
        return None
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    return words.value(text, multilabel=several)
