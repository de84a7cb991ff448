"""Directories for one owner, and errors of the disk as ours.

Locks
-----
At most one process at a time, until it ends by whatever cause.

A lock is `flock` on a file of its own: the system lets go of it when the process dies, so nobody has to judge whether
a lock is stale. The file stays when the lock is gone; removing it would let two processes lock two files of one name.
A forked child has no part in its parent's locks, and does not keep them alive.

Objects
-------
Files named by the hash of what is in them.

Guarantee: a name appears when all of the file is on the disk (written beside it, synced, renamed, the directory
synced), so a crash leaves a whole file or none under that name. What a crash left half written is known by its lock,
which nobody holds any more.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from discreet.errors import BadInput, StoreUnavailable
from discreet.privacy.files import sync_directory


def make_private(directory: Path) -> None:
    """A directory for its owner alone, durable with those above it, if it is not there."""
    if directory.is_dir():
        return
    make_private(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    sync_directory(directory.parent)


@contextmanager
def disk_refusals(asked: str, *, kept: str = "nothing of this was stored") -> Iterator[None]:
    """Errors of the file system as ours, without paths. ``kept``: what is so after one."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            fact, remedy = "the disk is full", f"Make room and try again; {kept}"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            fact, remedy = "its directory may not be written", "Give yourself the right to write it"
        else:
            fact, remedy = "the disk refused", "Check the disk and the store's directory"
        raise StoreUnavailable(asked, fact, remedy) from None


_PAUSE = 0.02
"""Seconds between two tries; flock itself waits for ever or not at all."""

_held: dict[Path, int] = {}
_guard = threading.Lock()


@contextmanager
def locked(path: Path, *, asked: str, doing: str, wait: float = 0.0) -> Iterator[None]:
    """Hold ``path`` while the block runs; wait at most ``wait`` seconds for another process to let go of it."""
    with _guard:
        if path in _held:
            raise StoreUnavailable(
                asked, f"this process is {doing} already", "Let it finish; one process does one such thing at a time"
            )
        _held[path] = -1
    try:
        with disk_refusals(asked):
            make_private(path.parent)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except BaseException:
        del _held[path]
        raise
    _held[path] = file
    try:
        until = time.monotonic() + wait
        while not try_lock(file, asked):
            if time.monotonic() >= until:
                raise StoreUnavailable(asked, f"another process is {doing}", "Wait for it to finish, or stop it")
            time.sleep(_PAUSE)
        yield
    finally:
        if _held.get(path) == file:  # not in a child that was forked meanwhile
            del _held[path]
            os.close(file)


def try_lock(file: int, asked: str) -> bool:
    """Lock an open file, unless another process has."""
    try:
        import fcntl
    except ImportError:
        raise StoreUnavailable(asked, "this system has no POSIX locks", "Use a POSIX system") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise StoreUnavailable(asked, "its file system has no locks", "Use a local disk") from None
    return True


def is_held(path: Path) -> bool:
    """Whether somebody holds ``path`` now, without touching the lock, so that nobody who wants it is turned away.

    Of other processes only Linux tells; elsewhere they are found when the lock is wanted.
    """
    if path in _held:
        return True
    try:
        known, table = path.stat(), Path("/proc/locks").read_text(encoding="ascii")
    except (OSError, ValueError):
        return False
    name = f"{os.major(known.st_dev):02x}:{os.minor(known.st_dev):02x}:{known.st_ino}"
    return any(line.split()[1] == "FLOCK" and name in line.split() for line in table.splitlines() if "FLOCK" in line)


def _after_fork() -> None:
    global _guard  # noqa: PLW0603 - another thread may have held it at the fork
    _guard = threading.Lock()
    for file in _held.values():
        if file >= 0:
            os.close(file)  # without unlocking: the lock is the parent's
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_BLOCK = 1 << 20
_WHILE = 60.0


def write_object(directory: Path, data: bytes | Path | Iterator[bytes], *, asked: str) -> tuple[str, int]:
    """Keep ``data``, or a copy of the file it names, in ``directory``; its hash and size. Durable when it returns."""
    source = _blocks(data, asked=asked)
    with disk_refusals(asked):
        make_private(directory)
        part = directory / f".{secrets.token_hex(8)}.part"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try_lock(file, asked)
            digest, size = _copied(source, file)
            os.fsync(file)
            part.rename(directory / digest)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        sync_directory(directory)
    return digest, size


def _blocks(data: bytes | Path | Iterator[bytes], *, asked: str) -> Iterator[bytes]:
    """Reading a source that is not there is the caller's mistake, not the disk's."""
    if isinstance(data, bytes):
        return iter([data])
    if isinstance(data, Iterator):
        return data
    try:
        file = Path(data).open("rb")  # noqa: SIM115 - closed when it was read
    except (OSError, TypeError):
        raise BadInput(asked, "the file to keep cannot be opened", "Give bytes, or the path of a file") from None

    def read() -> Iterator[bytes]:
        with file:
            while block := file.read(_BLOCK):
                yield block

    return read()


def _copied(source: Iterator[bytes], file: int) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for block in source:
        digest.update(block)
        size += len(block)
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(file, rest) :]
    return digest.hexdigest(), size


def hash_of(path: Path) -> str | None:
    """Of what is in a file now; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def leftovers(directory: Path, *, asked: str, alone: bool = False) -> list[Path]:
    """Files that a crash left half written. ``alone``: nobody else writes here now."""
    return [part for part in directory.glob(".*.part") if _abandoned(part, asked, alone)]


def _abandoned(part: Path, asked: str, alone: bool) -> bool:
    """Not written to for a while, and locked by nobody: between making a file and locking it there is a moment."""
    with suppress(FileNotFoundError):
        if not alone and time.time() - part.stat().st_mtime < _WHILE:
            return False
        file = os.open(part, os.O_RDWR | os.O_CLOEXEC)
        try:
            return try_lock(file, asked)
        finally:
            os.close(file)
    return False
