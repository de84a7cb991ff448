"""A high-water mark: how many lines a ledger has, and the hash of the last one, kept outside of the ledger.

The lines of a ledger show every change to them but one: lines that are missing at the end. A database whose last
transactions are lost (one damaged bit in a write-ahead log is enough), a restored backup and a removed last line all
look whole. Their charges would be made again, with other noise: a second release for one charge. The mark tells.

Guarantee: a sink moves the mark after its lines are durable and before it returns, so no receipt is issued, and nothing
drawn, for a line that the mark does not cover. The mark never moves back: it is read, compared and written under a
lock. A ledger that has more lines than its mark is accepted (a process died between the two writes; nothing was drawn
for the last lines), if the line at the mark is the one that the mark names. One that has fewer lines, has another line
there, or has no mark is refused.

The file has two slots of one block each, and a write goes to the slot that does not hold the newest state: a write that
was cut off leaves the state before it. Nothing is allocated, so a full disk does not stop it.

Assumption: a file system that honours fdatasync and locks. Whoever restores an older mark together with an older ledger
is not noticed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from discreet.errors import InvalidLedger, LedgerUnavailable
from discreet.privacy.files import create_whole, sync_directory
from discreet.privacy.ledger.charges import sealed, unsealed

FORMAT = "discreet.mark/1"
SLOT = 4096
_PAUSE = 0.01
"""Seconds between two tries to lock; flock itself waits for ever or not at all."""
_KEYS = {"format", "id", "lines", "head", "moved"}
_NO_LINE = hashlib.sha256(b"").hexdigest()


def head_of(line: bytes | str | None) -> str:
    """What a mark remembers of the last line; None: there is none. A line names the hash of the one before it."""
    data = line.encode() if isinstance(line, str) else line or b""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Position:
    """What a mark says.

    id      random; whoever keeps the lines may remember it, so that another mark is noticed
    lines   how many there were
    head    `head_of` the last of them
    moved   whether the ledger goes on elsewhere: nothing more is charged here
    """

    id: str
    lines: int = 0
    head: str = _NO_LINE
    moved: bool = False

    def to_slot(self) -> bytes:
        """A block of the file."""
        form = {"format": FORMAT, "id": self.id, "lines": self.lines, "head": self.head, "moved": self.moved}
        return sealed(form)[0].rstrip(b"\n").ljust(SLOT - 1) + b"\n"


def _position(data: bytes, name: str) -> Position:
    """The newest state in the two slots."""
    positions = []
    for slot in (data[:SLOT], data[SLOT : 2 * SLOT]):
        with contextlib.suppress(InvalidLedger):
            form = unsealed(slot.rstrip(b" \n") + b"\n")
            if set(form) == _KEYS and form.pop("format") == FORMAT:
                positions.append(Position(**form))
    if not positions:
        raise InvalidLedger(f"reading {name}", "it is damaged, or not a mark of a ledger", "Restore the file")
    return max(positions, key=lambda position: (position.lines, position.moved))


class HeldMark:
    """A mark that nobody else moves meanwhile."""

    def __init__(self, file: int, path: Path) -> None:
        self._file, self._path = file, path
        data = os.pread(file, 2 * SLOT, 0)
        self.position = _position(data, path.name)
        self._newest = 0 if data[:SLOT] == self.position.to_slot() else 1

    def advance(self, lines: int, last: bytes | str | None) -> None:
        """The ledger has this many lines and ends in ``last``; durable when it returns. Never back."""
        if lines < self.position.lines:
            raise InvalidLedger(f"writing {self._path.name}", "a mark never moves back", "Open the ledger again")
        self._write(replace(self.position, lines=lines, head=head_of(last)))

    def follow(self, position: Position) -> None:
        """As far as a mark that this one is a copy of."""
        if position.lines >= self.position.lines:
            self._write(position)

    def retire(self) -> None:
        """The ledger goes on elsewhere."""
        self._write(replace(self.position, moved=True))

    def _write(self, position: Position) -> None:
        """Also what is there already: whoever wrote it may have died, or failed, before it was synced."""
        data, offset = position.to_slot(), SLOT * (1 - self._newest)
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, data[written:], offset + written)
        _sync(self._file)
        self.position, self._newest = position, 1 - self._newest


@dataclass(frozen=True)
class HighWaterMark:
    """The mark in the file ``path``."""

    path: Path

    @classmethod
    def beside(cls, ledger: Path) -> HighWaterMark:
        """The mark of a ledger in a file, whatever links lead to it."""
        real = ledger.resolve()
        return cls(real.with_name(f"{real.name}.mark"))

    def read(self) -> Position | None:
        """What it says; None if there is no file. Takes no lock and changes nothing."""
        try:
            return _position(self.path.read_bytes()[: 2 * SLOT], self.path.name)
        except FileNotFoundError:
            return None

    def create(self, position: Position | None = None) -> None:
        """A mark of no lines, or one at ``position``; durable when it returns. One that is there stays."""
        data = (position or Position(id=secrets.token_hex(16))).to_slot() * 2
        if not create_whole(self.path, data):
            sync_directory(self.path.parent)

    @contextmanager
    def held(self, *, wait: float = 10.0) -> Iterator[HeldMark]:
        """Be the only one that moves it while the block runs; `LedgerUnavailable` after ``wait`` seconds."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise missing(f"writing {self.path.name}", self.path) from None
        try:
            _lock(file, self.path.name, until=time.monotonic() + wait)
            if not os.path.samestat(self.path.stat(), os.fstat(file)):
                raise LedgerUnavailable(f"writing {self.path.name}", "it was replaced at this moment", "Try again")
            yield HeldMark(file, self.path)
        finally:
            _unlock(file)
            os.close(file)


