"""The texts of a crowd campaign: public labelled ones in files, and those that its gate released.

Guarantee: the gate is charged and drawn once, when the campaign is created. Everything that can be refused is refused
before the charge. Then, each step durable before the next: the charge, the released texts in a file by their hash,
the records that are enrolled, the step "released". A process that dies anywhere leaves a campaign that the next one
goes on with: the same charge is found again, the same coins fall (their key is sealed in a file until the step is
recorded), and a log that changed meanwhile is refused, for the same coins on other rows would show their difference.
After that nothing reads the log any more.

Ids of released texts are numbers in the order of the texts: a function of what was released. A file of labelled texts
that does not fit is refused with counts and lines alone: no text, no label is echoed.

Checks of a store: a gate that is not the one the ledger is committed to, a release that nobody paid for, released texts
that are not those that were enrolled, and a question about anything else are failed checks.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from discreet.campaign.crash_recovery import RELEASE, charging, record_release
from discreet.campaign.recipe import Watch
from discreet.campaign.state import RELEASED
from discreet.campaign.withdrawal import manifest_key
from discreet.config import CrowdConfig
from discreet.errors import BudgetExceeded, DiscreetError, InvalidStore
from discreet.gates import CrowdGate, open_log
from discreet.gates.calibration import Profile, nearest
from discreet.gates.query_log import QueryLog
from discreet.gates.release_files import register_release, warn_if_released
from discreet.gates.values import Normaliser
from discreet.noise import OperatingSystem, Seeded, charge_once
from discreet.pools import ArrayPool, Pool, macs
from discreet.privacy.certificate import Check
from discreet.privacy.event_forms import to_json
from discreet.privacy.ledger import ChargeReason, Ledger, Line, Terms, committed
from discreet.privacy.ledger.charges import request
from discreet.recipes.specification import enrol, is_recorded
from discreet.storage import CampaignStore

LOG = "log"
TEXTS, FIGURES = "released", "log-figures"
TEXT, LABEL = "text", "label"
_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """Texts as the gate normalises them, each with a declared class."""

    texts: tuple[str, ...] = field(repr=False)
    labels: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)


def labelled_texts(config: CrowdConfig, path: str, key: str) -> LabelledTexts:
    """Of the file that ``key`` names; a text that is there twice must be labelled alike."""
    file = config.resolve(path)
    if not file.is_file():
        raise config.error(key, "there is no such file", f"Name a CSV or JSONL file with columns {TEXT} and {LABEL}")
    normal, known = Normaliser(config.gate.normalisation), set(config.task.classes)
    labels: dict[str, str] = {}
    strange = clashes = 0
    try:
        rows = list(_rows(file))
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        raise config.error(
            key, f"it is not a table with columns {TEXT} and {LABEL}", "Save it as UTF-8 CSV or JSONL with both"
        ) from None
    for text, label in rows:
        form = normal.one(text)
        if label not in known or form is None:
            strange += 1
            continue
        clashes += labels.setdefault(form, label) != label
    if strange or clashes or not labels:
        fact = f"{strange} of its {len(rows)} rows have no text or a label outside the classes"
        if not strange:
            fact = f"{clashes} of its rows label a text otherwise than another row" if clashes else "it has no rows"
        raise config.error(key, fact, "Correct them")
    return LabelledTexts(texts=tuple(labels), labels=tuple(labels.values()))


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix.lower() in _LINES:
            forms = (json.loads(line) for line in file if line.strip())
            yield from ((str(form[TEXT]), str(form[LABEL])) for form in forms)
            return
        for row in csv.DictReader(file):
            if row[TEXT] is None or row[LABEL] is None:
                raise ValueError
            yield row[TEXT], row[LABEL]


# -- the gate


def gate_of(config: CrowdConfig) -> CrowdGate:
    """The gate that the file declares."""
    table = config.gate
    with config.pointing("gate"):
        return CrowdGate(
            k=table.k,
            beta=table.beta,
            values=table.values,
            normalisation=table.normalisation,
            persons=config.log.person is not None,
        )


def terms_of_gate(config: CrowdConfig) -> Terms:
    """One charge, committed beforehand; refused, with what would do, where it does not keep the guarantee."""
    gate, budget = gate_of(config), config.budget.budget()
    terms = committed(budget, [Line(who=LOG, phase=0, event=gate.price())])
    try:
        terms.check_claim()
    except BudgetExceeded:
        profile = Profile(k=gate.k, beta=gate.beta, values=gate.values)
        would = nearest(profile, float(budget.epsilon), float(budget.delta))
        remedy = "; or ".join(f"{name} = {value}" for name, value in would.items())
        raise config.error(
            "gate",
            f"k = {gate.k} and beta = {gate.beta:g} do not keep epsilon {budget.epsilon} at delta {budget.delta}",
            f"One of these alone would do: {remedy}",
        ) from None
    if config.log.units is not None:
        budget.warn_if_loose(config.log.units)
    return terms


def log_of(config: CrowdConfig) -> QueryLog:
    """The log that the file names."""
    table = config.log
    with config.pointing("log"):
        return open_log(config.resolve(table.path), text=table.text, person=table.person, row_id=table.row_id)


def checked_log(config: CrowdConfig, log: QueryLog) -> QueryLog:
    """``log``, if the gate can take all of it: what cannot be read is refused before the charge."""
    gate_of(config).check_log(log)
    with config.pointing("log.path"):
        log.check_readable()
    return log


def release(store: CampaignStore, config: CrowdConfig, log: QueryLog | None, seed: int | None, watch: Watch) -> None:
    """Charge, then draw, then keep, unless that is done; the step is recorded last. ``log``: one that was checked."""
    if is_recorded(store, RELEASED):
        return
    with charging(store, 0, RELEASE, OperatingSystem() if seed is None else Seeded(seed)) as charges:
        rows, gate = checked_log(config, log_of(config)) if log is None else log, gate_of(config)
        wanted = request({LOG: gate.price()}, why=ChargeReason(phase=0, purpose="release"))
        home = store.directory.parent
        if not store.simulation:
            warn_if_released(rows, directory=home, ledger=store.id)
        (paid,) = charge_once(charges, [wanted])
        if not store.simulation:
            register_release(rows, out=store.name, directory=home, ledger=store.id)
        released = gate.release(rows, receipt=paid, progress=watch)
        texts = [str(text) for text in released.texts.to_pylist()]
        name = store.keep_file(TEXTS, phase=0, data=json.dumps(texts, ensure_ascii=False).encode(), replace=True)
        store.keep_file(FIGURES, phase=0, data=json.dumps(released.figures.to_json()).encode(), replace=True)
        if texts:
            enrol(store, pool_of(texts), watch)
        facts = {"values": len(texts), "event": to_json(gate.price())}
        record_release(store, RELEASED, phase=0, facts=facts, released={TEXTS: name})


def released_texts(store: CampaignStore) -> list[str]:
    """What the gate let out, in the order of its bytes: paid for, and for anybody."""
    return texts_from_bytes(store.file(TEXTS, 0).read_bytes())


def texts_from_bytes(content: bytes) -> list[str]:
    """The stored form."""
    try:
        texts = json.loads(content)
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            return texts
    except ValueError:
        pass
    raise InvalidStore("reading released texts", "they are not in their form", "Restore the file")


def pool_of(texts: Sequence[str]) -> Pool:
    """Released texts under ids of their own."""
    return ArrayPool(ids=[f"text-{number + 1}" for number in range(len(texts))], text=list(texts))


# -- checks


def crowd_checks(store: CampaignStore, config: CrowdConfig, ledger: Ledger) -> Iterator[Check]:
    """Against a ledger that was found whole."""
    terms, event = terms_of_gate(config), gate_of(config).price()
    same = ledger.terms.lines == terms.lines and ledger.terms.budget == terms.budget
    same = same and ledger.simulation == store.simulation
    yield Check(
        name="plan",
        ok=same,
        detail="the ledger is committed to the gate of the file" if same else "the ledger is committed to another gate",
    )
    steps = [step for step in store.transitions() if step.kind == RELEASED]
    paid = [
        charge.event
        for entry in ledger.entries
        for charge in entry.charges
        if charge.who == LOG and entry.why.purpose == "release"
    ]
    ok = len(steps) <= 1 and len(paid) == 1 and paid[0] == event if steps else not paid or len(paid) == 1
    ok = ok and all(step.facts.get("event") == to_json(event) for step in steps)
    yield Check(
        name="release",
        ok=ok,
        detail="one closed batch, charged before it was drawn" if ok else "releases and charges are not one and one",
    )
    yield _texts_check(store)


def _texts_check(store: CampaignStore) -> Check:
    steps = [step for step in store.transitions() if step.kind == RELEASED]
    if not steps:
        return Check(name="texts", ok=True, detail="nothing was released yet")
    try:
        texts = released_texts(store)
        codes = dict(macs(pool_of(texts), manifest_key(store))) if texts else {}
    except DiscreetError as error:
        return Check(name="texts", ok=False, detail=error.fact)
    ok = codes == dict(store.macs()) and len(texts) == steps[0].facts.get("values")
    ok = ok and all(question.record in codes for question in store.questions())
    return Check(
        name="texts",
        ok=ok,
        detail="what is asked about is what was released" if ok else "texts or questions are not those of the release",
    )
