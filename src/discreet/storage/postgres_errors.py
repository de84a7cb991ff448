"""What PostgreSQL's errors mean, by their codes; nothing of their texts is repeated, for those show rows and names.

Guarantee: a connection that was lost before COMMIT was sent is `Interrupted`: the server undoes what it has not been
told to commit. What a lost COMMIT did is asked of the server (`discreet.storage.postgres`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from discreet.errors import BadInput, DiscreetError, InvalidStore, StoreUnavailable
from discreet.storage.dialect import Interrupted

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
