"""Teachers: models of disjoint parts of private labelled data answer questions about public records; a student learns.

    votes (once, at creation) -> what the student wants to know -> answers, charged -> train the student -> again

Guarantee (docs/proofs/teachers.md): committed. Every charge of every phase follows from the file and is in the ledger's
terms before a private record teaches anybody. Those are read once, to train teachers; their votes stay with the owner.
An answer leaves after its charge is durable. All else reads public records and answers: post-processing.

Assumptions: records of [pool] and [evaluation] are public; scaling is declared, or from public records; all records of
a unit have its id, which is public and not derived from content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.campaign.recipe import Chosen, Desk, Labels, Trained
from discreet.campaign.replanning import Continuation, Wish
from discreet.campaign.told import HOUSE
from discreet.config import TeachersConfig
from discreet.errors import BudgetExceeded, InfeasiblePlan, InvalidStore, NotNow
from discreet.noise import SecretKey, charge_once
from discreet.oracles.teachers import build_aggregator
from discreet.planning.teachers.phases import TeacherPlan, plan_answers
from discreet.planning.teachers.pricing import WHO
from discreet.pools import Pool, open_pool
from discreet.privacy.events import Event
from discreet.privacy.ledger import Ledger, Receipt, Terms, Why
from discreet.privacy.ledger.requests import request
from discreet.recipes.known_labels import file_labels
from discreet.recipes.teacher_estimators import student_of
from discreet.records import Answer, Question, Value, Votes
from discreet.trainers.accuracy import Evaluation, evaluation_of

if TYPE_CHECKING:
    from discreet.trainers.students.stored import StudentModel

COHORT, MECHANISMS = "asked", {"margin": "margin", "passive": "random", "disagreement": "disagreement"}
_OPTIONS = ("unstable", "answered_share", "check_share", "confident_share")


def teacher_plan(config: TeachersConfig) -> TeacherPlan:
    """What the file plans to ask, and its price; refused at its line where it cannot be."""
    table = config.answers
    given = {name: getattr(table, name) for name in _OPTIONS if getattr(table, name) is not None}
    try:
        made = plan_answers(
            table.aggregator,
            budget=config.budget.budget(),
            teachers=config.teachers.count,
            classes=len(config.task.classes),
            queries=config.plan.queries,
            options=given,
        )
        made.terms().check_claim()
        _check_lead(made, config)
    except InfeasiblePlan as problem:  # too few teachers for a sparse vector
        key = "teachers.count" if "teachers" in problem.nearest else "answers.aggregator"
        raise config.error(key, problem.fact, problem.remedy) from None
    except BudgetExceeded as problem:
        raise config.error("budget.epsilon", problem.fact, problem.remedy) from None
    config.budget.budget().warn_if_loose(config.private.persons or config.private.size)
    return made


def _check_lead(plan: TeacherPlan, config: TeachersConfig) -> None:
    """Refuse, by public numbers, answers that would be noise: not even a unanimous vote would be heard."""
    price = plan.price
    if price.possible:
        return
    raise config.error(
        "teachers.count",
        f"by {price.aggregator} a class is the answer 95 times of 100 if it leads by {price.lead():.0f} votes, and "
        f"there are {price.teachers} teachers: even a unanimous vote would often be answered wrongly",
        "Train more teachers, ask fewer questions in [plan], or allow more epsilon (discreet price compares)",
    )


def no_votes() -> Votes:
    """Before they are counted."""
    raise InvalidStore("answers of teachers", "their votes are not counted yet", "Run discreet init again")


@dataclass(frozen=True, kw_only=True)
class Teachers:
    """A `Recipe`, and one that is `Answering`. ``votes``: reads them where the owner keeps them."""

    config: TeachersConfig
    plan: TeacherPlan
    votes: Callable[[], Votes] = field(default=no_votes, repr=False, compare=False)

    @property
    def phases(self) -> int:
        """One a query: the first is at random."""
        return len(self.plan.queries)

    @property
    def classes(self) -> tuple[str, ...]:
        """Declared."""
        return self.config.task.classes

    @property
    def multilabel(self) -> bool:
        """Never: a teacher votes for one class."""
        return False

    @property
    def released(self) -> bool:
        """Its pool came through no gate: it is public."""
        return False

    def labels_planned(self, phase: int) -> int:
        """Public records that are asked about in a phase."""
        return self.plan.queries[phase]

    def terms(self) -> Terms:
        """Charges of all phases."""
        return self.plan.terms()

    def check(self, pool: Pool) -> None:
        """What can be refused is refused before the campaign begins (`discreet.recipes.teachers_opening`)."""

    def known_labels(self) -> Mapping[str, Value]:
        """None."""
        return {}

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """What the teachers answered; nobody else is heard."""
        record = {one.id: one.record for one in questions}
        said = {record[one.question_id]: one.value for one in answers if one.annotator == HOUSE and one.value}
        return Labels(values=said)

    def choose(self, desk: Desk) -> Chosen:
        """Public records that the student wants to know: free."""
        from discreet.recipes.asking_students import asked_next

        ids, facts = asked_next(self.config, desk, self.labels_planned(desk.phase))
        mechanism = "random" if desk.phase == 0 else MECHANISMS[self.config.student.ask]
        told = {"mechanism": f"student: {mechanism}", "private": True, "threshold": None, **facts}
        return Chosen(ids=ids, cohorts=dict.fromkeys(ids, COHORT), facts=told)

    def answers(self, desk: Desk, questions: Sequence[Question]) -> list[Answer]:
        """Charge the phase's answers, then draw them, from votes that stay here."""
        votes, part = self.votes(), self.plan.part(desk.phase)
        row = {name: place for place, name in enumerate(votes.ids)}
        if votes.unit != self.plan.price.budget.unit or votes.teachers != part.teachers:
            raise InvalidStore("answers of teachers", "the votes are of another plan", "Restore the store")
        ordered = sorted(questions, key=lambda one: one.place)
        counts = votes.counts[np.array([row[one.record] for one in ordered], dtype=np.int64)]
        found: list[int | None] = []
        if len(counts):
            found = build_aggregator(part, _InPhase(desk), WHO).answer(counts)
        found += [None] * (len(ordered) - len(found))  # what came after the last unstable one was not asked
        return [
            Answer(question_id=one.id, value=None if place is None else votes.classes[place], annotator=HOUSE)
            for one, place in zip(ordered, found, strict=True)
        ]

    def train(self, desk: Desk, labels: Mapping[str, Value]) -> Trained:
        """On all answers so far: free."""
        from discreet.recipes.asking_students import learnt

        model, content = learnt(self.config, desk, labels)
        desk.watch("training", 1, 1)
        return Trained(content=content, evaluation=evaluated(self.config, model))

    def continued(self, wish: Wish, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """Refused: noise was chosen for the cap that was planned."""
        raise NotNow(
            "re-planning a campaign of teachers",
            "the noise of its answers was chosen for the number that was planned",
            "Make a campaign of another name for more; budgets add up",
        )

    def predictor(self, content: bytes) -> StudentModel:
        """The student that `train` stored."""
        from discreet.trainers.students.stored import student_from_bytes

        return student_from_bytes(content, estimator=student_of(self.config), seed=self.config.student.seed)


class _InPhase:
    """Charges of one phase that a redo finds again."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def charge(self, *, event: Event, count: int = 1, who: str, why: Any) -> Receipt:
        """Durable when it returns."""
        wanted = request({who: event}, count=count, why=Why(phase=self._desk.phase, purpose=str(why)))
        (paid,) = charge_once(self._desk.charges, [wanted])
        return paid


def records_like(
    config: TeachersConfig, path: str, key: str, *, size: int | None = None, person: str | None = None
) -> Pool:
    """Records in another file that is declared as the pool is."""
    table = config.pool
    with config.pointing(key):
        return open_pool(
            config.resolve(path),
            kind=table.kind,  # type: ignore[arg-type]
            id=table.id,
            columns=table.columns,
            person=person,
            array=table.array,
            shape=table.shape,
            center=table.center,
            scale=table.scale,
            size=size,
        )


def evaluated(config: TeachersConfig, model: Any) -> Evaluation | None:
    """On public labelled records, if there are some."""
    found = evaluation_records(config)
    if found is None:
        return None
    rows, codes = found
    cells = np.zeros((len(config.task.classes), 2), dtype=np.int64)
    np.add.at(cells, (codes, (model.predict_proba(rows).argmax(axis=1) == codes).astype(int)), 1)
    return evaluation_of("public", cells, noise=0.0, each=1, epsilon=Decimal(0), simulation=False)


def evaluation_records(config: TeachersConfig) -> tuple[Any, Any] | None:
    """Rows and class numbers."""
    table = config.evaluation
    if table.path is None or table.labels is None:
        return None
    pool = records_like(config, table.path, "evaluation.path")
    labels = file_labels(config, table.labels, "evaluation.labels")
    code = {name: number for number, name in enumerate(config.task.classes)}
    known = [(place, code[str(labels[name])]) for place, name in enumerate(pool.ids) if labels.get(name) in code]
    if not known:
        raise config.error("evaluation.labels", "none of them is of a record in evaluation.path", "Check the ids")
    places, codes = np.array(known, dtype=np.int64).T
    rows = np.asarray(pool.rows(places), dtype=np.float32)
    whole = np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)
    return rows[whole], codes[whole]
