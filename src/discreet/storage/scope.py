"""One campaign's part of a database: where its rows are, and one writer of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import BindParameter, Column, ColumnElement, Connection, Select, Table, bindparam, select

from discreet.errors import StoreUnavailable
from discreet.storage import tables
from discreet.storage.database import Database

T = TypeVar("T")
P = ParamSpec("P")

CHUNK = 500
"""Ids in one question to the database: within the limits of every one."""


MOVING, MOVED, ARRIVING, BACKUP = "moving", "moved", "arriving", "backup"
NOT_HERE = {
    MOVING: (
        "it is being moved to another store",
        "Run discreet storage copy again to finish that, or discreet storage abandon to take it back",
    ),
    MOVED: ("it was moved to another store, where it goes on", "Name that store in [storage] url"),
    ARRIVING: ("its copying is not finished", "Run discreet storage copy again"),
    BACKUP: ("it is a backup, to be read: two stores must not spend one budget", "Go on with the original"),
}
"""Why a campaign that is not in ordinary use takes nothing new."""


AFTER = "discreet_after"
"""In ``connection.info``: what is done when the transaction is committed."""
CAMPAIGN: BindParameter[int] = bindparam("campaign")
NAMED: BindParameter[str] = bindparam("names", expanding=True)
"""In statements that are built once, because somebody waits for them: the campaign, and some ids (`Scope.values`)."""
_ALONE = select(tables.campaigns.c.number).where(tables.campaigns.c.number == CAMPAIGN).with_for_update()
_MOVED = select(tables.moves.c.state).where(tables.moves.c.campaign == CAMPAIGN)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the verbs of a campaign store work on. ``mark``: the file of the ledger's high-water mark."""

    database: Database
    campaign: int
    name: str
    directory: Path
    mark: Path
    simulation: bool

    @property
    def shared(self) -> bool:
        """Whether several hosts use the store."""
        return self.database.dialect.shared

    def reading(self, doing: str) -> AbstractContextManager[Connection]:
        """See one state of the campaign."""
        return self.database.reading(self.asked(doing))

    @contextmanager
    def writing(self, doing: str) -> Iterator[Connection]:
        """Change the campaign, all or nothing, alone. Not one that is a copy, or was moved to another store."""
        asked = self.asked(doing)
        with self.database.writing(asked) as connection:
            connection.info.pop(AFTER, None)  # of a transaction on this connection that failed
            connection.execute(_ALONE, self.values())  # where writers do not exclude one another anyway
            # a statement of its own: one that waited for the lock would see what was so before it waited
            self.check_in_use(connection, asked)
            if not self.simulation:
                self.database.dialect.check_durable(connection, asked)
            yield connection
            after = connection.info.pop(AFTER, None)
        if after is not None:
            after()

    def check_in_use(self, connection: Connection, asked: str) -> None:
        """Refuse a campaign that is a copy, or was moved to another store."""
        state = connection.scalar(_MOVED, self.values())
        if state is not None:
            raise StoreUnavailable(asked, *NOT_HERE.get(state, NOT_HERE[MOVED]))

    def asked(self, doing: str) -> str:
        """The first part of an error."""
        return f"{doing} in campaign {self.name!r}"

    def rows(self, table: Table) -> ColumnElement[bool]:
        """Those of this campaign."""
        return table.c.campaign == self.campaign

    def values(self, **others: Any) -> dict[str, Any]:
        """For a statement that is built once: this campaign, and what else it names."""
        return {"campaign": self.campaign, **others}

    def found(self, connection: Connection, column: Column[Any], ids: Iterable[str]) -> set[str]:
        """Which of ``ids`` there are."""
        there: set[str] = set()
        for chunk in chunks(ids, CHUNK):
            there.update(connection.scalars(_found(column), self.values(names=chunk)))
        return there


def of_campaign(table: Table) -> ColumnElement[bool]:
    """Rows of the campaign that a statement is run for."""
    return table.c.campaign == CAMPAIGN


@cache
def _found(column: Column[Any]) -> Select[Any]:
    return select(column).where(of_campaign(column.table), column.in_(NAMED))


def steady(verb: Callable[Concatenate[Scope, P], T]) -> Callable[Concatenate[Scope, P], T]:
    """A verb that is done again, whole, when the connection is lost and nothing of it was stored."""

    @wraps(verb)
    def done(scope: Scope, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return scope.database.steadily(lambda: verb(scope, *args, **kwargs))

    return done


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """``items`` in lists of at most ``size``, without holding more than one of them."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk
