"""Turns on a server: an advisory lock of a connection, by which everything is written that is done in the turn.

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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from discreet.errors import StoreUnavailable
from discreet.storage.database import Interrupted
from discreet.storage.postgres_transactions import Transaction, refusals, turn_lost, turn_missing, was_lost

_PAUSE = 0.05
WAITS = 10.0
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


@contextmanager
def turn(
    server: tuple[str, ...], key: str, *, engine: Callable[[], Engine], until: float, asked: str, doing: str
) -> Iterator[None]:
    """Have the lock of ``key`` on the server with this address while the block runs; raise when it is ``until``."""
    here = os.getpid(), server
    within = session_at(server)
    session = TurnSession(engine(), asked) if within is None else within
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


def held(connection: Connection, key: str) -> bool:
    """Whether somebody has the lock of ``key`` now."""
    return bool(connection.execute(text(_ANYBODYS), _parts(_number(key))).scalar())


def session_at(server: tuple[str, ...]) -> TurnSession | None:
    """The connection that has the turns of the running block on the server with this address, in this process."""
    return _sessions.get().get((os.getpid(), server))


class TurnSession:
    """One connection that has turns; one thread writes by it at a time."""

    def __init__(self, engine: Engine, asked: str) -> None:
        self._engine = engine
        self._process, self._one = os.getpid(), threading.Lock()
        self._held: list[int] = []
        with Transaction(engine.connect, writes=False, asked=asked, patience=WAITS):
            pass  # waits for a server that is on its way up
        with refusals(asked):
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
        self._inner = Transaction(lambda: session._connection, writes=True, asked=asked, patience=WAITS, kept=True)

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
