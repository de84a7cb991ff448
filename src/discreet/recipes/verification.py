"""Is a campaign's store what it says? Everything is computed again from what is in it; no record is read.

Guarantee: a ledger whose lines do not follow from one another, a plan that is not the one the ledger is committed to,
a step that nobody paid for, a ledger that does not reach its high-water mark, rows that are not what their MACs say,
and a file that does not have its hash are failed checks; each recipe adds its own. What cannot be found here: an
older copy of the whole store together with an older mark. Check a certificate that was kept elsewhere against it
(`discreet verify CERTIFICATE --ledger CAMPAIGN.toml`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from discreet.campaign.crash_recovery import PURPOSES, ROWS, secret_key
from discreet.campaign.state import MODEL, RELEASED, TRAINED, Releases, public_ledger
from discreet.config import CampaignFile
from discreet.errors import DiscreetError, InvalidStore
from discreet.privacy.certificate import Check, Verdict
from discreet.privacy.certificate.verification import MOST_SECONDS, verify_lines
from discreet.privacy.ledger import Entry, Ledger, MemorySink
from discreet.recipes.opening import as_stored, differences
from discreet.recipes.specification import FORMAT, spec_of
from discreet.storage import CampaignStore, KeptFile, Storage, open_storage
from discreet.storage.row_macs import KEY, RowAudit


def ledger_lines(config: CampaignFile) -> list[bytes]:
    """Of the campaign's ledger, as they are in its store. Audience: owner."""
    with _opened(config) as storage:
        store = storage.load(config.name)
        return _checked(store, store.sink().read())


def public_ledger_of(config: CampaignFile) -> tuple[Ledger, Releases | None]:
    """The campaign's ledger as far as it is public, and of a hidden selection what is released. Audience: public."""
    with _opened(config) as storage:
        store = storage.load(config.name)
        _checked(store, store.sink().read())
        return public_ledger(store)


def _opened(config: CampaignFile) -> Storage:
    return open_storage(
        config.storage_url(), directory=config.storage_directory(), mark=config.storage_mark(), read_only=True
    )


def verify_campaign(config: CampaignFile, *, most_seconds: float = MOST_SECONDS) -> Verdict:
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
            checks += spec_of(config).checks(store, config, ledger)
            releases = ledger.releases
        heads = [head for entry in releases if (head := (entry.released or {}).get(ROWS)) is not None]
        audit = store.check_rows(heads=heads)
        checks += [_keys(store, config), database, *_rows(audit), *_kept_files(store)]
        if verdict.ok and not store.simulation:
            checks.append(_released(store, config, releases))
        return replace(verdict, checks=tuple(checks))


def _checked(store: CampaignStore, stored: Sequence[object]) -> list[bytes]:
    lines = [bytes(line) if isinstance(line, bytes) else str(line).encode() for line in stored]  # edited?
    if not lines:
        raise InvalidStore(
            f"verifying the campaign {store.name}", "its creation was not finished", "Run discreet init again"
        )
    return lines


def _file_check(config: CampaignFile, stored: dict[str, Any]) -> Check:
    changed = differences(stored, as_stored(config, stored).to_json(), may_change=spec_of(config).may_change)
    detail = f"the campaign was created with something else in {', '.join(changed)}"
    return Check(
        name="file", ok=not changed, detail=detail if changed else "it says what the campaign was created with"
    )


def _keys(store: CampaignStore, config: CampaignFile) -> Check:
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
        intact, dangling = store.check_database()
    except InvalidStore as error:
        return Check(name="database", ok=False, detail=error.fact), False
    if not intact:
        return Check(name="database", ok=False, detail="SQLite's integrity_check found damage: restore a copy"), False
    detail = f"rows of {', '.join(dangling)} name rows that are not there" if dangling else "undamaged"
    return Check(name="database", ok=not dangling, detail=detail), True


_UNCHECKABLE = {
    "lost key": f"{KEY} is missing, though other keys are here: restore it",
    "another key": f"{KEY} is not the one that they were written with",
    "removed": "their MACs were removed",
}


def _rows(audit: RowAudit) -> Iterator[Check]:
    """Everything that is stored beside the ledger against the MACs that were written with it: kinds and phases alone,
    for numbers of rows are private under hidden selection.
    """
    if audit.state == "no key":
        yield Check(name="rows", ok=True, detail=f"NOT CHECKED: {KEY} is not in this copy")
        return
    if audit.state in _UNCHECKABLE:
        yield Check(name="rows", ok=False, detail=_UNCHECKABLE[audit.state])
        return
    for kind, phase in audit.wrong:
        name = kind if phase is None else f"{kind} of phase {phase}"
        yield Check(name=name, ok=False, detail="rows were changed, added or removed after they were written")
    if not audit.chain:
        yield Check(name="rows", ok=False, detail="MACs were removed, or older ones put back")
    elif not audit.wrong:
        detail = "pool, steps, questions, answers, exposures and files are as they were written"
        yield Check(name="rows", ok=True, detail=detail)


def _kept_files(store: CampaignStore) -> Iterator[Check]:
    """Models and labels against their hashes, and the models against the steps that name them."""
    files = store.files()
    wrong = [
        f"{step.kind} of phase {step.phase}: {fact}" for step in files if (fact := _damage(store, step)) is not None
    ]
    models = {step.phase: step.sha256 for step in files if step.kind == MODEL}
    wrong += [
        f"model of phase {step.phase}: it is not the one that was trained"
        for step in store.transitions()
        if step.kind == TRAINED and models.get(step.phase) != step.facts.get(MODEL)
    ]
    yield Check(name="files", ok=not wrong, detail="; ".join(wrong) or f"{len(files)} kept, each with its hash")


def _released(store: CampaignStore, config: CampaignFile, releases: Iterable[Entry]) -> Check:
    """Released files against the hashes that the ledger names; it names each."""
    named = {
        (one.why.phase, name): sha256
        for one in releases
        for name, sha256 in (one.released or {}).items()
        if name != ROWS
    }
    stored = {(file.phase, file.kind): file.sha256 for file in store.files()}
    wrong = [
        f"{name} of phase {phase}" for (phase, name), sha256 in named.items() if stored.get((phase, name)) != sha256
    ]
    due = {(step.phase, MODEL) for step in store.transitions() if step.kind == TRAINED}
    kinds = spec_of(config).released_files
    due |= {(step.phase, kind) for step in store.transitions() if step.kind == RELEASED for kind in kinds}
    unnamed = [f"{name} of phase {phase}" for phase, name in sorted(due - set(named))]
    detail = "the ledger names the hash of every released file"
    if wrong:
        detail = f"another one than the ledger names: {', '.join(sorted(wrong))}"
    elif unnamed:
        detail = f"no line of the ledger names the hash of {', '.join(unnamed)}"
    return Check(name="released", ok=not wrong and not unnamed, detail=detail)


def _damage(store: CampaignStore, file: KeptFile) -> str | None:
    try:
        store.file(file.kind, file.phase)
    except DiscreetError as error:
        return error.fact
    return None
