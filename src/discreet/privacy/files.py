"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Replace ``path`` by ``content`` in one step; an older file stays until then, a crash leaves either.

    ``private``: for its owner alone.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(scratch, _FLAGS, 0o600 if private else 0o666), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def create_whole(path: Path, content: bytes) -> bool:
    """Create ``path`` with ``content``, for its owner alone, durable on return. False, and no change, if it exists."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        scratch.unlink(missing_ok=True)
    sync_directory(path.absolute().parent)
    return True


def sync_directory(directory: Path) -> None:
    """Make a new, renamed or removed name durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync a directory
            os.fsync(handle)
    finally:
        os.close(handle)
