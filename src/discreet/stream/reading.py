"""Where lines come from: standard input, a file, a file that grows. Bounded memory, and nothing is read ahead.

Lines are handed over as they are there: as many as fit a batch, or as few as came. While a batch is made durable and
its decisions are written, nothing is read; a sender that is faster waits in its pipe.
"""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Self

from discreet.errors import BadInput
from discreet.stream.lines import MOST_LINE

_PIECE = 1 << 18
_MOST_BYTES = 1 << 24
"""Of one batch."""


class LineReader:
    """Lines of a file descriptor. ``number``: of the last line that was handed over."""

    def __init__(self, handle: int, name: str, *, close: bool = False) -> None:
        self.name, self.number = name, 0
        self._handle, self._close = handle, close
        self._lines: list[bytes] = []
        self._tail, self._held = b"", 0
        self._ended = False

    @classmethod
    def of(cls, path: Path) -> Self:
        """The lines of a file."""
        if path.is_dir() or not path.exists():
            raise BadInput(f"reading {path.name or path}", "there is no such file", "Check the path")
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path.name, close=True)

    def take(self, most: int, *, wait: float | None) -> list[bytes] | None:
        """At most ``most`` lines: those that are there, or the first that come within ``wait`` seconds (None: for
        ever). None at the end.
        """
        while len(self._lines) < most and self._held < _MOST_BYTES and not self._ended:
            if not self._ready(0.0 if self._lines else wait):
                break
            self._read()
        taken, self._lines = self._lines[:most], self._lines[most:]
        self._held = sum(map(len, self._lines))
        self.number += len(taken)
        return taken if taken or not self._ended else None

    def _ready(self, wait: float | None) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(None if wait is None else 1000 * wait))

    def _read(self) -> None:
        piece = os.read(self._handle, _PIECE)
        self._ended = not piece
        *lines, tail = (self._tail + piece).split(b"\n")
        if self._ended and tail:
            lines, tail = [*lines, tail], b""
        if len(tail) > MOST_LINE:
            where = self.number + len(self._lines) + len(lines) + 1
            raise BadInput(f"{self.name}, line {where}", f"it is longer than {MOST_LINE} bytes", "Write shorter lines")
        self._tail = tail
        self._held += len(piece)
        self._lines += lines

    def close(self) -> None:
        """Let go of the file."""
        if self._close:
            os.close(self._handle)


class GrowingFile:
    """Lines that are appended to a file by somebody else; a line counts when its end is written."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BadInput(f"reading labels from {path.name or path}", "there is no such file", "Make an empty one")
        self.path, self.name, self.number = path, path.name, 0
        self._file, self._place = path.open("rb"), 0

    def take(self, most: int) -> list[bytes]:
        """At most ``most`` new lines, if there are some."""
        if self._replaced():
            self._file.close()
            self._file = self.path.open("rb")
            self._place = self.number = 0
        lines: list[bytes] = []
        self._file.seek(self._place)
        while len(lines) < most and (line := self._file.readline(MOST_LINE + 2)).endswith(b"\n"):
            self._place += len(line)
            lines.append(line[:-1])
        self.number += len(lines)
        if not lines and len(line) > MOST_LINE:
            fact = f"it is longer than {MOST_LINE} bytes"
            raise BadInput(f"{self.name}, line {self.number + 1}", fact, "Write shorter lines")
        return lines

    def _replaced(self) -> bool:
        """Whether another file has its name now, or it was cut: then it is read from its start, which ids allow."""
        ours = os.fstat(self._file.fileno())
        try:
            there = self.path.stat()
        except FileNotFoundError:  # it is being replaced
            return False
        return not os.path.samestat(ours, there) or there.st_size < self._place

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
