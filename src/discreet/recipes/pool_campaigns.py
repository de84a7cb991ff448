"""What campaigns with a pool of records share: where their records are, what annotators see of them, what `verify`
checks in their stores, and what an export says of their models.

Guarantee of the checks: a plan that is not the one the ledger is committed to, and a step that nobody paid for, are
failed checks. Under hidden selection (docs/proofs/hidden-selection.md) so are a phase that was trained while one of
its questions was open, a cap on questions per annotator, and questions that went to whoever came next. Withdrawn
records are passed over: they are missing for themselves.
How people split a list that was handed out without a name is not stored, and not checked. Columns that annotators see
(`RecordColumns`) are checked before a query is charged; none is charged or released to the public, and a cell that
cannot be read is empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.campaign import Campaign
from discreet.campaign.answers import Assignment, answering, team_of
from discreet.campaign.crash_recovery import secret_key
from discreet.campaign.recipe import replannings
from discreet.campaign.state import PUBLISHED, TRAINED, TRAINING, evaluations_of, released_features, today
from discreet.config import CampaignConfig, PateConfig
from discreet.errors import BadInput, DiscreetError
from discreet.features import feature_map_from_json
from discreet.oracles.question_files import check_extra
from discreet.pools import Pool, extended
from discreet.pools.file_columns import cells_of_records, check_columns_of
from discreet.privacy.certificate import Check
from discreet.privacy.ledger import Ledger
from discreet.recipes.feature_cache import announced
from discreet.recipes.feature_rows import encoder_of, features_form, stored_features
from discreet.recipes.labelled_records import pool_like
from discreet.recipes.learning import task_of
from discreet.recipes.pool_records import made_up_rows, reader_of, reading_of, scaling_of
from discreet.recipes.private_quantiles import quantile_checks
from discreet.recipes.specification import ModelParts, form_of, newest_plan
from discreet.records import Question
from discreet.storage import CampaignStore, Transition

if TYPE_CHECKING:
    from discreet.campaign import Campaign

Needed = Callable[[Any, set[tuple[str, int]]], set[tuple[int, str]]]
"""By the stored form of a plan and the steps that were taken: phases and purposes that must have been charged."""


MAY_CHANGE = (
    "trainer.device",
    "trainer.checkpoint_every",
    "initial.path",
    "model.init",
    "model.encoder",
    "features.public",
    "features.encoder",
    "features.transformer",
    "features.cache",
    "checkpoint.path",
    "checkpoint.certificate",
    "private.path",
)
"""Keys that say where files are, and on what and how safely a model is trained."""


def check_releases(config: CampaignConfig) -> None:
    """A date that has come already would be late before anybody is asked."""
    if config.plan.releases and config.plan.releases[0] <= today().isoformat():
        raise config.error("plan.releases", f"{config.plan.releases[0]} is not in the future", "Plan later dates")


def as_created(store: CampaignStore, config: CampaignConfig) -> CampaignConfig:
    """With its stored feature map. A pool given in Python says its own length: longer by what joined later, shorter by
    what was withdrawn.
    """
    config = stored_features(store, config)
    if config.pool.kind != "arrays":
        return config
    first, withdrawn = int(form_of(store)["config"]["pool"]["size"]), len(store.withdrawn())
    enrolled = sum(cohort.size for cohort in store.pool_cohorts()) or first
    fits = any(size - withdrawn <= config.pool.size <= size for size in (first, enrolled))
    return replace(config, pool=replace(config.pool, size=first)) if fits else config


def base_pool(config: CampaignConfig, pool: Pool | None, *, withdrawn: int = 0) -> Pool:
    """The records that the campaign began with. Of withdrawn ones some may be gone; the store knows which."""
    if pool is not None:
        if len(pool) < config.pool.size - withdrawn:
            raise config.error("pool.size", f"the pool has {len(pool)} records", "Declare as many")
        return pool
    if config.pool.kind == "arrays":
        raise BadInput(f"the campaign {config.name}", "its pool was given in Python", "Give pool=ArrayPool(...)")
    with config.pointing("pool"):
        return pool_like(config, config.pool.path, size=None if withdrawn else config.pool.size)


def records_of(store: CampaignStore, config: CampaignConfig, base: Pool | None) -> Pool:
    """The pool of a store, with the files that joined it later."""
    withdrawn = len(store.withdrawn())
    pool = base_pool(config, base, withdrawn=withdrawn)
    files = joined_files(store, config)
    if len(pool) > config.pool.size:  # a pool that was given complete has them
        return pool
    for path, size in files:
        pool = extended(pool, path, size=None if withdrawn else size)
    return pool


def joined_files(store: CampaignStore, config: CampaignConfig) -> list[tuple[Path, int]]:
    """The files that joined the pool later, and how many records joined with each."""
    joined = [cohort for cohort in store.pool_cohorts()[1:] if cohort.facts.get("path")]
    moved = config.pool.further
    if moved is not None and len(moved) != len(joined):
        raise config.error(
            "pool.further",
            f"{len(moved)} files are named, and {len(joined)} joined",
            "Name each file that joined, in their order; new ones join with discreet pool extend",
        )
    paths = [config.resolve(name) for name in moved or [str(cohort.facts["path"]) for cohort in joined]]
    for path in paths:
        if not path.exists():
            raise config.error(
                "pool.further",
                f"{path.name}, which joined the pool later, is not there",
                "Put it back, or say where the files that joined are now: further = ['...']",
            )
    return [(path, cohort.size) for path, cohort in zip(paths, joined, strict=True)]


def feature_checks(store: CampaignStore, config: CampaignConfig | PateConfig) -> Iterator[Check]:
    """The stored feature map against its hash, and against what the campaign's file names, and its edges against what
    they were read off, if they are private quantiles; none without one.
    """
    if config.features is None:
        return
    try:
        form = released_features(store.transitions()) or store.config.get("features")
        identity = feature_map_from_json(form).identity()
    except DiscreetError as error:
        yield Check(name="features", ok=False, detail=f"{error.asked}: {error.fact}")
        return
    ok, named = identity["name"] == config.features.name, f"{identity['name']}, SHA-256 {identity['sha256'][:12]}..."
    detail = "it has its hash, and reads one record alone" if ok else "the campaign's file names another map"
    yield Check(name="features", ok=ok, detail=f"{named}: {detail}")
    if isinstance(config, CampaignConfig):
        yield from quantile_checks(store, config)


def plan_checks(
    store: CampaignStore, ledger: Ledger, *, digest_of: Callable[[Any], str], needed: Needed
) -> Iterator[Check]:
    """The plan against the ledger, every re-planning, and every step against its charge."""
    try:
        newest = newest_plan(store)
        digests = (digest_of(store.config["plan"]), digest_of(newest))  # their claims were checked with the terms
    except DiscreetError as error:
        yield Check(name="plan", ok=False, detail=error.fact)
        return
    same = digests == (ledger.opening.terms.plan, ledger.terms.plan) and store.simulation == ledger.simulation
    detail = "it is the one the ledger is committed to" if same else "the ledger is committed to another one"
    yield Check(name="plan", ok=same, detail=detail)
    steps = store.transitions()
    if ledger.amendments or replannings(steps):
        yield _replanned(steps, ledger, digest_of)
    paid = {(entry.why.phase, entry.why.purpose.split()[0]) for entry in ledger.entries}
    due = needed(newest, {(step.kind, step.phase) for step in steps})
    due |= {
        (phase, "evaluation") for phase, measured in evaluations_of(steps).items() if measured.get("kind") == "paid"
    }
    missing = len(due - paid)
    detail = f"{missing} queries, trainings or evaluations are not in the ledger" if missing else ""
    yield Check(name="steps", ok=not missing, detail=detail or f"{len(due)}, each charged")


def phases_taken(taken: set[tuple[str, int]]) -> tuple[set[int], set[int]]:
    """Phases whose questions were published, and those that were trained."""
    return (
        {phase for kind, phase in taken if kind == PUBLISHED},
        {phase for kind, phase in taken if kind == TRAINED},
    )


def _replanned(steps: list[Transition], ledger: Ledger, digest_of: Callable[[Any], str]) -> Check:
    """Every re-planning of the ledger is a step of the store, with the plan that the ledger names, and no other is."""

    def digest(form: Any) -> str:
        try:
            return digest_of(form)
        except DiscreetError:
            return "no plan"

    stored = [(step.phase, digest(step.facts.get("plan"))) for step in replannings(steps)]
    lines = [(line.why.phase, line.terms.plan) for line in ledger.amendments if line.terms is not None]
    ok = stored == lines
    detail = f"{len(lines)}, each with its plan" if ok else "the store's and the ledger's are not the same ones"
    return Check(name="replanning", ok=ok, detail=detail)


_LOST = "the guarantee of a hidden selection does not hold for it"


def hidden_checks(store: CampaignStore, config: CampaignConfig, ledger: Ledger) -> Iterator[Check]:
    """Of a campaign whose asked sets are not released; none of others."""
    if not ledger.terms.overflow:
        return
    oracle = store.config["config"].get("oracle", {})
    if oracle.get("per_annotator") is not None and any(step.kind == PUBLISHED for step in store.transitions()):
        detail = f"it was created with [oracle] per_annotator = {oracle['per_annotator']}, which lets people stop"
        yield Check(name="cap", ok=False, detail=f"{detail}: {_LOST}")
    seed = None if config.simulation is None else config.simulation.seed
    per_question = min(config.oracle.per_question, int(oracle.get("per_question", 1)))
    try:
        key = secret_key(store, "votes", seed)
    except DiscreetError as error:
        yield Check(name="labelling", ok=False, detail=error.fact)
        return
    yield _labelling(store, Assignment.of(store, key, per_question=per_question))


def _labelling(store: CampaignStore, assignment: Assignment) -> Check:
    wrong: list[str] = []
    steps = [step for step in store.transitions() if step.kind == TRAINING]
    gone = {record.id for record in store.withdrawn()}
    first_told: dict[str, dict[str, Any]] = store.first_told()
    for step in steps:
        questions = [question for question in store.questions(step.phase) if question.record not in gone]
        wrong += _of_phase(step, questions, first_told, assignment, simulation=store.simulation)
    detail = "; ".join(wrong)
    if wrong:
        return Check(name="labelling", ok=False, detail=f"{detail}: {_LOST}")
    return Check(name="labelling", ok=True, detail="everybody who was asked in a trained phase was labelled")


def _of_phase(
    step: Transition,
    questions: list[Question],
    first_told: dict[str, dict[str, Any]],
    assignment: Assignment,
    *,
    simulation: bool,
) -> Iterator[str]:
    """What is wrong with the labels of a phase. How many there are is the owner's, and is not said."""
    team = assignment.team(step.phase)
    # a phase that recorded no team may have been trained with open questions; later answers do not mend it
    voices = {
        question.id: {name for name, at in first_told.get(question.id, {}).items() if team_of(step) or at <= step.at}
        for question in questions
    }
    if assignment.open(questions, voices):
        yield f"phase {step.phase} was trained while some of its questions were open"
    if not team.names and not simulation and len(answering(questions, voices)) > team.per_question:
        yield f"questions of phase {step.phase} went to whoever came next, not by the keyed ranking of annotators"


