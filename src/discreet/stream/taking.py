"""A batch of lines on its way through the learner: what is new in it, in which order it acts, what it changes.

Stretches of records whose labels are not at hand are decided at once; a label, and a record whose label is at hand, by
itself. Both ways decide the same, so how lines are cut into batches changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.storage.stream_store import Changes, Decided, StreamStore
from discreet.stream.columns import NumberColumn
from discreet.stream.lines import NO_LABEL, Arrival, LabelOf, Line
from discreet.stream.preparation import Preparation
from discreet.stream.published import Label

if TYPE_CHECKING:
    from discreet.stream.service import StreamService

Floats = NDArray[np.float64]


def vectors_of(preparation: Preparation, records: Sequence[Mapping[str, Any]]) -> Floats:
    """As `Preparation.many`, and much faster."""
    return preparation.rows(inputs_of(preparation, records))


def inputs_of(preparation: Preparation, records: Sequence[Mapping[str, Any]]) -> Floats:
    """The declared columns of records as rows; those that hold nothing but numbers go as arrays."""
    schema = preparation.schema
    assert schema is not None  # lines have names
    columns: dict[str, Any] = {}
    for column in schema.columns:
        values: Any = [record.get(column.name) for record in records]
        if type(column) is NumberColumn:
            try:
                array = np.array(values)
            except (ValueError, OverflowError):  # lists among them
                array = np.empty(0, dtype=object)
            values = array if array.dtype.kind in "iuf" and array.ndim == 1 else values
        columns[column.name] = values
    return schema.table(columns, len(records))


class Batch:
    """Lines on their way through the learner. `run` moves it; ``stored`` is what the journal has to keep of that."""

    def __init__(self, service: StreamService, lines: Sequence[Line]) -> None:
        self._service, self._lines, self._learner = service, lines, service.learner
        store: StreamStore = service.store
        ids = {line.id for line in lines}
        self._known = store.decided(ids)
        first = {line.id: line for line in reversed(lines) if type(line) is Arrival and line.id not in self._known}
        self._new = [line for line in lines if type(line) is Arrival and first.get(line.id) is line]
        self._early = store.labels_before(ids - self._known.keys()) if service._counts["early"] else {}
        self._vectors = self._prepared()
        self._now: dict[str, Decided] = {}
        self.stored = Changes()

    def _prepared(self) -> Floats:
        """New records as vectors; a null is not finite."""
        preparation = self._service._parts.preparation
        if not self._new:
            return np.empty((0, preparation.width))
        found = vectors_of(preparation, [one.fields or {} for one in self._new])
        apart = self._service.set_apart([one.id for one in self._new])
        nulls = [place for place, one in enumerate(self._new) if one.fields is None or one.id in apart]
        found[nulls] = np.nan
        return found

    def _persons(self) -> list[bytes] | None:
        """Whose the new records are, by codes; what the journal counted of them is laid before the learner."""
        if not self._learner._persons.capped:
            return None
        codes = [self._service._parts.key.person(one.person or "") for one in self._new]
        self._counted = self._service.store.persons({*codes})
        self._learner._persons.lay(self._counted)
        return codes

    def marks(self) -> list[bytes]:
        """Keyed hashes of the new records."""
        mark = self._service._parts.key.mark
        return [mark(one.id, self._vectors[place]) for place, one in enumerate(self._new)]

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
        counts, patience = self._service._counts, self._learner.settings.patience
        counts["early"] += len(self.stored.early) - len(self.stored.used)
        for code, count in self._learner._persons.counts.items() if self._whose else ():
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
        ids = [one.id for one in self._new[start:end]]
        whose = None if self._whose is None else self._whose[start:end]
        first = self._learner.arrived
        if end - start == 1:
            asked = [self._learner.ask(self._vectors[start], ids[0], whose[0] if whose else None)]
        else:
            asked = self._learner.ask_many(self._vectors[start:end], ids, whose).tolist()
        rows = self._learner._waiting.rows
        for place, (identifier, bit) in enumerate(zip(ids, asked, strict=True), first + 1):
            self._now[identifier] = decided = (place, identifier, int(bit))
            self.stored.decided.append(decided)
            if bit and identifier in rows:  # not so impatient that it is forgotten already
                number, record = rows[identifier]
                self.stored.opened.append((number, identifier, None if record is None else record.tobytes()))

    def _decide_labelled(self, place: int, label: Label | None) -> None:
        """A new record whose label is there: it counts if the record is asked."""
        identifier = self._new[place].id
        asked = self._learner.ask(self._vectors[place], identifier, self._whose[place] if self._whose else None)
        self._now[identifier] = decided = (self._learner.arrived, identifier, int(asked))
        self.stored.decided.append(decided)
        if asked:
            self._learn(identifier, label)

    def _label(self, identifier: str, label: str | None) -> None:
        """A label by itself."""
        rows = self._learner._waiting.rows
        if identifier in rows:
            self.stored.closed.append(rows[identifier][0])
            self._learn(identifier, label)
        elif any(identifier in known for known in (self._now, self._known, self._early, self.stored.early)):
            self._service.without_effect += 1
        else:
            self.stored.early[identifier] = label

    def _learn(self, identifier: str, label: Label | None) -> None:
        """The label of a question. Right or wrong is told by the model as it is, before it learns this one."""
        counts = self._service._counts
        _, record = self._learner._waiting.rows[identifier]
        guess = self._learner.predict_one(None if record is None else record * self._service._step)
        if not self._learner.learn_late(identifier, label):
            self._service.without_effect += 1
        elif label is None:
            counts["skipped"] += 1
        else:
            counts["wrong"] += guess != label

    def answers(self) -> list[Decided]:
        """A decision for each record that came, in the order in which they came."""
        return [self._now.get(line.id) or self._known[line.id] for line in self._lines if type(line) is Arrival]
