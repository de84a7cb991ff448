"""The durable loop of a stream: lines in; prepared, decided, made durable; decisions out, models published.

Guarantee. `take` returns decisions that are durable, with the state after them. An id is decided once; when it comes
again it gets the decision it had. Lines have an effect in their order, however they are cut into batches: coins belong
to places, updates to ask bits, and a label teaches between the records it came between. So a stream that is killed and
given the same lines again ends as one that was not.

A label is for a record that was asked, once: the first one counts. Labels of records that were not asked, that nobody
waits for any more, or that have one already change nothing. One that comes before its record waits for it.

Stretches of records whose labels are not at hand are decided at once; a label, and a record whose label is at hand, by
itself. Both ways decide the same, so how lines are cut into batches changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from discreet.config import StreamConfig
from discreet.errors import InvalidStore, StoreUnavailable
from discreet.storage.disk import disk_refusals
from discreet.storage.stream_store import Changes, Decided
from discreet.stream import loop
from discreet.stream.declaration import line_form
from discreet.stream.journal import Marks, pack, unpack
from discreet.stream.learner import StreamLearner
from discreet.stream.learner_state import LearnerState, stored_form
from discreet.stream.linear_model import Floats, Label
from discreet.stream.lines import NO_LABEL, Arrival, LabelOf, Line
from discreet.stream.pending_labels import Person
from discreet.stream.publishing import Publisher
from discreet.stream.stream_directory import LEDGER, OpenStream, open_stream

OnPublish = Callable[[int, str], None]
"""Is called with the version and the hash of every model that is published."""


COUNTS = ("wrong", "skipped", "early")
"""What the journal counts: labels the model had guessed wrong, questions nobody could answer, labels before records."""


@dataclass(frozen=True, kw_only=True)
class BatchDecisions:
    """``decided``: new decisions, in the order of their places. ``answers``: one for each record that came."""

    decided: list[Decided] = field(default_factory=list)
    answers: list[Decided] = field(default_factory=list)


class Batch:
    """Lines on their way through the learner. `run` moves it; ``stored`` is what the journal has to keep of that."""

    def __init__(self, parts: OpenStream, learner: StreamLearner, counts: Counter[str], lines: Sequence[Line]) -> None:
        self._parts, self._learner, self._counts, self._lines = parts, learner, counts, lines
        self._state: LearnerState = learner.live_state
        ids = {line.id for line in lines}
        self._known = parts.store.decided(ids)
        first = {line.id: line for line in reversed(lines) if type(line) is Arrival and line.id not in self._known}
        self._new = [line for line in lines if type(line) is Arrival and first.get(line.id) is line]
        self._early = parts.store.labels_before(ids - self._known.keys()) if counts["early"] else {}
        self._vectors = self._prepared()
        self._now: dict[str, Decided] = {}
        self.stored = Changes()

    def _prepared(self) -> Floats:
        """New records as vectors; a null is not finite. Records that a preparation was made of are nulls."""
        if not self._new:
            return np.empty((0, self._parts.preparation.width))
        vectors = self._parts.preparation.many([record.fields or {} for record in self._new])
        apart = self._parts.set_apart([record.id for record in self._new])
        vectors[[record.fields is None or record.id in apart for record in self._new]] = np.nan
        return vectors

    def _persons(self) -> list[bytes] | None:
        """Whose the new records are, by codes; what the journal counted of them is laid before the learner."""
        if not self._state.persons.capped:
            return None
        codes = [self._parts.key.person(record.person or "") for record in self._new]
        self._counted = self._parts.store.persons({*codes})
        self._state.persons.counts = dict[Person, int](self._counted.items())
        return codes

    def marks(self) -> list[bytes]:
        """Keyed hashes of the new records."""
        return [self._parts.key.mark(record.id, x) for record, x in zip(self._new, self._vectors, strict=True)]

    def run(self) -> None:
        """Everything in its order: stretches of records without labels at once, the others one by one."""
        self._whose = self._persons()
        start = end = 0  # of the stretch of new records that are not decided yet
        for line in self._lines:
            if type(line) is LabelOf:
                self._decide(start, end)
                start = end
                self._label(line.id, line.label)
            elif end < len(self._new) and self._new[end] is line:
                label = self._label_at_hand(self._new[end])
                end += 1
                if label is not NO_LABEL:
                    self._decide(start, end - 1)
                    start = end
                    self._decide_labelled(end - 1, label)
        self._decide(start, end)
        patience = self._learner.settings.patience
        self._counts["early"] += len(self.stored.early) - len(self.stored.used)
        for code, count in self._state.persons.counts.items() if self._whose else ():
            if isinstance(code, bytes) and self._counted.get(code) != count:
                self.stored.persons[code] = count
        self.stored.forgotten = 0 if patience is None else max(0, self._learner.arrived - patience)

    def _label_at_hand(self, record: Arrival) -> Any:
        """What a record brought along, or what came before it."""
        before: Any = NO_LABEL
        if record.id in self.stored.early:
            before = self.stored.early.pop(record.id)
        elif record.id in self._early:
            before = self._early.pop(record.id)
            self.stored.used.append(record.id)
        return before if record.label is NO_LABEL else record.label

    def _decide(self, start: int, end: int) -> None:
        """New records whose labels are not there yet."""
        if start == end:
            return
        ids = [record.id for record in self._new[start:end]]
        whose = None if self._whose is None else self._whose[start:end]
        first = self._learner.arrived
        if end - start == 1:
            asked = [self._learner.ask(self._vectors[start], ids[0], whose[0] if whose else None)]
        else:
            asked = self._learner.ask_many(self._vectors[start:end], ids, whose).tolist()
        rows = self._state.waiting.rows
        for position, (identifier, bit) in enumerate(zip(ids, asked, strict=True), first + 1):
            self._note(position, identifier, bit)
            if bit and identifier in rows:  # not so impatient that it is forgotten already
                number, record = rows[identifier]
                self.stored.opened.append((number, identifier, None if record is None else record.tobytes()))

    def _decide_labelled(self, index: int, label: Label | None) -> None:
        """A new record whose label is there: it counts if the record is asked."""
        identifier = self._new[index].id
        asked = self._learner.ask(self._vectors[index], identifier, self._whose[index] if self._whose else None)
        self._note(self._learner.arrived, identifier, asked)
        if asked:
            self._learn(identifier, label)

    def _note(self, position: int, identifier: str, asked: bool) -> None:
        self._now[identifier] = decided = (position, identifier, int(asked))
        self.stored.decided.append(decided)

    def _label(self, identifier: str, label: str | None) -> None:
        """A label by itself."""
        rows = self._state.waiting.rows
        if identifier in rows:
            self.stored.closed.append(rows[identifier][0])
            self._learn(identifier, label)
        elif any(identifier in known for known in (self._now, self._known, self._early, self.stored.early)):
            self._counts["without effect"] += 1
        else:
            self.stored.early[identifier] = label

    def _learn(self, identifier: str, label: Label | None) -> None:
        """The label of a question. Right or wrong is told by the model as it is, before it learns this one."""
        state = self._state
        scores = loop.scores_of(state, state.waiting.rows[identifier][1])
        guess = state.settings.classes[int(state.linear.predicted(scores)[0])]
        if not self._learner.learn_late(identifier, label):
            self._counts["without effect"] += 1
        elif label is None:
            self._counts["skipped"] += 1
        else:
            self._counts["wrong"] += guess != label

    def answers(self) -> list[Decided]:
        """A decision for each record that came, in the order in which they came."""
        return [self._now.get(line.id) or self._known[line.id] for line in self._lines if type(line) is Arrival]


class StreamService:
    """A running stream: `with StreamService(config) as service: service.take(lines)`. Not for several threads."""

    def __init__(self, config: StreamConfig, *, forget_lost: bool = False, on_publish: OnPublish | None = None) -> None:
        self._on_publish = on_publish or (lambda version, digest: None)
        with ExitStack() as opening:
            self.parts = opening.enter_context(open_stream(config))
            self._begin(forget_lost=forget_lost)
            self._opening = opening.pop_all()

    def _begin(self, *, forget_lost: bool) -> None:
        parts = self.parts
        self.config, self.store = parts.config, parts.store
        self.form = line_form(parts.config, parts.preparation)
        with disk_refusals(f"opening stream {parts.config.name!r}", kept="the same command goes on"):
            self.learner, self._counts = _restored(parts)
        if self.store.last_place() != self.learner.arrived:
            raise InvalidStore("going on with a stream", "its journal contradicts itself", "Restore a copy")
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
        self._in_doubt = False
        self._publish()

    # -- the loop's one step

    def take(self, lines: Sequence[Line]) -> BatchDecisions:
        """Decide and learn these lines, in their order; durable when it returns."""
        if self._in_doubt:
            raise StoreUnavailable("going on with a stream", "its last batch is in doubt", "Open the stream again")
        batch = Batch(self.parts, self.learner, self._counts, lines)
        if marks := batch.marks():
            self._marks.write(self.learner.arrived + 1, marks)
        self._in_doubt = True  # the learner moves now, and the journal has not
        batch.run()
        if batch.stored:
            self.store.commit(batch.stored, *self.packed_state())
            self._marks.decided(len(marks))
        self._in_doubt = False
        self._publish()
        return BatchDecisions(decided=batch.stored.decided, answers=batch.answers())

    def packed_state(self) -> tuple[Any, bytes]:
        """The learner without records that wait and persons, which the journal keeps by themselves: few are new."""
        learner = stored_form(self.learner.live_state, pending=False)
        return pack({"learner": learner, "counts": {name: self._counts[name] for name in COUNTS}})

    def _publish(self, *, last: bool = False) -> None:
        version = self.learner.version
        if self.publisher.due(version) or (last and self.publisher.newest < version):
            self._on_publish(version, self.publisher.publish(self.learner.model(), self.store.publish))

    # -- what it is

    @property
    def lost(self) -> int:
        """Records that were being decided when the process before this one was killed, and have not come again."""
        return self._marks.lost

    @property
    def without_effect(self) -> int:
        """Labels of this run that changed nothing."""
        return self._counts["without effect"]

    @property
    def ledger_path(self) -> Path:
        """Of the ledger, for those who verify it."""
        return self.config.directory / LEDGER

    def spent(self) -> dict[str, Any]:
        """What a record, or a person, has lost at most; it does not grow with the stream."""
        budget = self.parts.ledger.terms.budget
        return {
            "epsilon": str(max(total.epsilon for total in self.parts.ledger.totals())),
            "budget": str(budget.epsilon),
            "delta": str(budget.delta),
            "unit": budget.unit,
        }

    def counts(self) -> dict[str, int]:
        """How many arrived, were asked, labelled and so on. Audience: owner."""
        state = self.learner.live_state
        return {
            "arrived": state.arrived,
            "asked": state.asked,
            "labelled": state.labelled,
            "waiting": len(state.waiting.rows),
            "version": self.learner.version,
            **{name: self._counts[name] for name in COUNTS},
        }

    def end(self) -> None:
        """Take no more, for ever: the newest model is published, and the key of coins and noise destroyed."""
        self._publish(last=True)
        self._in_doubt = True
        self.parts.end()

    def close(self) -> None:
        """Let go of everything. What was taken is durable."""
        self._marks.close()
        self._opening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _restored(parts: OpenStream) -> tuple[StreamLearner, Counter[str]]:
    stored = parts.store.state()
    if stored is None:
        return StreamLearner.of(parts.settings, receipt=parts.receipt), Counter()
    state: Mapping[str, Any] = unpack(*stored)
    size = parts.settings.size
    rows = [(number, key, vector) for number, key, vector in parts.store.open_questions()]
    waiting = {
        "keys": [key for _, key, _ in rows],
        "numbers": np.array([number for number, _, _ in rows], dtype=np.int64),
        "nulls": np.array([vector is None for _, _, vector in rows], dtype=bool),
        "records": np.frombuffer(b"".join(vector or bytes(8 * size) for _, _, vector in rows)).reshape(-1, size),
        "last": None,
    }
    persons: Mapping[str, Collection[Any]] = {"persons": [], "records": []}  # by codes, in the journal
    learner = state["learner"] | {"waiting": waiting, "persons": persons}
    return StreamLearner.from_state(learner, receipt=parts.receipt), Counter(state["counts"])
