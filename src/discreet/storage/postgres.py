"""What is PostgreSQL's alone: addresses, what a server must be, how it is shared.

Guarantee: a committed transaction was written to the disk of the server (`synchronous_commit` is on for every writer,
whatever the role or the database has as a default; a campaign that is no simulation is not written to on a server with
`fsync` or `full_page_writes` off). Writers of a campaign take turns by the lock of its row, which each takes first, so
none of them meets another half way: there is nothing to deadlock on. A reader sees one state of everything.

Connections that are lost: `postgres_transactions`. One process at a time: `postgres_turns`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from discreet.errors import BadInput, MissingExtra, StoreUnavailable
from discreet.storage.database import Session
from discreet.storage.disk import locked
from discreet.storage.postgres_transactions import Transaction, facts_of, patience_of, refusals
from discreet.storage.postgres_turns import WAITS, held, session_at, turn

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
        engine = partial(self.engine, patience=WAITS, pooled=False)
        with (
            locked(path, asked=asked, doing=doing, wait=wait),
            turn(self.place, key, engine=engine, until=until, asked=asked, doing=doing),
        ):
            yield

    def held(self, connection: Connection, path: Path, key: str) -> bool:
        """Whether a process of any host does ``key`` now; nobody is kept from it by looking."""
        return held(connection, key)

    def session(self) -> Session | None:
        """The connection that has the turns of the running block, in this process."""
        return session_at(self.place)

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
