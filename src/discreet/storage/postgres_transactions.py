"""One transaction on a PostgreSQL server: how it begins, connections that are lost, and what a lost COMMIT did.

Guarantee: a connection that cannot be had is tried again for as long as the store is patient. One that is lost before
COMMIT has stored nothing. One that is lost in COMMIT: every transaction that writes leaves a token of its own in the
row of its connection (`commits`). Who wants to know waits for that row, until the lost transaction is over; then the
token is there, and all was stored, or it is not, and nothing was or will be. A number that the server gave would not
do: after a crash it gives the same one again. On another server or another timeline than before nobody claims to know.
"""

from __future__ import annotations

import secrets
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
_SESSION = "discreet_session"
_DAYS = 30
"""That the row of a connection is kept after its last use."""
_LONGEST = 86400.0
"""Seconds; of a transaction that took longer nobody says that it stored nothing."""
_SLOWEST = 1.0
"""Seconds between two tries, at most."""

_BEGIN = text(
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN"
    " 'remote_apply' ELSE 'on' END, true) AS synchronous, set_config('lock_timeout', :patience, true) AS patience,"
    " to_regclass('commits') IS NOT NULL AS tokens, current_setting('fsync') AS fsync,"
    " current_setting('full_page_writes') AS pages,"
    " (SELECT system_identifier FROM pg_control_system()) || ' ' ||"
    " substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS server"
)
_TIME = "to_char(now() AT TIME ZONE 'utc'{}, 'YYYY-MM-DD\"T\"HH24:MI:SS')"
_BEFORE = f" - interval '{_DAYS} days'"
_PUT = text(
    f"INSERT INTO commits (session, token, at) VALUES (:session, :token, {_TIME.format('')})"
    " ON CONFLICT (session) DO UPDATE SET token = excluded.token, at = excluded.at"
)
_TIDY = text(
    "DELETE FROM commits WHERE session IN (SELECT session FROM commits"
    f" WHERE at < {_TIME.format(_BEFORE)} FOR UPDATE SKIP LOCKED)"
)
_PLACE = text(
    "SELECT set_config('lock_timeout', :patience, true), (SELECT system_identifier FROM pg_control_system()) || ' ' ||"
    " substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS server"
)
_TOKEN = text(  # an insertion, for one that is under way is waited for, and a selection would not see it
    "INSERT INTO commits (session, token, at) VALUES (:session, '', '')"
    " ON CONFLICT (session) DO UPDATE SET token = commits.token RETURNING token"
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
                self._leave_token()
        except BaseException:
            self._leave()
            raise
        return self._connection

    def _leave_token(self) -> None:
        """What says, if it is found, that this transaction was committed. Not while the first tables are made."""
        self._token, self._since = secrets.token_hex(16), time.monotonic()
        if not self._facts.tokens:
            return
        info = self._connection.info
        if _SESSION not in info:
            info[_SESSION] = secrets.token_hex(16)
            self._connection.execute(_TIDY)
        self._session = info[_SESSION]
        self._connection.execute(_PUT, {"session": self._session, "token": self._token})

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
        until, pause = time.monotonic() + max(self._patience, 10.0), 0.05
        while self._facts.tokens and time.monotonic() < until:
            try:
                return self._looked_for()
            except StoreUnavailable:
                return None
            except SQLAlchemyError as error:
                if not was_lost(error):  # the lost transaction is not over yet, or the server takes no writes
                    return None
            time.sleep(pause)
            pause = min(2 * pause, _SLOWEST)
        return None

    def _looked_for(self) -> str | None:
        with self._connection.engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED", postgresql_readonly=False)
            with connection.begin() as looking:
                place = connection.execute(_PLACE, patience_of(max(self._patience, 10.0))).one()
                if place.server != self._facts.server:
                    return None
                found = connection.execute(_TOKEN, {"session": self._session}).scalar()
                looking.rollback()
        if found == self._token:
            return "committed"
        return "aborted" if time.monotonic() - self._since < _LONGEST else None
