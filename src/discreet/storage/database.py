"""Transactions, whole or not at all, by one process; what a fork does to them, and a connection that was lost; and one
campaign's part of a database (`Scope`): where its rows are, and one writer of them at a time.

SQLite keeps its locks in the memory of a process, and a forked child inherits that memory without the locks. A child
that went on would write without any; on a socket to a server, parent and child would talk over one another. So idle
connections are closed before a fork; parent and child open their own again. A child that was forked in the middle of a
transaction never touches that database.

Dialects
--------
What a database must bring so that the other files of this room can speak portable SQL.

All that differs between `sqlite` (one file, one host) and `postgres` (a server, several hosts) is behind its methods.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import BindParameter, Column, ColumnElement, Connection, Engine, Row, Select, Table, bindparam, select

from discreet.errors import StoreUnavailable
from discreet.storage import tables

T = TypeVar("T")
P = ParamSpec("P")
_PAUSE = 0.05


class Database:
    """One database, for any number of threads."""

    def __init__(self, dialect: Dialect, *, patience: float) -> None:
        self.dialect = dialect
        self.patience = patience
        self._closed = False
        self._running: set[object] = set()
        self._connect()
        _open_databases.add(self)

    def _connect(self) -> None:
        self._engine = self.dialect.engine(patience=self.patience)
        self._closing = weakref.finalize(self, self._engine.dispose)

    def share(self) -> None:
        """Let several processes use it at once."""
        with self.dialect.refusals(f"opening {self.dialect.name}"):
            self.dialect.share(self._engine, patience=self.patience)

    def reading(self, asked: str) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of everything, and waits for nobody."""
        return self._transaction(asked, writes=False)

    def writing(self, asked: str) -> AbstractContextManager[Connection]:
        """The only transaction that writes; durable when the block is left, undone when an error leaves it."""
        return self._transaction(asked, writes=True)

    @contextmanager
    def _transaction(self, asked: str, *, writes: bool) -> Iterator[Connection]:
        self._check_usable(asked)
        process = os.getpid()
        with self.dialect.refusals(asked), ExitStack() as ending:
            self._running.add(ending)
            ending.callback(self._running.discard, ending)
            connection = ending.enter_context(self._begun(asked, writes=writes))
            try:
                yield connection
            finally:
                if os.getpid() != process:
                    _of_parents.append(ending.pop_all())  # neither commit nor roll back what is the parent's
            self._check_usable(asked)

    def _begun(self, asked: str, *, writes: bool) -> AbstractContextManager[Connection]:
        session = self.dialect.session() if writes else None
        if session is not None:  # what is done in a turn is written by who has it
            return session.writing(asked)
        return self.dialect.transaction(self._engine, writes=writes, asked=asked, patience=self.patience)

    def steadily(self, act: Callable[[], T]) -> T:
        """``act``, done again from its beginning while connections are lost with nothing stored, for some time.
        A turn that is lost is another error.
        """
        until, pause = time.monotonic() + self.patience, _PAUSE
        while True:
            try:
                return act()
            except Interrupted:
                if time.monotonic() > until:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 1.0)

    def scrub(self, asked: str) -> None:
        """Rewrite the file without free pages and what was left in them, and empty the log."""
        self._check_usable(asked)
        with self.dialect.refusals(asked):
            self.dialect.rewrite(self._engine, asked=asked, patience=self.patience)

    def close(self) -> None:
        """Close all connections. The last one to be closed tidies up the log."""
        self._closed = True
        _open_databases.discard(self)
        self._closing()

    def _check_usable(self, asked: str) -> None:
        if self._closed:
            raise StoreUnavailable(asked, "the store was closed", "Open it again")
        if self.dialect.place in _left_to_parents:
            raise StoreUnavailable(
                asked, "this process was forked in the middle of a transaction", "Fork outside of one, or use spawn"
            )

    def _before_fork(self) -> None:
        self._engine.dispose()

    def _after_fork(self) -> None:
        """In the child: leave what the parent has open alone, even when it is collected."""
        _of_parents.append(self._engine)
        self._closing.detach()
        if self._running:
            _left_to_parents.add(self.dialect.place)
        self._connect()


