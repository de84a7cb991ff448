"""Is what a hidden selection assumes of labels so in a store? Every record that was asked was labelled, and by whom
depended on nothing but that record and the declared annotators (docs/proofs/hidden-selection.md).

Guarantee: a phase that was trained while one of its questions was open, a cap on questions per annotator, and questions
that went to whoever came next are failed checks. Withdrawn records are passed over: they are missing for themselves.
Stores say nothing here of how people split a list that was handed out whole, to nobody by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from discreet.campaign.assignment import Assignment, answering, team_of
from discreet.campaign.secret_keys import secret_key
from discreet.campaign.standing import PUBLISHED, TRAINING
from discreet.campaign.told import IMPORTED
from discreet.config import CampaignConfig
from discreet.errors import DiscreetError
from discreet.privacy.certificate import Check
from discreet.privacy.ledger import Ledger
from discreet.records import Question
from discreet.storage import CampaignStore, Transition

_LOST = "the guarantee of a hidden selection does not hold for it"


def hidden_checks(store: CampaignStore, config: CampaignConfig, ledger: Ledger) -> Iterator[Check]:
    """Of a campaign whose asked sets are not released; none of others."""
    if not ledger.terms.overflow:
        return
    oracle = store.config["config"].get("oracle", {})
    if oracle.get("per_annotator") is not None and any(one.kind == PUBLISHED for one in store.transitions()):
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
    steps = [one for one in store.transitions() if one.kind == TRAINING]
    gone = {one.id for one in store.withdrawn()}
    told: dict[str, dict[str, Any]] = store.first_told()
    for step in steps:
        questions = [one for one in store.questions(step.phase) if one.record not in gone]
        wrong += _of_phase(step, questions, told, assignment, simulation=store.simulation)
    detail = "; ".join(wrong)
    if wrong:
        return Check(name="labelling", ok=False, detail=f"{detail}: {_LOST}")
    return Check(name="labelling", ok=True, detail="everybody who was asked in a trained phase was labelled")


def _of_phase(
    step: Transition,
    questions: list[Question],
    told: dict[str, dict[str, Any]],
    assignment: Assignment,
    *,
    simulation: bool,
) -> Iterator[str]:
    """What is wrong with the labels of a phase. How many there are is the owner's, and is not said."""
    team = assignment.team(step.phase)
    # a phase that recorded no team may have been trained with open questions; later answers do not mend it
    late = {one.id: set() if team_of(step) else _after(told.get(one.id, {}), step) for one in questions}
    voices = {one.id: set(told.get(one.id, {})) - late[one.id] for one in questions}
    if any(_missing(one, voices[one.id], assignment) for one in questions):
        yield f"phase {step.phase} was trained while some of its questions were open"
    if not team.names and not simulation and len(answering(questions, voices)) > team.per_question:
        yield f"questions of phase {step.phase} went to whoever came next, not by the keyed ranking of annotators"


def _after(said: dict[str, Any], step: Transition) -> set[str]:
    return {name for name, at in said.items() if at > step.at}


def _missing(question: Question, voices: set[str], assignment: Assignment) -> bool:
    mine = sum(assignment.counts(question, one) for one in voices)
    return IMPORTED not in voices and mine < assignment.team(question.phase).per_question
