"""What goes into a selection: ids and scores, checked. Ids are public; of scores an error never says anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

Floats = NDArray[np.float64]


def checked(ids: Any, scores: Any, k: Any, limits: tuple[float, float] | None) -> tuple[Sequence[str], Floats, int]:
    """Ids as they are, scores in their range (what is no number is at the bottom, as a null is), and at most all of
    them.
    """
    names, count = some_of(ids, k)
    if limits is None:
        return names, np.zeros(len(names)), count
    try:
        values = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("scores", "they are not numbers", "Give one number a record") from None
    if values.shape != (len(names),):
        raise BadInput("scores", "there is not one for each id", "Give ids and scores in the same order")
    bottom, top = limits
    np.fmax(values, bottom, out=values)  # the bottom also where there is no number
    return names, np.minimum(values, top, out=values), count


def some_of(ids: Any, k: Any) -> tuple[Sequence[str], int]:
    """Ids as they are, and how many of them are asked: k, at most all."""
    names = _names(ids)
    return names, min(whole(k), len(names))


def whole(k: Any) -> int:
    """How many are to be asked."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 0:
        raise BadInput(f"asking {k} records", "it is not a whole number", "Give 0 or more")
    return int(k)


def _names(ids: Any) -> Sequence[str]:
    names: Sequence[str] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if not all(type(name) is str for name in names):
        raise BadInput("ids", "they are not all text", "Use your own ids, as strings")
    if len(set(names)) != len(names):
        raise BadInput("ids", "one of them occurs twice", "Give every record an id of its own")
    return names


def chosen(ids: Sequence[str], places: NDArray[np.int64]) -> tuple[str, ...]:
    """Ids at places."""
    return tuple(ids[place] for place in places.tolist())
