"""PATE: models of disjoint parts of private labelled data answer questions about public records; a student learns.

    votes (once, at creation) -> what the student wants to know -> answers, charged -> train the student -> again

Guarantee (docs/proofs/teachers.md): committed. Every charge of every phase follows from the file and is in the ledger's
terms before a private record teaches anybody. Those are read once, to train teachers; their votes stay with the owner.
An answer leaves after its charge is durable. All else reads public records and answers: post-processing.

Assumptions: records of [pool] and [evaluation] are public; scaling is declared, or from public records; all records of
a unit have its id, which is public and not derived from content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.campaign import Campaign
from discreet.campaign.answers import INTERNAL
from discreet.campaign.recipe import Chosen, Continuation, Labels, PhaseContext, ReplanRequest, Trained
from discreet.campaign.state import ANSWERED, TRAINED
from discreet.config import PateConfig
from discreet.errors import BudgetExceeded, DiscreetError, InfeasiblePlan, InvalidStore, NotNow
from discreet.noise import SecretKey, charge_once
from discreet.oracles.teachers import build_aggregator
from discreet.planning.pate.phases import TeacherPlan, plan_answers
from discreet.planning.pate.pricing import WHO
from discreet.pools import Pool
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import Check
from discreet.privacy.events import Event
from discreet.privacy.ledger import ChargeReason, Ledger, Receipt, Terms
from discreet.privacy.ledger.charges import request
from discreet.recipes.feature_rows import features_form, stored_features, with_features
from discreet.recipes.pate_student import asked_next, evaluated, learnt, of_records, reader_of, rows_of, student_of
from discreet.recipes.pate_votes import (
    VOTED,
    Tallies,
    check,
    check_confirmed,
    count_votes,
    kept_votes,
    private_labels,
    private_pool,
    public_pool,
    tallies_of,
)
from discreet.recipes.pool_campaigns import feature_checks
from discreet.recipes.pool_records import reading_of, scaling_of
from discreet.recipes.specification import STUDENT, FileRecipe, Inputs, ModelParts, RecipeSpec, form_of
from discreet.records import Answer, Question, Value, Votes
from discreet.storage import CampaignStore
from discreet.trainers.students.stored import StudentModel, student_from_bytes

COHORT, MECHANISMS = "asked", {"margin": "margin", "passive": "random", "disagreement": "disagreement"}
_OPTIONS = ("unstable", "answered_share", "check_share", "confident_share")


def teacher_plan(config: PateConfig) -> TeacherPlan:
    """What the file plans to ask, and its price; refused at its line where it cannot be."""
    table = config.answers
    options = {name: getattr(table, name) for name in _OPTIONS if getattr(table, name) is not None}
    try:
        plan = plan_answers(
            table.aggregator,
            budget=config.budget.budget(),
            teachers=config.teachers.count,
            classes=len(config.task.classes),
            queries=config.plan.queries,
            options=options,
        )
        plan.terms().check_claim()
        _check_lead(plan, config)
    except InfeasiblePlan as problem:  # too few teachers for a sparse vector
        key = "teachers.count" if "teachers" in problem.nearest else "answers.aggregator"
        raise config.error(key, problem.fact, problem.remedy) from None
    except BudgetExceeded as problem:
        raise config.error("budget.epsilon", problem.fact, problem.remedy) from None
    config.budget.budget().warn_if_loose(config.private.persons or config.private.size)
    return plan


def _check_lead(plan: TeacherPlan, config: PateConfig) -> None:
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
class Pate(FileRecipe):
    """A `Recipe`, and one that is `Answering`. ``votes``: reads them where the owner keeps them."""

    config: PateConfig
    plan: TeacherPlan
    votes: Callable[[], Votes] = field(default=no_votes, repr=False, compare=False)

    @property
    def phases(self) -> int:
        """One a query: the first is at random."""
        return len(self.plan.queries)

    def labels_planned(self, phase: int) -> int:
        """Public records that are asked about in a phase."""
        return self.plan.queries[phase]

    def terms(self) -> Terms:
        """Charges of all phases."""
        return self.plan.terms()

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """What the teachers answered; nobody else is heard."""
        record = {question.id: question.record for question in questions}
        values = {
            record[answer.question_id]: answer.value
            for answer in answers
            if answer.annotator == INTERNAL and answer.value
        }
        return Labels(values=values)

    def choose(self, context: PhaseContext) -> Chosen:
        """Public records that the student wants to know: free."""
        ids, facts = asked_next(self.config, context, self.labels_planned(context.phase))
        mechanism = "random" if context.phase == 0 else MECHANISMS[self.config.student.ask]
        public_facts = {"mechanism": f"student: {mechanism}", "private": True, "threshold": None, **facts}
        return Chosen(ids=ids, cohorts=dict.fromkeys(ids, COHORT), facts=public_facts)

    def answers(self, context: PhaseContext, questions: Sequence[Question]) -> list[Answer]:
        """Charge the phase's answers, then draw them, from votes that stay here."""
        votes, part = self.votes(), self.plan.part(context.phase)
        row = {name: number for number, name in enumerate(votes.ids)}
        if votes.unit != self.plan.price.budget.unit or votes.teachers != part.teachers:
            raise InvalidStore("answers of teachers", "the votes are of another plan", "Restore the store")
        ordered = sorted(questions, key=lambda question: question.place)
        counts = votes.counts[np.array([row[question.record] for question in ordered], dtype=np.int64)]
        codes: list[int | None] = []
        if len(counts):
            codes = build_aggregator(part, _InPhase(context), WHO).answer(counts)
        codes += [None] * (len(ordered) - len(codes))  # what came after the last unstable one was not asked
        return [
            Answer(question_id=question.id, value=None if number is None else votes.classes[number], annotator=INTERNAL)
            for question, number in zip(ordered, codes, strict=True)
        ]

    def train(self, context: PhaseContext, labels: Mapping[str, Value]) -> Trained:
        """On all answers so far: free."""
        model, content = learnt(self.config, context, labels)
        context.watch("training", 1, 1)
        return Trained(content=content, evaluation=evaluated(self.config, model))

    def continued(self, wish: ReplanRequest, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """Refused: noise was chosen for the cap that was planned."""
        raise NotNow(
            "re-planning a campaign of teachers",
            "the noise of its answers was chosen for the number that was planned",
            "Make a campaign of another name for more; budgets add up",
        )

    def predictor(self, content: bytes) -> StudentModel:
        """The student that `train` stored."""
        student = student_from_bytes(content, estimator=student_of(self.config), seed=self.config.student.seed)
        return of_records(student, reader_of(self.config))


class _InPhase:
    """Charges of one phase that a redo finds again."""

    def __init__(self, context: PhaseContext) -> None:
        self._context = context

    def charge(self, *, event: Event, count: int = 1, who: str, why: Any) -> Receipt:
        """Durable when it returns."""
        wanted = request({who: event}, count=count, why=ChargeReason(phase=self._context.phase, purpose=str(why)))
        (paid,) = charge_once(self._context.charges, [wanted])
        return paid


# -- checks of a store


def _checks(store: CampaignStore, config: PateConfig, ledger: Ledger) -> Iterator[Check]:
    """Against a ledger that was found whole."""
    yield _plan_check(store, config, ledger)
    steps = store.transitions()
    answered = {step.phase: step.facts for step in steps if step.kind == ANSWERED}
    paid = {entry.why.phase for entry in ledger.entries if entry.why.purpose.split()[0] == "answers"}
    asked = {phase: len(store.questions(phase)) for phase in answered}
    unpaid = {phase for phase in answered if asked[phase]} - paid
    early = {step.phase for step in steps if step.kind == TRAINED} - set(answered)
    counts = all(facts.get("asked") == asked[phase] for phase, facts in answered.items())
    ok = not unpaid and not early and counts
    detail = f"{len(answered)} phases, each charged before it was drawn"
    yield Check(name="answers", ok=ok, detail=detail if ok else "answers and charges do not belong together")
    yield _votes_check(store, config)
    yield from feature_checks(store, config)


def _plan_check(store: CampaignStore, config: PateConfig, ledger: Ledger) -> Check:
    try:
        stored, plan = TeacherPlan.from_json(store.config["plan"]), teacher_plan(config)
    except DiscreetError as error:
        return Check(name="plan", ok=False, detail=error.fact)
    same = stored == plan and ledger.terms.lines == plan.terms().lines and ledger.terms.plan == plan.digest()
    same = same and ledger.terms.budget == config.budget.budget() and ledger.simulation == store.simulation
    detail = "the ledger is committed to the plan of the file"
    return Check(name="plan", ok=same, detail=detail if same else "the ledger is committed to another plan")


def _votes_check(store: CampaignStore, config: PateConfig) -> Check:
    """Public facts of the votes alone: what they are is the owner's."""
    if not any(step.kind == VOTED for step in store.transitions()):
        return Check(name="votes", ok=False, detail="they were not counted")
    try:
        votes = kept_votes(store)
    except DiscreetError as error:
        return Check(name="votes", ok=False, detail=error.fact)
    ok = votes.unit == config.budget.unit and votes.teachers == config.teachers.count
    ok = ok and votes.classes == config.task.classes and set(votes.ids) == {name for name, _ in store.macs()}
    ok = ok and all(question.record in set(votes.ids) for question in store.questions())
    detail = f"of {votes.teachers} teachers, of whom one {votes.unit} moves one vote"
    return Check(name="votes", ok=ok, detail=detail if ok else "they are of another unit, or of other records")


# -- its specification


def private_tallies(config: PateConfig) -> Tallies:
    """Of the private records, once everything that can be refused was refused. Audience: owner."""
    teacher_plan(config)
    pool = public_pool(config)
    check(with_features(config, pool), pool)
    return tallies_of(private_pool(config), private_labels(config), config.task.classes)


def _prepare(config: PateConfig, inputs: Inputs) -> tuple[dict[str, Any], Pool]:
    plan, pool = teacher_plan(config), public_pool(config) if inputs.pool is None else inputs.pool
    config = with_features(config, pool)
    check(config, pool)
    check_confirmed(config, inputs.confirm)
    return {"plan": plan.to_json(), **features_form(config)}, pool


def _open(store: CampaignStore, config: PateConfig) -> Pate:
    plan = TeacherPlan.from_json(form_of(store)["plan"])
    return Pate(config=config, plan=plan, votes=lambda: kept_votes(store))


def _created(campaign: Campaign) -> tuple[dict[str, Any], list[str]]:
    """What the answers cost, and how clear a vote must be to be heard."""
    recipe: Any = campaign.recipe
    price = recipe.plan.price
    line = (
        f"{price.teachers} teachers voted, and stay with you; {price.aggregator}: a class that leads by "
        f"{price.lead():.0f} votes is the answer 95 times of 100"
    )
    return {"price": price.to_json()}, [line]


def _about(campaign: Campaign) -> dict[str, str]:
    recipe: Any = campaign.recipe
    config, price = recipe.config, recipe.plan.price
    student, on_features = config.student, "" if config.features is None else f" on {config.features.name} features"
    return {
        "recipe": config.recipe.name,
        "task": f"{config.task.kind}, {len(recipe.classes)} classes",
        "private": f"{config.private.size:,} labelled records, as declared; read once, by teachers",
        "pool": f"{config.pool.size:,} public records, as declared",
        "teachers": f"{price.teachers}, {config.teachers.name}{on_features}, on disjoint parts",
        "answers": f"at most {price.answers:,}, {price.aggregator}",
        "heard": f"95 times of 100, a class that leads by {price.lead():.0f} votes",
        "student": f"{student.name}{on_features}, asks by {student.ask}; no answer: {student.unstable}",
        "evaluation": "none" if config.evaluation.path is None else "on public records",
    }


def _assumptions(budget: Budget) -> tuple[str, ...]:
    return (
        f"Compared are the private records as they are, and those in which one {budget.unit} teaches nobody "
        "(zero-out).",
        "All records of a unit are with one teacher, by a keyed hash of its id; a teacher reads its own records and "
        "public things alone. Ids are public and do not come from what records hold.",
        "Answers leave, and which questions had none; votes, leads and whether a teacher failed stay with the owner. "
        "What the student does with answers and public records is free.",
        "The pool and what is measured on are public, as declared; scaling, classes and settings were declared, or "
        "come from public records. Keys stay secret, and what was cut off is repeated with the same draws.",
        "The claim is that of the whole plan: asking less does not lower it.",
        "The owner saw tallies of the private labels and cells before starting: the decision to start is not covered.",
    )


def _exported(campaign: Campaign) -> ModelParts:
    recipe: Any = campaign.recipe
    config: PateConfig = recipe.config
    table = config.student
    form = {
        "recipe": config.recipe.name,
        "task": "classes",
        "classes": list(config.task.classes),
        "model": {"name": table.name, "options": dict(table.options), "dropout": 0.0, "seed": table.seed},
        "inputs": [int(size) for size in rows_of(config, campaign.pool).shape[1:]],
        "weights": STUDENT,
        "preprocessing": reading_of(config.pool) | scaling_of(config.pool) | features_form(config),
    }
    return ModelParts(form=form, example_rows="a student is any classifier, and no module of torch")


SPEC = RecipeSpec(
    name="pate",
    may_change=("private.path", "private.labels", "teachers.processes", "features.public"),
    title="a campaign of teachers (PATE)",
    takes=frozenset({"pool"}),
    prepare=_prepare,
    open=_open,
    as_created=stored_features,
    records=lambda store, config, pool: public_pool(config) if pool is None else pool,
    begin=lambda store, recipe, pool, seed, watch: count_votes(store, recipe.config, pool, seed, watch),
    checks=_checks,
    confirmation=lambda config: private_tallies(config).text(),
    created=_created,
    answers_itself=True,
    about=_about,
    assumptions=_assumptions,
    notes={
        f"student: {word}": "Public records that the student chose: free. What the teachers answered was paid for."
        for word in ("random", *MECHANISMS.values())
    },
    exported=_exported,
    card_assumptions=(
        "Models of disjoint parts of the private records voted on public records; what left are answers, with noise.",
        "This student was made of public records and those answers alone: nothing else of the private records is in "
        "it.",
        "Scaling, classes and settings were declared or come from public records; keys and noise stayed secret.",
    ),
    card_training="on few and noisy answers",
)
