"""Directories for one owner, and errors of the disk as ours."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discreet.errors import StoreUnavailable
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
