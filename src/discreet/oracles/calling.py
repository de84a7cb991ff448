"""A function that answers: a model, a service, a script, a person at a prompt.

What the function raises may quote the record it was given. So its errors are caught, the question stays open and is
tried again with the next collect, and only the error's type is told, with how often it came.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from discreet.errors import BadInput
from discreet.oracles.values import checked_classes, fits, in_order
from discreet.records import PERSON, PROGRAM, Answer, Question, Shown, Value

NOT_A_LABEL, OUTSIDE, WRONG_COUNT = "not a label", "outside the classes", "not one value a question"


class CallableOracle:
    """Calls ``function(question)`` for every open question, when answers are collected.

    It returns a class, a tuple, list or set of them for several labels, or None to skip; it raises to answer later.
    ``batch``: it is called once, with the list of open questions, and returns a value for each in that order.
    ``classes``: if given, a value outside them counts as a failure, and the question stays open.
    ``function`` may also be named, as "module:callable".
    """

    simulation = False

    def __init__(
        self,
        function: Callable[[Any], Any] | str,
        *,
        classes: Sequence[str] | None = None,
        multilabel: bool = False,
        batch: bool = False,
        annotator: str = "",
    ) -> None:
        self._function = _named(function) if isinstance(function, str) else function
        if not callable(self._function):
            raise BadInput("a function that answers", f"it is a {type(function).__name__}", "Give a callable")
        self._classes = None if classes is None else checked_classes(classes, multilabel=multilabel)
        self._multilabel, self._batch, self._annotator = multilabel, batch, annotator
        self.name = function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
        self._open: dict[str, Question] = {}
        self._asked: set[str] = set()
        self._ready: list[Answer] = []
        self._failures: Counter[str] = Counter()

    @property
    def failures(self) -> Mapping[str, int]:
        """How often the function failed so far, by the type of the error. Never what the error said."""
        return dict(self._failures)

    @property
    def open(self) -> int:
        """How many questions wait for an answer."""
        return len(self._open)

    def ask(self, questions: Sequence[Question]) -> None:
        """Put questions down; nothing is called yet."""
        for question in questions:
            if question.id not in self._asked:
                self._asked.add(question.id)
                self._open[question.id] = question

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """The function, by its name; or the annotator that it speaks for."""
        who, kind = (self._annotator, PERSON) if self._annotator else (self.name, PROGRAM)
        return [Shown(question_id=one.id, audience=who, kind=kind) for one in questions]

    def collect(self) -> list[Answer]:
        """Call the function for what is open. An interrupt loses no answer: the next collect gives it."""
        waiting = list(self._open.values())
        if self._batch and waiting:
            self._take(waiting, self._called(list(waiting), len(waiting)))
        elif not self._batch:
            for question in waiting:
                self._take([question], self._called(question, None))
        ready, self._ready = self._ready, []
        return ready

    def _called(self, argument: Any, count: int | None) -> list[Any]:
        try:
            found = self._function(argument)
            values = [found] if count is None else list(found)
        except Exception as problem:  # noqa: BLE001 - its text may quote a record
            self._failures[type(problem).__name__] += 1
            return []
        if count is not None and (len(values) != count or isinstance(found, (str, Mapping, set, frozenset))):
            self._failures[WRONG_COUNT] += 1
            return []
        return values

    def _take(self, questions: Iterable[Question], values: list[Any]) -> None:
        for question, value in zip(questions, values, strict=False):  # no values: all stay open
            known, label = self._read(value)
            if known:
                self._ready.append(Answer(question_id=question.id, value=label, annotator=self._annotator))
                del self._open[question.id]

    def _read(self, value: Any) -> tuple[bool, Value]:
        label = _plain(value)
        shape = fits(label, _Anything(), multilabel=self._multilabel)
        if shape and (self._classes is None or fits(label, self._classes, multilabel=self._multilabel)):
            return True, label if self._classes is None else in_order(label, self._classes)
        self._failures[OUTSIDE if shape else NOT_A_LABEL] += 1
        return False, None

    def __repr__(self) -> str:
        """Counts, never values."""
        return f"CallableOracle(open={len(self._open)}, failures={sum(self._failures.values())})"


class _Anything:
    """Holds every text."""

    def __contains__(self, name: object) -> bool:
        return True


def _plain(value: Any) -> Any:
    """Texts of numpy and the like as plain ones; lists and sets as tuples, sets in the order of their names."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (tuple, list, set, frozenset)):
        labels = [_plain(label) for label in value]
        inside = all(isinstance(label, str) for label in labels)
        return tuple(sorted(labels) if inside and isinstance(value, (set, frozenset)) else labels)
    return value


def _named(name: str) -> Any:
    if name.count(":") != 1:
        raise BadInput(
            f"the function {name!r}", "it does not read as module:callable", "Write it like my_labels:answer"
        )
    try:
        return pkgutil.resolve_name(name)
    except Exception as problem:
        raise BadInput(
            f"the function {name!r}", f"finding it raised {type(problem).__name__}", "Put its folder on PYTHONPATH"
        ) from problem
