"""Randomness from another door than `discreet.noise`: global generators, the operating system, new unseeded generators.

Not seen: a generator that was made before and is hidden in an object (only by what it changes), `secrets`, a bit
generator made by hand.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from discreet.testing.comparison import same

_IMPORTING = "<frozen importlib"


@contextmanager
def watching() -> Iterator[Callable[[], bool]]:
    """Whether randomness was drawn from a global generator or the operating system, or an unseeded one made, meanwhile.

    What a library draws while it is imported for the first time, such as names for itself, is not counted: it would be
    there in the first run and in no other.
    """
    made: list[int] = []
    ordinary, entropy = np.random.default_rng, os.urandom
    outside = sys._getframe(2)  # of whoever wrote `with watching()`; between us is contextlib

    def noticed(*arguments: Any, **options: Any) -> Any:
        if not arguments and not options and not _importing(outside):  # a fixed seed draws the same in every run
            made.append(1)
        return ordinary(*arguments, **options)

    def drawn(size: int) -> bytes:
        if not _importing(outside):
            made.append(1)
        return entropy(size)

    before = _global_states()
    changed: list[bool] = []
    np.random.default_rng, os.urandom = noticed, drawn
    try:
        yield lambda: bool(made) or changed[0]
    finally:
        np.random.default_rng, os.urandom = ordinary, entropy
        after = _global_states()[: len(before)]  # torch may have come meanwhile
        changed.append(not same(before, after))


def _importing(outside: FrameType) -> bool:
    """Whether the caller's caller is a module that is being imported, below ``outside``."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame is not outside:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False


def _global_states() -> list[Any]:
    states: list[Any] = [random.getstate(), np.random.get_state()]
    torch = sys.modules.get("torch")
    if torch is not None:
        states.append(np.asarray(torch.get_rng_state()))
    return states
