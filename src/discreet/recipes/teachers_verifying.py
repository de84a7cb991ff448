"""Is the store of a campaign of teachers what it says? Computed again from what is in it; no record is read.

Guarantee: a plan that is not the one of the file or not the one the ledger is committed to, answers that nobody paid
for, votes of another unit, of other teachers or on other records than were enrolled, and a file without its hash are
failed checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from discreet.campaign.standing import ANSWERED, TRAINED
from discreet.config import TeachersConfig
from discreet.errors import DiscreetError
from discreet.planning.teachers.phases import TeacherPlan
from discreet.privacy.certificate import Check
from discreet.privacy.ledger import Ledger
from discreet.recipes.teachers import teacher_plan
from discreet.recipes.teachers_opening import VOTED, kept_votes
from discreet.storage import CampaignStore


def teacher_checks(store: CampaignStore, config: TeachersConfig, ledger: Ledger) -> Iterator[Check]:
    """Against a ledger that was found whole."""
    yield _plan(store, config, ledger)
    steps = store.transitions()
    answered = {one.phase: one.facts for one in steps if one.kind == ANSWERED}
    paid = {entry.why.phase for entry in ledger.entries if entry.why.purpose.split()[0] == "answers"}
    asked = {phase: len(store.questions(phase)) for phase in answered}
    unpaid = {phase for phase in answered if asked[phase]} - paid
    early = {one.phase for one in steps if one.kind == TRAINED} - set(answered)
    counts = all(facts.get("asked") == asked[phase] for phase, facts in answered.items())
    ok = not unpaid and not early and counts
    detail = f"{len(answered)} phases, each charged before it was drawn"
    yield Check(name="answers", ok=ok, detail=detail if ok else "answers and charges do not belong together")
    yield _votes(store, config)


def _plan(store: CampaignStore, config: TeachersConfig, ledger: Ledger) -> Check:
    try:
        kept, made = TeacherPlan.from_json(store.config["plan"]), teacher_plan(config)
    except DiscreetError as error:
        return Check(name="plan", ok=False, detail=error.fact)
    same = kept == made and ledger.terms.lines == made.terms().lines and ledger.terms.plan == made.digest()
    same = same and ledger.terms.budget == config.budget.budget() and ledger.simulation == store.simulation
    detail = "the ledger is committed to the plan of the file"
    return Check(name="plan", ok=same, detail=detail if same else "the ledger is committed to another plan")


def _votes(store: CampaignStore, config: TeachersConfig) -> Check:
    """Public facts of the votes alone: what they are is the owner's."""
    if not any(one.kind == VOTED for one in store.transitions()):
        return Check(name="votes", ok=False, detail="they were not counted")
    try:
        found = kept_votes(store)
    except DiscreetError as error:
        return Check(name="votes", ok=False, detail=error.fact)
    ok = found.unit == config.budget.unit and found.teachers == config.teachers.count
    ok = ok and found.classes == config.task.classes and set(found.ids) == {name for name, _ in store.macs()}
    ok = ok and all(one.record in set(found.ids) for one in store.questions())
    detail = f"of {found.teachers} teachers, of whom one {found.unit} moves one vote"
    return Check(name="votes", ok=ok, detail=detail if ok else "they are of another unit, or of other records")
