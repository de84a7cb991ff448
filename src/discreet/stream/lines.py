"""Lines of a stream: a record ``{"id": ..., features ...}``, or the label of one, ``{"id": ..., "label": ...}``.

A line with the label's name and no declared feature is a label; a record may bring its label along, which then counts
only if the record is asked (for tries on data that is labelled already). ``null`` as a label: nobody can say.

Guarantee: what a record holds decides nothing here. A feature that is missing, of the wrong type or not finite makes no
error: the preparation turns it into zeros. Errors are about lines that are no JSON object, ids or persons that are no
text, and labels that are none of the declared classes; they say the line's number and nothing that stands in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

from discreet.storage.stream_store import Decided, storable

MOST_LINE = 1 << 20
"""Bytes of a line: what is longer is no record, and memory is bounded."""
NO_LABEL: Any = object()
"""A record that brought none."""


class Malformed(Exception):
    """A line that cannot be taken; ``fact`` says why, without what stands in it."""

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(fact)
        self.fact, self.remedy = fact, remedy


@dataclass(slots=True)
class Arrival:
    """A record as it came. ``fields``: None, if it has no declared feature at all: a null. ``label``: what it brought
    along; None: nobody can say. ``person``: whose it is, where persons are protected.
    """

    id: str
    fields: dict[str, Any] | None
    label: Any = NO_LABEL
    person: str | None = None


@dataclass(slots=True)
class LabelOf:
    """A label that came. None: nobody can say."""

    id: str
    label: str | None


Line = Arrival | LabelOf


_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]
"""What `json.loads` calls in the end; the way there takes twice as long as it does."""


_of_long_numbers = json.JSONDecoder(parse_int=float)
"""Whole numbers of thousands of digits, which the other one refuses: infinite, and so not finite, as they are here."""


def _parsed(line: bytes) -> Any:
    if len(line) > MOST_LINE:
        raise Malformed(f"it is longer than {MOST_LINE} bytes", "Write shorter lines")
    try:
        text = line.strip().decode()
        form, end = _scan(text, 0)
        return form if end == len(text) else json.loads(text)  # which says that something follows
    except (ValueError, StopIteration, RecursionError):
        pass
    try:
        return json.loads(line)  # a mark of the byte order
    except (ValueError, RecursionError):
        pass
    try:
        return _of_long_numbers.decode(line.decode())
    except (ValueError, RecursionError):
        raise Malformed("it is not JSON", 'Write objects, one a line, like {"id": "a1", "amount": 3.5}') from None


class LineForm:
    """How lines of one stream are read and written."""

    def __init__(
        self,
        *,
        id: str,  # noqa: A002
        label: str,
        features: Collection[str],
        classes: Collection[str],
        person: str | None = None,
    ) -> None:
        self._id, self._label, self._person = id, label, person
        self._features, self._classes = frozenset(features), frozenset(classes)

    def read(self, line: bytes) -> Line:
        """One line, without its end."""
        form = _parsed(line)
        if type(form) is not dict:
            raise Malformed("it is not an object", 'Write it like {"id": "a1", "amount": 3.5}')
        found = form.get(self._id)
        if type(found) is not str or not storable(found):
            raise Malformed(
                "its id is missing, or no short printable text",
                f'Give your own ids, up to 1000 bytes: "{self._id}": "a1"',
            )
        readable = not self._features.isdisjoint(form)
        if self._label not in form:
            return Arrival(found, form if readable else None, person=self._whose(form))
        label = self._checked(form[self._label])
        return Arrival(found, form, label, self._whose(form)) if readable else LabelOf(found, label)

    def _whose(self, form: dict[str, Any]) -> str | None:
        """The person of a record. Persons are public, as ids are: a record without one is no line of ours."""
        if self._person is None:
            return None
        found = form.get(self._person)
        if type(found) is not str or not storable(found):
            raise Malformed(
                "its person is missing, or no short printable text",
                f'Say whose it is, in up to 1000 bytes: "{self._person}": "c7"',
            )
        return found

    def _checked(self, label: Any) -> str | None:
        if label is None or (type(label) is str and label in self._classes):
            return label
        raise Malformed("its label is none of the declared classes", "Use one of [task] classes, or null for none")


def decision_line(decided: Decided) -> str:
    """A decision as it is shown: id, whether it is asked, and its place among all records, from 1."""
    place, identifier, asked = decided
    answer = "true" if asked else "false"
    return f'{{"id": {encode_basestring_ascii(identifier)}, "asked": {answer}, "place": {place}}}'
