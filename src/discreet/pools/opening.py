"""Opening a pool: the readers by name, `open_pool`, and `extended` for a further cohort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from discreet.checks import listed, text, whole
from discreet.errors import BadInput
from discreet.parts import Option, Part, Registry
from discreet.pools.array_files import open_npy, open_npz
from discreet.pools.checks import POSITION, check_size, reading
from discreet.pools.csv_files import open_csv
from discreet.pools.derived import JoinedPool, one_pool
from discreet.pools.images import open_images
from discreet.pools.pool import Pool, PoolDeclaration, declare
from discreet.pools.schema import Schema, checked_schema
from discreet.pools.table_files import STORED_DATASET, open_table

Kind = Literal["images", "parquet", "npz", "npy", "csv", "arrow", "huggingface"]
_SUFFIXES = {
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
}
_COMPRESSED = (".gz", ".zst")
_IN_PARTS = ("parquet", "csv", "arrow")
"""Kinds of which a folder may hold the parts."""


def _text(name: str, meaning: str) -> Option:
    return Option(name=name, check=text(what="a name"), type="text", meaning=meaning)


_ID = _text("id", f'the column or array of ids; "{POSITION}" for npy and npz: the place of a row is its name')
_PERSON = _text("person", 'the column or array of persons; "folder" for pictures: the first folder on the way')
_ARRAY = _text("array", "the array of an npz file that holds the records")
_TEXT = _text("text", "the column of texts")
_COLUMNS = Option(
    name="columns",
    check=listed(text(what="a name")),
    type="list of texts",
    meaning="the numbers of a record, in this order, or one column of lists",
)
_SHAPE = Option(name="shape", check=listed(whole()), type="list of whole numbers", meaning="the shape of one record")
_SCHEMA = Option(
    name="schema", check=checked_schema, type="table or path", meaning="the declared columns, their values and gaps"
)
_TABLE = (_ID, _COLUMNS, _TEXT, _PERSON, _SHAPE, _SCHEMA)


def _reader(name: str, summary: str, build: Callable[..., Pool], *options: Option) -> Part:
    return Part(kind="reader", name=name, summary=summary, build=build, options=options)


READERS = Registry(
    "reader",
    (
        _reader("images", "a folder of pictures", open_images, _ID, _PERSON, _SHAPE),
        _reader("parquet", "a Parquet file, or a folder of such", open_table, *_TABLE),
        _reader("arrow", "an Arrow (IPC, Feather 2) file, or a folder of such", open_table, *_TABLE),
        _reader("huggingface", "a folder of Dataset.save_to_disk (Hugging Face)", open_table, *_TABLE),
        _reader("csv", "a CSV file, or a folder of such; also .csv.gz and .csv.zst", open_csv, *_TABLE),
        _reader("npz", "arrays of an npz file", open_npz, _ID, _PERSON, _ARRAY, _SHAPE),
        _reader("npy", "one array of an npy file", open_npy, _ID, _SHAPE),
    ),
)
KINDS = READERS.names()
ARRAYS = _reader("arrays", "what is in memory", open_table, *_TABLE)
"""Declared as a table is; never named by a file."""


def kind_of(path: Path, kind: str | None) -> str:
    """The kind that was declared, or the one that the name says."""
    if kind is not None:
        if kind not in KINDS:
            raise BadInput(f"kind={kind!r}", "there is no such kind of pool", f"Choose one of {', '.join(KINDS)}")
        return kind
    by_suffix = _by_suffix(path)
    if by_suffix is not None:
        return by_suffix
    if path.is_dir():
        return "huggingface" if any((path / name).is_file() for name in STORED_DATASET) else "images"
    if not path.exists():
        raise BadInput(f"opening {path.name}", "it is not there", "Check the path")
    raise BadInput(f"opening {path.name}", "its name does not say its kind", f"Declare kind, of {', '.join(KINDS)}")


def may_be(path: Path, kind: str) -> bool:
    """Whether a file or folder may be of a kind: its name says no other."""
    if path.is_dir():
        return kind in (*_IN_PARTS, "images", "huggingface")
    try:
        return kind_of(path, None) == kind
    except BadInput:
        return kind in KINDS and path.exists()


def _by_suffix(path: Path) -> str | None:
    """What the name's ending says; of a compressed file, the ending before that. Only CSV files are compressed so."""
    compressed = path.suffix.lower() in _COMPRESSED
    kind = _SUFFIXES.get((Path(path.stem) if compressed else path).suffix.lower())
    return kind if kind == "csv" or not compressed else None


