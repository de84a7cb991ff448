"""Progress of a command: on standard error for people, JSON lines (`--log-json`) for programs.

In a terminal there are bars; elsewhere a line a minute. Neither prints a number that was not public. A log line is
written whole, at the end of the file; only a file that is a log is written to.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from discreet._version import __version__
from discreet.errors import BadInput, DiscreetError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from discreet.campaign import Campaign
    from discreet.campaign.journal import Event

T = TypeVar("T")


class StoppedWork(Exception):  # typer swallows KeyboardInterrupt and its kin
    """Somebody stopped the work; the message says what stays."""


AFTER_CHARGE = "the charge was made, and stays; nothing was shown"
BETWEEN_CASES = "finished cases are kept, and the same command goes on"
_LINE_EVERY = 60.0
"""Seconds."""
IN_CAMPAIGN = "what was charged stays, and the same command goes on"


@contextmanager
def interruptible(stays: str = IN_CAMPAIGN) -> Iterator[None]:
    """What an interrupt in here says: not that nothing was charged, but what ``stays``."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedWork(stays) from None


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
    with counting(what, total) as count:
        done = itertools.count(1)

        def step(value: T) -> T:
            count(next(done), total)
            return value

        yield step


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how many are done, and of how many."""
    with watching() as watch:
        watch(what, 0, total)
        yield partial(watch, what)


@contextmanager
def watching() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for each task in turn: its name, how many are done, and of how many.

    Without a terminal, one line a minute.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as bar:
        tasks: dict[str, TaskID] = {}
        due = time.monotonic() + _LINE_EVERY

        def told(what: str, done: int, of: int) -> None:
            nonlocal due
            if not shown and time.monotonic() >= due:
                due = time.monotonic() + _LINE_EVERY
                print(f"{what}: {done} of {of}", file=sys.stderr, flush=True)  # noqa: T201
            if shown and what not in tasks:
                for other in tasks.values():
                    bar.remove_task(other)
                tasks.clear()
                tasks[what] = bar.add_task(what, total=of)
            if shown:
                bar.update(tasks[what], completed=done, total=of)

        yield told


FORMAT = "discreet.log/1"
STANDARD_ERROR = "-"
LogOption = Annotated[
    str | None,
    typer.Option("--log-json", help="Append what happens to this file, a JSON object a line; -: standard error."),
]
_TENTH = 10


class Log:
    """Where events are written: by ``write``, a whole line at a time; nowhere, without it."""

    def __init__(self, write: Callable[[str], object] | None) -> None:
        self._write = write
        self._told: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        """Write one line, whole, at the end."""
        from discreet.campaign.journal import Progress

        if not isinstance(event, Progress):
            self._told.clear()
        if self._write is None:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        form = {"format": FORMAT, "time": now, "level": event.level, "event": event.name, **event.facts()}
        try:
            self._write(json.dumps(form) + "\n")
        except OSError:
            self._write = None
            print("discreet: the log cannot be written any more; the work goes on.", file=sys.stderr)  # noqa: T201

    def beside(self, watch: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
        """``watch``, and the log."""

        def both(what: str, done: int, total: int) -> None:
            self.progress(what, done, total)
            watch(what, done, total)

        return both

    def progress(self, what: str, done: int, total: int) -> None:
        """Every tenth that was passed since the last call: the same lines, whatever the pieces are."""
        from discreet.campaign.journal import Progress, work_of

        if total <= 0:
            return
        reached = min(_TENTH * done // total, _TENTH)
        for tenth in range(self._told.get(what, 0) + 1, reached + 1):
            self(Progress(what=work_of(what), percent=tenth * (100 // _TENTH)))
        self._told[what] = reached  # it falls where the same work begins anew

    def follow(self, campaign: Campaign) -> None:
        """Write where ``campaign`` stands, and what it does from now on."""
        from discreet.campaign.journal import Opened

        campaign.journal = self
        now, phases = campaign.state, campaign.recipe.phases
        self(Opened.of(campaign.name, simulation=campaign.simulation, now=now, phases=phases))


@contextmanager
def logged(target: str | None, verb: str) -> Iterator[Log]:
    """A log of one command: how it begins, and how it ends. Refused before anything is done, if it cannot be kept."""
    if target is None:
        yield Log(None)
        return
    from discreet.campaign.journal import Begun, Ended, Failed

    with _writing(target) as write:
        log = Log(write)
        try:
            log(Begun(verb=verb, version=__version__))
            yield log
            log(Ended())
        except BaseException as error:
            code, name = _outcome(error)
            log(Failed(code=code, error=name))
            raise


@contextmanager
def _writing(target: str) -> Iterator[Callable[[str], object]]:
    if target == STANDARD_ERROR:
        yield lambda line: print(line, end="", file=sys.stderr, flush=True)  # noqa: T201
        return
    file = _appended(Path(target))
    try:
        yield lambda line: os.write(file, line.encode())
    finally:
        os.close(file)


def _appended(path: Path) -> int:
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise BadInput(f"a log in {path.name or path}", "it is no file in a directory that exists", "Check the path")
    if path.exists() and not _is_log(path):
        raise BadInput(f"a log in {path.name}", "there is another file of that name", "Choose another name")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _is_log(path: Path) -> bool:
    """Only a log is written to: not a campaign's file, nor its store. Of what is no plain file nothing is read."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        start = file.read(100)
    return not start or start.startswith(json.dumps({"format": FORMAT})[:-1].encode())


def _outcome(error: BaseException) -> tuple[int, str]:
    """The exit code, and the type of an error of ours or the system's; what is unexpected is not named."""
    if isinstance(error, (StoppedWork, KeyboardInterrupt, typer.Abort)):
        return 130, "Interrupted"
    if isinstance(error, (DiscreetError, OSError)):
        return 2, type(error).__name__
    return int(error.exit_code) if isinstance(error, typer.Exit) else 1, "Unexpected"
