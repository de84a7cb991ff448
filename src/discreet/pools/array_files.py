"""npy and npz files. What is not compressed is memory-mapped; a compressed npz can only be read whole.

The shape and type are those of the file's header, which says nothing of a record. A declared ``shape`` says how the
numbers of a record are arranged. Object arrays are refused: reading one would run what the file says.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.checks import POSITION, Unchanged, check_size, existing_file, ids_of, names_of, positions, reading
from discreet.pools.pool import ArrayRows, Pool, PoolDeclaration
from discreet.pools.rows import Mask, Span

_LOCAL_HEADER = 30  # bytes of a zip member's own header before its name; the lengths of name and extra end it


def open_npy(path: Path, declared: PoolDeclaration, first: int = 0) -> Pool:
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


def open_npz(path: Path, declared: PoolDeclaration, first: int = 0) -> Pool:
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
    """StoredRows of an array in a file that must stay as it is."""

    def __init__(self, array: NDArray[Any], *, file: Unchanged, declared: PoolDeclaration) -> None:
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
        """StoredRows of the file, if it is still what was opened."""
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
            return npy_format.read_array(file, allow_pickle=False)


def mapped(path: Path, offset: int) -> NDArray[Any]:
    """The array that begins at ``offset`` of a file, memory-mapped. Raises ValueError for what is no such array."""
    with path.open("rb") as file:
        file.seek(offset)
        shape, fortran, dtype = read_header(file)
        if prod(shape) == 0:
            return np.empty(shape, dtype=dtype)
        array = np.memmap(file, dtype=dtype, mode="r", offset=file.tell(), shape=shape, order="F" if fortran else "C")
        return array.view(np.ndarray)


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
    names = array_in(path, name)
    if names.dtype.kind not in "iuU":
        raise BadInput(
            f"the array {name!r} of {path.name}", "it holds neither text nor whole numbers", "Store names as text"
        )
    return names


# How large the arrays of an npz file are, before anything is unpacked.
#
# Guarantee: an array is unpacked only if it has the size that its header and the archive's directory agree on, and all
# of them together fit into `MOST_UNPACKED` bytes: a few megabytes of an archive can hold terabytes of zeros.

MOST_UNPACKED = 1 << 31
Header = tuple[tuple[int, ...], bool, np.dtype[Any]]


def read_header(file: IO[bytes]) -> Header:
    """Shape, order and type of the array that follows. Raises ValueError for what is no such array, and for objects."""
    version = npy_format.read_magic(file)
    if version == (1, 0):
        header = npy_format.read_array_header_1_0(file)
    elif version == (2, 0):
        header = npy_format.read_array_header_2_0(file)
    else:
        raise ValueError("a version for structured arrays")
    if header[2].hasobject:
        raise ValueError("objects")
    return header


def member_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Header:
    """The header of one array, if the archive's directory says the same size. Unpacks the header alone."""
    with archive.open(member) as file:
        shape, fortran, dtype = read_header(file)
        if file.tell() + prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError("its size is not the one of its array")
    return shape, fortran, dtype


@contextmanager
def arrays_in(content: bytes) -> Iterator[Any]:
    """The arrays that `array_bytes` wrote. Raises ValueError if they would take too much memory."""
    file = io.BytesIO(content)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > MOST_UNPACKED:
            raise ValueError("it unpacks to more than two gigabytes")
        for member in members:
            member_header(archive, member)
    file.seek(0)
    with np.load(file, allow_pickle=False) as held:
        yield held


def array_bytes(save: Callable[..., None], /, **arrays: Any) -> bytes:
    """The bytes of an npz file of these arrays. ``save``: `numpy.savez` or `numpy.savez_compressed`."""
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


# IDX files, the format of MNIST and its kin: a magic number, the sizes, then the values, big-endian; gzip or plain.
#
# two zero bytes | type (08 uint8, 09 int8, 0B int16, 0C int32, 0D float32, 0E float64) | axes | sizes (uint32) | values

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


def read_idx(path: Path | str) -> NDArray[Any]:
    """The array in an IDX file, in this machine's byte order."""
    file = Path(path)
    try:
        content = file.read_bytes()
        if content[:2] == _GZIP:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(MOST_UNPACKED + 1)
            if len(content) > MOST_UNPACKED:
                raise _broken(file, "it unpacks to more than two gigabytes")
    except FileNotFoundError:
        raise BadInput(f"reading {file}", "there is no such file", "Check the path") from None
    except (OSError, EOFError, zlib.error):
        raise _broken(file, "it cannot be read, or its compression is broken") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise _broken(file, "it does not begin as an IDX file does")
    kind, axes = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise _broken(file, "it ends before its sizes do")
    sizes = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=axes, offset=4))
    if len(content) - start != prod(sizes) * kind.itemsize:
        raise _broken(file, "it has more or fewer values than its sizes say")
    values = np.frombuffer(content, dtype=kind, offset=start).reshape(sizes)
    return values.astype(kind.newbyteorder("="))


def _broken(path: Path, fact: str) -> BadInput:
    return BadInput(f"reading {path.name}", fact, "Get the file again")
