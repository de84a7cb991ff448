"""Runs a stream to its end, and shows its progress to the owner.

Running a stream to its end: from lines or from Redis, into an outlet, with nothing held but the batch at hand.

One thread does everything in turn: read, decide, make durable, write. Whoever takes decisions slowly slows the reading;
whoever sends fast makes batches larger, up to the declared size, and a durable write is shared by all of a batch.

What an owner sees while a stream runs: arrived, asked, labelled, wrong, spent. Audience: owner, and nobody else.

Drawn on standard error, a few times a second at most; decisions are on standard output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet.errors import BadInput, InvalidStore
from discreet.stream.lines import GrowingFile, LabelOf, Line, LineReader, Malformed, PipeOutlet
from discreet.stream.redis_streams import ConnectionLost, Delivered, RedisStreams
from discreet.stream.service import BatchDecisions, StreamService

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


POLL = 0.2
"""Seconds between two looks at a file that grows."""
_RECONNECT = 30.0
Watch = Callable[[StreamService], None]


def unwatched(service: StreamService) -> None:
    """Nobody looks."""


@dataclass
class Passed:
    """What this process did. ``repeated``: records that had come before; ``malformed``: lines that were passed over."""

    records: int = 0
    repeated: int = 0
    malformed: int = 0
    seconds: float = 0.0

    def take(self, service: StreamService, lines: Sequence[Line]) -> BatchDecisions:
        """Let the service take lines, and count them."""
        taken = service.take(lines)
        self.records += len(taken.decided)
        self.repeated += len(taken.answers) - len(taken.decided)
        return taken


def catch_up(service: StreamService, outlet: PipeOutlet | RedisStreams) -> None:
    """Hand over what is durable and was not written any more."""
    if outlet.last is None:
        return
    newest = service.store.last_place()
    if outlet.last > newest:
        raise InvalidStore(
            "going on with a stream",
            f"decision {outlet.last} was written, and its journal ends at {newest}",
            "It is an old copy, whose coins were used since: restore the newest one, or begin a new stream",
        )
    if outlet.last and not outlet.ends_with(service.store.decisions_after(outlet.last - 1, most=1)[0]):
        raise BadInput(
            "going on with decisions that are there",
            f"decision {outlet.last} there is not the one of this stream",
            "They are another stream's: choose another file, or other names in Redis",
        )
    while missing := service.store.decisions_after(outlet.last, most=service.config.service.batch):
        outlet.emit(missing)


def run_lines(
    service: StreamService,
    reader: LineReader,
    outlet: PipeOutlet,
    *,
    labels: GrowingFile | None = None,
    idle: float = 0.0,
    watch: Watch = unwatched,
) -> Passed:
    """Until the lines end; then wait for labels, as long as some come within ``idle`` seconds."""
    passed, began = Passed(), time.monotonic()
    catch_up(service, outlet)
    limit = service.config.service.batch
    watch(service)
    while True:
        _take_labels(service, labels, passed)
        lines = reader.take(limit, wait=None if labels is None else POLL)
        if lines is None:
            break
        if lines:
            _take(service, reader.name, reader.number - len(lines), lines, outlet, passed)
        watch(service)
    quiet = time.monotonic()
    while labels is not None and time.monotonic() - quiet < idle:
        if _take_labels(service, labels, passed):
            quiet = time.monotonic()
        watch(service)
        time.sleep(min(POLL, idle))
    _take_labels(service, labels, passed)
    passed.seconds = time.monotonic() - began
    return passed


def _take_labels(service: StreamService, labels: GrowingFile | None, passed: Passed) -> int:
    count = 0
    while labels is not None and (lines := labels.take(service.config.service.batch)):
        _take(service, labels.name, labels.number - len(lines), lines, None, passed)
        count += len(lines)
    return count


def _take(
    service: StreamService, name: str, before: int, lines: Sequence[bytes], outlet: PipeOutlet | None, passed: Passed
) -> None:
    """A batch of lines that follow line ``before``. What stands before a malformed one counts."""
    read: list[Line] = []
    for number, line in enumerate(lines, before + 1):
        if not line.strip():
            continue
        try:
            record = service.form.read(line)
            if outlet is None and type(record) is not LabelOf:
                raise Malformed("it is a record, and this file is for labels", 'Write {"id": "a1", "label": "..."}')
            read.append(record)
        except Malformed as error:
            if service.config.service.skip_malformed:
                passed.malformed += 1
                continue
            _decide(service, read, outlet, passed)
            raise BadInput(f"{name}, line {number}", error.fact, error.remedy) from None
    _decide(service, read, outlet, passed)


def _decide(service: StreamService, lines: Sequence[Line], outlet: PipeOutlet | None, passed: Passed) -> None:
    if not lines:
        return
    taken = passed.take(service, lines)
    shown = taken.answers if outlet is None or outlet.last is None else taken.decided
    if outlet is not None and shown:
        outlet.emit(shown)


def run_redis(
    service: StreamService, streams: RedisStreams, *, idle: float | None = None, watch: Watch = unwatched
) -> Passed:
    """Until nothing came for ``idle`` seconds; without it, for ever. A server that goes away is waited for."""
    passed, began = Passed(), time.monotonic()
    quiet = time.monotonic()
    catch_up(service, streams)
    while idle is None or time.monotonic() - quiet < idle:
        watch(service)
        try:
            delivered = streams.take(service.config.service.batch, wait=idle)
            if delivered:
                _take_delivered(service, streams, delivered, passed)
                quiet = time.monotonic()
        except ConnectionLost as lost:
            _reconnect(service, streams, lost)
    watch(service)
    passed.seconds = time.monotonic() - began
    return passed


def _take_delivered(
    service: StreamService, streams: RedisStreams, delivered: Sequence[Delivered], passed: Passed
) -> None:
    lines: list[Line] = []
    done: list[Delivered] = []
    refused: list[Delivered] = []
    for entry in delivered:
        try:
            if entry.line is None:
                raise Malformed("it has no line", "")
            lines.append(service.form.read(entry.line))
            done.append(entry)
        except Malformed:
            refused.append(entry)
    passed.malformed += len(refused)
    streams.confirm(passed.take(service, lines).decided, done, refused)


def _reconnect(service: StreamService, streams: RedisStreams, lost: ConnectionLost) -> None:
    until, pause = time.monotonic() + _RECONNECT, 0.1
    while True:
        time.sleep(pause)
        try:
            streams.recover()
            catch_up(service, streams)
        except ConnectionLost:
            if time.monotonic() > until:
                raise lost from None
            pause = min(2 * pause, 5.0)
        else:
            return


_EVERY = 0.25
_RECENT = 5.0
"""Seconds over which the rate of arrivals is told."""


@contextmanager
def live_view(console: Console | None = None) -> Iterator[Watch]:
    """Something to call after each batch; it draws when it is time, and once more at the end."""
    from rich.console import Console
    from rich.live import Live

    points: list[tuple[float, int]] = []
    last: StreamService | None = None
    drawn = 0.0
    with Live(console=console or Console(stderr=True), auto_refresh=False, transient=False) as live:

        def watch(service: StreamService) -> None:
            nonlocal drawn, last
            last, now = service, time.monotonic()
            points.append((now, service.learner.arrived))
            while len(points) > 2 and points[0][0] < now - _RECENT:
                points.pop(0)
            if now - drawn >= _EVERY:
                drawn = now
                live.update(view_of(service, rate_of(points)), refresh=True)

        try:
            yield watch
        finally:
            if last is not None:
                drawn = 0.0
                watch(last)


def rate_of(points: list[tuple[float, int]]) -> float:
    """Arrivals a second between the first and the last point."""
    (began, before), (ended, after) = points[0], points[-1]
    return (after - before) / (ended - began) if ended > began else 0.0


def view_of(service: StreamService, rate: float) -> RenderableType:
    """The table that is drawn."""
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="left", style="dim")
    for name, value, remark in rows_of(service, rate):
        table.add_row(name, value, remark)
    kind = ", SIMULATION" if service.learner.simulation else ""
    return Panel(table, title=f"{service.config.name}{kind}", subtitle="for the owner's eyes", expand=False)


def rows_of(service: StreamService, rate: float) -> list[tuple[str, str, str]]:
    """Name, value and remark of each line."""
    counts, spent = service.counts(), service.spent()
    arrived, asked, labelled = counts["arrived"], counts["asked"], counts["labelled"]
    error = f"{100 * counts['wrong'] / labelled:.2f}%" if labelled else "-"
    delta = f" at delta {spent['delta']}" if spent["delta"] != "0" else ""
    return [
        ("arrived", f"{arrived:,}", f"{rate:,.0f} a second"),
        ("asked", f"{asked:,}", f"{100 * asked / arrived:.2f}% of them" if arrived else ""),
        ("labelled", f"{labelled:,}", f"{counts['waiting']:,} wait, {counts['skipped']:,} skipped"),
        ("error", error, "on labelled records, before they taught"),
        ("model", f"{counts['version']:,}", f"{service.publisher.newest:,} is published"),
        ("spent", f"epsilon {spent['epsilon']}", f"of {spent['budget']}{delta}, a {spent['unit']}, however long"),
    ]
