"""Work in several threads: numpy, Arrow and AES let others run meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_threads(work: Callable[[Any], None], items: Iterable[Any], threads: int) -> None:
    """``work`` of each item; the first error ends it, and is raised."""
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(work, item) for item in items]
        try:
            for one in waiting:
                one.result()
        except BaseException:
            for one in waiting:
                one.cancel()
            raise
