"""Logs in files: Parquet, CSV and JSON lines, plain or compressed, and directories of them.

    .parquet                    columns by name; by row groups, which threads share
    .csv .csv.gz .csv.zst       a header; commas; quotes doubled inside quotes; a row a line
    .jsonl .ndjson .json (+ .gz, .zst)   an object a line

Rows are numbered within their file from 0, in its order, those that could be taken apart; files by their paths in the
order of their bytes. What cannot be taken apart (bad JSON, the wrong number of columns) or holds no UTF-8 is counted
for the owner. Nothing of it is ever shown; a file that cannot be read at all is named, and nothing of it either.

Guarantee: no row decides what becomes of another. A CSV file in which a quote is open at the end of a line is refused
when it is opened: whether the lines after it are one person's text or rows of others cannot be told, and read either
way that one row could take others along, or stand for them. A file counts once, by whatever paths it is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.gates.query_log import MOST_ROWS, LogRows, Piece, QueryLog, check_column, valid_rows
from discreet.pools.checks import Unchanged, reading

_CODED_ROWS = 1 << 20
_CODED_BYTES = 6
"""A column chunk of fewer bytes a row than this is read as a dictionary: its writer did not give dictionaries up."""
_PACKED = (".gz", ".zst")
_LINES = (".jsonl", ".ndjson", ".json")
UNFINISHED = ".unfinished"
"""Ends the name of a folder in which a release is being written."""
_BLOCK = 1 << 23
_MOST_LINE = 1 << 26
"""A file that unpacks to one endless line would fill the memory."""
_MARK = b"\xef\xbb\xbf"
_FIELD = rb'(?:"[^"\r\n]*+(?:""[^"\r\n]*+)*+"[^,\r\n]*+|[^",\r\n][^,\r\n]*+|)'
_CLOSED = re.compile(_FIELD + rb"(?:[,\r\n]" + _FIELD + rb")*+")
"""Lines at whose ends no quote is open, as the reader takes them: a quote opens where a field begins, nowhere else."""


def open_log(
    where: Path | str | Sequence[Path | str], *, text: str, person: str | None = None, row_id: str | None = None
) -> QueryLog:
    """The log in a file, in several, or in all files of a directory that are of a known kind."""
    named = [where] if isinstance(where, (str, Path)) else list(where)
    files = [file for path in named for file in _files(Path(path))]
    if len({(status.st_dev, status.st_ino) for status in map(Path.stat, files)}) != len(files):
        raise BadInput("reading a log", "a file is named twice, and its rows would count twice", "Name each once")
    columns = [name for name in (text, row_id if person is None else person) if name is not None]
    strange = sum(any("\udc80" <= letter <= "\udcff" for letter in str(file)) for file in files)
    if strange:
        raise BadInput("reading a log", f"the names of {strange} files are not UTF-8", "Rename them")
    parts = [_part(file, columns) for file in sorted(files, key=lambda file: str(file).encode())]
    for name in columns:
        if not any(part.has(name) for part in parts):
            raise BadInput(f"column {name} of the log", "no line of it has that name", "Check the column's name")
    return QueryLog(parts=parts, text=text, person=person, row_id=row_id)


def _files(path: Path) -> list[Path]:
    with reading(path):
        path.stat()
    if not path.is_dir():
        return [path]
    files = [file for file in path.rglob("*") if file.is_file() and _kind(file) and _is_open(file.relative_to(path))]
    if not files:
        raise BadInput(f"reading {path.name}", "there is no Parquet, CSV or JSONL file in it", "Check the path")
    return files


def _is_open(path: Path) -> bool:
    """Whether it is neither hidden, nor what another job is writing, nor in a folder that is."""
    return not any(part.startswith((".", "_")) or part.endswith(UNFINISHED) for part in path.parts)


def _kind(path: Path) -> str:
    name = path.name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    suffix = Path(name).suffix
    if suffix == ".parquet":
        return suffix if path.name.lower().endswith(suffix) else ""
    return suffix if suffix in (".csv", *_LINES) else ""


def _part(path: Path, columns: list[str]) -> _FilePart:
    kind = _kind(path)
    if not kind:
        raise BadInput(
            f"reading {path.name}",
            "its name says no kind we know",
            "Use .parquet, .csv or .jsonl; .gz and .zst",
        )
    return {".parquet": ParquetPart, ".csv": CsvPart}.get(kind, LinesPart)(path, columns)


@dataclass(frozen=True)
class _FilePart:
    """A file; opening it looks at its columns, and at rows only where these say what a row or a column is."""

    path: Path
    columns: list[str]
    unchanged: Unchanged = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unchanged", Unchanged(self.path))
        with reading(self.path):
            self.check_columns()

    def check_columns(self) -> None:
        """Refuse a file without them."""

    def has(self, column: str) -> bool:
        """Whether a row may have it."""
        return column in self.columns

    def check_readable(self, text: str, unit: str | None) -> None:
        """Refuse what cannot be read to its end. CSV was, when it was opened."""

    def check_unchanged(self) -> None:
        """Refuse to go on with a file that was written to since it was opened."""
        self.unchanged.check()

    def pieces(self, number: int, text: str, unit: str | None) -> Iterator[Piece]:
        """One: such a file is read from its beginning."""
        yield Piece(number, max(1, self.path.stat().st_size), lambda: self._read(text, unit))

    def _read(self, text: str, unit: str | None) -> Iterator[LogRows]:
        with reading(self.path):
            yield from self.batches(text, unit)

    def batches(self, text: str, unit: str | None) -> Iterator[LogRows]:
        """Its rows."""
        raise NotImplementedError


class ParquetPart(_FilePart):
    """A Parquet file. A column that is stored by dictionaries is read so."""

    def check_columns(self) -> None:
        """By the schema in its end."""
        from pyarrow import parquet

        schema = parquet.read_schema(self.path)
        for name in self.columns:
            check_column(schema, name, self.path.name, binary=True)

    def pieces(self, number: int, text: str, unit: str | None) -> Iterator[Piece]:
        """One for each row group."""
        from pyarrow import parquet

        with reading(self.path):
            about, first = parquet.read_metadata(self.path), 0
            places = {about.schema.column(column).path: column for column in range(about.num_columns)}
            for group in range(about.num_row_groups):
                chunk = about.row_group(group)
                coded = [name for name in (text, unit) if name and _is_coded(chunk.column(places[name]))]
                yield Piece(number, max(1, chunk.num_rows), self._group(about, group, first, text, unit, coded))
                first += chunk.num_rows

    def check_readable(self, text: str, unit: str | None) -> None:
        """Every page of the columns that are asked for."""
        for piece in self.pieces(0, text, unit):
            for _ in piece.read():
                pass

    def _group(
        self, about: Any, group: int, first: int, text: str, unit: str | None, coded: list[str]
    ) -> Callable[[], Iterator[LogRows]]:
        from pyarrow import parquet

        def read() -> Iterator[LogRows]:
            at = first
            batch_rows = _CODED_ROWS if len(coded) == 1 + (unit is not None) else MOST_ROWS
            names = [text] if unit is None else [text, unit]
            with reading(self.path), parquet.ParquetFile(self.path, metadata=about, read_dictionary=coded) as file:
                for batch in file.iter_batches(batch_rows, row_groups=[group], columns=names, use_threads=False):
                    yield valid_rows(at, batch.column(text), None if unit is None else batch.column(unit))
                    at += len(batch)

        return read


def _is_coded(chunk: Any) -> bool:
    small = chunk.total_uncompressed_size < _CODED_BYTES * chunk.num_values
    return chunk.physical_type == "BYTE_ARRAY" and "RLE_DICTIONARY" in chunk.encodings and small


class CsvPart(_FilePart):
    """A CSV file with a header."""

    def check_columns(self) -> None:
        """By its header; and that every row is a line, which takes reading all of it."""
        with self._open(lambda _row: "skip") as header:
            for name in self.columns:
                check_column(header.schema, name, self.path.name, binary=True)
        for lines in _whole_lines(self.path):
            first = lines.find(b"\n") if b"\n" in lines else len(lines)  # the others were read at once
            long = first >= _BLOCK and max(map(len, lines[:first].splitlines())) >= _BLOCK
            if long or (b'"' in lines and not _CLOSED.fullmatch(lines)):
                raise BadInput(
                    f"reading {self.path.name}",
                    "at the end of a line a quote is open, or 8 MB are passed: whose the next ones are is not sure",
                    "Write it as Parquet or JSONL, where texts may have line breaks and quotes",
                )

    def batches(self, text: str, unit: str | None) -> Iterator[LogRows]:
        """Its rows; those with another number of columns are left out and counted."""
        left_out, first = [0], 0

        def wrong(_row: Any) -> str:
            left_out[0] += 1
            return "skip"

        names = [text] if unit is None else [text, unit]
        for batch in self._open(wrong, names):
            yield valid_rows(first, batch.column(0), None if unit is None else batch.column(1), left_out[0])
            first, left_out[0] = first + len(batch), 0
        if left_out[0]:
            yield _of_lists(first, [], None if unit is None else [], left_out[0])

    def _open(self, wrong: Callable[[Any], str], names: list[str] | None = None) -> Any:
        import pyarrow
        from pyarrow import csv

        return csv.open_csv(
            pyarrow.input_stream(str(self.path), compression=_packing(self.path)),
            read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=wrong),
            convert_options=csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(self.columns, pyarrow.binary()),
                include_columns=names,
                null_values=[],
            ),
        )


class LinesPart(_FilePart):
    """JSON lines, an object each. One line at a time, so that a broken one says nothing about others."""

    def has(self, column: str) -> bool:
        """Whether a line does: mostly the first."""
        with reading(self.path):
            return any(column in (_object(line) or ()) for line in _lines(self.path))

    def check_readable(self, text: str, unit: str | None) -> None:
        """To its end: a compressed file may be cut off. A broken line is none of this."""
        with reading(self.path):
            for _ in _whole_lines(self.path):
                pass

    def batches(self, text: str, unit: str | None) -> Iterator[LogRows]:
        """Its rows; lines that are no object, or hold something else than a text or a whole number, are left out."""
        first = left_out = 0
        texts: list[str | None] = []
        units: list[str | None] = []
        for line in _lines(self.path):
            parsed = _taken_apart(line, text, unit)
            if parsed is None:
                left_out += 1
                continue
            texts.append(parsed[0])
            units.append(parsed[1])
            if len(texts) == MOST_ROWS // 4:
                yield _of_lists(first, texts, None if unit is None else units, left_out)
                first, left_out, texts, units = first + len(texts), 0, [], []
        if texts or left_out:
            yield _of_lists(first, texts, None if unit is None else units, left_out)


def _lines(path: Path) -> Iterator[bytes]:
    """Those that are not empty."""
    for lines in _whole_lines(path):
        yield from (line for line in lines.split(b"\n") if line.strip())


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Some megabytes at once, without the mark that some editors put before the first."""
    import pyarrow

    with pyarrow.input_stream(str(path), compression=_packing(path)) as file:
        rest, mark = b"", _MARK
        while block := file.read(_BLOCK):
            lines, end, rest = (rest + block.removeprefix(mark)).rpartition(b"\n")
            mark = b""
            if len(rest) > _MOST_LINE:
                raise BadInput(f"reading {path.name}", "one of its lines passes 64 MB", "Write a row a line")
            if end:
                yield lines
        if rest:
            yield rest


def _packing(path: Path) -> str | None:
    return {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())


def _object(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None if there is none."""
    try:
        form = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return form if isinstance(form, dict) else None


def _taken_apart(line: bytes, text: str, unit: str | None) -> tuple[str | None, str | None] | None:
    """The text and the unit of a line; None if it is broken."""
    form = _object(line)
    if form is None:
        return None
    try:
        return _as_text(form.get(text)), None if unit is None else _as_text(form.get(unit))
    except ValueError:
        return None


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        value.encode()  # half a surrogate is no text: a ValueError
        return value
    if type(value) is int:
        return str(value)
    raise ValueError


def _of_lists(first: int, texts: list[str | None], units: list[str | None] | None, left_out: int) -> LogRows:
    import pyarrow

    column = pyarrow.array(texts, pyarrow.large_string())
    return LogRows(first, column, None if units is None else pyarrow.array(units, pyarrow.large_string()), 0, left_out)