def compared(
    position: Position | None, lines: Sequence[bytes | str], *, asked: str, path: Path
) -> InvalidLedger | None:
    """Why a ledger of these lines may not go on; None if it may. Whoever has no lock reads the mark before the lines,
    or lines that are added in between look as if they were missing.
    """
    marked = 0 if position is None else position.lines
    line = lines[marked - 1] if 0 < marked <= len(lines) else None
    return refusal(position, asked=asked, path=path, lines=len(lines), at_mark=line)


def refusal(
    position: Position | None, *, asked: str, path: Path, lines: int, at_mark: bytes | str | None
) -> InvalidLedger | None:
    """The same, given the number of lines and the one ``at_mark``: the last that the mark covers."""
    if position is None:
        return missing(asked, path) if lines else None
    if position.lines > lines:
        return InvalidLedger(
            asked,
            f"it has {lines} lines, and {path.name} says that it had {position.lines}: charges are missing, as in a "
            "restored backup or after a damage",
            LOST,
        )
    if position.head != head_of(at_mark):
        return InvalidLedger(
            asked, f"line {position.lines} is not the one that {path.name} names: it is another ledger", LOST
        )
    return None


LOST = (
    "Restore the newest ledger. If it is lost, nothing more can be charged here: begin anew within the budget that is "
    "left, and count all of this ledger's as spent"
)


def missing(asked: str, path: Path) -> InvalidLedger:
    """Nobody can tell whether lines are missing."""
    return InvalidLedger(
        asked,
        f"{path.name}, which says how many lines it had, is missing, so that missing charges would not be noticed",
        "Put that file back; it moves with the ledger. A copy without it can be read and verified, not charged",
    )


def _sync(file: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(file)  # its size never changes
    else:
        os.fsync(file)


def _lock(file: int, name: str, *, until: float) -> None:
    try:
        import fcntl
    except ImportError:
        raise LedgerUnavailable("a mark of a ledger", "this system has no POSIX locks", "Use a POSIX system") from None
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise LedgerUnavailable(
                    f"locking {name}", "its file system has no locks", "Use a file system that has"
                ) from None
            if time.monotonic() >= until:
                raise LedgerUnavailable(f"locking {name}", "another process is charging", "Wait for it") from None
            time.sleep(_PAUSE)
        else:
            return


def _unlock(file: int) -> None:
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)  # a child that inherited the file must not keep the lock
