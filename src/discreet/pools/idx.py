"""IDX files, the format of MNIST and its kin: a magic number, the sizes, then the values, big-endian; gzip or plain.

two zero bytes | type (08 uint8, 09 int8, 0B int16, 0C int32, 0D float32, 0E float64) | axes | sizes (uint32) | values
"""

from __future__ import annotations

import gzip
import io
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.archives import MOST_UNPACKED

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


def read_idx(path: Path | str) -> NDArray[Any]:
    """The array in an IDX file, in this machine's byte order."""
    place = Path(path)
    try:
        content = place.read_bytes()
        if content[:2] == _GZIP:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(MOST_UNPACKED + 1)
            if len(content) > MOST_UNPACKED:
                raise _broken(place, "it unpacks to more than two gigabytes")
    except FileNotFoundError:
        raise BadInput(f"reading {place}", "there is no such file", "Check the path") from None
    except (OSError, EOFError, zlib.error):
        raise _broken(place, "it cannot be read, or its compression is broken") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise _broken(place, "it does not begin as an IDX file does")
    kind, axes = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise _broken(place, "it ends before its sizes do")
    sizes = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=axes, offset=4))
    if len(content) - start != prod(sizes) * kind.itemsize:
        raise _broken(place, "it has more or fewer values than its sizes say")
    values = np.frombuffer(content, dtype=kind, offset=start).reshape(sizes)
    return values.astype(kind.newbyteorder("="))


def _broken(place: Path, fact: str) -> BadInput:
    return BadInput(f"reading {place.name}", fact, "Get the file again")
