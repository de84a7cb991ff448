"""Runs the cases that are not finished yet, over several processes; each finished one is on disk at once.

First come the plans that these cases share, each made once and kept; then the cases. One run at a time writes into a
directory of results: parts of other machines are joined.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import DiscreetError
from discreet.simulation.results import Runnable, Store

Progress = Callable[[int, int], None]
"""Cases done, and all."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A case that could not be run, and why: data here are public, so its own words are kept."""

    case: str
    why: str


def run_cases(
    store: Store,
    cases: Sequence[Runnable],
    *,
    data: Path | None,
    processes: int,
    progress: Progress,
    others: Sequence[Store] = (),
) -> list[Failure]:
    """Run what is missing here and in ``others``, from which finished cases are taken over. Interrupted, it leaves
    finished cases; called again, it goes on.
    """
    with alone(store):
        store.take(others, cases)
        done = store.done()
        missing = [case for case in cases if case.digest not in done]
        count = len(cases) - len(missing)
        progress(count, len(cases))
        failures = []
        for result in _all(store, missing, data, processes):
            failures.extend(result)
            count += 1
            progress(count, len(cases))
        if not failures:
            store.gather()
    return failures


@contextmanager
def alone(store: Store) -> Iterator[None]:
    """While the block runs nobody else writes these results."""
    from discreet.storage.disk import locked

    store.plans.mkdir(parents=True, exist_ok=True)
    with locked(store.plans / "running", asked=f"writing results of {store.name}", doing="writing them"):
        yield


def planned_first(cases: Sequence[Runnable]) -> list[Runnable]:
    """One case of each plan."""
    plans = [(plan, case) for case in reversed(cases) if (plan := case.plan_name()) is not None]
    return list(dict(plans).values())[::-1]


def _all(store: Store, cases: Sequence[Runnable], data: Path | None, processes: int) -> Iterator[list[Failure]]:
    if processes == 1 or len(cases) < 2:
        for case in cases:
            yield _run(store, case, data)
    else:
        yield from _over_processes(store, cases, data, processes)


def _over_processes(
    store: Store, cases: Sequence[Runnable], data: Path | None, processes: int
) -> Iterator[list[Failure]]:
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // processes)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_start, initargs=(threads,))
    try:
        wait([pool.submit(_plan, store, case, data) for case in planned_first(cases)])
        for future in as_completed([pool.submit(_run, store, case, data) for case in cases]):
            yield future.result()
    except BaseException:  # an interrupt: what runs now is lost, what is finished stays
        for worker in multiprocessing.active_children():
            worker.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _start(threads: int) -> None:
    """In a fresh process: the parent deals with interrupts, and two processes do not fight for the cores."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A parent that was killed cannot stop its workers, and two runs of one experiment would do every case twice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _plan(store: Store, case: Runnable, data: Path | None) -> None:
    """Make a plan that several cases wait for. What is wrong with it is told by the first of them."""
    with suppress(DiscreetError):
        case.make_plan(data, store.plans)


def _run(store: Store, case: Runnable, data: Path | None) -> list[Failure]:
    begun = time.process_time()
    try:
        rows = case.run(data, store.plans)
    except DiscreetError as error:
        return [Failure(case=str(case), why=str(error))]
    taken = {"cpu_seconds": time.process_time() - begun}
    store.keep(case, [row | taken for row in rows])
    return []
