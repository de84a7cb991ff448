"""Sinks: where the lines of a ledger are stored. A sink keeps lines in order, and never loses one it accepted.

Contract (`discreet.testing.storage`): `append` is durable when it returns, whole or not at all as far as a reader can
tell, and refuses lines meant for another position than its end, so that two writers cannot both win.

`FileSink` is a file of JSON lines. When `append` returns, the lines were handed to the disk (`fsync`, and of the
directory for a new file). A process killed at any instruction leaves the lines that returned and at most one torn tail,
which the next append cuts off: no receipt was ever issued for it. One writer at a time (an advisory lock that ends with
the process). After an error of the disk the sink takes nothing more: whether the last write landed is unknown until the
file is read again. Beside it, in LEDGER.mark, is how many lines there are (`high_water_mark`): a restored old copy, or
one whose last lines are gone, is refused. A copy without that file can be read and verified, not charged.
Assumption: a local file system that honours fsync.
"""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from discreet.errors import InvalidLedger, LedgerUnavailable
from discreet.privacy.files import sync_directory
from discreet.privacy.ledger.charges import unsealed
from discreet.privacy.ledger.high_water_mark import HighWaterMark, Position, compared


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


MOST_BYTES = 1 << 32


def whole_lines(data: bytes) -> list[bytes]:
    """The lines of ``data`` without a torn tail: the beginning of a line that lacks its end.

    A line that has its end is never dropped, whatever is wrong with it: `unsealed` refuses it. A tail that lacks
    nothing but its newline, or has another byte in its place, is a line.
    """
    *ended, tail = data.split(b"\n")
    lines = [part + b"\n" for part in ended]
    if _has_its_end(tail):
        lines.append(tail + b"\n")
    return lines


def _has_its_end(tail: bytes) -> bool:
    """Whether ``tail`` begins with a whole JSON object, which the beginning of a line never does."""
    try:
        form, _ = json.JSONDecoder().raw_decode(tail.decode("ascii", errors="replace"))
    except (ValueError, RecursionError):
        return False
    return isinstance(form, dict)


def _complete(line: bytes) -> bool:
    try:
        unsealed(line)
    except InvalidLedger:
        return False
    return True


def read_lines(path: Path) -> list[bytes]:
    """The whole lines of a ledger file, for readers: takes no lock and changes nothing. Lines that do not reach the
    mark beside the file are refused; where there is no mark, nothing is compared (`read_beside_mark` tells).
    """
    lines, position, refused = read_beside_mark(path)
    if position is not None and refused is not None:
        raise refused
    return lines


def read_beside_mark(path: Path) -> tuple[list[bytes], Position | None, InvalidLedger | None]:
    """The whole lines of a ledger file, what the mark beside it says, and why the lines may not go on, if so."""
    mark = HighWaterMark.beside(path)
    position = mark.read()  # before the lines: some may be added meanwhile
    if path.stat().st_size > MOST_BYTES:
        raise InvalidLedger("reading a ledger", "the file is larger than any ledger", "Check the path")
    lines = whole_lines(path.read_bytes())
    return lines, position, compared(position, lines, asked=f"reading {path.name}", path=mark.path)


