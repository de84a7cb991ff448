"""Records that are pictures: which are, and their PNG files. Needs the extra ``images``."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from discreet.errors import MissingExtra

_CHANNELS = (1, 3)


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether records of this shape are pictures: rows and columns, perhaps with channels before them."""
    return len(shape) == 2 or (len(shape) == 3 and shape[0] in _CHANNELS)


def png(shades: NDArray[np.uint8], *, least: int = 0) -> bytes:
    """One picture. Enlarged by a whole factor, if its longer side has fewer than ``least`` pixels."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pictures of records", "Pillow is not installed", "pip install discreet[images]") from None
    flat = shades[0] if shades.ndim == 3 and shades.shape[0] == 1 else shades
    picture = Image.fromarray(flat if flat.ndim == 2 else np.moveaxis(flat, 0, -1))
    factor = -(-least // max(picture.size))
    if factor > 1:
        picture = picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    made = io.BytesIO()
    picture.save(made, "PNG")
    return made.getvalue()
