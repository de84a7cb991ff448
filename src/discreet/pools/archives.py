"""How large the arrays of an npz file are, before anything is unpacked.

Guarantee: an array is unpacked only if it has the size that its header and the archive's directory agree on, and all of
them together fit into `MOST_UNPACKED` bytes: a few megabytes of an archive can hold terabytes of zeros.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

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
def arrays_in(file: IO[bytes]) -> Iterator[Any]:
    """The arrays of an npz file that this program wrote. Raises ValueError if they would take too much memory."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > MOST_UNPACKED:
            raise ValueError("it unpacks to more than two gigabytes")
        for member in members:
            member_header(archive, member)
    file.seek(0)
    with np.load(file, allow_pickle=False) as held:
        yield held