def features_announced(campaign: Campaign) -> tuple[dict[str, Any], list[str]]:
    """What computing the features of its pool takes, for `init`; nothing where records are read as they are."""
    recipe: Any = campaign.recipe
    config, reader = recipe.config, reader_of(recipe.config)
    return ({}, []) if reader is None or config.cache is None else announced(config.cache, reader, campaign.pool)


def exported(campaign: Campaign) -> ModelParts:
    """What an export says of the model, and how an ONNX file of it is made."""
    recipe: Any = campaign.recipe
    config, inputs = recipe.config, recipe.inputs
    table, task, encoder = config.model, task_of(config), None
    form: dict[str, Any] = {
        "task": task,
        "classes": list(config.task.classes),
        "model": {
            "name": table.name,
            "options": {key: value for key, value in table.options.items() if key not in ("path", "weights")},
            "dropout": table.dropout,
        },
        "inputs": list(inputs),
    }
    if config.features is not None:
        form["preprocessing"] = reading_of(config.pool) | scaling_of(config.pool) | features_form(config)
        place = encoder_of(config)
        encoder = place if isinstance(place, Path) else None  # a function of the user's is no file to copy
    elif table.encoder is None:
        form["preprocessing"] = reading_of(config.pool) | scaling_of(config.pool)
    else:
        encoder = config.resolve(table.encoder)
        read = {"name": encoder.name, "max_length": table.max_length}
        form["preprocessing"] = reading_of(config.pool) | {"encoder": read}
    return ModelParts(
        form=form | ({"threshold": 0.5} if task == "multilabel" else {}),
        example_rows=lambda count: made_up_rows(config, inputs, count),
        encoder=encoder,
        feature_map=None if config.features is None else config.features.fitted,
    )


