"""One campaign's part of a database: where its rows are, and one writer of them at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Table, select

from discreet.storage import tables
from discreet.storage.database import Database

T = TypeVar("T")

CHUNK = 500
"""Ids in one question to the database: within the limits of every one."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the verbs of a campaign store work on."""

    database: Database
    campaign: int
    name: str
    directory: Path

    def reading(self, doing: str) -> AbstractContextManager[Connection]:
        """See one state of the campaign."""
        return self.database.reading(self.asked(doing))

    @contextmanager
    def writing(self, doing: str) -> Iterator[Connection]:
        """Change the campaign, all or nothing, alone."""
        mine = select(tables.campaigns.c.number).where(tables.campaigns.c.number == self.campaign)
        with self.database.writing(self.asked(doing)) as connection:
            connection.execute(mine.with_for_update())  # where writers do not exclude one another anyway
            yield connection

    def asked(self, doing: str) -> str:
        """The first part of an error."""
        return f"{doing} in campaign {self.name!r}"

    def rows(self, table: Table) -> ColumnElement[bool]:
        """Those of this campaign."""
        return table.c.campaign == self.campaign

    def found(self, connection: Connection, column: Column[Any], ids: Iterable[str]) -> set[str]:
        """Which of ``ids`` there are."""
        there: set[str] = set()
        for chunk in chunks(ids, CHUNK):
            there.update(connection.scalars(select(column).where(self.rows(column.table), column.in_(chunk))))
        return there


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """``items`` in lists of at most ``size``, without holding more than one of them."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk
