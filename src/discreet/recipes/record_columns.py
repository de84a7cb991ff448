"""Columns of records for the people who are asked about them, from the files of the pool.

Nothing here is charged or released to the public: who is asked about a record may see it (audience: annotator). What is
declared (the columns, the files) is checked before a query is charged; a cell that cannot be read is empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput
from discreet.oracles.question_files import check_extra
from discreet.pools.file_columns import cells_of_records, check_columns_of
from discreet.recipes.pool_campaigns import joined_files
from discreet.records import Question

if TYPE_CHECKING:
    from discreet.campaign import Campaign

LONGEST = 30_000
"""Characters of a cell of a CSV file; spreadsheets take 32,767."""


@dataclass(frozen=True, kw_only=True)
class RecordColumns:
    """Columns of the records, to be written beside questions into files of a ``folder``.

    longest   characters of a cell that are written; None: all
    """

    names: tuple[str, ...]
    files: tuple[Path, ...]
    kind: str
    id: str
    folder: Path
    longest: int | None

    @classmethod
    def checked(
        cls, campaign: Campaign, config: Any, names: Sequence[str], *, folder: Path, kind: str
    ) -> RecordColumns:
        """``names``: columns of every file of the pool; to be written into a ``folder``, as "csv" or "jsonl"."""
        pool = getattr(config, "pool", None)
        if pool is None:
            fact = "what was released has one text a record, and the questions have it already"
            raise BadInput(f"asking with {', '.join(names)}", fact, "Name no columns")
        check_extra(names)
        files = (config.resolve(pool.path), *(path for path, _ in joined_files(campaign.store, config)))
        for file in files:
            check_columns_of(file, pool.kind, pool.id, names)
        return cls(
            names=tuple(names),
            files=files,
            kind=pool.kind,
            id=pool.id or "",
            folder=folder,
            longest=LONGEST if kind == "csv" else None,
        )

    def of(self, questions: Iterable[Question]) -> dict[str, dict[str, str]]:
        """The cells of the records of questions, by column and record."""
        cells: dict[str, dict[str, str]] = {name: {} for name in self.names}
        wanted = {question.record for question in questions}
        for file in self.files:
            for name, column in cells_of_records(file, self.kind, self.id, self.names, wanted).items():
                cells[name] |= {record: self._cell(text) for record, text in column.items()}
        return cells

    def _cell(self, text: str) -> str:
        return os.path.relpath(text, self.folder) if self.kind == "images" else text[: self.longest]
