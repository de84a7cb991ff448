"""Records, labels and decisions in Redis Streams, by a consumer group.

    XADD payments * json '{"id": "a1", "amount": 3.5}'            a record (labels may come here, too)
    XADD payments:labels * json '{"id": "a1", "label": "ok"}'     a label
    XREADGROUP ... STREAMS payments:decisions >                   decisions, in the same form

Guarantee: an entry is acknowledged when its decision is durable in the journal, in one Redis transaction with the
decision's entry in the output. That entry's own id is the decision's place, so Redis itself refuses a second one: each
record stands in the output once, whatever is killed when. What a dead consumer took and did not finish is claimed
(XAUTOCLAIM) before anything new is read; an id that is delivered again is decided once, by the journal.

Entries that are no lines of ours go to `<decisions>:refused` by their ids, without their content. One process reads the
group: whoever holds the journal's lock.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from discreet.errors import BadInput, StoreUnavailable, require
from discreet.storage.stream_store import Decided
from discreet.stream.lines import decision_line

FIELD = b"json"
_PAUSE = 0.2


class ConnectionLost(StoreUnavailable):
    """The server went away. What is durable stays; connecting again and `RedisStreams.recover` go on."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """What things are called in Redis."""

    records: str
    labels: str
    decisions: str
    group: str

    @property
    def refused(self) -> str:
        """Where entries go that cannot be taken."""
        return f"{self.decisions}:refused"


@dataclass(slots=True)
class Delivered:
    """An entry that was delivered: of which stream, its id there, and its line (None: it has none)."""

    stream: str
    entry: bytes
    line: bytes | None


class RedisStreams:
    """The source of lines and the outlet of decisions, as one connection."""

    def __init__(self, url: str, names: Names, *, most_waiting: int) -> None:
        self.names, self._most = names, most_waiting
        self._redis, self._errors = _client(url)
        self._consumer = f"{socket.gethostname()}-{os.getpid()}"
        self._claiming: dict[str, bytes] = {}
        self.last: int | None = None
        self.recover()

    def recover(self) -> None:
        """Find out how far the output is, and claim what was delivered and never acknowledged."""
        with self._talking("connecting"):
            for stream in (self.names.labels, self.names.records):
                try:
                    self._redis.xgroup_create(stream, self.names.group, id="0", mkstream=True)
                except self._errors.ResponseError as error:
                    if not str(error).startswith("BUSYGROUP"):
                        raise
            self._claiming = dict.fromkeys((self.names.labels, self.names.records), b"0-0")
            self.last = self._last_place()

    def _last_place(self) -> int:
        if not self._redis.exists(self.names.decisions):
            return 0
        last = self._redis.xinfo_stream(self.names.decisions)["last-generated-id"]
        return int(last.split(b"-")[0])

    def ends_with(self, decided: Decided) -> bool:
        """By the entry itself; one that was trimmed away does not say."""
        entry = f"{decided[0]}-0"
        with self._talking("reading"):
            entries = _flat(self._redis.xrange(self.names.decisions, entry, entry))
        return not entries or entries[0][1] == {FIELD: decision_line(decided).encode("ascii")}

    # -- what comes

    def take(self, limit: int, *, wait: float | None) -> list[Delivered]:
        """At most ``limit`` entries of each stream, labels first: claimed ones, then new ones, for which it waits."""
        with self._talking("reading"):
            while self._claiming:
                claimed = self._claim(limit)
                if claimed:
                    return claimed
            while self._behind() >= self._most:  # a group that takes decisions is too far behind: nothing is read
                time.sleep(_PAUSE)
            streams = {self.names.labels: ">", self.names.records: ">"}
            block = None if wait == 0 else max(1, int(1000 * min(1.0 if wait is None else wait, 1.0)))
            answer = self._redis.xreadgroup(self.names.group, self._consumer, streams, count=limit, block=block)
        rows = answer.items() if isinstance(answer, dict) else answer or []
        by_name = {_text(name): _flat(entries) for name, entries in rows}
        return [
            Delivered(stream, entry, fields.get(FIELD) if fields else None)
            for stream in (self.names.labels, self.names.records)
            for entry, fields in by_name.get(stream, [])
        ]

    def _claim(self, limit: int) -> list[Delivered]:
        """What others, or this one in an earlier life, took and did not finish: of labels and records together, as they
        were delivered together.
        """
        claimed = []
        for stream, start in list(self._claiming.items()):
            answer = self._redis.xautoclaim(stream, self.names.group, self._consumer, 0, start_id=start, count=limit)
            claimed += [Delivered(stream, entry, fields.get(FIELD) if fields else None) for entry, fields in answer[1]]
            if answer[0] == b"0-0":
                del self._claiming[stream]
                self._forget_dead(stream)
            else:
                self._claiming[stream] = answer[0]
        return claimed

    def _forget_dead(self, stream: str) -> None:
        for consumer in self._redis.xinfo_consumers(stream, self.names.group):
            if consumer["pending"] == 0 and _text(consumer["name"]) != self._consumer:
                self._redis.xgroup_delconsumer(stream, self.names.group, consumer["name"])

    def _behind(self) -> int:
        if not self._redis.exists(self.names.decisions):
            return 0
        groups = self._redis.xinfo_groups(self.names.decisions)
        return max((int(group["pending"]) + int(group.get("lag") or 0) for group in groups), default=0)

    # -- what goes

    def emit(self, decisions: Sequence[Decided]) -> None:
        """Decisions of earlier lives that the output does not have yet."""
        self.confirm(decisions, [], [])

    def confirm(self, decisions: Sequence[Decided], done: Sequence[Delivered], refused: Sequence[Delivered]) -> None:
        """In one transaction: decisions into the output, and acknowledge what they were made for."""
        with self._talking("writing decisions"):
            pipe = self._redis.pipeline(transaction=True)
            for decided in decisions:
                pipe.xadd(self.names.decisions, {FIELD: decision_line(decided)}, id=f"{decided[0]}-0")
            for other in refused:
                pipe.xadd(self.names.refused, {b"stream": other.stream, b"entry": other.entry})
            for stream in (self.names.labels, self.names.records):
                entries = [other.entry for other in (*done, *refused) if other.stream == stream]
                if entries:
                    pipe.xack(stream, self.names.group, *entries)
            pipe.execute()
        if decisions:
            self.last = decisions[-1][0]

    def close(self) -> None:
        """Hang up."""
        self._redis.close()

    @contextmanager
    def _talking(self, doing: str) -> Iterator[None]:
        """Errors of the server as ours: neither its address nor what was sent is in them."""
        try:
            yield
        except (self._errors.ConnectionError, self._errors.TimeoutError):
            raise ConnectionLost(
                f"{doing} in Redis", "the server cannot be reached", "Start it; what was decided is safe"
            ) from None
        except self._errors.RedisError as error:
            word = str(error).split(" ", 1)[0]
            kind = word if word.isupper() and word.isalpha() else type(error).__name__
            raise StoreUnavailable(
                f"{doing} in Redis", f"the server refused: {kind}", "Check its version (6.2 or newer) and the names"
            ) from None


def _flat(entries: Any) -> list[tuple[bytes, dict[bytes, bytes] | None]]:
    """Entries of a stream; one version of the protocol wraps them once more."""
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _client(url: str) -> tuple[Any, Any]:
    require("redis", extra="redis", asked="streams in Redis")
    import redis

    try:
        return redis.Redis.from_url(url, socket_connect_timeout=10), redis.exceptions
    except ValueError:
        raise BadInput("the address of Redis", "it is none", "Write it like redis://localhost:6379/0") from None
