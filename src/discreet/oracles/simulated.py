"""Annotators made of known labels: for simulations, never for people's promises.

Every (record, annotator) has noise of its own, by a keyed hash of the seed, the record's id and the annotator. It does
not depend on the order of asking, on what else is asked, or on restarts: a campaign that dies and resumes gets the
answers of one that does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.oracles.fair_coins import chance, seeded_key
from discreet.oracles.values import checked_classes, fits, in_order
from discreet.records import Answer, Question, Shown, Value


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
        own: Any = confusion if accuracy is None else self._drawn(accuracy)
        self._confusion = None if own is None else self._matrices(own)
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
            place = int(np.searchsorted(ends, chance(self._key, "confused", record, annotator) * ends[-1], "right"))
            return self._classes[min(place, len(ends) - 1)]
        if not self._happens(self._noise, "wrong", record, annotator):
            return value
        others = [name for name in self._classes if name != value]
        return others[int(chance(self._key, "other", record, annotator) * len(others))]

    def _several(self, value: tuple[str, ...], record: str, annotator: str) -> Value:
        flipped = {name for name in self._classes if self._happens(self._noise, "flip", record, annotator, name)}
        return in_order(tuple(flipped ^ set(value)), self._classes)

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """Who will see which of them."""
        return [Shown(question_id=one.id, audience=name) for one in questions for name in self._who(one.record)]

    def _drawn(self, accuracy: Sequence[float]) -> NDArray[np.float64]:
        """A matrix for each annotator, by a draw of their own."""
        from scipy import special

        mean, spread = (_share(f"accuracy[{place}]", value) for place, value in enumerate(accuracy))
        chances = np.array([chance(self._key, "accuracy", name) for name in self.annotators])
        right = np.clip(mean + spread * special.ndtri(np.clip(chances, 1e-12, 1 - 1e-12)), 0, 1)
        size = len(self._classes)
        wrong = (1 - right) / max(size - 1, 1)
        return np.asarray(np.where(np.eye(size, dtype=bool), right[:, None, None], wrong[:, None, None]))

    def _matrices(self, confusion: Sequence[Any]) -> NDArray[np.float64]:
        found = np.asarray(confusion, dtype=np.float64)
        shape = (len(self.annotators), len(self._classes), len(self._classes))
        if self._multilabel or self._noise:
            raise BadInput("confusion matrices", "they are for one label a record, without label_noise", "Drop one")
        if found.shape != shape or not (found >= 0).all() or not np.allclose(found.sum(axis=2), 1):
            raise BadInput("confusion matrices", f"rows do not sum to 1, or the shape is not {shape}", "Correct them")
        return found

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
