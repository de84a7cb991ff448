"""Running a stream to its end: from lines or from Redis, into an outlet, with nothing held but the batch at hand.

One thread does everything in turn: read, decide, make durable, write. Whoever takes decisions slowly slows the reading;
whoever sends fast makes batches larger, up to the declared size, and a durable write is shared by all of a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.errors import BadInput, InvalidStore
from discreet.stream.lines import LabelOf, Line, Malformed
from discreet.stream.outlets import Outlet
from discreet.stream.reading import GrowingFile, LineReader
from discreet.stream.redis_streams import ConnectionLost, Delivered, RedisStreams
from discreet.stream.service import StreamService

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


def catch_up(service: StreamService, outlet: Outlet) -> None:
    """Hand over what is durable and was not written any more."""
    if outlet.last is None:
        return
    there = service.store.last_place()
    if outlet.last > there:
        raise InvalidStore(
            "going on with a stream",
            f"decision {outlet.last} was written, and its journal ends at {there}",
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
    outlet: Outlet,
    *,
    labels: GrowingFile | None = None,
    idle: float = 0.0,
    watch: Watch = unwatched,
) -> Passed:
    """Until the lines end; then wait for labels, as long as some come within ``idle`` seconds."""
    passed, began = Passed(), time.monotonic()
    catch_up(service, outlet)
    most = service.config.service.batch
    watch(service)
    while True:
        _take_labels(service, labels, passed)
        lines = reader.take(most, wait=None if labels is None else POLL)
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
    found = 0
    while labels is not None and (lines := labels.take(service.config.service.batch)):
        _take(service, labels.name, labels.number - len(lines), lines, None, passed)
        found += len(lines)
    return found


def _take(
    service: StreamService, name: str, before: int, lines: Sequence[bytes], outlet: Outlet | None, passed: Passed
) -> None:
    """A batch of lines that follow line ``before``. What stands before a malformed one counts."""
    read: list[Line] = []
    for number, line in enumerate(lines, before + 1):
        if not line.strip():
            continue
        try:
            one = service.form.read(line)
            if outlet is None and type(one) is not LabelOf:
                raise Malformed("it is a record, and this file is for labels", 'Write {"id": "a1", "label": "..."}')
            read.append(one)
        except Malformed as error:
            if service.config.service.skip_malformed:
                passed.malformed += 1
                continue
            _decide(service, read, outlet, passed)
            raise BadInput(f"{name}, line {number}", error.fact, error.remedy) from None
    _decide(service, read, outlet, passed)


def _decide(service: StreamService, lines: Sequence[Line], outlet: Outlet | None, passed: Passed) -> None:
    if not lines:
        return
    taken = service.take(lines)
    passed.records += len(taken.decided)
    passed.repeated += len(taken.answers) - len(taken.decided)
    if outlet is not None:
        shown = taken.answers if outlet.last is None else taken.decided
        if shown:
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
    for one in delivered:
        try:
            if one.line is None:
                raise Malformed("it has no line", "")
            lines.append(service.form.read(one.line))
            done.append(one)
        except Malformed:
            refused.append(one)
    taken = service.take(lines)
    passed.records += len(taken.decided)
    passed.repeated += len(taken.answers) - len(taken.decided)
    passed.malformed += len(refused)
    streams.confirm(taken.decided, done, refused)


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
