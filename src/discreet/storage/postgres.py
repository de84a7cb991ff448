"""What is PostgreSQL's alone: addresses, what a server must be, how it is shared.

Guarantee: a committed transaction was written to the disk of the server (`synchronous_commit` is on for every writer,
whatever the role or the database has as a default; a campaign that is no simulation is not written to on a server with
`fsync` or `full_page_writes` off). Writers of a campaign take turns by the lock of its row, which each takes first, so
none of them meets another half way: there is nothing to deadlock on. A reader sees one state of everything.

Connections that are lost: `postgres_transactions`.

Turns
-----
Turns on a server: an advisory lock of a connection, by which everything is written that is done in the turn.

Guarantee: the lock ends with its connection, and what is written in the turn is written by that connection, so a
process that lost its turn (the network, a server that was started again) cannot charge or publish any more: the same
loss took both. Each transaction in a turn asks the server first whether its own backend has the locks; where something
between the two hands out backends by the transaction, as poolers do, it is refused.

The processes of one host take turns by a file's lock, too: one that goes on in vain after it lost its connection keeps
its neighbours from the key and checkpoints it still uses. A forked child has no part in its parent's turns.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from discreet.errors import BadInput, MissingExtra, StoreUnavailable
from discreet.storage.database import Interrupted, Session
from discreet.storage.disk import locked
from discreet.storage.postgres_transactions import (
    Transaction,
    facts_of,
    patience_of,
    refusals,
    turn_lost,
    turn_missing,
    was_lost,
)

SCHEMES = ("postgresql://", "postgres://")
OLDEST = 14
USED = 0x6469736372656574
"""The advisory lock that every connection shares; who changes tables has it alone."""
MAKING = USED + 1
"""The one of who makes the first tables."""
_CONNECTIONS = 40
"""Of one process, at most."""


def database_at(url: str, directory: Path | str | None) -> PostgresDatabase:
    """The database that an address names. Nothing of the address is repeated in an error."""
    asked, remedy = "opening a store", 'Write it like "postgresql://ROLE@HOST/DATABASE"'
    try:
        parts = urlsplit(url)
        secret = parts.password is not None or "password" in parts.query
    except ValueError:
        raise BadInput(asked, "its address cannot be read", remedy) from None
    if secret:
        raise BadInput(
            asked,
            "its address has a password in it",
            "Give that in a password file (PGPASSFILE, ~/.pgpass) or PGPASSWORD",
        )
    psycopg = _driver()
    try:
        parameters = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise BadInput(asked, "its address cannot be read", remedy) from None
    database = str(parameters.get("dbname") or "")
    if not database or "/" in database or database.startswith("."):
        raise BadInput(asked, "its address names no database", remedy)
    home = Path.cwd() / f"{database}.files" if directory is None else Path(directory)
    where = (
        str(parameters.get("host") or parameters.get("hostaddr") or parameters.get("service") or ""),
        str(parameters.get("port") or ""),
    )
    return PostgresDatabase(url=url, name=database, home=home.resolve(), place=(*where, database))


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra(
            "a store in PostgreSQL", "psycopg is not installed", "pip install discreet[postgres]"
        ) from None
    return psycopg


@dataclass(frozen=True, kw_only=True)
class PostgresDatabase:
    """The dialect of one database on a server, for the processes of several hosts."""

    url: str
    name: str
    home: Path
    place: tuple[str, ...]
    marks: Path | None = None
    upgrading: bool = field(default=False, repr=False)
    shared = True

    def engine(self, *, patience: float, pooled: bool = True) -> Engine:
        """Connections, made when they are wanted. Whether one lives is seen when it is used: verbs are done again."""
        options: dict[str, Any] = (
            {
                "pool_size": 5,
                "max_overflow": _CONNECTIONS - 5,
                "pool_timeout": max(patience, 1.0),
            }
            if pooled
            else {"poolclass": NullPool}
        )
        return create_engine(
            "postgresql+psycopg://",  # the address is the driver's alone: it is in no repr and no error
            creator=lambda: self._connected(patience),
            hide_parameters=True,  # an error must not carry a row
            use_native_hstore=False,
            **options,
        )

    def _connected(self, patience: float) -> Any:
        psycopg = _driver()
        url = self.url.replace("postgres://", "postgresql://", 1) if self.url.startswith("postgres://") else self.url
        connection = psycopg.connect(
            url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=max(2, int(patience)),
            application_name="discreet",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
        )
        try:
            if connection.info.server_version < OLDEST * 10000:
                raise StoreUnavailable(
                    f"opening {self.name}", f"its server is older than PostgreSQL {OLDEST}", "Use a newer one"
                )
            if connection.execute("SHOW server_encoding").fetchone()[0] != "UTF8":
                raise StoreUnavailable(
                    f"opening {self.name}", "its encoding is not UTF8", "Create the database with encoding 'UTF8'"
                )
            connection.execute("SELECT set_config('idle_session_timeout', '0', false)")
            self._use(connection, patience)
        except BaseException:
            connection.close()
            raise
        connection.autocommit = False
        return connection

    def _use(self, connection: Any, patience: float) -> None:
        """Say that somebody uses the store, or that nobody else may."""
        kind = "" if self.upgrading else "_shared"
        until = time.monotonic() + (0 if self.upgrading else patience)
        while not connection.execute(f"SELECT pg_try_advisory_lock{kind}({USED})").fetchone()[0]:
            if time.monotonic() >= until:
                fact, remedy = "another process is changing its tables", "Wait for it to finish"
                if self.upgrading:
                    fact, remedy = "other processes use it", "Stop them; then upgrade, and start the new version"
                raise StoreUnavailable(f"opening {self.name}", fact, remedy)
            time.sleep(0.05)

    def refusals(self, asked: str) -> AbstractContextManager[None]:
        """Errors of PostgreSQL as ours."""
        return refusals(asked)

    def transaction(
        self, engine: Engine, *, writes: bool, asked: str, patience: float
    ) -> AbstractContextManager[Connection]:
        """A reader sees one state; a writer sees what the one before it committed."""
        return Transaction(engine.connect, writes=writes, asked=asked, patience=patience)

    def share(self, engine: Engine, *, patience: float) -> None:
        """A server is shared."""

    def alone(self, connection: Connection) -> None:
        """Until this transaction ends, nobody else makes tables."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MAKING})

    def check_durable(self, connection: Connection, asked: str) -> None:
        """Refuse a server that may forget what it said was stored."""
        facts = facts_of(connection)
        for setting, value in (("fsync", facts.fsync), ("full_page_writes", facts.pages)):
            if value != "on":
                raise StoreUnavailable(
                    asked, f"the server has {setting} off, so a charge could be lost with the power", "Turn it on"
                )

    @contextmanager
    def turn(self, path: Path, key: str, *, asked: str, doing: str, wait: float) -> Iterator[None]:
        """Be the only process, on all hosts, that does ``key`` while the block runs."""
        until = time.monotonic() + wait
        here = os.getpid(), self.place
        with locked(path, asked=asked, doing=doing, wait=wait):
            within = _sessions.get().get(here)
            session = TurnSession(self, asked) if within is None else within
            try:
                session.take(_number(key), until=until, asked=asked, doing=doing)
                before = _sessions.set({**_sessions.get(), here: session})
                try:
                    yield
                finally:
                    _sessions.reset(before)
                    session.let_go(_number(key))
            finally:
                if within is None:
                    session.close()

    def held(self, connection: Connection, path: Path, key: str) -> bool:
        """Whether a process of any host does ``key`` now; nobody is kept from it by looking."""
        return bool(connection.execute(text(_ANYBODYS), _parts(_number(key))).scalar())

    def session(self) -> Session | None:
        """The connection that has the turns of the running block, in this process."""
        return _sessions.get().get((os.getpid(), self.place))

    def integrity(self, connection: Connection) -> tuple[bool, list[str]]:
        """The server checks references and, where it was set up so, pages; nothing is left to do here."""
        return True, []

    def rewrite(self, engine: Engine, *, asked: str, patience: float) -> None:
        """Rewrite the tables without what was deleted; that waits for readers. Of the server's log, its replicas and
        its disk this does not know.
        """
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("SELECT set_config('lock_timeout', :patience, false)"), patience_of(patience))
            try:
                for table in ("answers", "questions", "records", "exposures", "file_pieces"):
                    connection.exec_driver_sql(f"VACUUM (FULL) {table}")
            finally:
                connection.invalidate()  # with its setting


