"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
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


def sync_directory(directory: Path) -> None:
    """Make a new, renamed or removed name durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync a directory
            os.fsync(handle)
    finally:
        os.close(handle)
