"""Secrets in files: mode 0600, written whole or not at all, never over another, never echoed in an error."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.privacy.files import sync_directory

FORMAT = "discreet.key/1"


def write_secret(path: Path, purpose: str, *, key: bytes, **public: Any) -> None:
    """Store a secret for ``purpose``; durable when it returns. Refuses to replace a file."""
    form = {"format": FORMAT, "purpose": purpose, "key": key.hex(), **public}
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(form, sort_keys=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)  # fails if there is one: a key in use is never replaced
    except FileExistsError:
        raise BadInput(f"writing {path.name}", "there is a key already", "Use it, or choose another place") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            scratch.unlink()
    sync_directory(path.absolute().parent)


def read_secret(path: Path, purpose: str) -> dict[str, Any]:
    """The parts of a stored secret; ``key`` is bytes. Refuses a file that others may read."""
    try:
        if path.stat().st_mode & 0o077:
            raise BadInput(
                f"reading {path.name}", "others may read this key", f"Make it private: chmod 600 {path.name}"
            )
        form = json.loads(path.read_bytes())
        key = bytes.fromhex(form["key"])
        if form["format"] != FORMAT or form["purpose"] != purpose or len(key) != 32:
            raise KeyError
    except OSError:
        raise BadInput(f"reading {path.name}", "it cannot be opened", "Check the path") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"reading {path.name}", f"it is not a {purpose} key of ours", "Restore the file") from None
    return {**form, "key": key}


def was_destroyed(path: Path) -> bool:
    """Whether a crash left an overwritten secret whose name was not yet removed."""
    return path.exists() and not path.read_bytes().strip(b"\0")


def destroy(path: Path) -> None:
    """Overwrite a secret and remove it; durable when it returns. What is gone already stays gone."""
    if not path.exists():
        return
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\0" * size)
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    sync_directory(path.absolute().parent)