_PAUSE = 0.05
_WAITS = 10.0
"""Seconds that a writer in a turn waits for another writer of the campaign."""
_ANYBODYS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND classid = CAST(:high AS oid) AND objid = CAST(:low AS oid)"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_MINE = f"{_ANYBODYS} AND pid = pg_backend_pid()"

_sessions: ContextVar[dict[Any, TurnSession]] = ContextVar("_sessions", default={})  # noqa: B039 - never changed
_of_parents: list[object] = []


def _number(key: str) -> int:
    """A lock's number: whole databases share them, so it is taken from a hash."""
    return int.from_bytes(hashlib.sha256(f"discreet turn {key}".encode()).digest()[:8], signed=True)


def _parts(number: int) -> dict[str, str]:
    """As the server's table of locks shows it."""
    return {"high": str((number >> 32) & 0xFFFFFFFF), "low": str(number & 0xFFFFFFFF)}


class TurnSession:
    """One connection that has turns; one thread writes by it at a time."""

    def __init__(self, database: PostgresDatabase, asked: str) -> None:
        self._engine = database.engine(patience=_WAITS, pooled=False)
        self._process, self._one = os.getpid(), threading.Lock()
        self._held: list[int] = []
        with database.transaction(self._engine, writes=False, asked=asked, patience=_WAITS):
            pass  # waits for a server that is on its way up
        with database.refusals(asked):
            self._connection = self._engine.connect()

    def take(self, number: int, *, until: float, asked: str, doing: str) -> None:
        """Have the lock ``number``, or raise when it is ``until``."""
        while not self._asks("SELECT pg_try_advisory_lock(:number)", number, asked):
            if time.monotonic() >= until:
                raise StoreUnavailable(asked, f"another process is {doing}", "Wait for it to finish, or stop it")
            time.sleep(_PAUSE)
        self._held.append(number)

    def let_go(self, number: int) -> None:
        """Of the lock; it is gone already if the connection is."""
        if os.getpid() == self._process:
            self._held.remove(number)
            if self._connection.invalidated:
                return
            with suppress(StoreUnavailable):
                self._asks("SELECT pg_advisory_unlock(:number)", number, "ending a turn")

    def _asks(self, statement: str, number: int, asked: str) -> bool:
        try:
            with self._one, self._connection.begin():
                return bool(self._connection.execute(text(statement), {"number": number}).scalar())
        except SQLAlchemyError as error:
            raise turn_lost(asked) if was_lost(error) else turn_missing(asked) from None

    def writing(self, asked: str) -> AbstractContextManager[Connection]:
        """A transaction that the turn's own connection makes."""
        return _InTurn(self, asked)

    def close(self) -> None:
        """End the connection, and with it every lock."""
        if os.getpid() != self._process:
            _of_parents.append((self._connection, self._engine))  # the socket is the parent's
            return
        with suppress(SQLAlchemyError):
            self._connection.close()
        self._engine.dispose()


class _InTurn:
    """As `Transaction`, with the turn looked at first. No generator, see there."""

    def __init__(self, session: TurnSession, asked: str) -> None:
        self._session, self._asked = session, asked
        self._inner = Transaction(lambda: session._connection, writes=True, asked=asked, patience=_WAITS, kept=True)

    def __enter__(self) -> Connection:
        self._session._one.acquire()
        try:
            if self._session._connection.invalidated:
                raise turn_lost(self._asked)
            try:
                connection = self._inner.__enter__()
            except SQLAlchemyError as error:
                if was_lost(error):
                    raise turn_lost(self._asked) from None
                raise
            try:
                self._check(connection)
            except BaseException as error:
                self._inner.__exit__(type(error), error, None)
                raise
            return connection
        except BaseException:
            self._session._one.release()
            raise

    def _check(self, connection: Connection) -> None:
        for number in self._session._held:
            if connection.execute(text(_MINE), _parts(number)).scalar() != 1:
                raise turn_missing(self._asked)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._inner.__exit__(kind, error, trace)
        except Interrupted:
            raise turn_lost(self._asked) from None
        finally:
            self._session._one.release()
        if isinstance(error, SQLAlchemyError) and was_lost(error):
            raise turn_lost(self._asked) from None
