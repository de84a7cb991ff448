"""What a model may be asked for: public numbers, checked before a weight is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from discreet.errors import BadInput


def whole(value: Any, name: str, *, least: int = 1) -> int:
    """``value`` as an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise BadInput(f"{name}={value!r}", f"{name} is a whole number of at least {least}", f"Give {name} >= {least}")
    return int(value)


def fraction(value: Any, name: str) -> float:
    """``value`` as a float in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise BadInput(f"{name}={value!r}", f"{name} is a number in [0, 1)", f"Give 0 <= {name} < 1")
    return float(value)


def wholes(value: Any, name: str) -> tuple[int, ...]:
    """``value``, a sequence of positive whole numbers (a TOML list, too), as a tuple."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise BadInput(f"{name}={value!r}", f"{name} is a sequence of whole numbers", f"Give {name} like (256, 128)")
    return tuple(whole(number, f"an entry of {name}") for number in value)


def record_shape(inputs: Any) -> tuple[int, ...]:
    """The public shape of one record, without the record axis."""
    shape = wholes((inputs,) if isinstance(inputs, Integral) else inputs, "inputs")
    if not shape:
        raise BadInput("inputs=()", "a record has at least one axis", "Give the shape of one record, like (784,)")
    return shape


def image_shape(inputs: tuple[int, ...], *, model: str, least: int) -> tuple[int, int, int]:
    """``inputs`` as (channels, height, width), each side at least ``least``."""
    if len(inputs) != 3:
        raise BadInput(
            f"{model} on records of shape {inputs}",
            "it takes images: (channels, height, width)",
            "Give inputs like (1, 28, 28), or use the model 'mlp', which takes any shape",
        )
    channels, height, width = inputs
    if min(height, width) < least:
        raise BadInput(
            f"{model} on images of {height} x {width}",
            f"its pooling needs at least {least} x {least}",
            "Enlarge the images, or use the model 'mlp'",
        )
    return channels, height, width


def vector_width(inputs: tuple[int, ...], *, model: str) -> int:
    """``inputs`` as one length."""
    if len(inputs) != 1:
        raise BadInput(
            f"{model} on records of shape {inputs}",
            "it takes vectors",
            "Give inputs like (384,), or use the model 'linear', which flattens",
        )
    return inputs[0]


def among(value: Any, name: str, known: Sequence[str]) -> str:
    """``value`` if it is one of the known words."""
    if value not in known:
        raise BadInput(f"{name}={value!r}", f"the known ones are {', '.join(known)}", f"Give one of these as {name}")
    return str(value)
