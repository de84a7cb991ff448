"""What an annotator sees of a record: a picture, a text, or a table of named numbers.

Guarantee: what is shown is made of numbers and texts that were read from the pool, of that record alone. A picture is
encoded anew from its pixels, so nothing of a file (its name, its format, what a camera wrote into it) leaves, and there
is one content type. No address that comes from outside names a file.

Numbers are shown as they were before `center` and `scale`. A picture of bytes is shown as it is; where records are
other numbers, black and white are the ends of that record's own range, unless it lies within [0, 1].
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.pools import Pool

Kind = Literal["picture", "text", "table", "broken"]
_SMALL = 160
_DIGITS = 6


@dataclass(frozen=True, kw_only=True, repr=False)
class View:
    """Of one record. Audience: its annotator.

    kind     what there is to see; ``broken``: the record cannot be read
    text     of ``text``
    rows     of ``table``: names and numbers as text
    small    of ``picture``: it has so few pixels that they are shown as squares
    address  of ``picture``: a small one itself, as an address that holds it; a large one is fetched (`picture_of`)
    """

    kind: Kind
    text: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    small: bool = False
    address: str = ""


def view_of(pool: Pool, record: str) -> View:
    """What there is to see of ``record``; a picture itself is `picture_of`."""
    places = pool.places([record])
    if bool(pool.broken(places)[0]):
        return View(kind="broken")
    if pool.x is None:
        return View(kind="text", text=str(pool.text[places][0]))  # type: ignore[index]
    text = "" if pool.text is None else str(pool.text[places][0])
    if is_picture(pool):
        height, width = _sides(tuple(pool.x.shape[1:]))
        small = max(height, width) <= _SMALL
        return View(kind="picture", text=text, small=small, address=_address(pool, record) if small else "")
    return View(kind="table", text=text, rows=_named(pool, _unscaled(pool, places)))


def is_picture(pool: Pool) -> bool:
    """Whether records have the shape of pictures."""
    return pool.x is not None and _sides(tuple(int(size) for size in pool.x.shape[1:])) != (0, 0)


def picture_of(pool: Pool, record: str) -> bytes:
    """A record as PNG."""
    assert pool.x is not None
    places = pool.places([record])
    pixels = _bytes(_unscaled(pool, places), as_they_are=pool.declared.kind == "images" or pool.x.dtype == np.uint8)
    if pixels.ndim == 3:
        pixels = pixels[0] if pixels.shape[0] == 1 else np.moveaxis(pixels, 0, -1)
    return png(pixels)


def _address(pool: Pool, record: str) -> str:
    """The picture in the page itself: a second request would take as long as the rest of it."""
    return f"data:image/png;base64,{base64.b64encode(picture_of(pool, record)).decode()}"


def png(pixels: NDArray[np.uint8]) -> bytes:
    """(height, width) in grey or (height, width, 3) in colours, as a PNG file without any text in it."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = np.ascontiguousarray(pixels).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), dtype=np.uint8), lines], axis=1).tobytes()  # filter 0 before each line
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(raw, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of (h, w), (1, h, w) or (3, h, w); zeros: it is no picture."""
    if len(shape) == 3 and shape[0] in (1, 3):
        shape = shape[1:]
    return (shape[0], shape[1]) if len(shape) == 2 else (0, 0)


def _unscaled(pool: Pool, places: Any) -> NDArray[Any]:
    values: NDArray[Any] = np.asarray(pool.x[places])[0]  # type: ignore[index]
    center, scale = (np.asarray(one, dtype=np.float64) for one in (pool.declared.center, pool.declared.scale))
    if values.dtype == np.uint8 and not center.any() and (scale == 1).all():
        return values
    shape = (-1, *(1 for _ in values.shape[1:])) if center.ndim or scale.ndim else ()
    return np.asarray(values, dtype=np.float64) * scale.reshape(shape) + center.reshape(shape)


def _bytes(values: NDArray[Any], *, as_they_are: bool) -> NDArray[np.uint8]:
    if as_they_are or values.dtype == np.uint8:
        exact: NDArray[np.uint8] = np.clip(np.rint(values), 0, 255).astype(np.uint8)
        return exact
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    spread = (high - low) or 1.0
    found: NDArray[np.uint8] = np.rint((values - low) * (255 / spread)).astype(np.uint8)
    return found


def _named(pool: Pool, values: NDArray[Any]) -> tuple[tuple[str, str], ...]:
    flat, names = values.reshape(-1), pool.declared.columns
    if names is None or len(names) != len(flat):
        names = tuple(f"{place + 1}" for place in range(len(flat)))
    return tuple((name, f"{float(one):.{_DIGITS}g}") for name, one in zip(names, flat, strict=True))
