"""A store that is read and never written: on a read-only directory, and on a full disk.

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
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, event

from discreet.errors import StoreUnavailable
from discreet.storage.sqlite import SqliteFile, engine_for

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
            raise _refusal(asked)
        return super().transaction(engine, writes=False, asked=asked, patience=patience)

    def share(self, engine: Engine, *, patience: float) -> None:
        """As it is."""

    def turn(self, path: Path, key: str, *, asked: str, doing: str, wait: float) -> AbstractContextManager[None]:
        """Nobody who only looks has one."""
        raise _refusal(asked)

    def rewrite(self, engine: Engine, *, asked: str, patience: float) -> None:
        """Refused."""
        raise _refusal(asked)


def _refusal(asked: str) -> StoreUnavailable:
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
    found: list[tuple[int, int, int] | None] = []
    for beside in _BESIDE:
        try:
            told = path.with_name(path.name + beside).stat()
        except OSError:
            found.append(None)
        else:
            found.append((told.st_ino, told.st_size, told.st_mtime_ns))
    return found
