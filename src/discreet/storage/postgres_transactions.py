"""One transaction on a PostgreSQL server: how it begins, connections that are lost, and what a lost COMMIT did.

Guarantee: a connection that cannot be had is tried again for as long as the store is patient. One that is lost before
COMMIT has stored nothing. One that is lost in COMMIT: every transaction that writes leaves a token of its own in the
row of its connection (`commits`). Who wants to know waits for that row, until the lost transaction is over; then the
token is there, and all was stored, or it is not, and nothing was or will be. A number that the server gave would not
do: after a crash it gives the same one again. On another server or another timeline than before nobody claims to know.

Errors
------
What PostgreSQL's errors mean, by their codes; nothing of their texts is repeated, for those show rows and names.

Guarantee: a connection that was lost before COMMIT was sent is `Interrupted`: the server undoes what it has not been
told to commit. What a lost COMMIT did is asked of the server (`Transaction`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from discreet.errors import BadInput, DiscreetError, InvalidStore, StoreUnavailable
from discreet.storage.database import WRITES, Interrupted

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
                now = connection.execute(_PLACE, patience_of(max(self._patience, 10.0))).one()
                if now.server != self._facts.server:
                    return None
                token = connection.execute(_TOKEN, {"session": self._session}).scalar()
                looking.rollback()
        if token == self._token:
            return "committed"
        return "aborted" if time.monotonic() - self._since < _LONGEST else None


_LOCKED = "another process is writing to it, or holds it", "Try again when that one has finished"
_FULL = "the server's disk is full", "Make room and try again; nothing of this was stored"
_MET = "two writers met, and the server chose the other one", "Try again; nothing of this was stored"
_BUSY = "the server has no room for another connection", "Close some, or raise its max_connections"
_FORBIDDEN = "this role may not", "Give it a database of its own: create database NAME owner ROLE"
_REPLICA = "this server takes no writes: it is a replica, or was told so", "Name the primary server"
_CHANGED = "it cannot be read as a campaign store: it is damaged, or was changed", "Restore a copy"
_CONTRADICTS = "what it holds contradicts what was to be stored", "Load the campaign again"
_CUT = "the server's time limit for a statement cut it off", "Raise statement_timeout; nothing of this was stored"

_UNAVAILABLE = {
    "55P03": _LOCKED,
    "40001": _MET,
    "40P01": _MET,
    "53100": _FULL,
    "53200": ("the server has no memory left", "Give it more; nothing of this was stored"),
    "53300": _BUSY,
    "25006": _REPLICA,
    "55000": _REPLICA,
    "42501": _FORBIDDEN,
    "57014": _CUT,
}
_INVALID = {"23": _CONTRADICTS, "42": _CHANGED, "22": _CHANGED, "XX": _CHANGED}
"""By the class of the code."""

_GONE = ("08", "57P")
"""Connections that failed or were ended: by the network, an administrator, a crash, a start that is not over."""

_REFUSED = (
    (("authentication failed",), "the server does not know this role by this password"),
    (("no password supplied",), "the server wants a password"),
    (("pg_hba.conf",), "the server takes no such connections from this host"),
    (("role", "does not exist"), "there is no such role"),
    (("database", "does not exist"), "there is no such database"),
    (("permission denied for database",), "this role may not use this database"),
    (("certificate",), "the certificates do not fit"),
)
"""Parts of messages about connections, which carry no code; those after which trying again is of no use."""


@contextmanager
def refusals(asked: str) -> Iterator[None]:
    """Errors of the database as ours."""
    import psycopg

    try:
        yield
    except (SQLAlchemyError, psycopg.Error) as error:
        raise refusal(error, asked) from None


def refusal(error: BaseException, asked: str) -> DiscreetError:
    """One error as ours."""
    if was_lost(error):
        return Interrupted(asked, "the connection to the database was lost", "Try again; nothing of this was stored")
    if isinstance(error, PoolTimeout):
        return StoreUnavailable(asked, "this process uses all of its connections", "Ask for less at once")
    code = code_of(error)
    if code in _UNAVAILABLE:
        return StoreUnavailable(asked, *_UNAVAILABLE[code])
    if code[:2] in _INVALID:
        return InvalidStore(asked, *_INVALID[code[:2]])
    return StoreUnavailable(asked, f"the database said {code or 'no'}", "Try again; nothing of this was stored")


def code_of(error: BaseException) -> str:
    """SQLSTATE; empty if there is none."""
    return str(getattr(getattr(error, "orig", error), "sqlstate", None) or "")


def was_lost(error: BaseException) -> bool:
    """Whether an error is the end of a connection."""
    import psycopg

    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    cause = getattr(error, "orig", error)
    if code_of(error).startswith(_GONE):
        return True
    return isinstance(cause, (psycopg.OperationalError, psycopg.InterfaceError)) and not code_of(error)


def cannot_connect(error: BaseException, asked: str) -> DiscreetError | None:
    """Why a connection will never be made; None if trying again may help."""
    words = str(getattr(error, "orig", error))
    for parts, fact in _REFUSED:
        if all(part in words for part in parts):
            remedy = "See to the address, the role and its password (PGPASSFILE, ~/.pgpass or PGPASSWORD)"
            return BadInput(asked, fact, remedy)
    return None


def turn_lost(asked: str) -> StoreUnavailable:
    """The connection of a turn ended."""
    return StoreUnavailable(
        asked,
        "the connection that had this process's turn was lost, and the turn with it",
        "Run it again: what was charged is found again, and nothing else was stored",
    )


def turn_missing(asked: str) -> StoreUnavailable:
    """The connection of a turn does not have it."""
    return StoreUnavailable(
        asked,
        "the server does not find this process's turn in its connection",
        "Connect to the server itself, or to a pooler in session mode: turns belong to connections",
    )
