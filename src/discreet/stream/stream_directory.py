"""A stream's directory: its lock, ledger, sealed key, journal and models; opened, after any crash, and verified.

    payments.stream/
      ledger        one entry, charged before the first decision      discreet verify payments.stream/ledger
      ledger.mark   how many lines the ledger has, so that a lost one is noticed
      keys/         the sealed key of coins and noise, and the journal's two (mode 0600)
      features.json the feature map, if there is one: what was fitted to public rows
  journal.db    decisions, open questions, the state
      marks         keyed hashes of the records that are being decided
      models/       published models; all else is its owner's

Guarantee: ledger, key and journal know one another. One that is missing, old, or of another stream is refused before a
coin is tossed: what it paid for, or what it drew, would be forgotten. A stream goes on as it was declared; what was
fixed before its first record cannot be changed.

In this order when it begins: ledger, key, journal (which names the ledger), the charge. So a journal without a charge
is empty, and a charge without a journal is one that was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discreet.config import StreamConfig
from discreet.errors import BadInput, DiscreetError, InvalidLedger, InvalidStore, LedgerUnavailable, NotNow
from discreet.noise import OperatingSystem, Seeded, Source
from discreet.noise.keys import destroy
from discreet.privacy.certificate.signatures import Check
from discreet.privacy.certificate.verification import MOST_SECONDS, Verdict, mark_check, verify_ledger
from discreet.privacy.events import Gaussian
from discreet.privacy.ledger import FileSink, Ledger, MemorySink, Receipt
from discreet.privacy.ledger.sinks import whole_lines
from discreet.storage.disk import disk_refusals, locked, make_private
from discreet.storage.stream_store import StreamStore
from discreet.stream.declaration import keep_features, preparation_events, preparation_of, settings_of
from discreet.stream.journal import JournalKey, journal_key, mac_key, mac_key_path, read_mac_key
from discreet.stream.optimizer import GaussianNoise, noise_from_json
from discreet.stream.paid_preparation import KEYS, charged, charging, check_paid, declared_of, prepared
from discreet.stream.preparation import Preparation
from discreet.stream.publishing import LATEST, load_published
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import ASKED, PREPARATION, STREAM, charge_stream, stream_charges, stream_terms

LEDGER, JOURNAL, MARKS, LOCK = "ledger", "journal.db", "marks", "lock"
FORMAT = "discreet.stream-facts/1"
LINES = "lines"
"""What ids, labels and persons are called: read under another name, a record would come twice, or a person be new."""


@dataclass(frozen=True, kw_only=True)
class OpenStream:
    """What a running stream works with."""

    config: StreamConfig
    settings: StreamSettings
    preparation: Preparation
    ledger: Ledger
    receipt: Receipt
    store: StreamStore
    key: JournalKey

    def end(self) -> None:
        """No more will be decided: then the keys are destroyed, and nobody can repeat or take away a draw any more, or
        test a guess against a code.
        """
        self.store.end()
        _destroy_keys(self.config, self.ledger.id)

    def set_apart(self, ids: Sequence[str]) -> set[str]:
        """Those of ``ids`` a preparation was made of, which are not to arrive."""
        table = self.config.preparation
        if table is None or table.records != "held-out":
            return set()
        codes = {self.key.set_apart(identifier): identifier for identifier in ids}
        return {codes[code] for code in self.store.set_apart(codes)}

    @property
    def marks(self) -> Path:
        """Where hashes of records that are being decided stand."""
        return self.config.directory / MARKS


@contextmanager
def open_stream(config: StreamConfig) -> Iterator[OpenStream]:
    """The stream of a file, alone, with its charge durable; everything is closed afterwards."""
    directory, asked = config.directory, f"opening stream {config.name!r}"
    declared = preparation_of(config)
    check_paid(config, declared)
    # a file that cannot be is refused before anything is made
    new = None if (directory / JOURNAL).exists() else settings_of(config, declared)
    with ExitStack() as open_parts:
        with disk_refusals(asked):
            make_private(directory)
            make_private(directory / KEYS)
        open_parts.enter_context(locked(directory / LOCK, asked=asked, doing="running this stream"))
        _tidy(directory)
        store = StreamStore(directory / JOURNAL)
        open_parts.callback(store.close)
        settings = new or settings_of(config, declared, charged=_noise_of(store.facts()))
        with disk_refusals(asked, kept="what was charged stays, and the same command goes on"):
            if store.facts() is None:
                keep_features(config, declared)
            ledger = open_parts.enter_context(_ledger(config, settings, store))
            _bind(config, store, _facts(config, settings, declared, ledger), ledger)
            store.protect(mac_key(directory / KEYS, store, ledger=ledger.id, asked=asked))
            if store.ended():
                _destroy_keys(config, ledger.id)  # a process may have been killed between the two
                raise NotNow(asked, "it has ended, and its key is gone", "Begin a new one in another directory")
            key = journal_key(directory / KEYS, store, ledger=ledger.id, asked=asked)
            preparation = prepared(config, declared, ledger=ledger, store=store, key=key)
            lost = "the key of its coins and noise is missing; other coins would be a second release"
            receipt = charge_stream(charging(config, ledger, STREAM, lost=lost), **settings.paid)
        yield OpenStream(
            config=config,
            settings=settings,
            preparation=preparation,
            ledger=ledger,
            receipt=receipt,
            store=store,
            key=key,
        )


def _noise_of(facts: dict[str, Any] | None) -> GaussianNoise | None:
    """The Gaussian noise that a stream began with."""
    if facts is None or not isinstance(facts.get("settings"), dict):
        return None
    noise = noise_from_json(facts["settings"]["noise"])
    return noise if isinstance(noise, GaussianNoise) else None


def _tidy(directory: Path) -> None:
    """Remove what a process that was killed left of writing a mark or a key: it may hold one."""
    for half in directory.glob(f".{LEDGER}.mark.*"):
        half.unlink(missing_ok=True)
    for half in (directory / KEYS).glob(".*"):
        if half.stat().st_nlink == 1:
            destroy(half)
        half.unlink(missing_ok=True)  # a second name of the key itself, which stays


def _destroy_keys(config: StreamConfig, ledger: str) -> None:
    """All but the key of the journal's authentication codes."""
    for key in (config.directory / KEYS).iterdir():
        if key != mac_key_path(config.directory / KEYS, ledger):
            destroy(key)
    (config.directory / MARKS).unlink(missing_ok=True)


