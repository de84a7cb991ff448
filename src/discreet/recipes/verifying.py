"""Is a campaign's store what it says? Everything is computed again from what is in it; no record is read.

Guarantee: a ledger whose lines do not follow from one another, a plan that is not the one the ledger is committed to, a
step that nobody paid for, and a file that does not have its hash are failed checks. What cannot be found here: an older
copy of the whole store. Check a certificate that was kept elsewhere against it (`discreet verify CERTIFICATE --ledger
CAMPAIGN.toml`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from discreet.campaign.replanning import replannings
from discreet.campaign.secret_keys import PURPOSES, secret_key
from discreet.campaign.standing import PUBLISHED, TRAINED
from discreet.campaign.view import MODEL, evaluations_of
from discreet.config import AnyCampaign, CrowdConfig, TeachersConfig
from discreet.errors import DiscreetError, InvalidStore
from discreet.privacy.certificate import Check, Verdict
from discreet.privacy.certificate.verification import verify_lines
from discreet.privacy.certificate.work import MOST_SECONDS
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.privacy.plan_forms import plan_from_json
from discreet.recipes.opening import FORMAT, differences, newest_plan
from discreet.recipes.public_plan import FIRST_QUERY, PublicPlan
from discreet.recipes.wiring import digest_of, is_public
from discreet.storage import CampaignStore, open_storage
from discreet.storage.stored import KeptFile


def ledger_lines(config: AnyCampaign) -> list[bytes]:
    """Of the campaign's ledger, as they are in its store. Audience: owner."""
    with open_storage(config.storage_url(), directory=config.storage_directory(), read_only=True) as storage:
        return _lines(storage.load(config.name))


def verify_campaign(config: AnyCampaign, *, most_seconds: float = MOST_SECONDS) -> Verdict:
    """Check the store of the campaign that ``config`` names."""
    with open_storage(config.storage_url(), directory=config.storage_directory(), read_only=True) as storage:
        store = storage.load(config.name)
        lines, form = _lines(store), store.config
        if not isinstance(form, dict) or form.get("format") != FORMAT:
            raise InvalidStore(f"verifying the campaign {store.name}", "it is not in its form", "Restore the store")
        verdict = replace(verify_lines(lines, most_seconds=most_seconds), what="campaign", simulation=store.simulation)
        checks = [*verdict.checks, _file_check(config, form["config"])]
        if verdict.ok:  # else there is no ledger to compare with
            checks += _against(store, config, Ledger.open(MemorySink(lines)))
        return replace(verdict, checks=(*checks, _keys(store, config), *_kept_files(store)))


def _lines(store: CampaignStore) -> list[bytes]:
    lines = [bytes(line) if isinstance(line, bytes) else str(line).encode() for line in store.sink().read()]  # edited?
    if not lines:
        raise InvalidStore(
            f"verifying the campaign {store.name}", "its creation was not finished", "Run discreet init again"
        )
    return lines


def _file_check(config: AnyCampaign, stored: dict[str, object]) -> Check:
    changed = differences(stored, config.to_json())
    detail = f"the campaign was created with something else in {', '.join(changed)}"
    return Check(
        name="file", ok=not changed, detail=detail if changed else "it says what the campaign was created with"
    )


def _against(store: CampaignStore, config: AnyCampaign, ledger: Ledger) -> Iterator[Check]:
    if isinstance(config, TeachersConfig):
        from discreet.recipes.teachers_verifying import teacher_checks

        return teacher_checks(store, config, ledger)
    if not isinstance(config, CrowdConfig):
        return _against_ledger(store, ledger)
    from discreet.recipes.crowd_verifying import crowd_checks

    return crowd_checks(store, config, ledger)


