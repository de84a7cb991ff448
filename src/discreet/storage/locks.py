"""At most one process at a time, until it ends by whatever cause.

A lock is `flock` on a file of its own: the system lets go of it when the process dies, so nobody has to judge whether
a lock is stale. The file stays when the lock is gone; removing it would let two processes lock two files of one name.
A forked child has no part in its parent's locks, and does not keep them alive.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discreet.errors import StoreUnavailable
from discreet.storage.disk import disk_refusals, make_private

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
        _acquire(file, until=time.monotonic() + wait, asked=asked, doing=doing)
        yield
    finally:
        if _held.get(path) == file:  # not in a child that was forked meanwhile
            del _held[path]
            os.close(file)


def _acquire(file: int, *, until: float, asked: str, doing: str) -> None:
    while not try_lock(file, asked):
        if time.monotonic() >= until:
            raise StoreUnavailable(asked, f"another process is {doing}", "Wait for it to finish, or stop it")
        time.sleep(_PAUSE)


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
