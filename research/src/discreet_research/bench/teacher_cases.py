"""One set, one number of teachers, one seed: votes once, then every aggregator, epsilon and student on them.

A row is one student: what was asked and answered, its accuracy on the test set, and how often answers were the plain
majority's. Beside them, at no price and not private: a student of the plain majority, one of the true labels, and the
model of all private data. Everything is a simulation on public sets.

Teachers on Adult and MNIST: which numbers of them, which aggregators, which students.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InfeasiblePlan
from discreet.noise import SecretKey, Seeded
from discreet.oracles.teachers import TeacherOracle
from discreet.planning.pate import VotePrice, price_answers
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.records import Votes
from discreet.trainers.students import Student, disagreement_student, margin_student, passive_student, voting_student
from discreet_research.bench.cases import GridCase
from discreet_research.bench.majority import largest_class
from discreet_research.bench.problems import GridSettings
from discreet_research.bench.teacher_sets import TeacherData, TeacherSet, teacher_set
from discreet_research.bench.vote_margins import approximate_margin

DELTA = "1e-6"
Ask = Callable[[Any], list[str | None]]


@dataclass(frozen=True, kw_only=True)
class TeacherProblem(GridSettings):
    """``answers``: caps that are tried at each epsilon, fixed beforehand; ``unstable``: T for the sparse vector."""

    name: str
    data: TeacherData
    teachers: int
    answers: tuple[int, ...]
    unstable: tuple[int, ...]
    strength: float = 1.0


@dataclass(frozen=True, kw_only=True)
class TeacherMethod(GridSettings):
    """Which aggregators and epsilons are tried on one problem's votes, and with which students."""

    name: str
    aggregators: tuple[str, ...]
    epsilons: tuple[str, ...]
    students: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TeacherCase(GridCase):
    """A cell of the grid."""

    problem: TeacherProblem
    method: TeacherMethod
    kind = "teachers"

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Records that are learnt from: all teachers' once, and each student's."""
        students = len(self.method.aggregators) * len(self.method.epsilons) * len(self.method.students)
        return 50_000 + students * sum(self.problem.answers)

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """Rows of free baselines, then of every price."""
        data_set = teacher_set(self.problem.data, data, self.seed)
        votes = votes_of(self.problem, data, self.seed)
        common = {"made_of": data_set.made_of, "teachers": self.problem.teachers}
        return [row | common for row in (*_free(data_set, votes, self.problem), *self._paid(data_set, votes))]

    def _paid(self, data_set: TeacherSet, votes: Votes) -> Iterator[dict[str, Any]]:
        majority = votes.counts.argmax(axis=1)
        for aggregator in self.method.aggregators:
            for epsilon in self.method.epsilons:
                for price in _prices(
                    self.problem, aggregator, epsilon, len(data_set.public_ids), len(data_set.classes)
                ):
                    about = {"aggregator": aggregator, "epsilon": float(epsilon)}
                    if isinstance(price, InfeasiblePlan):
                        yield about | {"student": "refused", "needed": int(price.nearest["teachers"])}
                        continue
                    about |= {"cap": price.answers, "unstable": getattr(price, "unstable", None)}
                    for student in self.method.students:
                        yield about | asked_of(data_set, votes, price, student, self.seed, majority)


@lru_cache(maxsize=1)
def votes_of(problem: TeacherProblem, data: Path | None, seed: int) -> Votes:
    """Of logistic regressions; made once for all that is tried on them."""
    from sklearn.linear_model import LogisticRegression

    from discreet.trainers.teachers import train_teachers

    data_set = teacher_set(problem.data, data, seed)
    return train_teachers(
        data_set.x,
        [data_set.classes[code] for code in data_set.y],
        units=data_set.units,
        public=data_set.public_x,
        public_ids=data_set.public_ids,
        classes=data_set.classes,
        teachers=problem.teachers,
        estimator=LogisticRegression(C=problem.strength),
        key=SecretKey(hashlib.sha256(f"bench {seed}".encode()).digest()),
    )


@lru_cache(maxsize=1024)
def priced(aggregator: str, epsilon: str, teachers: int, classes: int, answers: int, unstable: int) -> VotePrice:
    """At the delta of all cases; made once."""
    budget = Budget(epsilon=epsilon, delta=DELTA)
    return price_answers(
        aggregator, budget=budget, teachers=teachers, classes=classes, answers=answers, unstable=unstable
    )


def _prices(
    problem: TeacherProblem, aggregator: str, epsilon: str, public: int, classes: int
) -> Iterator[VotePrice | InfeasiblePlan]:
    """Of a noisy maximum one for each cap; of a sparse vector, whose questions are nearly free, one for each T."""
    sparse = aggregator.startswith("sparse")
    for number in problem.unstable if sparse else problem.answers:
        answers, unstable = (public, min(number, public)) if sparse else (min(number, public), 1)
        try:
            yield priced(aggregator, epsilon, problem.teachers, classes, answers, unstable)
        except InfeasiblePlan as refused:
            yield refused


def asked_of(
    data_set: TeacherSet, votes: Votes, price: VotePrice, student: str, seed: int, majority: NDArray[np.int64]
) -> dict[str, Any]:
    """A student that asks for this price: what it asked, what it heard, how good it is."""
    ledger = Ledger.create(MemorySink(), price.terms(), source=Seeded(seed))
    oracle = TeacherOracle(votes, price=price, ledger=ledger)

    def ask(places: Any) -> list[str | None]:
        """As far as questions are left."""
        ids = [votes.ids[index] for index in places][: oracle.left]
        oracle.answer(ids)
        known = oracle.answers
        return [known[name] for name in ids if name in known]

    student_model = taught(student, data_set, ask, price.answers, seed)
    places, known = np.array(student_model.asked, dtype=np.int64), oracle.answers
    answers = [known[votes.ids[place]] for place in places]
    heard = np.array([answer is not None for answer in answers], dtype=bool)
    codes = np.array([votes.classes.index(answer) for answer in answers if answer is not None], dtype=np.int64)
    return {
        "student": student,
        "accuracy": float((student_model.predict(data_set.test_x) == data_set.test_y).mean()),
        "majority": largest_class(data_set.test_y),
        "asked": len(places),
        "answered": int(heard.sum()),
        "as_majority": float((codes == majority[places[heard]]).mean()) if heard.any() else None,
        "right": float((codes == data_set.public_y[places[heard]]).mean()) if heard.any() else None,
        "inferred": student_model.inferred,
        "asked_places": json.dumps(sorted(map(int, places))) if student != "passive, voting" else None,
        "places": json.dumps(sorted(int(place) for place, known in zip(places, heard, strict=True) if not known)),
    }


def taught(student: str, data_set: TeacherSet, ask: Ask, answers: int, seed: int) -> Student:
    """The student called so: a way of asking, and what its name adds."""
    from sklearn.linear_model import LogisticRegression

    shape: dict[str, Any] = {"classes": data_set.classes, "answers": answers, "seed": seed}
    linear = LogisticRegression(C=0.1, max_iter=300)
    way, _, more = student.partition(", ")
    if way == "passive":
        estimator = voting_student(rounds=100) if more == "voting" else linear
        unstable = more if more in ("arbitrary", "pseudo-label") else "dropped"
        return passive_student(
            data_set.public_x,
            ask,
            **shape,
            estimator=estimator,
            unstable=unstable,  # type: ignore[arg-type]
            pseudo_labels=more == "pseudo-labels",
        )
    if way == "margin":
        return margin_student(data_set.public_x, ask, **shape, estimator=linear, pseudo_labels=more == "pseudo-labels")
    return disagreement_student(data_set.public_x, ask, **shape, estimator=linear)


def _free(data_set: TeacherSet, votes: Votes, problem: TeacherProblem) -> Iterator[dict[str, Any]]:
    """Nothing of this is private."""
    from sklearn.linear_model import LogisticRegression

    majority = votes.counts.argmax(axis=1)
    right = float((majority == data_set.public_y).mean())
    for student, x, y in (
        ("all private data", data_set.x, data_set.y),
        ("true labels", data_set.public_x, data_set.public_y),
        ("plain majority", data_set.public_x, majority),
    ):
        model = LogisticRegression(C=0.1 if student == "plain majority" else 1.0, max_iter=1000)
        known = np.unique(y)
        says = model.fit(x, y).predict(data_set.test_x) if len(known) > 1 else np.full(len(data_set.test_y), known[0])
        accuracy = float((says == data_set.test_y).mean())
        yield {"aggregator": "not private", "student": student, "accuracy": accuracy, "right": right}
    for margin, nu, bound in approximate_margin(votes.counts, np.arange(0.0, 0.5, 0.025)):
        yield {"aggregator": "margin", "student": "none", "margin": margin, "nu": nu, "nu_bound": bound}


SEEDS = 6
"""The first chooses caps (`discreet_research.bench.teacher_tables`); the others are reported."""
EPSILONS = ("0.5", "1", "2", "4", "8")
STUDENTS = ("passive", "passive, pseudo-labels", "passive, voting", "margin", "disagreement")
GAUSSIAN = TeacherMethod(name="gaussian, all students", aggregators=("gaussian",), epsilons=EPSILONS, students=STUDENTS)
OTHERS = TeacherMethod(
    name="other noisy maxima",
    aggregators=("gaussian-paper", "laplace", "laplace-paper", "confident"),
    epsilons=EPSILONS,
    students=("passive",),
)
SPARSE = TeacherMethod(
    name="sparse vector",
    aggregators=("sparse", "sparse-paper"),
    epsilons=EPSILONS,
    students=("passive", "passive, arbitrary", "passive, pseudo-label", "disagreement"),
)


def _problems(data: str, teachers: tuple[int, ...]) -> tuple[TeacherProblem, ...]:
    return tuple(
        TeacherProblem(
            name=f"{data}, K={count}",
            data=data,  # type: ignore[arg-type]
            teachers=count,
            answers=(100, 300, 1000),
            unstable=(1, 20, 100),
            strength=1.0 if count < 600 else 10.0,
        )
        for count in teachers
    )


FEW, MANY = (25, 100, 250), (700, 1500, 3000)
TEACHERS_ADULT = (
    (_problems("adult", FEW), (GAUSSIAN, OTHERS)),
    (_problems("adult", MANY), (GAUSSIAN, SPARSE)),
)
TEACHERS_MNIST = (
    (_problems("mnist", FEW), (GAUSSIAN, OTHERS)),
    (_problems("mnist", MANY), (GAUSSIAN, SPARSE)),
)