def _against_ledger(store: CampaignStore, ledger: Ledger) -> Iterator[Check]:
    try:
        newest = newest_plan(store)
        digests = (
            digest_of(store.config["plan"]),
            digest_of(newest),
        )  # their claims were checked with the ledger's terms
    except DiscreetError as error:
        yield Check(name="plan", ok=False, detail=error.fact)
        return
    named = digests == (ledger.opening.terms.plan, ledger.terms.plan)
    same = named and store.simulation == ledger.simulation
    detail = "it is the one the ledger is committed to" if same else "the ledger is committed to another one"
    yield Check(name="plan", ok=same, detail=detail)
    if ledger.amendments or replannings(store.transitions()):
        yield _replanned(store, ledger)
    paid = {(entry.why.phase, entry.why.purpose.split()[0]) for entry in ledger.entries}
    taken = {(one.kind, one.phase) for one in store.transitions()}
    needed = _needed(newest, taken)
    measured = evaluations_of(store.transitions())
    needed |= {(phase, "evaluation") for phase, found in measured.items() if found.get("kind") == "paid"}
    missing = len(needed - paid)
    detail = (
        f"{missing} queries, trainings or evaluations are not in the ledger"
        if missing
        else f"{len(needed)}, each charged"
    )
    yield Check(name="steps", ok=not missing, detail=detail)


def _needed(form: Any, taken: set[tuple[str, int]]) -> set[tuple[int, str]]:
    """What steps that were taken must have charged: of public records, the checkpoint and the first look alone."""
    trained = {phase for kind, phase in taken if kind == TRAINED}
    published = {phase for kind, phase in taken if kind == PUBLISHED}
    if is_public(form):
        looks = {FIRST_QUERY} if PublicPlan.from_json(form).looks else set()
        return {(phase, "training") for phase in trained & {0}} | {(phase, "selection") for phase in published & looks}
    plan = plan_from_json(form, certify=False)
    needed = {(phase, "training") for phase in trained}
    if not plan.selection.is_free:
        asked = {cohort.phase for cohort in plan.cohorts}
        needed |= {(phase, "selection") for phase in published & (asked - {0})}
    return needed


def _replanned(store: CampaignStore, ledger: Ledger) -> Check:
    """Every re-planning of the ledger is a step of the store, with the plan that the ledger names, and no other is."""
    steps = [(one.phase, _digest_of(one.facts.get("plan"))) for one in replannings(store.transitions())]
    lines = [(one.why.phase, one.terms.plan) for one in ledger.amendments if one.terms is not None]
    ok = steps == lines
    detail = f"{len(lines)}, each with its plan" if ok else "the store's and the ledger's are not the same ones"
    return Check(name="replanning", ok=ok, detail=detail)


def _digest_of(form: Any) -> str:
    try:
        return digest_of(form)
    except DiscreetError:
        return "no plan"


def _keys(store: CampaignStore, config: AnyCampaign) -> Check:
    """The keys the campaign was created with: another one would cut the pool anew."""
    seed = None if config.simulation is None else config.simulation.seed
    try:
        for purpose in PURPOSES:
            secret_key(store, purpose, seed)
    except DiscreetError as error:
        return Check(name="keys", ok=False, detail=error.fact)
    return Check(name="keys", ok=True, detail="they are those it was created with")


def _kept_files(store: CampaignStore) -> Iterator[Check]:
    """Models and labels against their hashes, and the models against the steps that name them."""
    kept = store.files()
    wrong = [f"{one.kind} of phase {one.phase}: {fact}" for one in kept if (fact := _damage(store, one)) is not None]
    models = {one.phase: one.sha256 for one in kept if one.kind == MODEL}
    wrong += [
        f"model of phase {one.phase}: it is not the one that was trained"
        for one in store.transitions()
        if one.kind == TRAINED and models.get(one.phase) != one.facts.get(MODEL)
    ]
    yield Check(name="files", ok=not wrong, detail="; ".join(wrong) or f"{len(kept)} kept, each with its hash")


def _damage(store: CampaignStore, one: KeptFile) -> str | None:
    try:
        store.file(one.kind, one.phase)
    except DiscreetError as error:
        return error.fact
    return None