@contextmanager
def _ledger(config: StreamConfig, settings: StreamSettings, store: StreamStore) -> Iterator[Ledger]:
    path, facts = config.directory / LEDGER, store.facts()
    source: Source = OperatingSystem() if config.simulation is None else Seeded(config.simulation.seed)
    if path.exists() and path.stat().st_size:
        ledger = Ledger.open(FileSink(path, must_exist=True), source=source)
    elif facts is not None:
        raise LedgerUnavailable(
            f"opening stream {config.name!r}",
            "its ledger is missing, and its journal is there: nothing would say what was paid for",
            f"Put the ledger back where it was: {path.name} in {path.parent.name}",
        )
    else:
        terms = stream_terms(config.budget.budget(), **settings.paid, **preparation_events(config))
        ledger = Ledger.create(FileSink(path), terms, source=source)
    with ledger:
        yield ledger


def _facts(config: StreamConfig, settings: StreamSettings, preparation: Preparation, ledger: Ledger) -> dict[str, Any]:
    """What is fixed before the first record, and the ledger that pays. ``seed``: of a simulation."""
    paid = {} if config.preparation is None else {"paid": declared_of(config.preparation)}
    return {
        "format": FORMAT,
        "name": config.name,
        "ledger": ledger.id,
        "budget": config.budget.budget().to_json(),
        "settings": settings.to_json(),
        "preparation": preparation.digest,
        "seed": None if config.simulation is None else config.simulation.seed,
        LINES: {"id": config.records.id, "label": config.records.label, "person": config.records.person},
        **paid,
    }


