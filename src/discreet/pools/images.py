"""Folders of pictures, decoded one at a time when they are asked for.

A record's id is its path below the folder, with "/" and with its ending ("ward-3/0012.png"): unique without a rule. So
names of files must be public: a folder named after what is in the picture tells the label. Files with other endings,
and what begins with a dot, are passed over. Order: that of the ids.

``shape`` (height, width) or (1, height, width) reads shades of grey, (3, height, width) colours. Palettes and alpha are
resolved by Pillow (alpha is dropped), colours become grey where grey is declared. Nothing is resized, turned or
guessed: a picture of another size, of more than eight bits a channel, or that cannot be decoded is a broken record.
"""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, require
from discreet.pools.checks import check_size, existing_folder, ids_of, names_of, reading
from discreet.pools.pool import Pool, PoolDeclaration
from discreet.pools.rows import Mask, Scaling, Span, StoredRows, places_of

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm")
_FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "PPM")
_EIGHT_BITS = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA"})


def open_images(path: Path, declared: PoolDeclaration, _first: int = 0) -> Pool:
    """A pool of a folder of pictures."""
    require_pillow()
    existing_folder(path)
    asked = f"opening {path.name}"
    shape = _shape(asked, declared)
    if declared.id not in (None, "path"):
        raise BadInput(asked, "the id of a picture is its path below the folder", "Leave id out")
    if declared.person not in (None, "folder"):
        raise BadInput(asked, "the person of a picture is the folder it is in", 'Write person = "folder"')
    with reading(path):
        names = sorted(_below(path))
    check_size(asked, len(names), declared.size)
    ids = ids_of(names, f"the folder {path.name}")
    persons = _persons(ids, path) if declared.person else None
    return Pool(ids=ids, x=ImageRows(path, ids, shape=shape, declared=declared), persons=persons, declared=declared)


class ImageRows(StoredRows):
    """Pictures of a folder."""

    def __init__(self, folder: Path, names: list[str], *, shape: tuple[int, ...], declared: PoolDeclaration) -> None:
        scaling = Scaling(declared.center, declared.scale, shape)
        super().__init__(name=folder.name, count=len(names), shape=shape, stored=np.uint8, scaling=scaling)
        self._folder, self._names = folder, names

    def stored(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """Pictures as bytes, and which of them could be decoded."""
        places = places_of(span).tolist()
        pictures, fine = np.zeros((len(places), *self.shape[1:]), dtype=np.uint8), np.ones(len(places), dtype=bool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's warnings speak of single pictures
            for row, position in enumerate(places):
                fine[row] = self._decode(self._folder / self._names[position], pictures[row])
        if not fine.all():
            existing_folder(self._folder)  # gone altogether is not broken
        return pictures, fine

    def _decode(self, path: Path, target: NDArray[Any]) -> bool:
        from PIL import Image

        height, width = target.shape[-2:]
        mode = "RGB" if target.ndim == 3 and target.shape[0] == 3 else "L"
        try:
            with Image.open(path, formats=_FORMATS) as picture:
                if picture.size != (width, height) or picture.mode not in _EIGHT_BITS:
                    return False
                pixels = np.asarray(picture if picture.mode == mode else picture.convert(mode))
        except Exception:  # noqa: BLE001 - decoders fail in many ways, and their words quote the file
            return False
        target[...] = np.moveaxis(pixels, -1, 0) if mode == "RGB" else pixels
        return True


def _below(folder: Path) -> list[str]:
    """Paths of pictures below a folder, with "/"."""

    def refuse(failed: OSError) -> None:
        raise failed

    paths = []
    for directory, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = (name for name in files if name.lower().endswith(ENDINGS) and not name.startswith("."))
        paths += [(Path(directory) / name).relative_to(folder).as_posix() for name in chosen]
    return paths


def _persons(ids: list[str], folder: Path) -> list[str]:
    outside = sum("/" not in name for name in ids)
    if outside:
        raise BadInput(
            f"opening {folder.name}", f"{outside} pictures are in no person's folder", "Give every person a folder"
        )
    return names_of([name.split("/", 1)[0] for name in ids], "folders")


def _shape(asked: str, declared: PoolDeclaration) -> tuple[int, ...]:
    shape = declared.shape
    if shape is None or len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] not in (1, 3)):
        raise BadInput(
            asked,
            "no shape of pictures is declared" if shape is None else f"shape = {list(shape)} is not one of pictures",
            "Declare shape = [height, width], or [1 or 3, height, width]",
        )
    return shape


def require_pillow() -> None:
    """Refuse early and clearly where it is not installed."""
    require("PIL", extra="images", asked="a folder of pictures", name="Pillow")


# Records that are pictures: which are, and their PNG files, made of their pixels alone.

_CHANNELS = (1, 3)


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether records of this shape are pictures: rows and columns, perhaps with channels before them."""
    return len(shape) == 2 or (len(shape) == 3 and shape[0] in _CHANNELS)


def stored_values(pool: Pool, rows: Any) -> NDArray[np.float64]:
    """``rows`` of the pool with the numbers of its file: center and scale are undone."""
    center, scale = (np.asarray(numbers, dtype=np.float64) for numbers in (pool.declared.center, pool.declared.scale))
    values = np.asarray(rows, dtype=np.float64)
    tail = (1,) * (values.ndim - 2)
    center, scale = (numbers.reshape(-1, *tail) if numbers.ndim else numbers for numbers in (center, scale))
    return np.asarray(values * scale + center)


def png(shades: NDArray[np.uint8], *, least: int = 0) -> bytes:
    """(height, width), or with one or three channels before, as a PNG file without any text in it. Enlarged by a whole
    factor, if its longer side has fewer than ``least`` pixels.
    """
    planes = shades.reshape(-1, *shades.shape[-2:])
    factor = max(1, -(-least // max(planes.shape[1:])))
    pixels = np.moveaxis(planes.repeat(factor, axis=1).repeat(factor, axis=2), 0, -1)
    height, width, channels = pixels.shape
    changes = np.diff(pixels, axis=1, prepend=np.zeros((height, 1, channels), dtype=np.uint8)).reshape(height, -1)
    raw = np.insert(changes, 0, 1, axis=1).tobytes()  # before each line filter 1: each pixel less the one before it
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(raw, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
