"""What is SQLite's alone: settings of a connection, how a transaction begins, what its error codes mean.

Guarantee: a committed transaction was handed to the disk (WAL with `synchronous=FULL` syncs the log at every commit).
A writer takes the lock when it begins, not when it first writes, so no transaction fails half way because another one
wrote meanwhile. Errors carry SQLite's code and nothing of the data.

`postgres` is a file like this one; the other files of this room speak portable SQL (`dialect`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from discreet.errors import DiscreetError, InvalidStore, StoreUnavailable
from discreet.storage.dialect import WRITES, Session
from discreet.storage.locks import is_held, locked

TABLE_OPTIONS: dict[str, Any] = {"sqlite_with_rowid": False}
"""Of tables with a key of several columns: one tree instead of two, an eighth less on the disk. Others ignore it."""

_LOG_BYTES = 1 << 22
"""What the log beside the database shrinks to, after a large transaction."""


@dataclass(frozen=True, kw_only=True)
class SqliteFile:
    """The dialect of one file, for the processes of one host."""

    path: Path
    marks: Path | None = None
    shared = False

    @property
    def name(self) -> str:
        """Of the file."""
        return self.path.name

    @property
    def url(self) -> str:
        """Where it is."""
        return f"sqlite:///{self.path}"

    @property
    def place(self) -> Path:
        """Which file it is."""
        return self.path

    @property
    def home(self) -> Path:
        """Beside the database."""
        return self.path.with_name(f"{self.path.name}.files")

    def engine(self, *, patience: float) -> Engine:
        """Connections that each wait ``patience`` seconds for a lock."""
        return engine_for(self.path, patience=patience)

    def refusals(self, asked: str) -> AbstractContextManager[None]:
        """Errors of SQLite as ours."""
        return refusals(asked)

    def transaction(
        self, engine: Engine, *, writes: bool, asked: str, patience: float
    ) -> AbstractContextManager[Connection]:
        """A reader waits for nobody; the writer is the only one."""
        return _Transaction(engine.connect().execution_options(**{WRITES: writes}))

    def share(self, engine: Engine, *, patience: float) -> None:
        """Readers beside one writer."""
        enter_wal(engine, patience=patience)

    def alone(self, connection: Connection) -> None:
        """Every writer is."""

    def check_durable(self, connection: Connection, asked: str) -> None:
        """Each connection was told to sync (`_prepare`)."""

    def turn(self, path: Path, key: str, *, asked: str, doing: str, wait: float) -> AbstractContextManager[None]:
        """By the lock of a file: all processes are on this host."""
        return locked(path, asked=asked, doing=doing, wait=wait)

    def held(self, connection: Connection, path: Path, key: str) -> bool:
        """As the system's table of locks says."""
        return is_held(path)

    def session(self) -> Session | None:
        """None: a file's lock is no connection."""
        return None

    def integrity(self, connection: Connection) -> tuple[bool, list[str]]:
        """By SQLite's own checks, of every page, index and reference."""
        found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").all() if found == "ok" else []
        return found == "ok", sorted({str(row[0]) for row in dangling})

    def rewrite(self, engine: Engine, *, asked: str, patience: float) -> None:
        """Without free pages and what was left in them."""
        rewrite(engine, asked=asked, patience=patience)


class _Transaction:
    """No generator: one that is collected in a forked child would end what is the parent's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Connection:
        try:
            self._begun = self._connection.begin()
        except BaseException:
            self._connection.close()
            raise
        return self._connection

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._begun.__exit__(kind, error, trace)
        finally:
            self._connection.close()


def engine_for(path: Path, *, patience: float, creator: Callable[[], sqlite3.Connection] | None = None) -> Engine:
    """Connections to the database in ``path``; each waits ``patience`` seconds for a lock. ``creator``: makes them."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": patience},
        hide_parameters=True,  # an error must not carry a row
        **({} if creator is None else {"creator": creator}),
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # `_begin` says BEGIN, the driver's own way cannot say IMMEDIATE
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten with zeros
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    except sqlite3.Error:
        connection.close()
        raise


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def enter_wal(engine: Engine, *, patience: float) -> None:
    """Readers and one writer at a time, from now on and for every process. Kept in the file, so done once."""
    connection = engine.raw_connection()
    try:
        driver: Any = connection.driver_connection
        (mode,) = _patiently(driver, "PRAGMA journal_mode = WAL", patience)
    finally:
        connection.close()
    if mode != "wal":
        raise StoreUnavailable(
            "opening a campaign store", "its file system cannot share memory between processes", "Use a local disk"
        )


def rewrite(engine: Engine, *, asked: str, patience: float) -> None:
    """Rebuild the file: pages that were split or moved keep old rows in their gaps, which no deletion reaches. Then
    bring the log into the file and cut it to nothing; that waits for readers.
    """
    connection = engine.raw_connection()
    try:
        driver: Any = connection.driver_connection
        driver.execute("VACUUM")
        until = time.monotonic() + patience
        while driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > until:
                raise StoreUnavailable(
                    asked, "another process reads the store, so its log cannot be emptied", "Try again when it is done"
                )
            time.sleep(0.01)
    finally:
        connection.close()


def _patiently(driver: Any, statement: str, patience: float) -> tuple[Any, ...]:
    """The busy timeout does not cover a change of the journal's mode, which two processes may try at once."""
    until = time.monotonic() + patience
    while True:
        try:
            return tuple(driver.execute(statement).fetchone())
        except sqlite3.OperationalError as error:
            if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > until:
                raise
            time.sleep(0.01)


@contextmanager
def refusals(asked: str) -> Iterator[None]:
    """Errors of the database as ours."""
    try:
        yield
    except UnicodeDecodeError:  # the driver could not decode a message that quotes a damaged schema
        raise InvalidStore(asked, *_CHANGED) from None
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise _refusal(error, asked) from None


_LOCKED = "another process is writing to it, or holds it", "Try again when that one has finished"
_CHANGED = "it cannot be read as a campaign store: it is damaged, or was changed", "Restore a copy"
_FULL = "the disk is full", "Make room and try again; nothing of this was stored"

_UNAVAILABLE: dict[int | None, tuple[str, str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: ("it may not be written", "Give yourself the right to write the file and its directory"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "Check that its directory is there, and yours to write"),
    sqlite3.SQLITE_PERM: ("it may not be opened", "Give yourself the right to write the file and its directory"),
    sqlite3.SQLITE_IOERR: ("the disk refused", "Check the disk and its space; nothing of this was stored"),
}
_INVALID: dict[int | None, tuple[str, str]] = {
    sqlite3.SQLITE_NOTADB: ("the file is not a database", "Check the path"),
    sqlite3.SQLITE_CORRUPT: _CHANGED,
    sqlite3.SQLITE_ERROR: _CHANGED,  # a table or column is gone
    sqlite3.SQLITE_CONSTRAINT: ("what it holds contradicts what was to be stored", "Load the campaign again"),
    None: _CHANGED,  # the driver could not decode what it read; its message shows the text
}


def _refusal(error: Exception, asked: str) -> DiscreetError:
    cause = getattr(error, "orig", error)
    code = _code(cause)
    if code in _UNAVAILABLE:
        return StoreUnavailable(asked, *_UNAVAILABLE[code])
    if code in _INVALID and isinstance(cause, sqlite3.Error):
        return InvalidStore(asked, *_INVALID[code])
    name = getattr(cause, "sqlite_errorname", type(cause).__name__)
    return StoreUnavailable(asked, f"the database said {name}", "Try again; nothing of this was stored")


def _code(error: object) -> int | None:
    """SQLite's primary code: the low byte, without what narrows it down."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