def _bind(config: StreamConfig, store: StreamStore, facts: dict[str, Any], ledger: Ledger) -> None:
    asked, known = f"opening stream {config.name!r}", store.facts()
    if known is None:
        if len(ledger):
            raise InvalidStore(
                asked,
                "its ledger was charged, and its journal is missing: what was decided would be decided otherwise",
                "Restore the journal, or begin a new stream in another directory",
            )
        store.begin(facts)
        return
    if known.get("ledger") != facts["ledger"]:
        raise LedgerUnavailable(
            asked, "the ledger is another one than its journal names", "Put back the one it began with"
        )
    changed = [name for name in {**facts, **known} if known.get(name) != facts.get(name)]
    if changed:
        _refuse_change(config, known, facts, changed[0])
    if not charged(ledger, STREAM) and store.last_place():
        raise InvalidLedger(
            asked, "records were decided, and the entry that paid for them is gone", "Restore the ledger"
        )


def _refuse_change(config: StreamConfig, known: dict[str, Any], facts: dict[str, Any], name: str) -> None:
    fact = "it is not what the stream began with, and nothing of this can change under way"
    remedy = "Write what it was, or begin a new stream: another [service] directory"
    if name == "settings" and isinstance(known.get(name), dict):
        parts = [part for part in {**facts[name], **known[name]} if known[name].get(part) != facts[name].get(part)]
        home = {"classes": "task", "features": "records", "radius": "records", "asking": "asking", "noise": "noise"}
        home |= {"slab": "slab", "window": "window", "drift": "drift", "person_records": "budget"}
        raise config.error(home.get(parts[0], "learning"), fact, remedy)
    home = {
        "preparation": "records" if config.features is None else "features",
        LINES: "records",
        "seed": "simulation",
        "paid": "preparation",
    }
    raise config.error(home.get(name, name), fact, remedy)


def ledger_path(config: StreamConfig) -> Path:
    """Of a stream that was begun, for those who verify it."""
    path = config.directory / LEDGER
    if not path.is_file():
        raise BadInput(f"reading the ledger of stream {config.name!r}", "there is none yet", "Run discreet stream")
    return path


def verify_stream(config: StreamConfig, *, most_seconds: float = MOST_SECONDS) -> Verdict:
    """Whether a stream is what its file says: its ledger, what it was charged for, its journal (by its authentication
    codes), and every published model.
    """
    path = ledger_path(config)
    mark = mark_check(path, needed=True)
    data = path.read_bytes()
    verdict = verify_ledger(data, most_seconds=most_seconds)
    verdict = replace(verdict, what="stream", checks=(*verdict.checks, mark))
    if not verdict.ok:
        return verdict
    ledger = Ledger.open(MemorySink(whole_lines(data)))
    try:
        preparation = preparation_of(config)
    except DiscreetError as error:
        if config.features is None:
            raise
        return replace(verdict, checks=(*verdict.checks, Check(name="features", ok=False, detail=error.fact)))
    settings = settings_of(config, preparation, charged=_charged_noise(ledger))
    charges = (_check_charge(ledger, settings), *_check_preparation(ledger, config))
    journal, published = _check_journal(config.directory, ledger.id)
    models = _check_models(config.models, ledger.id, published)
    features = _check_features(config.models, preparation)
    checks = (*charges, _check_budget(ledger, config), *features, journal, models)
    return replace(verdict, checks=(*verdict.checks, *checks))


def _charged_noise(ledger: Ledger) -> GaussianNoise | None:
    """Noise that the file leaves open is what was charged; that it is enough for the budget is checked by itself."""
    events = [charge.event for entry in ledger.entries for charge in entry.charges if charge.who == ASKED]
    gaussian = [event for event in events if isinstance(event, Gaussian)]
    return GaussianNoise(noise_multiplier=gaussian[0].noise_multiplier) if gaussian else None


