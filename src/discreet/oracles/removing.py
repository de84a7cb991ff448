"""Rows about withdrawn records, out of files of questions and answers. Everything else in a file stays as it is.

Guarantee: a file is replaced whole or not at all; lines that stay keep their bytes. A file that cannot be read is
refused by its name: what is in it could be anybody's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.oracles.files_in import lines_of_rows
from discreet.oracles.files_out import CSV, JSONL
from discreet.privacy.files import write_whole

PATTERNS = ("questions-*", "answers*")


def remove_rows(folder: Path, *, questions: Collection[str], withdrew: Callable[[str], bool]) -> int:
    """Remove rows about ``questions``, or of a record that ``withdrew``, from all files of a file oracle's folder.

    How many. What a process that died left half written is removed, too.
    """
    removed = 0
    for path in _files(folder):
        removed += _remove(path, questions, withdrew)
    for pattern in PATTERNS:
        for part in folder.glob(f".{pattern}.part"):
            part.unlink(missing_ok=True)
    return removed


def about(cells: Mapping[str, Any], questions: Collection[str], withdrew: Callable[[str], bool]) -> bool:
    """Whether a row is about a withdrawn record."""
    record = cells.get("record")
    return cells.get("question_id") in questions or (record is not None and withdrew(str(record)))


def _files(folder: Path) -> Iterator[Path]:
    for pattern in PATTERNS:
        yield from sorted(path for path in folder.glob(pattern) if path.suffix.lower() in (*CSV, *JSONL))


def _lines(path: Path, text: str) -> list[str]:
    """As `lines_of_rows` counts them."""
    if path.suffix.lower() in CSV:
        return io.StringIO(text, newline="").readlines()
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), last]


def _remove(path: Path, questions: Collection[str], withdrew: Callable[[str], bool]) -> int:
    content = path.read_bytes()
    if not content.strip():
        return 0
    gone = [span for span, cells in lines_of_rows(path) if about(cells, questions, withdrew)]
    if not gone:
        return 0
    lines = _lines(path, content.decode("utf-8"))
    dropped = {line for first, last in gone for line in range(first, last or len(lines) + 1)}
    left = "".join(text for number, text in enumerate(lines, 1) if number not in dropped)
    try:
        write_whole(path, left.encode("utf-8"), private=True)
    except OSError as problem:
        raise BadInput(
            f"removing rows from {path.name}", f"it cannot be written ({problem.strerror})", "See to the rights"
        ) from None
    return len(gone)
