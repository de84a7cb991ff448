"""Progress on standard error, only where somebody watches; it never prints a number that was not public."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import TaskID

T = TypeVar("T")


class InterruptedAfterCharge(Exception):  # typer swallows KeyboardInterrupt and its kin
    """Somebody stopped the work when its charge was already durable."""


class InterruptedBetweenCases(Exception):
    """Somebody stopped a bench: what was finished is kept."""


class InterruptedCampaign(Exception):
    """Somebody stopped a campaign's verb: what was charged stays, and the same verb goes on with the same draws."""


@contextmanager
def going_on() -> Iterator[None]:
    """An interrupt in here loses nothing: the campaign is in its store."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedCampaign from None


@contextmanager
def after_charge() -> Iterator[None]:
    """An interrupt in here does not say that nothing was charged."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedAfterCharge from None


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner while something short runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield


@contextmanager
def stepping(what: str, total: int) -> Iterator[Callable[[T], T]]:
    """A bar that moves one step for every value passed through it."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)

        def step(value: T) -> T:
            bar.advance(task)
            return value

        yield step


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how many are done, and of how many."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)

        def told(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield told


@contextmanager
def watching() -> Iterator[Callable[[str, int, int], None]]:
    """Bars for whatever is being done, one after the other: what, how many are done, and of how many."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as bar:
        tasks: dict[str, TaskID] = {}

        def told(what: str, done: int, of: int) -> None:
            if shown and what not in tasks:
                for other in tasks.values():
                    bar.remove_task(other)
                tasks.clear()
                tasks[what] = bar.add_task(what, total=of)
            if shown:
                bar.update(tasks[what], completed=done, total=of)

        yield told
