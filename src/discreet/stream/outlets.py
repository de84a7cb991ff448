"""Where decisions go when they are durable. Audience: annotator; the ask bits themselves are paid for, and world's.

An outlet that knows how far it got (a file, a stream in Redis) has every decision once, in the order of places: what a
killed process did not write any more is taken from the journal. Standard output does not know; there a record that
comes again gets the decision it had.

Nobody who takes decisions slowly is outrun: writing waits, and nothing is read meanwhile.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from discreet.errors import BadInput
from discreet.privacy.files import sync_directory
from discreet.storage.disk import disk_refusals
from discreet.storage.stream_store import Decided
from discreet.stream.lines import MOST_LINE, decision_line

_BEGINS = b'{"id": "'


class Outlet(Protocol):
    """Takes decisions."""

    @property
    def last(self) -> int | None:
        """The place of the last decision it has; None: it does not know."""

    def ends_with(self, decided: Decided) -> bool:
        """Whether its last decision is this one: what it has may be another stream's."""

    def emit(self, decisions: Sequence[Decided]) -> None:
        """Hand them over; waits until they are taken."""

    def close(self) -> None:
        """No more will come."""


class PipeOutlet:
    """Lines into a file descriptor, such as standard output."""

    last: int | None = None

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def ends_with(self, decided: Decided) -> bool:
        """It does not know."""
        return True

    def emit(self, decisions: Sequence[Decided]) -> None:
        """Write whole lines."""
        write_all(self._handle, lines_of(decisions))

    def close(self) -> None:
        """It is not ours to close."""


class FileOutlet:
    """Lines at the end of a file, each decision once."""

    def __init__(self, path: Path) -> None:
        self._asked = self.check(path)
        self._line = b""
        with disk_refusals(self._asked):
            new = not path.exists()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if new:
                sync_directory(path.absolute().parent)
        try:
            self.last: int | None = self._mended()
        except BaseException:
            os.close(self._file)
            raise

    @staticmethod
    def check(path: Path) -> str:
        """Refuse what cannot be written to, before anything else is done; what writing there is called."""
        asked = f"writing decisions to {path.name or path}"
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise BadInput(asked, "it is no file in a directory that exists", "Check the path")
        return asked

    def ends_with(self, decided: Decided) -> bool:
        """By the line itself."""
        return not self._line or self._line == decision_line(decided).encode("ascii")

    def _mended(self) -> int:
        """The last whole decision; what was torn after it is cut off. A file of something else is left alone."""
        size = os.fstat(self._file).st_size
        start = max(0, size - 4 * MOST_LINE)
        data = os.pread(self._file, size - start, start)
        *lines, torn = data.split(b"\n")
        ours = not start and (torn.startswith(_BEGINS) or _BEGINS.startswith(torn))
        self._line = lines[-1] if lines else b""
        place = _place_in(self._line) if lines else (0 if ours else -1)
        if place < 0:
            raise BadInput(self._asked, "it ends with something that is no decision", "Choose another file")
        if torn:
            os.ftruncate(self._file, size - len(torn))
        return place

    def emit(self, decisions: Sequence[Decided]) -> None:
        """Append whole lines."""
        with disk_refusals(self._asked, kept="what was decided is safe, and the same command goes on"):
            write_all(self._file, lines_of(decisions))
        self.last, self._line = decisions[-1][0] if decisions else self.last, b""

    def close(self) -> None:
        """Hand it to the disk: the journal would bring it back, and it is good to know that it need not."""
        with disk_refusals(self._asked):
            os.fsync(self._file)
            os.close(self._file)


def _place_in(line: bytes) -> int:
    try:
        place = json.loads(line)["place"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return place if type(place) is int and place > 0 else -1


def lines_of(decisions: Sequence[Decided]) -> bytes:
    """Decisions as lines."""
    return "".join([f"{decision_line(one)}\n" for one in decisions]).encode("ascii")


def write_all(handle: int, data: bytes) -> None:
    """All of it, however slowly it is taken."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(handle, view) :]
        except BlockingIOError:  # somebody made the pipe non-blocking
            poll = select.poll()
            poll.register(handle, select.POLLOUT)
            poll.poll()