LONGEST = 30_000
"""Characters of a cell of a CSV file; spreadsheets take 32,767."""


@dataclass(frozen=True, kw_only=True)
class RecordColumns:
    """Columns of the records, to be written beside questions into files of a ``folder``. Audience: annotator.

    longest   characters of a cell that are written; None: all
    """

    names: tuple[str, ...]
    files: tuple[Path, ...]
    kind: str
    id: str
    folder: Path
    longest: int | None

    @classmethod
    def checked(
        cls, campaign: Campaign, config: Any, names: Sequence[str], *, folder: Path, kind: str
    ) -> RecordColumns:
        """``names``: columns of every file of the pool; to be written into a ``folder``, as "csv" or "jsonl"."""
        pool = getattr(config, "pool", None)
        if pool is None:
            fact = "what was released has one text a record, and the questions have it already"
            raise BadInput(f"asking with {', '.join(names)}", fact, "Name no columns")
        check_extra(names)
        files = (config.resolve(pool.path), *(path for path, _ in joined_files(campaign.store, config)))
        for file in files:
            check_columns_of(file, pool.kind, pool.id, names)
        return cls(
            names=tuple(names),
            files=files,
            kind=pool.kind,
            id=pool.id or "",
            folder=folder,
            longest=LONGEST if kind == "csv" else None,
        )

    def of(self, questions: Iterable[Question]) -> dict[str, dict[str, str]]:
        """The cells of the records of questions, by column and record."""
        cells: dict[str, dict[str, str]] = {name: {} for name in self.names}
        wanted = {question.record for question in questions}
        for file in self.files:
            for name, column in cells_of_records(file, self.kind, self.id, self.names, wanted).items():
                cells[name] |= {record: self._cell(text) for record, text in column.items()}
        return cells

    def _cell(self, text: str) -> str:
        return os.path.relpath(text, self.folder) if self.kind == "images" else text[: self.longest]
