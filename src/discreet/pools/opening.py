"""The door to people's data: `open_pool`, and `extended` for a further cohort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.pools.array_files import open_npy, open_npz
from discreet.pools.csv_files import open_csv
from discreet.pools.declared import KINDS, Declared, Kind, declare
from discreet.pools.images import open_images
from discreet.pools.joined import JoinedPool
from discreet.pools.pool import Pool
from discreet.pools.table_files import open_table


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
) -> Pool:
    """A pool in a file or a folder, as it is declared. Nothing of the declaration is found out by looking at records.

    kind      of file; left out: by the name's ending, a folder is one of pictures
    id        the column or array of ids; "position" for npy and npz: a row's place is its name
    columns   of a table: the numbers of a record, in this order, or one column of lists
    text      of a table: the column of texts
    person    the column or array of persons; "folder" for pictures: the first folder on the way
    array     of an npz file: the records
    shape     of one record; needed for pictures and columns of lists
    center, scale   records are (value - center) / scale, in float32; one number, or one a column or channel
    size      the number of records; another one is refused
    """
    place = Path(path)
    options = {"id": id, "columns": columns, "text": text, "person": person, "array": array}
    declared = declare(place, kind, **options, shape=shape, center=center, scale=scale, size=size)
    return _opened(place, declared)


def extended(pool: Pool, path: Path | str, *, size: int | None = None) -> JoinedPool:
    """``pool`` and, after it, the records of another file that is declared in the same way. Ids must be new.

    Where ids are positions they run on: the first record of the file is named after the number of records before it.
    """
    place = Path(path)
    if pool.declared.kind not in KINDS:
        raise BadInput(f"extending a pool by {place.name}", "the pool is not of a file", "Join two pools: JoinedPool")
    further = _opened(place, replace(pool.declared, size=size), first=len(pool))
    parts = pool.parts if isinstance(pool, JoinedPool) else (pool,)
    return JoinedPool([*parts, further])


def _opened(path: Path, declared: Declared, first: int = 0) -> Pool:
    readers: dict[str, Any] = {
        "npy": lambda: open_npy(path, declared, first),
        "npz": lambda: open_npz(path, declared, first),
        "parquet": lambda: open_table(path, declared),
        "arrow": lambda: open_table(path, declared),
        "csv": lambda: open_csv(path, declared),
        "images": lambda: open_images(path, declared),
    }
    found: Pool = readers[declared.kind]()
    return found
