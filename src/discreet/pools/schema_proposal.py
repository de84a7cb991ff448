"""A schema proposed from a public table: types, bounds and values of its columns, as a TOML file to be checked.

The table must be public: what is proposed are facts of its records. Nothing here is ever run on a private pool. The
proposal names the hash of each file that it looked at, so that a campaign refuses it for a pool of these very files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.pools.cells import cell_text, cells_of, read_cells
from discreet.pools.checks import check_size, existing_file, reading
from discreet.pools.csv_files import check_separator, header_of
from discreet.pools.file_columns import columns_of
from discreet.pools.opening import kind_of, parts_of
from discreet.pools.schema import Schema
from discreet.pools.table_files import check_columns, table_of

GAPS = ("?", "-", ".", "NA", "N/A", "n/a", "nan", "NaN", "NAN", "null", "NULL", "None", "none", "missing")
_LONG = 24
"""Characters of a usual cell from which on a column is text."""


def proposed_schema(
    path: Path, *, kind: str | None = None, leave_out: Sequence[str] = (), max_categories: int = 50
) -> str:
    """A schema for the columns of the public table at ``path``, but for ``leave_out``, as TOML with comments."""
    kind = kind_of(path, kind)
    if kind not in ("csv", "parquet", "arrow", "huggingface"):
        raise BadInput(f"a schema of {path.name}", f"a pool of kind {kind} has no columns", "Name a table")
    asked = f"a schema of {path.name}"
    with reading(path):
        first = parts_of(path, kind)[0]
        header = header_of(existing_file(first)) if kind == "csv" else list(table_of(first, kind).schema.names)
    if kind == "csv":
        check_separator(asked, header)
    names = [name for name in header if name not in leave_out]
    check_columns(asked, header, [*leave_out, *names])
    if not names:
        raise BadInput(asked, "no column is left that a model may read", "Leave fewer columns out")
    cells: dict[str, list[str | None]] = {name: [] for name in names}
    for block in columns_of(path, kind, names):
        for name in names:
            cells[name] += _texts(block, name)
    check_size(asked, len(cells[names[0]]), None)
    gaps: set[str] = set()
    tables = list(_tables(cells, max_categories, gaps))
    head = [
        f"# Proposed by discreet schema from {json.dumps(path.name)}. That file must be public: bounds and values",
        "# are its own. CHANGE each to what is publicly known of all records; remove what a model must not read.",
        "# Missing cells have inputs of their own, unless a column says otherwise.",
        f"missing_values = {_listed(sorted(gaps))}",
        f"proposed_from = {_listed(_hash(file) for file in parts_of(path, kind))}",
    ]
    return "\n".join([*head, *tables]) + "\n"


def looked_at(schema: Schema, path: Path, kind: str) -> bool:
    """Whether a schema was proposed from this file, or one of the files of this folder."""
    known = set(schema.proposed_from)
    sizes = {word.partition(":")[0] for word in known}
    files = parts_of(path, kind) if known else ()
    return any(str(_size(file)) in sizes and _hash(file) in known for file in files)


def same_content(first: Path, second: Path) -> bool:
    """Whether two files, or folders, hold the same bytes."""
    if not (first.exists() and second.exists()) or _size(first) != _size(second):
        return False
    return first.samefile(second) or _hash(first) == _hash(second)


def _size(path: Path) -> int:
    """Bytes of a file, or of the files of a folder that is one data set."""
    return sum(file.stat().st_size for file in _files(path))


def _hash(path: Path) -> str:
    """Says whether it is the same file, whatever its name."""
    content = hashlib.sha256()
    for file in _files(path):
        with file.open("rb") as stream:
            while piece := stream.read(1 << 20):
                content.update(piece)
    return f"{_size(path)}:{content.hexdigest()}"


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _texts(block: Any, name: str) -> list[str | None]:
    """Cells as a CSV file would have them."""
    cells = cells_of(block, name, "text")
    return [str(cell)[:10] if hasattr(cell, "year") else cell_text(cell, "category") for cell in cells.to_pylist()]


def _tables(cells: dict[str, list[str | None]], most: int, gaps: set[str]) -> Iterator[str]:
    has_text = False
    for name, column in cells.items():
        words = [cell.strip() for cell in column if cell is not None and cell.strip()]
        gaps |= set(GAPS) & set(words)
        present = [word for word in words if word not in GAPS]
        lines, is_text = _column(present, most, may_be_text=not has_text)
        has_text |= is_text
        share = f"# missing: {1 - len(present) / len(column):.1%} of the cells"
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
        commented = lines[0].startswith("#")
        yield "\n".join(["", "# " * commented + f"[{key}]", *lines, *[share] * (len(present) < len(column))])


def _column(words: list[str], most: int, *, may_be_text: bool) -> tuple[list[str], bool]:
    """The lines of one column, and whether it is text. Lines that begin with a comment: it is left out."""
    import pyarrow

    if not words:
        return ["# left out: no cell has a value"], False
    array = pyarrow.array(words, pyarrow.string())
    for kind in ("number", "date"):
        codes = read_cells(array, kind, (), ())[0]
        fine = abs(codes) < 1e30
        if fine.mean() >= _MOSTLY:
            return _bounds(kind, codes[fine], [word for word, good in zip(words, fine, strict=True) if not good]), False
    counts = Counter(word for word in words if len(word) <= 200 and word.isprintable())
    usual = float(np.median([len(word) for word in words]))
    if len(counts) > most and usual >= _LONG:
        lines = ['type = "text"']
        return (
            ([*lines, "# shown to annotators; a model reads it only if it is the only column"], True)
            if (may_be_text)
            else (["# left out: text, and another column is text already"], False)
        )
    if not counts or (len(counts) == len(words) > most):
        return ["# left out: all its values differ, as names do"], False
    frequent = [word for word, _ in counts.most_common(most)]
    lines = ['type = "category"', f"values = {_listed(frequent)}"]
    rest = len(counts) - len(frequent)
    if rest:
        share = 1 - sum(counts[word] for word in frequent) / len(words)
        lines.append(f"# {rest} rarer values are other: {share:.1%} of the cells")
        if share > _MOSTLY:
            lines = [f"# left out: its {len(frequent)} most frequent values are {1 - share:.1%} of the cells"]
    written = next((what for what, form in _WRITTEN.items() if all(re.fullmatch(form, word) for word in counts)), None)
    if written is not None:
        lines.append(f"# {written}: convert the column, in the pool, too")
    return lines, False


_MOSTLY = 0.9
"""Share of cells that are numbers, from which on a column is one of numbers with gaps; the same of days."""
_WRITTEN = {
    "days, not written as 2001-12-24": r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}([ T].*)?",
    "numbers, not written as 1234.5": r"[-+]?[^\w\s]?\s?\d[\d.,' ]*\s?[^\w\s]?",
}


def _bounds(kind: str, codes: Any, others: list[str]) -> list[str]:
    low, high = float(codes.min()), float(codes.max())
    bounds = [f"{low:.10g}", f"{high if high > low else low + 1:.10g}"]
    if kind == "date":
        bounds = [f'"{day}"' for day in np.array([low, max(high, low + 1)]).astype("datetime64[D]")]
    lines = [f'type = "{kind}"', f"low = {bounds[0]}  # CHANGE: the least that can be", f"high = {bounds[1]}"]
    values, usual = np.unique(codes), float(np.quantile(codes, 0.99))
    if others:
        shown = _listed(word for word, _ in Counter(word for word in others if len(word) <= _LONG).most_common(3))
        share = len(others) / (len(codes) + len(others))
        lines.append(f"# {share:.1%} of the cells are no {kind}, and missing: {shown}")
    if len(values) == 1 < len(codes):
        lines.append("# all cells are the same: nothing to learn from")
    elif len(values) == 2 < len(codes):
        lines.append("# two values: a category, if they are names")
    elif kind == "number" and len(values) == len(codes) > _LONG and (codes == np.round(codes)).all():
        lines.append("# whole numbers that all differ: remove it, if they are ids")
    elif kind == "number" and 0 < usual - low < (high - low) / 10:
        lines.append(f"# 99% are at most {usual:.10g}; a lower high clips the others, and tells these apart better")
    return lines


def _listed(words: Iterable[str]) -> str:
    return f"[{', '.join(json.dumps(word, ensure_ascii=False) for word in words)}]"
