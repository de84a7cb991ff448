"""Files named by the hash of what is in them.

Guarantee: a name appears when all of the file is on the disk (written beside it, synced, renamed, the directory
synced), so a crash leaves a whole file or none under that name. What a crash left half written is known by its lock,
which nobody holds any more.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from discreet.errors import BadInput
from discreet.privacy.files import sync_directory
from discreet.storage.disk import disk_refusals, make_private
from discreet.storage.locks import try_lock

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
