"""A stream's directory: its lock, ledger, sealed key, journal and models; made once, and found again after any crash.

    payments.stream/
      ledger        one entry, charged before the first decision      discreet verify payments.stream/ledger
      ledger.mark   how many lines the ledger has, so that a lost one is noticed
      keys/         the sealed key of coins and noise, and the journal's two (mode 0600)
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

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.config import StreamConfig
from discreet.errors import BadInput, InvalidLedger, InvalidStore, LedgerUnavailable, NotNow
from discreet.noise import OperatingSystem, SealedPhase, Seeded, Source
from discreet.noise.key_files import destroy
from discreet.privacy.ledger import FileSink, Ledger, Receipt
from discreet.storage.disk import disk_refusals, make_private
from discreet.storage.locks import locked
from discreet.storage.stream_store import StreamStore
from discreet.stream.declaring import preparation_events, preparation_of, settings_of
from discreet.stream.journal_key import JournalKey, journal_key, mac_key, mac_key_path
from discreet.stream.preparation import Preparation
from discreet.stream.preparing import check_paid, declared_of, prepared
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import STREAM, charge_stream, stream_terms
from discreet.stream.update_noise import GaussianNoise, noise_from_json

LEDGER, KEYS, JOURNAL, MARKS, LOCK = "ledger", "keys", "journal.db", "marks", "lock"
FORMAT = "discreet.stream-facts/1"
LINES = "lines"
"""What ids, labels and persons are called: read under another name, a record would come twice, or a person be new."""


@dataclass(frozen=True, kw_only=True)
class Opened:
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
        _destroy_keys(self.config.directory / KEYS, kept=mac_key_path(self.config.directory / KEYS, self.ledger.id))
        self.marks.unlink(missing_ok=True)

    @property
    def marks(self) -> Path:
        """Where hashes of records that are being decided stand."""
        return self.config.directory / MARKS


@contextmanager
def opened(config: StreamConfig) -> Iterator[Opened]:
    """The stream of a file, alone, with its charge durable; everything is closed afterwards."""
    place, asked = config.directory, f"opening stream {config.name!r}"
    declared = preparation_of(config)
    check_paid(config, declared)
    # a file that cannot be is refused before anything is made
    new = None if (place / JOURNAL).exists() else settings_of(config, declared)
    with ExitStack() as open_parts:
        with disk_refusals(asked):
            make_private(place)
            make_private(place / KEYS)
        open_parts.enter_context(locked(place / LOCK, asked=asked, doing="running this stream"))
        _tidy(place)
        store = StreamStore(place / JOURNAL)
        open_parts.callback(store.close)
        settings = new or settings_of(config, declared, found=_found(store.facts()))
        with disk_refusals(asked, kept="what was charged stays, and the same command goes on"):
            ledger = open_parts.enter_context(_ledger(config, settings, store))
            _bind(config, store, _facts(config, settings, declared, ledger), ledger)
            store.protect(mac_key(place / KEYS, store, ledger=ledger.id, asked=asked))
            if store.ended():
                _refuse_ended(config, ledger.id)
            key = journal_key(place / KEYS, store, ledger=ledger.id, asked=asked)
            preparation = prepared(config, declared, ledger=ledger, store=store, key=key, keys=place / KEYS)
            receipt = charge_stream(_charging(config, ledger), **settings.paid)
        yield Opened(
            config=config,
            settings=settings,
            preparation=preparation,
            ledger=ledger,
            receipt=receipt,
            store=store,
            key=key,
        )


def _found(facts: dict[str, Any] | None) -> GaussianNoise | None:
    """The Gaussian noise that a stream began with."""
    if facts is None or not isinstance(facts.get("settings"), dict):
        return None
    noise = noise_from_json(facts["settings"]["noise"])
    return noise if isinstance(noise, GaussianNoise) else None


def _tidy(place: Path) -> None:
    """Remove what a process that was killed left of writing a mark or a key: it may hold one."""
    for half in place.glob(f".{LEDGER}.mark.*"):
        half.unlink(missing_ok=True)
    for half in (place / KEYS).glob(".*"):
        if half.stat().st_nlink == 1:
            destroy(half)
        half.unlink(missing_ok=True)  # a second name of the key itself, which stays


def _destroy_keys(keys: Path, *, kept: Path) -> None:
    for key in keys.iterdir():
        if key != kept:
            destroy(key)


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


def _charged(ledger: Ledger) -> bool:
    return any(entry.why.phase == STREAM for entry in ledger.entries)


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
    if not _charged(ledger) and store.last_place():
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
    home = {"preparation": "records", LINES: "records", "seed": "simulation", "paid": "preparation"}
    raise config.error(home.get(name, name), fact, remedy)


def _refuse_ended(config: StreamConfig, ledger: str) -> None:
    keys = config.directory / KEYS
    _destroy_keys(keys, kept=mac_key_path(keys, ledger))  # a process may have been killed between the two
    (config.directory / MARKS).unlink(missing_ok=True)
    raise NotNow(
        f"opening stream {config.name!r}", "it has ended, and its key is gone", "Begin a new one in another directory"
    )


def _charging(config: StreamConfig, ledger: Ledger) -> Ledger | SealedPhase:
    """Where the stream charges: in production, with a sealed key, which must be there if it was used."""
    keys = config.directory / KEYS
    if ledger.simulation:
        return ledger
    if _charged(ledger) and not any(keys.glob(f"phase-{STREAM}-*.key")):
        raise LedgerUnavailable(
            f"opening stream {config.name!r}",
            "the key of its coins and noise is missing; other coins would be a second release",
            f"Restore {keys.name} from a backup, or begin a new stream in another directory",
        )
    return SealedPhase(ledger, phase=STREAM, directory=keys)


def ledger_path(config: StreamConfig) -> Path:
    """Of a stream that was begun, for those who verify it."""
    path = config.directory / LEDGER
    if not path.is_file():
        raise BadInput(f"reading the ledger of stream {config.name!r}", "there is none yet", "Run discreet stream")
    return path
