"""Which releases were made of a log, so that a second one with a ledger of its own is noticed. Audience: owner.

A ledger adds up what is charged to it. Two releases of one log under two ledgers cost the sum, and neither ledger says
so. So every release leaves a line in a file beside the log (or beside the output, where the log's directory cannot be
written): which files were read, and which ledger was charged. The file is for the owner alone (mode 0600).
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REGISTER = ".discreet-releases"
_END = 1 << 20


class RepeatedRelease(UserWarning):
    """A log that was released before, under another ledger."""


def warn_if_released(log: Any, *, directory: Path, ledger: str) -> None:
    """Warn where files of ``log`` were released before and another ledger than that of this id paid for it.

    ``directory``: where the output goes. A log that is not made of files is not known again.
    """
    files = _files(log)
    rows = [row for place in _places(files, directory) for row in _rows(place / REGISTER)]
    earlier = {row["out"] for row in rows if row["ledger"] != ledger and _same(row["files"], files)}
    if earlier:
        warnings.warn(
            f"this log was released before, under another ledger ({', '.join(sorted(earlier))}). The costs of these "
            "releases add up, and no ledger shows the sum. Charge one ledger for all releases of a log: --ledger",
            RepeatedRelease,
            stacklevel=3,
        )


def register_release(log: Any, *, out: str, directory: Path, ledger: str) -> None:
    """Write down that ``log`` is released to ``out`` and charged to the ledger of this id."""
    files = _files(log)
    line = {"out": out, "ledger": ledger, "files": files}
    places = _places(files, directory)
    if files and not any(line in _rows(place / REGISTER) for place in places):
        _append(places, line)


def _files(log: Any) -> list[dict[str, str]]:
    return [{"path": str(path), "content": _content(path)} for path in _paths(log)]


def _places(files: list[dict[str, str]], directory: Path) -> list[Path]:
    return [*dict.fromkeys([*(Path(file["path"]).parent for file in files), directory.absolute()])]


def _paths(log: Any) -> Iterator[Path]:
    for part in getattr(log, "parts", ()):
        if isinstance(path := getattr(part, "path", None), Path):
            yield path.resolve()


def _content(path: Path) -> str:
    """A hash of the size and of both ends: enough to know a copy again."""
    size = path.stat().st_size
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
    with path.open("rb") as file:
        digest.update(file.read(_END))
        file.seek(max(_END, size - _END))
        digest.update(file.read(_END))
    return digest.hexdigest()


def _same(before: list[dict[str, str]], files: list[dict[str, str]]) -> bool:
    known = {value for file in before for value in file.values()}
    return any(value in known for file in files for value in file.values())


def _rows(path: Path) -> list[dict[str, Any]]:
    """What can be read of the register: it helps to remember, and refuses nothing."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            row = json.loads(line)
            plain = all(isinstance(value, str) for file in row["files"] for value in file.values())
            if plain and isinstance(row["out"], str) and isinstance(row["ledger"], str):
                found.append(row)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return found


def _append(places: list[Path], line: dict[str, Any]) -> None:
    data = json.dumps(line).encode() + b"\n"
    for place in places:
        try:
            file = os.open(place / REGISTER, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            continue
        try:
            os.write(file, data)
        finally:
            os.close(file)
        return