_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_of_parents: list[object] = []
_left_to_parents: set[Hashable] = set()


def _before_fork() -> None:
    for database in list(_open_databases):
        database._before_fork()


def _after_fork() -> None:
    for database in list(_open_databases):
        database._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


WRITES = "discreet_writes"
"""The execution option of a connection that is going to write."""


class Interrupted(StoreUnavailable):
    """The connection was lost and it is known that nothing was stored: whoever can may do it again. Never of a turn."""


class Session(Protocol):
    """A connection that has turns, and by which everything is written that is done in them."""

    def writing(self, asked: str) -> AbstractContextManager[Connection]:
        """As `Dialect.transaction`; refused when the connection, and so the turn, was lost."""


class Dialect(Protocol):
    """One database."""

    @property
    def name(self) -> str:
        """In errors; no secret."""

    @property
    def url(self) -> str:
        """Where it is; no secret."""

    @property
    def place(self) -> Hashable:
        """Which database it is: equal if and only if it is the same one."""

    @property
    def home(self) -> Path:
        """The directory of this host for campaigns' keys, checkpoints and files."""

    @property
    def marks(self) -> Path | None:
        """The directory for the high-water marks of ledgers; None: each is in its campaign's directory."""

    @property
    def shared(self) -> bool:
        """Whether several hosts use it, so that files' contents must be in it."""

    def engine(self, *, patience: float) -> Engine:
        """Connections to it."""

    def refusals(self, asked: str) -> AbstractContextManager[None]:
        """Errors of the database as ours, without data."""

    def transaction(
        self, engine: Engine, *, writes: bool, asked: str, patience: float
    ) -> AbstractContextManager[Connection]:
        """All or nothing; durable when the block is left."""

    def share(self, engine: Engine, *, patience: float) -> None:
        """Let several processes use it at once."""

    def alone(self, connection: Connection) -> None:
        """Until this transaction ends, nobody else makes tables."""

    def check_durable(self, connection: Connection, asked: str) -> None:
        """Refuse if what this transaction commits could be lost with the power."""

    def turn(self, path: Path, key: str, *, asked: str, doing: str, wait: float) -> AbstractContextManager[None]:
        """Be the only process, on all hosts, that does ``key`` while the block runs. ``path``: for a lock's file."""

    def held(self, connection: Connection, path: Path, key: str) -> bool:
        """Whether some process does ``key`` now, as far as can be seen without asking for a turn."""

    def session(self) -> Session | None:
        """That which has the turns of the running block, if there is one and it is a connection."""

    def integrity(self, connection: Connection) -> tuple[bool, list[str]]:
        """Whether the database itself is undamaged, and tables with rows that name rows which are not there."""

    def rewrite(self, engine: Engine, *, asked: str, patience: float) -> None:
        """Rewrite it without what was deleted."""


# -- one campaign's part

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

    def fetch(self, doing: str, wanted: Select[Any], **values: Any) -> Sequence[Row[Any]]:
        """All rows of a statement, which may name the campaign (`of_campaign`) and other ``values``."""
        with self.reading(doing) as connection:
            return connection.execute(wanted, self.values(**values)).all()

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

    def named(self, connection: Connection, wanted: Select[Any], ids: Iterable[str], **values: Any) -> Iterator[Any]:
        """Rows of a statement for ``ids`` (`NAMED`), however many they are."""
        for chunk in chunks(ids, CHUNK):
            yield from connection.execute(wanted, self.values(names=chunk, **values))

    def known(self, connection: Connection, column: Column[Any], ids: Iterable[str]) -> set[str]:
        """Which of ``ids`` there are."""
        return {row[0] for row in self.named(connection, _named(column), ids)}


def of_campaign(table: Table) -> ColumnElement[bool]:
    """Rows of the campaign that a statement is run for."""
    return table.c.campaign == CAMPAIGN


@cache
def _named(column: Column[Any]) -> Select[Any]:
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
