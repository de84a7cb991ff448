"""What an annotator is shown of a record: its picture, its text, or its numbers under the names of their columns.

Guarantee: a record's rendering depends on that record and on declared constants alone. It holds no id. A record that
cannot be read looks blank.

Pictures are PNG in a data address, so that they live and die with their task: nothing is served by this program, and no
file stays behind on the server when a task is deleted. Pictures of files and of bytes keep their shades; of other
numbers, each picture is spread over its own darkest and brightest point. Small ones are enlarged by a whole factor.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.oracles.label_studio.labeling_config import Kind
from discreet.pools import Pool
from discreet.pools.pictures import is_picture, png

_LEAST = 240
"""Pixels of the longer side, so that a digit of 8 by 8 is seen."""
Rendered = dict[str, Any]


def kind_of(pool: Pool) -> Kind:
    """How records of a pool are shown."""
    if pool.text is not None:
        return "text"
    return "image" if is_picture(tuple(pool.x.shape[1:])) else "table"  # type: ignore[union-attr]


def rendered(pool: Pool, records: Sequence[str]) -> list[Rendered]:
    """What annotators see of ``records``, in that order, by the name that the config has for it."""
    if not records:
        return []
    places, kind = pool.places(records), kind_of(pool)
    if kind == "text":
        return [{"text": text or " "} for text in pool.text[places]]  # type: ignore[index]
    values = np.asarray(pool.x[places])  # type: ignore[index]
    if kind == "image":
        return [{"image": _address(shades)} for shades in _shades(pool, values)]
    names = _columns(pool, values.shape[1:])
    return [{"table": dict(zip(names, map(_number, row.ravel()), strict=True))} for row in _as_stored(pool, values)]


def _as_stored(pool: Pool, values: NDArray[Any]) -> NDArray[np.float64]:
    """Without the declared center and scale: people know the numbers as they are in the owner's file."""
    center, scale = (np.asarray(one, dtype=np.float64) for one in (pool.declared.center, pool.declared.scale))
    if center.ndim or scale.ndim:
        tail = (1,) * (values.ndim - 2)
        center, scale = (one.reshape(-1, *tail) if one.ndim else one for one in (center, scale))
    return np.asarray(np.asarray(values, dtype=np.float64) * scale + center)


def _shades(pool: Pool, values: NDArray[Any]) -> list[NDArray[np.uint8]]:
    if values.dtype == np.uint8:
        return list(values)
    stored = _as_stored(pool, values)
    if pool.declared.kind == "images":
        return list(np.clip(np.rint(stored), 0, 255).astype(np.uint8))
    return [_spread(one) for one in stored]


def _spread(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    low, high = float(values.min()), float(values.max())
    return np.asarray(np.rint((values - low) * (255 / (high - low if high > low else 1.0))), dtype=np.uint8)


def _address(shades: NDArray[np.uint8]) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(shades, least=_LEAST)).decode()}"


def _columns(pool: Pool, shape: tuple[int, ...]) -> list[str]:
    count = int(np.prod(shape))
    declared = pool.declared.columns
    return (
        list(declared) if declared and len(declared) == count else [f"value {place}" for place in range(1, count + 1)]
    )


def _number(value: float) -> str:
    return f"{value:.6g}"
