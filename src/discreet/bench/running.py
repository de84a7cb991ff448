"""Runs the cases that are not finished yet, over several processes; each finished one is on disk at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from discreet.bench.cases import Case
from discreet.bench.results import Store
from discreet.errors import DiscreetError

Progress = Callable[[int, int], None]
"""Cases done, and all."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A case that could not be run, and why: data here are public, so its own words are kept."""

    case: str
    why: str


def run_cases(
    store: Store, cases: Sequence[Case], *, data: Path | None, processes: int, progress: Progress
) -> list[Failure]:
    """Run what is missing. Interrupted, it leaves finished cases; called again, it goes on."""
    done = store.done()
    missing = [case for case in cases if case.digest not in done]
    count = len(cases) - len(missing)
    progress(count, len(cases))
    failures = []
    if processes == 1:
        for case in missing:
            failures.extend(_run(store, case, data))
            count += 1
            progress(count, len(cases))
    elif missing:
        for found in _over_processes(store, missing, data, processes):
            failures.extend(found)
            count += 1
            progress(count, len(cases))
    if not failures:
        store.gather()
    return failures


def _over_processes(store: Store, cases: Sequence[Case], data: Path | None, processes: int) -> Iterator[list[Failure]]:
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // processes)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_start, initargs=(threads,))
    try:
        for future in as_completed([pool.submit(_run, store, case, data) for case in cases]):
            yield future.result()
    except BaseException:  # an interrupt: what runs now is lost, what is finished stays
        for worker in list((pool._processes or {}).values()):
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


def _run(store: Store, case: Case, data: Path | None) -> list[Failure]:
    from discreet.bench.campaigns import run_case

    try:
        store.keep(case, run_case(case, data))
    except DiscreetError as error:
        return [Failure(case=str(case), why=str(error))]
    return []
