"""Transactions, whole or not at all, by one process; what a fork does to them, and a connection that was lost.

SQLite keeps its locks in the memory of a process, and a forked child inherits that memory without the locks. A child
that went on would write without any; on a socket to a server, parent and child would talk over one another. So idle
connections are closed before a fork; parent and child open their own again. A child that was forked in the middle of a
transaction never touches that database.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from discreet.errors import StoreUnavailable
from discreet.storage.dialect import Dialect, Interrupted
from discreet.storage.sqlite import SqliteFile

T = TypeVar("T")
_PAUSE = 0.05


class Database:
    """One database, for any number of threads."""

    def __init__(self, place: Path | Dialect, *, patience: float) -> None:
        self.dialect: Dialect = SqliteFile(path=place) if isinstance(place, Path) else place
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
