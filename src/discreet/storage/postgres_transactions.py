"""One transaction on a PostgreSQL server: how it begins, connections that are lost, and what a lost COMMIT did.

Guarantee: a connection that cannot be had is tried again for as long as the store is patient. One that is lost before
COMMIT has stored nothing. One that is lost in COMMIT: the server is asked what became of the transaction, by its
number; on another server or another timeline than before nobody claims to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from discreet.errors import StoreUnavailable
from discreet.storage.dialect import WRITES, Interrupted
from discreet.storage.postgres_errors import cannot_connect, was_lost

_FACTS = "discreet_facts"
_SLOWEST = 1.0
"""Seconds between two tries, at most."""

_BEGIN = text(
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN"
    " 'remote_apply' ELSE 'on' END, true) AS synchronous, set_config('lock_timeout', :patience, true) AS patience,"
    " pg_current_xact_id()::text AS number, pg_backend_pid() AS process, current_setting('fsync') AS fsync,"
    " current_setting('full_page_writes') AS pages,"
    " (SELECT system_identifier FROM pg_control_system()) || ' ' ||"
    " substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS server"
)
_BECAME = text(
    "SELECT CASE WHEN :server = (SELECT system_identifier FROM pg_control_system()) || ' ' ||"
    " substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) THEN pg_xact_status(CAST(:number AS xid8)) END"
)


def patience_of(seconds: float) -> dict[str, str]:
    """As the server says it."""
    return {"patience": f"{max(1, int(1000 * seconds))}ms"}


def facts_of(connection: Connection) -> Any:
    """What the server said when the transaction began."""
    return connection.info[_FACTS]


class Transaction:
    """One transaction on a connection of its own, or on that of a turn (``kept``), which is not tried again.

    No generator: one that is collected in a forked child would end what is the parent's.
    """

    def __init__(
        self, connect: Callable[[], Connection], *, writes: bool, asked: str, patience: float, kept: bool = False
    ) -> None:
        self._connect, self._writes, self._asked, self._patience, self._kept = connect, writes, asked, patience, kept

    def __enter__(self) -> Connection:
        until, pause = time.monotonic() + self._patience, 0.05
        while True:
            try:
                return self._begin()
            except SQLAlchemyError as error:
                if self._kept or not was_lost(error):
                    raise
                if why := cannot_connect(error, self._asked):
                    raise why from None
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        self._asked, "the database cannot be reached", "See to the server and the network; try again"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, _SLOWEST)

    def _begin(self) -> Connection:
        options: dict[str, Any] = {WRITES: self._writes, "postgresql_readonly": not self._writes}
        options["isolation_level"] = "READ COMMITTED" if self._writes else "REPEATABLE READ"
        self._connection = self._connect()
        try:
            self._connection.execution_options(**options)
            self._begun = self._connection.begin()
            if self._writes:
                self._facts = self._connection.execute(_BEGIN, patience_of(self._patience)).one()
                self._connection.info[_FACTS] = self._facts
        except BaseException:
            self._leave()
            raise
        return self._connection

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None and self._writes:
                self._commit()
            else:
                with suppress(SQLAlchemyError):
                    self._begun.rollback()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._kept:
            if self._connection.in_transaction():
                with suppress(SQLAlchemyError):
                    self._connection.rollback()
            return
        with suppress(SQLAlchemyError):
            self._connection.close()

    def _commit(self) -> None:
        try:
            self._begun.commit()
        except DBAPIError as error:
            if not was_lost(error):
                raise
            became = self._became()
            if became == "aborted":
                raise Interrupted(
                    self._asked, "the connection to the database was lost", "Try again; nothing of this was stored"
                ) from None
            if became != "committed":
                raise StoreUnavailable(
                    self._asked,
                    "the connection was lost while this was stored, and the server cannot tell what became of it",
                    "Look whether it is there before you do it again",
                ) from None

    def _became(self) -> str | None:
        """Of a transaction whose COMMIT was not answered: committed, aborted, or None if nobody knows."""
        engine = self._connection.engine
        until, pause = time.monotonic() + max(self._patience, 10.0), 0.05
        while time.monotonic() < until:
            with suppress(SQLAlchemyError), engine.connect() as connection:
                asked = {"server": self._facts.server, "number": self._facts.number}
                found = connection.execute(_BECAME, asked).scalar()
                if found != "in progress":
                    return None if found is None else str(found)
            time.sleep(pause)
            pause = min(2 * pause, _SLOWEST)
        return None
