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
    """What was learnt. Audience: public, if the answers were paid for.

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
class ActiveStudent:
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
        self._code = {name: code for code, name in enumerate(self.classes)}
        self.rng = np.random.default_rng(self.seed)

    def question(self, places: Sequence[int]) -> bool:
        """Ask about ``places``, and take the answers down; whether all could be asked."""
        answers = self.ask(list(places)) if places else []
        for record, answer in zip(places, answers, strict=False):
            self.asked.append(int(record))
            self.heard.append(None if answer is None else self._code[answer])
        return len(answers) >= len(places)

    def training_set(self) -> tuple[Integers, Integers]:
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
        return self.fitted(*self.training_set())

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


# Labels for records that were not asked about, by the student itself: free.


SURE = 0.9
"""A record is learnt from by its own label where the model gives it this probability."""


def with_pseudo_labels(student: ActiveStudent, model: Any, sure: float = SURE, records: Any | None = None) -> Any:
    """The model, trained once more with its own labels of unasked records (of those ``there``) that it is sure of."""
    rest = np.setdiff1d(np.arange(len(student.x)) if records is None else records, student.asked)
    if not len(rest):
        return model
    proba = probabilities(model, student.x[rest])
    clear = proba.max(axis=1) >= sure
    codes = np.asarray(model.classes_)[proba.argmax(axis=1)]
    student.inferred |= dict(zip(rest[clear].tolist(), codes[clear].tolist(), strict=True))
    return student.model()


def probabilities(model: Any, x: Any) -> NDArray[np.float64]:
    """Class probabilities; of a model that has scores only, their softmax."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x), dtype=np.float64)
    scores = np.asarray(model.decision_function(x), dtype=np.float64)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    return softmax_of(scores)


def softmax_of(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of classes, (n, C), as probabilities."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def margins(model: Any, x: Any) -> NDArray[np.float64]:
    """The probability of the first class less that of the second: small where the model is torn."""
    proba = probabilities(model, x)
    if proba.shape[1] < 2:
        return np.zeros(len(proba))
    ordered = np.sort(proba, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


# Margin-based active queries, the practical default: ask where the student is torn, in batches that grow.
#
# The first batch is random; each later one is of the unasked records with the smallest margins, with a share at random
# so that a wrong first model is found out. Batches grow geometrically, so that a model is trained O(log l) times.


FIRST, GROWTH, RANDOM_SHARE = 50, 1.6, 0.2


def margin_student(
    x: Any,
    ask: Ask,
    *,
    classes: Sequence[str],
    estimator: Any,
    answers: int,
    seed: int = 0,
    unstable: Unstable = "dropped",
    pseudo_labels: bool = False,
    first: int = FIRST,
    growth: float = GROWTH,
    random_share: float = RANDOM_SHARE,
) -> Student:
    """Ask about at most ``answers`` of the public records ``x``, most of them where the model so far is torn."""
    student = ActiveStudent(x=x, ask=ask, classes=classes, estimator=estimator, seed=seed, unstable=unstable)
    cap = checked_cap(answers, len(x))
    order = student.rng.permutation(len(x))
    more = student.question(order[: min(first, cap)].tolist())
    model = student.model()
    while more and len(student.asked) < cap:
        size = min(max(1, int(len(student.asked) * (growth - 1))), cap - len(student.asked))
        unasked = np.setdiff1d(order, student.asked)
        student.rng.shuffle(unasked)
        drawn = unasked[: int(size * random_share)]
        rest = unasked[len(drawn) :]
        torn = rest[np.argsort(margins(model, x[rest]), kind="stable")[: size - len(drawn)]]
        more = student.question(np.concatenate([drawn, torn]).tolist())
        model = student.model()
    return student.done(with_pseudo_labels(student, model) if pseudo_labels else model)


# Passive student queries (PSQ, the paper's Algorithm 3): ask about records at random, learn from the answers.
#
# With ``pseudo_labels`` it also learns from records that it did not ask about, where it is sure of them itself.


def passive_student(
    x: Any,
    ask: Ask,
    *,
    classes: Sequence[str],
    estimator: Any,
    answers: int,
    seed: int = 0,
    unstable: Unstable = "dropped",
    pseudo_labels: bool = False,
) -> Student:
    """Ask about ``answers`` of the public records ``x``, drawn at random (all of them, if it is as many)."""
    student = ActiveStudent(x=x, ask=ask, classes=classes, estimator=estimator, seed=seed, unstable=unstable)
    order = np.random.default_rng([seed, 2]).permutation(len(x))  # not the order in which active students look
    student.question(order[: checked_cap(answers, len(x))].tolist())
    model = student.model()
    return student.done(with_pseudo_labels(student, model) if pseudo_labels else model)


# A student as wide as its teachers: a vote of many simple models (the paper's Theorem 13).
#
# Where no single model of the teachers' kind fits what they say together, the problem is realizable among votes of such
# models.


def voting_student(*, rounds: int, depth: int = 2) -> Any:
    """An estimator: AdaBoost of ``rounds`` trees of ``depth`` levels. Give it to any of the ways of asking."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    if type(rounds) is not int or rounds < 1 or type(depth) is not int or depth < 1:
        raise BadInput(
            f"a vote of {rounds} trees of depth {depth}", "both are whole numbers from 1", "Give such numbers"
        )
    return AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=rounds)
