"""The durable loop of a stream: lines in; prepared, decided, made durable; decisions out, models published.

Guarantee. `take` returns decisions that are durable, with the state after them. An id is decided once; when it comes
again it gets the decision it had. Lines have an effect in their order, however they are cut into batches: coins belong
to places, updates to ask bits, and a label teaches between the records it came between. So a stream that is killed and
given the same lines again ends as one that was not.

A label is for a record that was asked, once: the first one counts. Labels of records that were not asked, that nobody
waits for any more, or that have one already change nothing. One that comes before its record waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from discreet.config import StreamConfig
from discreet.errors import InvalidStore, StoreUnavailable
from discreet.storage.disk import disk_refusals
from discreet.storage.stream_store import Decided
from discreet.stream.declaring import line_form
from discreet.stream.journal import Marks, pack, unpack
from discreet.stream.keeping import Opened, opened
from discreet.stream.learner import StreamLearner
from discreet.stream.lines import Line
from discreet.stream.publishing import Publisher
from discreet.stream.taking import Batch
from discreet.stream.units import Ball

Told = Callable[[int, str], None]
"""Is told of every model that is published: its version, and its hash."""
COUNTS = ("wrong", "skipped", "early")
"""What the journal counts: labels the model had guessed wrong, questions nobody could answer, labels before records."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """``decided``: new decisions, in the order of their places. ``answers``: one for each record that came."""

    decided: list[Decided] = field(default_factory=list)
    answers: list[Decided] = field(default_factory=list)


class StreamService:
    """A running stream: `with StreamService(config) as service: service.take(lines)`. Not for several threads."""

    def __init__(self, config: StreamConfig, *, forget_lost: bool = False, told: Told | None = None) -> None:
        self._told = told or (lambda version, digest: None)
        self._opening: AbstractContextManager[Opened] = opened(config)
        self._parts = self._opening.__enter__()
        try:
            self._begin(forget_lost=forget_lost)
        except BaseException:
            self._opening.__exit__(None, None, None)
            raise

    def _begin(self, *, forget_lost: bool) -> None:
        parts = self._parts
        self.config, self.store = parts.config, parts.store
        self.form = line_form(parts.config, parts.preparation)
        with disk_refusals(f"opening stream {parts.config.name!r}", kept="the same command goes on"):
            self.learner, self._counts = _restored(parts)
        if self.store.last_place() != self.learner.arrived:
            raise InvalidStore("going on with a stream", "its journal contradicts itself", "Restore a copy")
        self._step = Ball(parts.settings.radius, parts.settings.size).step
        self._marks = Marks(parts.marks, decided=self.learner.arrived)
        if forget_lost:
            self._marks.forget()
        table = parts.config.publish
        self.publisher = Publisher(
            parts.config.models,
            name=parts.config.name,
            preparation=parts.preparation,
            every=table.every,
            keep=table.keep,
            file=table.file,
            ledger=parts.ledger.id,
        )
        self.publisher.check(self.learner.version)
        self._in_doubt, self.without_effect = False, 0
        self._publish()

    # -- the loop's one step

    def take(self, lines: Sequence[Line]) -> Taken:
        """Decide and learn these lines, in their order; durable when it returns."""
        if self._in_doubt:
            raise StoreUnavailable("going on with a stream", "its last batch is in doubt", "Open the stream again")
        batch = Batch(self, lines)
        if marks := batch.marks():
            self._marks.write(self.learner.arrived + 1, marks)
        self._in_doubt = True  # the learner moves now, and the journal has not
        batch.run()
        if batch.stored:
            self.store.commit(batch.stored, *self._state())
            self._marks.decided(len(marks))
        self._in_doubt = False
        self._publish()
        return Taken(decided=batch.stored.decided, answers=batch.answers())

    def _state(self) -> tuple[Mapping[str, Any], bytes]:
        """The learner without the records that wait, which the journal keeps by themselves."""
        waiting = self.learner._waiting
        rows, waiting.rows = waiting.rows, {}  # there may be many, and few of them are new
        try:
            state = self.learner.state()
        finally:
            waiting.rows = rows
        del state["waiting"]
        state.pop("persons", None)
        return pack({"learner": state, "counts": self._counts})

    def _publish(self) -> None:
        if self.publisher.due(self.learner.version):
            self._told(self.learner.version, self.publisher.publish(self.learner.model(), self.store.publish))

    def set_apart(self, ids: Sequence[str]) -> set[str]:
        """Those of ``ids`` a preparation was made of, which are not to arrive: they are nulls here."""
        table = self.config.preparation
        if table is None or table.records != "held-out":
            return set()
        codes = {self._parts.key.set_apart(one): one for one in ids}
        return {codes[code] for code in self.store.set_apart(codes)}

    # -- what it is

    @property
    def lost(self) -> int:
        """Records that were being decided when the process before this one was killed, and have not come again."""
        return self._marks.lost

    @property
    def ledger_path(self) -> Path:
        """Of the ledger, for those who verify it."""
        return self.config.directory / "ledger"

    def spent(self) -> dict[str, Any]:
        """What a record, or a person, has lost at most; it does not grow with the stream."""
        totals = self._parts.ledger.totals()
        budget = self._parts.ledger.terms.budget
        return {
            "epsilon": str(max(total.epsilon for total in totals)),
            "budget": str(budget.epsilon),
            "delta": str(budget.delta),
            "unit": budget.unit,
        }

    def counts(self) -> dict[str, int]:
        """How many arrived, were asked, labelled and so on. Audience: owner."""
        learner = self.learner
        found = {"arrived": learner.arrived, "asked": learner.asked, "labelled": learner.labelled}
        return found | {"waiting": len(learner._waiting.rows), "version": learner.version} | self._counts

    def end(self) -> None:
        """Take no more, for ever: the newest model is published, and the key of coins and noise destroyed."""
        if self.publisher.newest < self.learner.version:
            self._told(self.learner.version, self.publisher.publish(self.learner.model(), self.store.publish))
        self._in_doubt = True
        self._parts.end()

    def close(self) -> None:
        """Let go of everything. What was taken is durable."""
        self._marks.close()
        self._opening.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _restored(parts: Opened) -> tuple[StreamLearner, dict[str, int]]:
    found = parts.store.state()
    if found is None:
        return StreamLearner.of(parts.settings, receipt=parts.receipt), dict.fromkeys(COUNTS, 0)
    state = unpack(*found)
    questions = parts.store.open_questions()
    size = parts.settings.size
    zeros = bytes(8 * size)
    records = b"".join([zeros if one[2] is None else one[2] for one in questions])
    state["learner"]["waiting"] = {
        "keys": [one[1] for one in questions],
        "numbers": np.array([one[0] for one in questions], dtype=np.int64),
        "nulls": np.array([one[2] is None for one in questions], dtype=bool),
        "records": np.frombuffer(records, dtype=np.float64).reshape(-1, size),
        "last": None,
    }
    state["learner"]["persons"] = {"persons": [], "records": []}  # by codes, in the journal
    return StreamLearner.from_state(state["learner"], receipt=parts.receipt), dict(state["counts"])
