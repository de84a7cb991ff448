"""`--log-json`: what a command does, one JSON object a line, for whatever watches machines.

Guarantee: a line holds the time, and an event of `discreet.campaign.journal`, whose fields are declared and public. The
sequence of lines does not depend on records either: progress is told in tens of percent, each of them once, however
many pieces the work has. Times do depend on them. The file is its owner's (mode 0600).

A log that cannot be written any more does not stop the work: training that was charged is worth more than its log.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet._version import __version__
from discreet.cli.progress import InterruptedCampaign
from discreet.errors import BadInput, DiscreetError

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.campaign.journal import Event

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

        def both(what: str, done: int, whole: int) -> None:
            self.progress(what, done, whole)
            watch(what, done, whole)

        return both

    def progress(self, what: str, done: int, whole: int) -> None:
        """Every tenth that was passed since the last call: the same lines, whatever the pieces are."""
        from discreet.campaign.journal import Progress, work_of

        if whole <= 0:
            return
        reached = min(_TENTH * done // whole, _TENTH)
        for tenth in range(self._told.get(what, 0) + 1, reached + 1):
            self(Progress(what=work_of(what), percent=tenth * (100 // _TENTH)))
        self._told[what] = reached  # it falls where the same work begins anew

    def follow(self, campaign: Campaign) -> None:
        """Write where ``campaign`` stands, and what it does from now on."""
        from discreet.campaign.journal import Opened

        campaign.journal = self
        now, phases = campaign.standing, campaign.recipe.phases
        self(Opened.of(campaign.name, simulation=campaign.simulation, now=now, phases=phases))


@contextmanager
def logged(place: str | None, verb: str) -> Iterator[Log]:
    """A log of one command: how it begins, and how it ends. Refused before anything is done, if it cannot be kept."""
    if place is None:
        yield Log(None)
        return
    from discreet.campaign.journal import Begun, Ended, Failed

    with _writing(place) as write:
        log = Log(write)
        try:
            log(Begun(verb=verb, version=__version__))
            yield log
            log(Ended())
        except BaseException as error:
            log(Failed(code=_code(error), error=_name(error)))
            raise


@contextmanager
def _writing(place: str) -> Iterator[Callable[[str], object]]:
    if place == STANDARD_ERROR:
        yield lambda line: print(line, end="", file=sys.stderr, flush=True)  # noqa: T201
        return
    file = _appended(Path(place))
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


def _code(error: BaseException) -> int:
    """As the application ends."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, (InterruptedCampaign, KeyboardInterrupt, typer.Abort)):
        return 130
    return 2 if isinstance(error, (DiscreetError, OSError)) else 1


def _name(error: BaseException) -> str:
    """The type of an error of ours or the system's; what is unexpected is not named."""
    if isinstance(error, (InterruptedCampaign, KeyboardInterrupt, typer.Abort)):
        return "Interrupted"
    return type(error).__name__ if isinstance(error, (DiscreetError, OSError)) else "Unexpected"
