"""A gallery as one PNG sheet, for papers and slides: a frame is green where the model was right, red where it was not;
below a picture stand what the model said (left) and what people say (right). Needs the extra ``images``.
"""

from __future__ import annotations

import base64
import io
import math
from typing import Any

from discreet.errors import BadInput, MissingExtra
from discreet.report.gallery import Gallery, Shown

SIDE, FRAME, TEXT, GAP = 84, 4, 20, 8
_COLORS = {"right": (11, 110, 99), "wrong": (155, 28, 49), "open": (150, 152, 145)}
_PAGE, _INK = (255, 255, 255), (29, 33, 41)
_LONGEST = 9


def gallery_png(gallery: Gallery) -> bytes:
    """The sheet; the same gallery gives the same picture."""
    if not gallery.shown or not all(one.picture for one in gallery.shown):
        raise BadInput("a sheet of this gallery", "its records are no pictures", "Write an .html page")
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingExtra("a sheet of pictures", "Pillow is not installed", "pip install discreet[images]") from None
    columns = math.ceil(math.sqrt(len(gallery.shown) * 1.25))
    rows = math.ceil(len(gallery.shown) / columns)
    wide, high = SIDE + 2 * FRAME + GAP, SIDE + 2 * FRAME + TEXT + GAP
    sheet = Image.new("RGB", (GAP + columns * wide, GAP + rows * high), _PAGE)
    brush = ImageDraw.Draw(sheet)
    for place, one in enumerate(gallery.shown):
        left, top = GAP + (place % columns) * wide, GAP + (place // columns) * high
        _tile(Image, sheet, brush, one, left, top)
    made = io.BytesIO()
    sheet.save(made, "PNG", optimize=True)
    return made.getvalue()


def _tile(pillow: Any, sheet: Any, brush: Any, one: Shown, left: int, top: int) -> None:
    side, color = SIDE + 2 * FRAME, _COLORS[one.verdict]
    brush.rectangle((left, top, left + side - 1, top + side - 1), fill=color)
    picture = pillow.open(io.BytesIO(base64.b64decode(one.picture))).convert("RGB")
    sheet.paste(picture.resize((SIDE, SIDE), pillow.Resampling.NEAREST), (left + FRAME, top + FRAME))
    line = top + side + TEXT // 2
    brush.text((left + 2, line), _short(one.predicted), fill=color, anchor="lm", font_size=13)
    brush.text((left + side - 2, line), _short(one.label or "?"), fill=_INK, anchor="rm", font_size=13)


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}."
