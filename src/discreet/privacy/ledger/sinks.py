"""Where lines are kept. A sink knows nothing of entries: it keeps lines in order, and never loses one it accepted.

Contract (`discreet.testing.sinks`): `append` is durable when it returns, whole or not at all as far as a reader can
tell, and refuses lines meant for another position than its end, so that two writers cannot both win.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from discreet.errors import LedgerUnavailable


@runtime_checkable
class Sink(Protocol):
    """Keeps the lines of one ledger."""

    def read(self) -> list[bytes]:
        """Every line kept, oldest first, each with its newline."""

    def append(self, at: int, lines: Sequence[bytes]) -> None:
        """Keep ``lines`` after the first ``at``; durable on return. Raises `LedgerUnavailable` and keeps none, if
        ``at`` is not the end; after any other error the sink takes no more lines until it is opened again. No lines:
        those that are there are durable on return, and so is what the sink remembers of them elsewhere.
        """

    def close(self) -> None:
        """Let others write."""


class MemorySink:
    """Lines in a list, one given or its own: for simulations and tests. Durable as long as the process is."""

    def __init__(self, lines: list[bytes] | None = None) -> None:
        self._lines = [] if lines is None else lines
        self._closed = False

    def read(self) -> list[bytes]:
        """Every line kept, oldest first."""
        return list(self._lines)

    def append(self, at: int, lines: Sequence[bytes]) -> None:
        """Keep ``lines`` after the first ``at``."""
        if at != len(self._lines) or self._closed:
            raise not_the_end()
        self._lines += lines

    def close(self) -> None:
        """Take no more."""
        self._closed = True


def not_the_end() -> LedgerUnavailable:
    """Another writer was faster, or the lines changed underneath."""
    return LedgerUnavailable(
        "appending to a ledger", "it does not end where this process last saw its end", "Open the ledger again"
    )
