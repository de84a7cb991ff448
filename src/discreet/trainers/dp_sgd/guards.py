"""What a stranger's code says when it fails: on made-up records all of it, on private ones the kind of error alone."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from discreet.errors import BadInput, DiscreetError

T = TypeVar("T")
_TRIES = 3


@contextmanager
def hushed(what: str) -> Iterator[None]:
    """Around code that sees private records: its errors and warnings may quote one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DiscreetError:
        raise
    except Exception as failed:  # noqa: BLE001 - whatever it is
        raise BadInput(
            what, f"on your records it ended with {type(failed).__name__}", "Try it on made-up records like yours"
        ) from None


@contextmanager
def in_full(what: str, remedy: str = "Model and loss must work for one record under torch.func.vmap") -> Iterator[None]:
    """Around the same code on made-up or public records, before anything is charged."""
    try:
        yield
    except DiscreetError:
        raise
    except Exception as failed:
        raise BadInput(
            what,
            f"on made-up records like yours it ended with {type(failed).__name__}: {failed}",
            remedy,
        ) from failed


def drawing_with_torch(what: str, work: Callable[[], T]) -> T:
    """What ``work`` makes of made-up records. Refused if it draws from a generator that a step does not seed; it is
    tried again before that, because another thread may have drawn.
    """
    for _ in range(_TRIES):
        before = _other_generators()
        made = work()
        if _other_generators() == before:
            return made
    raise BadInput(
        what,
        "it draws from the global generator of Python or numpy, whose seed is no secret of a training step",
        "Draw with torch; in an augmentation, from the generator that it is given",
    )


def _other_generators() -> tuple[object, ...]:
    kind, key, *rest = np.random.get_state(legacy=True)
    return random.getstate(), kind, np.asarray(key).tobytes(), *rest
