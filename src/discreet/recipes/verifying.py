"""Is a campaign's store what it says? Everything is computed again from what is in it; no record is read.

Guarantee: a ledger whose lines do not follow from one another, a plan that is not the one the ledger is committed to, a
step that nobody paid for, a ledger that does not reach its high-water mark, rows that are not what their MACs say, a
file that does not have its hash, and labels that a hidden selection does not allow (`hidden_checks`) are failed
checks. What cannot be found here: an older copy of the whole store together with an older mark. Check a
certificate that was kept elsewhere against it (`discreet verify CERTIFICATE --ledger CAMPAIGN.toml`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from discreet.campaign.releases import Releases, public_ledger
from discreet.campaign.replanning import replannings
from discreet.campaign.sealed_steps import ROWS
from discreet.campaign.secret_keys import PURPOSES, secret_key
from discreet.campaign.standing import PUBLISHED, RELEASED, TRAINED
from discreet.campaign.view import MODEL, evaluations_of
from discreet.config import AnyCampaign, CrowdConfig, TeachersConfig
from discreet.errors import DiscreetError, InvalidStore
from discreet.privacy.certificate import Check, Verdict
from discreet.privacy.certificate.verification import verify_lines
from discreet.privacy.certificate.work import MOST_SECONDS
from discreet.privacy.ledger import Entry, Ledger, MemorySink
from discreet.privacy.plan_forms import plan_from_json
from discreet.recipes.hidden_checks import hidden_checks
from discreet.recipes.opening import FORMAT, differences, newest_plan
from discreet.recipes.public_plan import FIRST_QUERY, PublicPlan
from discreet.recipes.wiring import digest_of, is_public
from discreet.storage import CampaignStore, Storage, open_storage
from discreet.storage.row_macs import KEY, RowAudit
from discreet.storage.stored import KeptFile


def ledger_lines(config: AnyCampaign) -> list[bytes]:
    """Of the campaign's ledger, as they are in its store. Audience: owner."""
    with _opened(config) as storage:
        store = storage.load(config.name)
        return _checked(store, store.sink().read())


def public_ledger_of(config: AnyCampaign) -> tuple[Ledger, Releases | None]:
    """The campaign's ledger as far as it is public, and of a hidden selection what is released. Audience: public."""
    with _opened(config) as storage:
        store = storage.load(config.name)
        _checked(store, store.sink().read())
        return public_ledger(store)


def _opened(config: AnyCampaign) -> Storage:
    return open_storage(
        config.storage_url(), directory=config.storage_directory(), mark=config.storage_mark(), read_only=True
    )


def verify_campaign(config: AnyCampaign, *, most_seconds: float = MOST_SECONDS) -> Verdict:
    """Check the store of the campaign that ``config`` names."""
    with _opened(config) as storage:
        store = storage.load(config.name)
        database, readable = _database(store)
        if not readable:  # nothing in it is to be relied on
            return Verdict(what="campaign", simulation=store.simulation, checks=(database,))
        compared, form = store.sink().compared(), store.config
        lines = _checked(store, compared.lines)
        if not isinstance(form, dict) or form.get("format") != FORMAT:
            raise InvalidStore(f"verifying the campaign {store.name}", "it is not in its form", "Restore the store")
        verdict = replace(verify_lines(lines, most_seconds=most_seconds), what="campaign", simulation=store.simulation)
        mark = Check(name="mark", ok=compared.refused is None, detail=compared.note)
        checks = [*verdict.checks, mark, _file_check(config, form["config"])]
        releases: tuple[Entry, ...] = ()
        if verdict.ok:  # else there is no ledger to compare with
            ledger = Ledger.open(MemorySink(lines))
            checks += _against(store, config, ledger)
            releases = ledger.releases
        heads = [head for one in releases if (head := (one.released or {}).get(ROWS)) is not None]
        found = store.check_rows(heads=heads)
        checks += [_keys(store, config), database, *_rows(found), *_kept_files(store)]
        if verdict.ok and not store.simulation:
            checks.append(_released(store, releases, every=found.state == "covered"))
        return replace(verdict, checks=tuple(checks))


