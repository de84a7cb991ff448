"""A ledger's lines as rows of the store.

Guarantee: that of every sink. The position is the key, so of two writers one wins. A forked child has no part in the
ledgers of its parent: it opens its own, or two processes would draw for one charge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from discreet.errors import LedgerUnavailable
from discreet.privacy.ledger.sinks import not_the_end
from discreet.storage import transitions
from discreet.storage.forms import canonical
from discreet.storage.scope import Scope
from discreet.storage.tables import ledger_lines

Step = tuple[str, int, Mapping[str, Any]]
"""Kind, phase and facts of a transition."""


class StoreSink:
    """Keeps the lines of a campaign's ledger. ``step``: recorded together with the next lines, or not at all."""

    def __init__(self, scope: Scope, *, step: Step | None = None) -> None:
        self._scope, self._process, self._step = scope, os.getpid(), step
        self._broken = self._closed = False

    def read(self) -> list[bytes]:
        """Every line, oldest first."""
        self._check_open()
        mine = select(ledger_lines.c.line).where(self._scope.rows(ledger_lines)).order_by(ledger_lines.c.position)

        def lines() -> list[bytes]:
            with self._scope.reading("reading the ledger") as connection:
                return list(connection.scalars(mine))

        return self._scope.database.steadily(lines)

    def append(self, at: int, lines: Sequence[bytes]) -> None:
        """Keep ``lines`` after the first ``at``; committed when it returns."""
        self._check_open()
        rows = [
            {"campaign": self._scope.campaign, "position": at + number, "line": bytes(line)}
            for number, line in enumerate(lines)
        ]
        self._broken = True  # until the database has said otherwise
        self._scope.database.steadily(lambda: self._insert(at, rows))
        self._broken, self._step = False, None

    def _insert(self, at: int, rows: list[dict[str, Any]]) -> None:
        """Again, whole, when the connection was lost and the server says that nothing was stored."""
        with self._scope.writing("charging the ledger") as connection:
            last = connection.scalar(select(func.max(ledger_lines.c.position)).where(self._scope.rows(ledger_lines)))
            if at != (0 if last is None else last + 1):
                self._broken = False
                raise not_the_end()
            if rows:
                connection.execute(ledger_lines.insert(), rows)
            self._take_step(connection)

    def _take_step(self, connection: Connection) -> None:
        if self._step is not None:
            kind, phase, facts = self._step
            stored = canonical(facts, "facts of a transition")
            transitions.insert(connection, self._scope, kind=kind, phase=phase, facts=stored)

    def close(self) -> None:
        """Take no more lines."""
        self._closed = True

    def _check_open(self) -> None:
        fact = None
        if self._process != os.getpid():
            fact = "it was opened by the process this one was forked from"
        elif self._closed:
            fact = "it is closed"
        elif self._broken:
            fact = "its last write may not have landed"
        if fact is not None:
            remedy = "Open the ledger again; what was written counts as spent"
            raise LedgerUnavailable(self._scope.asked("using the ledger"), fact, remedy)
