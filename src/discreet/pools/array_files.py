"""npy and npz files. What is not compressed is memory-mapped; a compressed npz can only be read whole.

The shape and type are those of the file's header, which says nothing of a record. A declared ``shape`` says how the
numbers of a record are arranged. Object arrays are refused: reading one would run what the file says.
"""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.archives import MOST_UNPACKED, member_header, read_header
from discreet.pools.declared import Declared
from discreet.pools.naming import POSITION, check_size, ids_of, names_of, positions
from discreet.pools.pool import ArrayRows, Pool
from discreet.pools.refusals import Unchanged, existing_file, reading
from discreet.pools.rows import Mask, Span

_LOCAL_HEADER = 30  # bytes of a zip member's own header before its name; the lengths of name and extra end it


def open_npy(path: Path, declared: Declared, first: int = 0) -> Pool:
    """A pool of one array, whose ids are the positions."""
    if declared.id != POSITION:
        raise BadInput(
            f"opening {path.name}",
            "an npy file has no ids"
            if declared.id is None
            else f"an npy file has no ids, so none named {declared.id!r}",
            f'Declare id = "{POSITION}", if rows will never move, or put the ids beside x in an npz file',
        )
    existing_file(path)
    file = Unchanged(path)
    with reading(path, otherwise="it is not an npy file, or ends before its values do"):
        array = mapped(path, 0)
    x = MappedRows(array, file=file, declared=declared)
    check_size(f"opening {path.name}", len(x), declared.size)
    return Pool(ids=positions(len(x), first), x=x, declared=declared)


def open_npz(path: Path, declared: Declared, first: int = 0) -> Pool:
    """A pool of one array of an npz file; ids and persons are others."""
    asked = f"opening {path.name}"
    if declared.array is None:
        raise BadInput(asked, "an npz file holds arrays by name, and none was named", 'Declare array = "..."')
    if declared.id is None:
        raise BadInput(
            asked, "nothing says which array holds the ids", f'Declare id = "...", or id = "{POSITION}" for none'
        )
    existing_file(path)
    file = Unchanged(path)
    array = array_in(path, declared.array, rows=declared.size, shape=declared.shape)
    x = MappedRows(array, file=file, declared=declared)
    persons = None
    with reading(path):
        if declared.id == POSITION:
            ids = positions(len(x), first)
        else:
            ids = ids_of(_names_in(path, declared.id), f"the array {declared.id!r}")
        if declared.person is not None:
            persons = names_of(_names_in(path, declared.person), f"the array {declared.person!r}")
    return Pool(ids=ids, x=x, persons=persons, declared=declared)


class MappedRows(ArrayRows):
    """Rows of an array in a file that must stay as it is."""

    def __init__(self, array: NDArray[Any], *, file: Unchanged, declared: Declared) -> None:
        asked = f"opening {file.path.name}"
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise BadInput(asked, "the array does not hold numbers with a row a record", "Store numbers")
        if array.ndim == 1 and declared.shape is None:
            raise BadInput(asked, "a record would be a bare number", "Declare shape = [1], or store rows")
        if declared.shape is not None and prod(declared.shape) != prod(array.shape[1:]):
            raise BadInput(
                asked,
                f"shape = {list(declared.shape)} is declared, and a record has {prod(array.shape[1:])} numbers",
                "Declare a shape of as many numbers",
            )
        super().__init__(array, name=file.path.name, shape=declared.shape, center=declared.center, scale=declared.scale)
        self._file = file

    def stored(self, span: Span) -> tuple[NDArray[Any], Mask | None]:
        """Rows of the file, if it is still what was opened."""
        self._file.check()
        return super().stored(span)


def array_in(path: Path, name: str, *, rows: int | None = None, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """An array of an npz file, memory-mapped unless it is compressed. Refused, before it is unpacked, if it has not as
    many ``rows``, or not as many numbers in one as ``shape``.
    """
    with reading(path, otherwise="it is not an npz file, or not all of it is there"), zipfile.ZipFile(path) as archive:
        try:
            member = archive.getinfo(f"{name}.npy")
        except KeyError:
            raise BadInput(f"reading {path.name}", f"it has no array named {name!r}", "Check the name") from None
        if member.compress_type == zipfile.ZIP_STORED:
            array = mapped(path, _offset(path, member))
            check_size(f"opening {path.name}", len(array) if array.ndim else 1, rows)
            return array
        found_shape, _, _ = member_header(archive, member)
        check_size(f"opening {path.name}", found_shape[0] if found_shape else 1, rows)
        fits = shape is None or prod(shape) == prod(found_shape[1:])
        if not fits or member.file_size > MOST_UNPACKED:
            raise BadInput(
                f"reading {path.name}",
                f"the array {name!r} would be unpacked to {member.file_size >> 20} MB, "
                + ("more than we unpack" if fits else f"and shape = {list(shape or ())} is declared"),
                "Store it without compression (numpy.savez): then it is read piece by piece"
                if fits
                else "Declare a shape of as many numbers",
            )
        with archive.open(member) as file:
            found: NDArray[Any] = npy_format.read_array(file, allow_pickle=False)
            return found


def mapped(path: Path, offset: int) -> NDArray[Any]:
    """The array that begins at ``offset`` of a file, memory-mapped. Raises ValueError for what is no such array."""
    with path.open("rb") as file:
        file.seek(offset)
        shape, fortran, dtype = read_header(file)
        if prod(shape) == 0:
            return np.empty(shape, dtype=dtype)
        whole = np.memmap(file, dtype=dtype, mode="r", offset=file.tell(), shape=shape, order="F" if fortran else "C")
        return whole.view(np.ndarray)


def _offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: after its own header, whose name and extra may differ from the directory's."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER)
    if len(header) != _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
        raise ValueError("no header of a member")
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER + lengths


def _names_in(path: Path, name: str) -> NDArray[Any]:
    found = array_in(path, name)
    if found.dtype.kind not in "iuU":
        raise BadInput(
            f"the array {name!r} of {path.name}", "it holds neither text nor whole numbers", "Store names as text"
        )
    return found
