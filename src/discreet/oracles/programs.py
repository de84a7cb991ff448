"""Oracles that are programs: a function that answers, and annotators simulated from known labels.

`CallableOracle` calls a model, a service, a script or a person at a prompt. What the function raises may quote the
record it was given. So its errors are caught, the question stays open and is tried again with the next collect, and
only the error's type is told, with how often it came.

`SimulatedOracle` is for simulations alone. Every (record, annotator) has noise of its own, by a keyed hash of the seed,
the record's id and the annotator. It does not depend on the order of asking, on what else is asked, or on restarts: a
campaign that dies and resumes gets the answers of one that does not.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.oracles.answers import chance, checked_classes, fits, in_order, seeded_key
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
        return [Shown(question_id=question.id, audience=who, kind=kind) for question in questions]

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
            returned = self._function(argument)
            values = [returned] if count is None else list(returned)
        except Exception as problem:  # noqa: BLE001 - its text may quote a record
            self._failures[type(problem).__name__] += 1
            return []
        if count is not None and (len(values) != count or isinstance(returned, (str, Mapping, set, frozenset))):
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
        shape = fits(label, label if isinstance(label, tuple) else (label,), multilabel=self._multilabel)
        if shape and (self._classes is None or fits(label, self._classes, multilabel=self._multilabel)):
            return True, label if self._classes is None else in_order(label, self._classes)
        self._failures[OUTSIDE if shape else NOT_A_LABEL] += 1
        return False, None

    def __repr__(self) -> str:
        """Counts, never values."""
        return f"CallableOracle(open={len(self._open)}, failures={sum(self._failures.values())})"


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


class SimulatedOracle:
    """Answers from ``labels``, by record id, as imperfect people would.

    annotators    how many there are; ``per_question`` of them answer a question, drawn by the record's id
    label_noise   the chance of a wrong class, all wrong ones alike; for several labels, of flipping each of them
    accuracy      instead of it: mean and standard deviation of a Gaussian that every annotator draws their own chance
                  of being right from, clipped to [0, 1]; wrong classes all alike
    confusion     or: a matrix for each annotator, rows the true class, columns the answered one
    skip          the chance that an annotator skips
    late          the share of answers that come only with the collect after the next
    """

    simulation = True

    def __init__(
        self,
        labels: Mapping[str, Value],
        *,
        classes: Sequence[str],
        seed: int,
        annotators: int = 1,
        per_question: int = 1,
        label_noise: float = 0.0,
        skip: float = 0.0,
        late: float = 0.0,
        multilabel: bool = False,
        confusion: Sequence[Any] | None = None,
        accuracy: Sequence[float] | None = None,
    ) -> None:
        self._classes = checked_classes(classes, multilabel=multilabel)
        self._multilabel, self._key, self._labels = multilabel, seeded_key(seed), labels
        self.annotators = _names(annotators, per_question)
        self.per_question = per_question
        self._noise, self._skip = _share("label_noise", label_noise), _share("skip", skip)
        self._late = _share("late", late)
        if accuracy is not None and confusion is not None:
            raise BadInput("simulated annotators", "they have an accuracy and confusion matrices", "Drop one")
        matrices: Any = confusion if accuracy is None else self._drawn(accuracy)
        self._confusion = None if matrices is None else self._matrices(matrices)
        self._asked: dict[str, str] = {}
        self._now: list[Answer] = []
        self._later: list[Answer] = []
        known = frozenset(self._classes)
        wrong = sum(not fits(value, known, multilabel=multilabel) for value in labels.values())
        if wrong:
            raise BadInput("labels to simulate by", f"{wrong} are not of the declared classes", "Declare every class")

    def ask(self, questions: Sequence[Question]) -> None:
        """Take questions about records whose labels are known; all of them, or none."""
        new = {question.id: question for question in questions if question.id not in self._asked}
        missing = sum(question.record not in self._labels for question in new.values())
        if missing:
            raise BadInput(
                f"{len(new)} questions to a simulated oracle", f"it has no label for {missing} of them", "Give labels"
            )
        for question in new.values():
            self._asked[question.id] = question.record
            for annotator in self._who(question.record):
                late = self._happens(self._late, "late", question.record, annotator)
                (self._later if late else self._now).append(self._answer(question, annotator))

    def collect(self) -> list[Answer]:
        """What has come. Late answers move up, and come the next time."""
        due, self._now, self._later = self._now, self._later, []
        return due

    def _happens(self, share: float, what: str, *to: str) -> bool:
        return share > 0 and chance(self._key, what, *to) < share  # nothing is hashed for what never happens

    def _who(self, record: str) -> Sequence[str]:
        if self.per_question == len(self.annotators):
            return self.annotators
        ranked = sorted(self.annotators, key=lambda name: chance(self._key, "who", record, name))
        return ranked[: self.per_question]

    def _answer(self, question: Question, annotator: str) -> Answer:
        value = self._labels[question.record]
        if self._happens(self._skip, "skip", question.record, annotator):
            value = None
        elif isinstance(value, tuple):
            value = self._several(value, question.record, annotator)
        elif value is not None:
            value = self._one(value, question.record, annotator)
        return Answer(question_id=question.id, value=value, annotator=annotator)

    def _one(self, value: str, record: str, annotator: str) -> str:
        if self._confusion is not None:
            ends = np.cumsum(self._confusion[self.annotators.index(annotator), self._classes.index(value)])
            drawn = int(np.searchsorted(ends, chance(self._key, "confused", record, annotator) * ends[-1], "right"))
            return self._classes[min(drawn, len(ends) - 1)]
        if not self._happens(self._noise, "wrong", record, annotator):
            return value
        others = [name for name in self._classes if name != value]
        return others[int(chance(self._key, "other", record, annotator) * len(others))]

    def _several(self, value: tuple[str, ...], record: str, annotator: str) -> Value:
        flipped = {name for name in self._classes if self._happens(self._noise, "flip", record, annotator, name)}
        return in_order(tuple(flipped ^ set(value)), self._classes)

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """Who will see which of them."""
        return [
            Shown(question_id=question.id, audience=name)
            for question in questions
            for name in self._who(question.record)
        ]

    def _drawn(self, accuracy: Sequence[float]) -> NDArray[np.float64]:
        """A matrix for each annotator, by a draw of their own."""
        from scipy import special

        mean, spread = (_share(f"accuracy[{number}]", value) for number, value in enumerate(accuracy))
        chances = np.array([chance(self._key, "accuracy", name) for name in self.annotators])
        right = np.clip(mean + spread * special.ndtri(np.clip(chances, 1e-12, 1 - 1e-12)), 0, 1)
        size = len(self._classes)
        wrong = (1 - right) / max(size - 1, 1)
        return np.asarray(np.where(np.eye(size, dtype=bool), right[:, None, None], wrong[:, None, None]))

    def _matrices(self, confusion: Sequence[Any]) -> NDArray[np.float64]:
        matrices = np.asarray(confusion, dtype=np.float64)
        shape = (len(self.annotators), len(self._classes), len(self._classes))
        if self._multilabel or self._noise:
            raise BadInput("confusion matrices", "they are for one label a record, without label_noise", "Drop one")
        if matrices.shape != shape or not (matrices >= 0).all() or not np.allclose(matrices.sum(axis=2), 1):
            raise BadInput("confusion matrices", f"rows do not sum to 1, or the shape is not {shape}", "Correct them")
        return matrices

    def __repr__(self) -> str:
        """Settings, never labels."""
        return f"SimulatedOracle(annotators={len(self.annotators)}, per_question={self.per_question})"


def _names(annotators: int, per_question: int) -> tuple[str, ...]:
    if type(annotators) is not int or type(per_question) is not int or not 1 <= per_question <= annotators:
        raise BadInput(
            f"{per_question} answers a question by {annotators} annotators",
            "each answers a question once",
            "Give annotators >= per_question >= 1",
        )
    return tuple(f"annotator-{number}" for number in range(1, annotators + 1))


def _share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise BadInput(f"{name}={value}", "it is no share from 0 to 1", "Give one, such as 0.1")
    return float(value)
