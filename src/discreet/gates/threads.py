"""Work in several threads: numpy, Arrow and AES let others run meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_threads(
    work: Callable[[Any], None], items: Iterable[Any], threads: int, *, stop: threading.Event | None = None
) -> None:
    """``work`` of each item; the first error, or an interrupt, sets ``stop``, ends it, and is raised."""
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(work, item) for item in items]
        try:
            for one in waiting:
                one.result()
        except BaseException:
            if stop is not None:
                stop.set()
            for one in waiting:
                one.cancel()
            raise
