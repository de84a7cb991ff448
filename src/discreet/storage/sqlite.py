"""What is SQLite's alone: settings of a connection, how a transaction begins, what its error codes mean.

Guarantee: a committed transaction was handed to the disk (WAL with `synchronous=FULL` syncs the log at every commit).
A writer takes the lock when it begins, not when it first writes, so no transaction fails half way because another one
wrote meanwhile. Errors carry SQLite's code and nothing of the data.

`postgres` is a file like this one; the other files of this room speak portable SQL (`database`).

Read-only files
---------------
A store that is read and never written: on a read-only directory, and on a full disk.

SQLite reads a file with a log (WAL) by help of a file of shared memory beside it. Where that one cannot be made, nobody
on this host is connected, and the file is read without locks: with ``immutable`` where there is no log or an empty one,
else with the log, whose index is kept in this process (``unix-none`` and exclusive locking). ``immutable`` beside a log
that is not empty would show an older ledger.

Guarantee: nothing is written and no lock is taken by this program. A file that changed while it was read without locks
is an error, never a mixture of two states.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from discreet.errors import DiscreetError, InvalidStore, StoreUnavailable
from discreet.storage.database import WRITES, Session
from discreet.storage.disk import is_held, locked

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

    @contextmanager
    def refusals(self, asked: str) -> Iterator[None]:
        """Errors of the database as ours."""
        try:
            yield
        except UnicodeDecodeError:  # the driver could not decode a message that quotes a damaged schema
            raise InvalidStore(asked, *_CHANGED) from None
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise _refusal(error, asked) from None

    def transaction(
        self, engine: Engine, *, writes: bool, asked: str, patience: float
    ) -> AbstractContextManager[Connection]:
        """A reader waits for nobody; the writer is the only one."""
        return _Transaction(engine.connect().execution_options(**{WRITES: writes}))

    def share(self, engine: Engine, *, patience: float) -> None:
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
        verdict = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").all() if verdict == "ok" else []
        return verdict == "ok", sorted({str(row[0]) for row in dangling})

    def rewrite(self, engine: Engine, *, asked: str, patience: float) -> None:
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
                        asked,
                        "another process reads the store, so its log cannot be emptied",
                        "Try again when it is done",
                    )
                time.sleep(0.01)
        finally:
            connection.close()


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


_UNSHARED = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
}
"""What SQLite says where it cannot make the file of shared memory."""

_BESIDE = ("", "-wal", "-journal")


@dataclass(frozen=True, kw_only=True)
class ReadOnlySqlite(SqliteFile):
    """The dialect of one file for those who only look."""

    def engine(self, *, patience: float) -> Engine:
        """Connections with locks where SQLite can take them, else without."""
        shared = _shares_memory(self.path, patience)
        engine = engine_for(self.path, patience=patience) if shared else _unlocked(self.path, patience=patience)
        event.listen(engine, "connect", lambda driver, _: driver.execute("PRAGMA temp_store = MEMORY"))
        return engine

    def transaction(
        self, engine: Engine, *, writes: bool, asked: str, patience: float
    ) -> AbstractContextManager[Connection]:
        """A reader's; a writer is refused."""
        if writes:
            raise _read_only_refusal(asked)
        return super().transaction(engine, writes=False, asked=asked, patience=patience)

    def share(self, engine: Engine, *, patience: float) -> None:
        """As it is."""

    def turn(self, path: Path, key: str, *, asked: str, doing: str, wait: float) -> AbstractContextManager[None]:
        """Nobody who only looks has one."""
        raise _read_only_refusal(asked)

    def rewrite(self, engine: Engine, *, asked: str, patience: float) -> None:
        """Refused."""
        raise _read_only_refusal(asked)


def _read_only_refusal(asked: str) -> StoreUnavailable:
    return StoreUnavailable(
        asked,
        "the store is open for reading only, and this would write to it",
        "Where it may be written, finish what was begun: discreet init, ask, train or withdraw",
    )


def _shares_memory(path: Path, patience: float) -> bool:
    """Whether SQLite can read the file in its own way. A file that is damaged is for that way to refuse."""
    try:
        with closing(sqlite3.connect(path, timeout=patience)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNSHARED
    except UnicodeDecodeError:
        return True
    return True


def _unlocked(path: Path, *, patience: float) -> Engine:
    before = _stamps(path)
    _, log, journal = before
    if journal is not None and journal[1]:  # a change that was cut off must be undone first, which writes
        return engine_for(path, patience=patience)
    way = "vfs=unix-none" if log is not None and log[1] else "immutable=1"

    def connected() -> sqlite3.Connection:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&{way}", uri=True, check_same_thread=False)
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # the index of the log stays in this process
        return connection

    def check(_: Connection) -> None:
        if _stamps(path) != before:
            raise StoreUnavailable(
                f"reading {path.name}", "it was changed while it was read without locks", "Run the command again"
            )

    engine = engine_for(path, patience=patience, creator=connected)
    event.listen(engine, "commit", check)
    return engine


def _stamps(path: Path) -> list[tuple[int, int, int] | None]:
    """Which files are there, how long, and when they were written last: the database, its log, a rollback journal."""
    stamps: list[tuple[int, int, int] | None] = []
    for beside in _BESIDE:
        try:
            stat = path.with_name(path.name + beside).stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return stamps
