"""What every student shares: questions about public records, answers that may be missing, and the model made of them.

A student sees public records and paid answers, nothing else: all of it is post-processing, and may be looked at, tuned
and repeated freely. Only asking costs.

An unstable answer (None) becomes what ``unstable`` says:
    arbitrary      a class by a fair coin, as in the paper (its Algorithm 3, line 4)
    dropped        not learnt from
    pseudo-label   what a model of the answered records says
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.trainers.teachers.fitting import fitted_quietly

Integers = NDArray[np.int64]
Ask = Callable[[Sequence[int]], Sequence[str | None]]
"""Places of public records in, an answer each out: a class, or None. It charges before it draws.

Fewer answers than places: no more may be asked.
"""
Unstable = Literal["arbitrary", "dropped", "pseudo-label"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Student:
    """What was learnt. Audience: world, if the answers were paid for.

    model     predicts class numbers (places in the declared classes)
    asked     places of the public records that were asked about, in order
    answered  how many of them had an answer
    inferred  how many more records it learnt from, by its own labels
    fits      how often a model was trained
    """

    model: Any
    asked: tuple[int, ...]
    answered: int
    inferred: int
    fits: int

    def predict(self, x: Any) -> Integers:
        """Class numbers."""
        return np.asarray(self.model.predict(x), dtype=np.int64)


@dataclass(kw_only=True, repr=False)
class Pupil:
    """A student at work: what it asked and heard so far."""

    x: Any
    ask: Ask
    classes: Sequence[str]
    estimator: Any
    seed: int
    unstable: Unstable = "dropped"
    asked: list[int] = field(default_factory=list)
    heard: list[int | None] = field(default_factory=list)
    inferred: dict[int, int] = field(default_factory=dict)
    fits: int = 0

    def __post_init__(self) -> None:
        if self.unstable not in get_args(Unstable):
            known = ", ".join(get_args(Unstable))
            raise BadInput(f"unstable answers as {self.unstable}", "there is no such way", f"Choose one of {known}")
        self._code = {name: place for place, name in enumerate(self.classes)}
        self.rng = np.random.default_rng(self.seed)

    def question(self, places: Sequence[int]) -> bool:
        """Ask about ``places``, and take the answers down; whether all could be asked."""
        given = self.ask(list(places)) if places else []
        for place, answer in zip(places, given, strict=False):
            self.asked.append(int(place))
            self.heard.append(None if answer is None else self._code[answer])
        return len(given) >= len(places)

    def lessons(self) -> tuple[Integers, Integers]:
        """Places and class numbers to learn from: answers, what unstable ones become, and what was inferred."""
        known = {p: a for p, a in zip(self.asked, self.heard, strict=True) if a is not None}
        missing = [p for p, a in zip(self.asked, self.heard, strict=True) if a is None]
        if missing and self.unstable == "arbitrary":
            coins = np.random.default_rng([self.seed, 1]).integers(len(self.classes), size=len(missing))
            known |= dict(zip(missing, coins.tolist(), strict=True))
        elif missing and known and self.unstable == "pseudo-label":
            model = self.fitted(*_columns(known))
            known |= dict(zip(missing, model.predict(self.x[missing]).tolist(), strict=True))
        return _columns(known | {p: a for p, a in self.inferred.items() if p not in known})

    def fitted(self, places: Integers, codes: Integers) -> Any:
        """A model of these; of one class or none, one that always says the same."""
        if len(np.unique(codes)) < 2:
            return Constant(int(codes[0]) if len(codes) else 0)
        self.fits += 1
        return fitted_quietly(self.estimator, self.x[places], codes, self.seed)

    def model(self) -> Any:
        """A model of everything learnt so far."""
        return self.fitted(*self.lessons())

    def done(self, model: Any) -> Student:
        """The finished student."""
        answered = sum(answer is not None for answer in self.heard)
        return Student(
            model=model, asked=tuple(self.asked), answered=answered, inferred=len(self.inferred), fits=self.fits
        )


class Constant:
    """Says one class, whatever it is shown."""

    def __init__(self, code: int) -> None:
        self.classes_ = np.array([code])

    def predict(self, x: Any) -> Integers:
        """That class."""
        return np.full(len(x), self.classes_[0], dtype=np.int64)

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """Of that class alone."""
        return np.ones((len(x), 1))


def checked_cap(answers: int, public: int) -> int:
    """The number of questions: at most one a record."""
    if type(answers) is not int or answers < 1:
        raise BadInput(f"{answers} questions of a student", "it is no whole number from 1", "Give one, such as 1000")
    return min(answers, public)


def _columns(known: dict[int, int]) -> tuple[Integers, Integers]:
    return np.array(list(known), dtype=np.int64), np.array(list(known.values()), dtype=np.int64)