class FileSink:
    """Appends to ``path``; creates it, readable by its owner alone, unless it must exist.

    Opening changes nothing. A torn tail is cut off by the first append, when a ledger has read the lines before it.
    """

    def __init__(self, path: Path | str, *, must_exist: bool = False) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise LedgerUnavailable(f"opening {self.path.name or path}", "it is not an ordinary file", "Name a file")
        if must_exist and not self.path.exists():
            raise LedgerUnavailable(f"opening {self.path.name}", "there is no such ledger", "Check the path")
        self._mark = HighWaterMark.beside(self.path)
        if not self.path.exists():
            self._check_mark([])
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (0 if must_exist else os.O_CREAT)
        self._file = os.open(self.path, flags, 0o600)
        self._closing = weakref.finalize(self, _close, self._file)  # a forgotten sink must not keep its lock
        _open_sinks.add(self)
        self._broken = False
        try:
            _lock(self._file, self.path.name)
            data = self._data()
            lines = whole_lines(data)
            self._check_mark(lines)
        except BaseException:
            self.close()
            raise
        self._lines, self._size = len(lines), len(data)
        self._last = lines[-1] if lines else None
        self._kept = sum(map(len, lines))
        self._torn = self._kept != len(data)
        self._foreign = bool(data) and not lines  # not ours to cut, not even if it was to be one of ours

    def _check_mark(self, lines: list[bytes]) -> None:
        if lines and not _complete(lines[0]):
            return  # it is no ledger, and whoever reads it says so
        asked = f"opening {self.path.name}"
        refused = compared(self._mark.read(), lines, asked=asked, path=self._mark.path)
        if refused is not None:
            raise refused

    def _data(self) -> bytes:
        parts, offset = [], 0
        while chunk := os.pread(self._file, 1 << 22, offset):
            parts.append(chunk)
            offset += len(chunk)
        return b"".join(parts)

    def read(self) -> list[bytes]:
        """Every whole line, oldest first."""
        self._check_open()
        return whole_lines(self._data())

    def append(self, at: int, lines: Sequence[bytes]) -> None:
        """Write and fsync ``lines`` after the first ``at``, then move the mark."""
        self._check_open()
        if at != self._lines or os.fstat(self._file).st_size != self._size or self._replaced():
            raise not_the_end()
        data = b"".join(lines)
        self._broken = True  # until the disk has said otherwise
        if self._torn:
            self._mend()
        if not at:
            self._mark.create()
        with self._mark.held() as mark:
            self._write(data)
            self._lines, self._last = at + len(lines), lines[-1] if lines else self._last
            mark.advance(self._lines, self._last)
        self._broken = False

    def _write(self, data: bytes) -> None:
        written = 0
        while written < len(data):
            written += os.write(self._file, data[written:])
        os.fsync(self._file)
        if not self._lines:
            sync_directory(self.path.absolute().parent)
        self._size += len(data)

    def _mend(self) -> None:
        """Cut a torn tail off, or give a whole one the newline it lacks."""
        if self._foreign:
            self._broken = False
            raise LedgerUnavailable(
                f"writing {self.path.name}",
                "it holds something that is not a ledger",
                "Remove it, or choose another name",
            )
        if self._kept > self._size:
            os.write(self._file, b"\n")
        else:
            os.ftruncate(self._file, self._kept)
        os.fsync(self._file)
        self._size, self._torn = self._kept, False

    def close(self) -> None:
        """Close the file, which ends the lock."""
        self._file = -1
        _open_sinks.discard(self)
        self._closing()

    def _replaced(self) -> bool:
        """Whether the path now names another file: ours would be lost."""
        try:
            status = self.path.stat()
        except OSError:
            return True
        return not os.path.samestat(status, os.fstat(self._file))

    def _check_open(self) -> None:
        if self._file < 0 or self._broken:
            raise LedgerUnavailable(
                f"using {self.path.name}",
                "its last write may not have landed" if self._broken else "it is closed",
                "Open the ledger again; what was written counts as spent",
            )

    def _leave_to_parent(self) -> None:
        """In a forked child: let go of the file without ending the parent's lock."""
        if self._closing.detach() is not None:
            os.close(self._file)
        self._file = -1


_open_sinks: weakref.WeakSet[FileSink] = weakref.WeakSet()


def _after_fork() -> None:
    for sink in list(_open_sinks):
        sink._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _close(file: int) -> None:
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)  # a child that inherited the file must not keep the lock
    os.close(file)


def _lock(file: int, name: str) -> None:
    try:
        import fcntl
    except ImportError:
        raise LedgerUnavailable("a ledger in a file", "this system has no POSIX locks", "Use another sink") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LedgerUnavailable(f"opening {name}", "another process is writing it", "Wait for it, or stop it") from None