def _check_charge(ledger: Ledger, settings: StreamSettings) -> Check:
    entries = [entry for entry in ledger.entries if entry.why.phase == STREAM]
    paid = len(entries) == 1 and {*entries[0].charges} == {*stream_charges(**settings.paid)}
    detail = "one entry pays for asking and updates as declared" if paid else "it is not what the file declares"
    return Check(name="charge", ok=paid, detail=detail)


def _check_preparation(ledger: Ledger, config: StreamConfig) -> tuple[Check, ...]:
    """Of a paid preparation: that it was charged, as declared and once, and in one of the terms."""
    events = preparation_events(config).get("preparation", ())
    entries = [entry for entry in ledger.entries if entry.why.phase == PREPARATION]
    if not events and not entries:
        return ()
    charged = [charge.event for entry in entries for charge in entry.charges]
    paid = charged == [*events] and all(entry.sequence < ledger.entries[-1].sequence for entry in entries)
    detail = "one entry pays for it, before the stream's" if paid else "it is not what the file declares"
    return (Check(name="preparation", ok=paid, detail=detail),)


def _check_features(models: Path, preparation: Preparation) -> tuple[Check, ...]:
    """Of features: that every published model reads those that the file declares, by their hash."""
    identity = None if preparation.features is None else preparation.features.identity()
    named = "none" if identity is None else f"{identity['name']}, SHA-256 {identity['sha256'][:12]}..."
    for path in _published_in(models):
        try:
            features = load_published(path).preparation.features
        except DiscreetError:
            continue  # said by the check of models
        if (None if features is None else features.identity()) != identity:
            return (Check(name="features", ok=False, detail=f"{path.name} reads others than declared: {named}"),)
    if identity is None:
        return ()
    return (Check(name="features", ok=True, detail=f"{named}: published models read it, of each record alone"),)


def _published_in(models: Path) -> list[Path]:
    return sorted(models.glob("model-*.json")) + sorted(models.glob(LATEST))


def _check_budget(ledger: Ledger, config: StreamConfig) -> Check:
    same = ledger.terms.budget == config.budget.budget()
    detail = f"epsilon {config.budget.epsilon} at delta {config.budget.delta} a {config.budget.unit}"
    return Check(name="budget", ok=same, detail=detail if same else "the file declares another one")


def _check_journal(directory: Path, ledger: str) -> tuple[Check, dict[int, str]]:
    """Whether the journal is what was stored, and the hashes of models that it knows. Says no number of rows."""
    path, key = directory / JOURNAL, mac_key_path(directory / KEYS, ledger)
    for file, name in ((path, "it"), (key, "the key of its codes")):
        if not file.is_file():
            return Check(name="journal", ok=False, detail=f"{name} is missing"), {}
    try:
        with closing(StreamStore(path, read_only=True)) as store:
            wrong = store.differences(read_mac_key(key))
            known = {} if wrong else store.published()
    except DiscreetError as error:
        return Check(name="journal", ok=False, detail=error.fact), {}
    detail = f"changed since it was stored: {', '.join(wrong)}" if wrong else "every row is what was stored"
    return Check(name="journal", ok=not wrong, detail=detail), known


def _check_models(directory: Path, ledger: str, published: dict[int, str]) -> Check:
    paths = _published_in(directory)
    for path in paths:
        try:
            published_model = load_published(path)
        except DiscreetError as error:
            return Check(name="models", ok=False, detail=f"{path.name}: {error.fact}")
        if published_model.model.ledger != ledger:
            return Check(name="models", ok=False, detail=f"{path.name}: another ledger pays for it")
        if published.get(published_model.model.version) != published_model.sha256:
            return Check(name="models", ok=False, detail=f"{path.name}: the journal knows no such model")
    return Check(name="models", ok=True, detail=f"{len(paths)} files, each with the hash that the journal knows")
