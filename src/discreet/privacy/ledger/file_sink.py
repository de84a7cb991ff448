"""A ledger as a file of JSON lines.

Guarantee: when `append` returns, the lines were handed to the disk (`fsync`, and of the directory for a new file). A
process killed at any instruction leaves the lines that returned and at most one torn tail, which the next writer cuts
off: no receipt was ever issued for it. One writer at a time (an advisory lock that ends with the process). After an
error of the disk the sink takes nothing more: whether the last write landed is unknown until the file is read again.

Assumption: a local file system that honours fsync. A restored old copy looks whole; only a head kept elsewhere (a
certificate) tells.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Sequence
from pathlib import Path

from discreet.errors import InvalidLedger, LedgerUnavailable
from discreet.privacy.ledger.sinks import not_the_end

MOST_BYTES = 1 << 32


def whole_lines(data: bytes) -> list[bytes]:
    """The lines of ``data`` without a torn tail: bytes after the last newline, or a last line with holes (a page that
    never reached the disk reads as zeros).
    """
    lines = [part + b"\n" for part in data.split(b"\n")[:-1]]
    if lines and b"\0" in lines[-1]:
        lines.pop()
    return lines


def read_lines(path: Path) -> list[bytes]:
    """The whole lines of a ledger file, for readers: takes no lock and changes nothing."""
    if path.stat().st_size > MOST_BYTES:
        raise InvalidLedger("reading a ledger", "the file is larger than any ledger", "Check the path")
    return whole_lines(path.read_bytes())


class FileSink:
    """Appends to ``path``; creates it, readable by its owner alone, unless it must exist."""

    def __init__(self, path: Path | str, *, must_exist: bool = False) -> None:
        self.path = Path(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (0 if must_exist else os.O_CREAT)
        self._file = os.open(self.path, flags, 0o600)
        self._closing = weakref.finalize(self, os.close, self._file)  # a forgotten sink must not keep its lock
        self._lines, self._size, self._broken = 0, 0, False
        try:
            _lock(self._file, self.path.name)
            self._recover()
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        lines = self.read()
        self._lines, self._size = len(lines), sum(map(len, lines))
        if os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)

    def read(self) -> list[bytes]:
        """Every whole line, oldest first."""
        self._check_open()
        parts, offset = [], 0
        while chunk := os.pread(self._file, 1 << 22, offset):
            parts.append(chunk)
            offset += len(chunk)
        return whole_lines(b"".join(parts))

    def append(self, at: int, lines: Sequence[bytes]) -> None:
        """Write and fsync ``lines`` after the first ``at``."""
        self._check_open()
        if at != self._lines or os.fstat(self._file).st_size != self._size or self._replaced():
            raise not_the_end()
        data = b"".join(lines)
        self._broken = True  # until the disk has said otherwise
        written = 0
        while written < len(data):
            written += os.write(self._file, data[written:])
        os.fsync(self._file)
        if not self._lines:
            sync_directory(self.path.absolute().parent)
        self._lines, self._size = at + len(lines), self._size + len(data)
        self._broken = False

    def close(self) -> None:
        """Close the file, which ends the lock."""
        self._file = -1
        self._closing()

    def _replaced(self) -> bool:
        """Whether the path now names another file: ours would be lost."""
        try:
            there = self.path.stat()
        except OSError:
            return True
        return not os.path.samestat(there, os.fstat(self._file))

    def _check_open(self) -> None:
        if self._file < 0 or self._broken:
            raise LedgerUnavailable(
                f"using {self.path.name}",
                "its last write may not have landed" if self._broken else "it is closed",
                "Open the ledger again; what was written counts as spent",
            )


def _lock(file: int, name: str) -> None:
    try:
        import fcntl
    except ImportError:
        raise LedgerUnavailable("a ledger in a file", "this system has no POSIX locks", "Use another sink") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LedgerUnavailable(f"opening {name}", "another process is writing it", "Wait for it, or stop it") from None


def sync_directory(directory: Path) -> None:
    """Make a new, renamed or removed name durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync a directory
            os.fsync(handle)
    finally:
        os.close(handle)
