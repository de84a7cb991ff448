"""Is a stream what its file says? Its ledger, what it was charged for, its journal, and every published model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from discreet.config import StreamConfig
from discreet.errors import DiscreetError
from discreet.privacy.certificate.verification import Check, Verdict, mark_check, verify_ledger
from discreet.privacy.certificate.work import MOST_SECONDS
from discreet.privacy.events import Gaussian
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.privacy.ledger.file_sink import whole_lines
from discreet.storage.stream_store import StreamStore
from discreet.stream.declaring import preparation_events, preparation_of, settings_of
from discreet.stream.journal_key import mac_key_path, read_mac_key
from discreet.stream.keeping import JOURNAL, KEYS, ledger_path
from discreet.stream.publishing import LATEST, load_published
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import ASKED, PREPARATION, STREAM, stream_charges
from discreet.stream.update_noise import GaussianNoise


def verify_stream(config: StreamConfig, *, most_seconds: float = MOST_SECONDS) -> Verdict:
    """Everything, as the owner can: the journal is compared with its authentication codes."""
    path = ledger_path(config)
    mark = mark_check(path, needed=True)
    data = path.read_bytes()
    found = verify_ledger(data, most_seconds=most_seconds)
    found = replace(found, checks=(*found.checks, mark))
    if not found.ok:
        return replace(found, what="stream")
    ledger = Ledger.open(MemorySink(whole_lines(data)))
    settings = settings_of(config, preparation_of(config), found=_found(ledger))
    charges = (_charge(ledger, settings), *_preparation(ledger, config))
    journal, published = _journal(config.directory, ledger.id)
    models = _models(config.models, ledger.id, published)
    checks = (*found.checks, *charges, _budget(ledger, config), journal, models)
    return replace(found, what="stream", checks=checks)


def _found(ledger: Ledger) -> GaussianNoise | None:
    """Noise that the file leaves open is what was charged; that it keeps the promise is checked by itself."""
    events = [charge.event for entry in ledger.entries for charge in entry.charges if charge.who == ASKED]
    gaussian = [event for event in events if isinstance(event, Gaussian)]
    return GaussianNoise(noise_multiplier=gaussian[0].noise_multiplier) if gaussian else None


def _charge(ledger: Ledger, settings: StreamSettings) -> Check:
    entries = [entry for entry in ledger.entries if entry.why.phase == STREAM]
    paid = len(entries) == 1 and {*entries[0].charges} == {*stream_charges(**settings.paid)}
    detail = "one entry pays for asking and updates as declared" if paid else "it is not what the file declares"
    return Check(name="charge", ok=paid, detail=detail)


def _preparation(ledger: Ledger, config: StreamConfig) -> tuple[Check, ...]:
    """Of a paid preparation: that it was charged, as declared and once, and in one of the terms."""
    events = preparation_events(config).get("preparation", ())
    entries = [entry for entry in ledger.entries if entry.why.phase == PREPARATION]
    if not events and not entries:
        return ()
    charged = [one.event for entry in entries for one in entry.charges]
    paid = charged == [*events] and all(entry.sequence < ledger.entries[-1].sequence for entry in entries)
    detail = "one entry pays for it, before the stream's" if paid else "it is not what the file declares"
    return (Check(name="preparation", ok=paid, detail=detail),)


def _budget(ledger: Ledger, config: StreamConfig) -> Check:
    same = ledger.terms.budget == config.budget.budget()
    detail = f"epsilon {config.budget.epsilon} at delta {config.budget.delta} a {config.budget.unit}"
    return Check(name="budget", ok=same, detail=detail if same else "the file declares another one")


def _journal(directory: Path, ledger: str) -> tuple[Check, dict[int, str]]:
    """Whether the journal is what was stored, and the hashes of models that it knows. Says no number of rows."""
    path, key = directory / JOURNAL, mac_key_path(directory / KEYS, ledger)
    for place, name in ((path, "it"), (key, "the key of its codes")):
        if not place.is_file():
            return Check(name="journal", ok=False, detail=f"{name} is missing"), {}
    try:
        store = StreamStore(path, read_only=True)
    except DiscreetError as error:
        return Check(name="journal", ok=False, detail=error.fact), {}
    try:
        wrong = store.differences(read_mac_key(key))
        known = {} if wrong else store.published()
    except DiscreetError as error:
        return Check(name="journal", ok=False, detail=error.fact), {}
    finally:
        store.close()
    detail = f"changed since it was stored: {', '.join(wrong)}" if wrong else "every row is what was stored"
    return Check(name="journal", ok=not wrong, detail=detail), known


def _models(directory: Path, ledger: str, published: dict[int, str]) -> Check:
    paths = sorted(directory.glob("model-*.json")) + sorted(directory.glob(LATEST))
    for path in paths:
        try:
            found = load_published(path)
        except DiscreetError as error:
            return Check(name="models", ok=False, detail=f"{path.name}: {error.fact}")
        if found.model.ledger != ledger:
            return Check(name="models", ok=False, detail=f"{path.name}: another ledger pays for it")
        if published.get(found.model.version) != found.sha256:
            return Check(name="models", ok=False, detail=f"{path.name}: the journal knows no such model")
    return Check(name="models", ok=True, detail=f"{len(paths)} files, each with the hash that the journal knows")
