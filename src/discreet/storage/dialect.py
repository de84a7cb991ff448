"""What a database must bring so that the other files of this room can speak portable SQL.

`sqlite` (one file, processes of one host) and `postgres` (a server, several hosts) each bring it. Everything that
differs between the two is behind these methods.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine

from discreet.errors import StoreUnavailable

WRITES = "discreet_writes"
"""The execution option of a connection that is going to write."""


class Interrupted(StoreUnavailable):
    """The connection was lost and it is known that nothing was stored: whoever can may do it again. Never of a turn."""


class Session(Protocol):
    """A connection that has turns, and by which everything is written that is done in them."""

    def writing(self, asked: str) -> AbstractContextManager[Connection]:
        """As `Dialect.transaction`; refused when the connection, and so the turn, was lost."""


class Dialect(Protocol):
    """One database."""

    @property
    def name(self) -> str:
        """In errors; no secret."""

    @property
    def url(self) -> str:
        """Where it is; no secret."""

    @property
    def place(self) -> Hashable:
        """Which database it is: equal if and only if it is the same one."""

    @property
    def home(self) -> Path:
        """The directory of this host for campaigns' keys, checkpoints and files."""

    @property
    def marks(self) -> Path | None:
        """The directory for the high-water marks of ledgers; None: each is in its campaign's directory."""

    @property
    def shared(self) -> bool:
        """Whether several hosts use it, so that files' contents must be in it."""

    def engine(self, *, patience: float) -> Engine:
        """Connections to it."""

    def refusals(self, asked: str) -> AbstractContextManager[None]:
        """Errors of the database as ours, without data."""

    def transaction(
        self, engine: Engine, *, writes: bool, asked: str, patience: float
    ) -> AbstractContextManager[Connection]:
        """All or nothing; durable when the block is left."""

    def share(self, engine: Engine, *, patience: float) -> None:
        """Let several processes use it at once."""

    def alone(self, connection: Connection) -> None:
        """Until this transaction ends, nobody else makes tables."""

    def check_durable(self, connection: Connection, asked: str) -> None:
        """Refuse if what this transaction commits could be lost with the power."""

    def turn(self, path: Path, key: str, *, asked: str, doing: str, wait: float) -> AbstractContextManager[None]:
        """Be the only process, on all hosts, that does ``key`` while the block runs. ``path``: for a lock's file."""

    def held(self, connection: Connection, path: Path, key: str) -> bool:
        """Whether some process does ``key`` now, as far as can be seen without asking for a turn."""

    def session(self) -> Session | None:
        """That which has the turns of the running block, if there is one and it is a connection."""

    def integrity(self, connection: Connection) -> tuple[bool, list[str]]:
        """Whether the database itself is undamaged, and tables with rows that name rows which are not there."""

    def rewrite(self, engine: Engine, *, asked: str, patience: float) -> None:
        """Rewrite it without what was deleted."""