def _checked(store: CampaignStore, stored: Sequence[object]) -> list[bytes]:
    lines = [bytes(line) if isinstance(line, bytes) else str(line).encode() for line in stored]  # edited?
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
        return chain(_against_ledger(store, ledger), hidden_checks(store, config, ledger))
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


def _database(store: CampaignStore) -> tuple[Check, bool]:
    """The database's own checks of its pages, indexes and references; and whether it can be read at all."""
    try:
        whole, dangling = store.check_database()
    except InvalidStore as error:
        return Check(name="database", ok=False, detail=error.fact), False
    if not whole:
        return Check(name="database", ok=False, detail="SQLite's integrity_check found damage: restore a copy"), False
    detail = f"rows of {', '.join(dangling)} name rows that are not there" if dangling else "undamaged"
    return Check(name="database", ok=not dangling, detail=detail), True


_UNCHECKED = {
    "uncovered": "not covered: they are older than their MACs; the next verb that changes the campaign covers them",
    "no key": f"NOT CHECKED: {KEY} is not in this copy",
}
_UNCHECKABLE = {
    "lost key": f"{KEY} is missing, though other keys are here: restore it",
    "another key": f"{KEY} is not the one that they were written with",
    "removed": f"their MACs were removed, though {KEY} is here",
}


def _rows(found: RowAudit) -> Iterator[Check]:
    """Everything that is stored beside the ledger against the MACs that were written with it: kinds and phases alone,
    for numbers of rows are private under hidden selection.
    """
    if found.state in _UNCHECKED:
        yield Check(name="rows", ok=True, detail=_UNCHECKED[found.state])
        return
    if found.state in _UNCHECKABLE:
        yield Check(name="rows", ok=False, detail=_UNCHECKABLE[found.state])
        return
    for kind, phase in found.wrong:
        name = kind if phase is None else f"{kind} of phase {phase}"
        yield Check(name=name, ok=False, detail="rows were changed, added or removed after they were written")
    if not found.chain:
        yield Check(name="rows", ok=False, detail="MACs were removed, or older ones put back")
    elif not found.wrong:
        since = "" if found.state == "covered" else "; what is older than MACs: as it was found then"
        yield Check(
            name="rows",
            ok=True,
            detail=f"pool, steps, questions, answers, exposures and files are as they were written{since}",
        )


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


def _released(store: CampaignStore, releases: Iterable[Entry], *, every: bool) -> Check:
    """Released files against the hashes that the ledger names. ``every``: each must be named, for the campaign is not
    older than such lines.
    """
    named = {
        (one.why.phase, name): sha256
        for one in releases
        for name, sha256 in (one.released or {}).items()
        if name != ROWS
    }
    kept = {(one.phase, one.kind): one.sha256 for one in store.files()}
    wrong = [f"{name} of phase {phase}" for (phase, name), sha256 in named.items() if kept.get((phase, name)) != sha256]
    due = {(one.phase, MODEL) for one in store.transitions() if one.kind == TRAINED}
    if gated := [one.phase for one in store.transitions() if one.kind == RELEASED]:
        from discreet.recipes.crowd_opening import TEXTS

        due |= {(phase, TEXTS) for phase in gated}
    unnamed = [f"{name} of phase {phase}" for phase, name in sorted(due - set(named))]
    detail = "the ledger names the hash of every released file"
    if wrong:
        detail = f"another one than the ledger names: {', '.join(sorted(wrong))}"
    elif unnamed and every:
        detail = f"no line of the ledger names the hash of {', '.join(unnamed)}"
    elif unnamed:
        detail = f"not covered, older than such lines of the ledger: {', '.join(unnamed)}"
    return Check(name="released", ok=not wrong and not (unnamed and every), detail=detail)


def _damage(store: CampaignStore, one: KeptFile) -> str | None:
    try:
        store.file(one.kind, one.phase)
    except DiscreetError as error:
        return error.fact
    return None