def open_pool(
    path: Path | str,
    *,
    kind: Kind | None = None,
    id: str | None = None,  # noqa: A002 - as a campaign's file says it
    columns: Sequence[str] | None = None,
    text: str | None = None,
    person: str | None = None,
    array: str | None = None,
    shape: Sequence[int] | None = None,
    center: float | Sequence[float] = 0,
    scale: float | Sequence[float] = 1,
    size: int | None = None,
    schema: Schema | Mapping[str, Any] | Path | str | None = None,
) -> Pool:
    """A pool in a file or a folder, as it is declared. Nothing of the declaration is found out by looking at records.

    kind      of file; left out: by the name's ending, a folder is one of pictures. A folder of a declared kind holds
              its parts, in the order of their names
    id        the column or array of ids; "position" for npy and npz: a row's place is its name
    columns   of a table: the numbers of a record, in this order, or one column of lists
    text      of a table: the column of texts
    person    the column or array of persons; "folder" for pictures: the first folder on the way
    array     of an npz file: the records
    shape     of one record; needed for pictures and columns of lists
    center, scale   records are (value - center) / scale, in float32; one number, or one a column or channel
    size      the number of records; another one is refused
    schema    of a table, instead of columns, text, center and scale: a `Schema`, a mapping, or the path of a TOML file
    """
    file = Path(path)
    options = {"id": id, "columns": columns, "text": text, "person": person, "array": array, "schema": schema}
    declared = declare(
        file, READERS.by_name[kind_of(file, kind)], **options, shape=shape, center=center, scale=scale, size=size
    )
    return _opened(file, declared)


def extended(pool: Pool, path: Path | str, *, size: int | None = None) -> JoinedPool:
    """``pool`` and, after it, the records of another file that is declared in the same way. Ids must be new.

    Where ids are positions they run on: the first record of the file is named after the number of records before it.
    """
    file = Path(path)
    if pool.declared.kind not in KINDS:
        raise BadInput(f"extending a pool by {file.name}", "the pool is not of a file", "Join two pools: JoinedPool")
    further = _opened(file, replace(pool.declared, size=size), first=len(pool))
    parts = pool.parts if isinstance(pool, JoinedPool) else (pool,)
    return JoinedPool([*parts, further])


def _opened(path: Path, declared: PoolDeclaration, first: int = 0) -> Pool:
    build, asked = READERS.by_name[declared.kind].build, f"opening {path.name}"
    with reading(path):
        files = parts_of(path, declared.kind)
    if files == [path]:
        pool: Pool = build(path, declared, first)
    else:
        part = replace(declared, size=None)
        pool = one_pool([build(file, part, 0) for file in files], declared)
    check_size(asked, len(pool), declared.size)
    return pool


def parts_of(path: Path, kind: str) -> list[Path]:
    """The files of a table: itself, or those in a folder whose ending says the kind, by their names."""
    if kind not in _IN_PARTS or not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if _by_suffix(file) == kind and file.name[0] not in "._")
    if not files:
        endings = ", ".join(ending for ending, name in _SUFFIXES.items() if name == kind)
        raise BadInput(
            f"opening {path.name}",
            f"it is a folder, and no file in it ends in {endings}",
            "Name the file, or the folder that has the parts; or declare another kind",
        )
    return files
