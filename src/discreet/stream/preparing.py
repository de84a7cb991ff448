"""A stream's paid preparation: principal components of private records, charged, drawn once, and kept in the journal.

    charge (a sealed key, durable) -> read the lines, noisy second moment -> journal -> the key ends

Guarantee: nothing is drawn before its charge is durable, in the stream's own ledger, whose certificate includes it. A
process that is killed on the way repeats the identical draw, from the same lines (others are refused, by the sealed
key); when the components are in the journal, the key is destroyed, and the lines are not read again.

Whom it looks at (docs/proofs/streams.md): *held-out* records pay for this and for nothing else. That they never arrive
is not left to the sender: their ids stand in the journal, by keyed codes, and one that arrives is a null. *Arriving*
ones pay for both. A record that stands twice in the lines counts once.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from discreet.config import StreamConfig
from discreet.config.stream_tables import PreparationConfig
from discreet.errors import BadInput, InvalidStore, LedgerUnavailable
from discreet.noise import SealedPhase
from discreet.noise.key_files import destroy
from discreet.privacy.ledger import Ledger
from discreet.storage.stream_store import StreamStore
from discreet.stream.ball import Floats
from discreet.stream.declaring import line_form
from discreet.stream.journal_key import JournalKey
from discreet.stream.lines import Arrival, LineForm, Malformed
from discreet.stream.preparation import Preparation
from discreet.stream.private_components import private_components, second_moment_event
from discreet.stream.public_sample import leading
from discreet.stream.reading import LineReader
from discreet.stream.taking import inputs_of
from discreet.stream.terms import PREPARATION, charge_preparation

NOTE = "preparation"
MOST_NUMBERS = 1 << 26
_PIECE = 4096


def check_paid(config: StreamConfig, declared: Preparation) -> None:
    """Refuse a preparation whose price this stream's ledger would not have, and one that cannot be."""
    if "paid" in (declared.constants_origin, declared.components_origin):
        raise config.error(
            "records.preparation",
            "it was paid for in a ledger of its own, and this stream's claim would not include it",
            "Pay for it in this one: [preparation]",
        )
    table = config.preparation
    if table is None:
        return
    if declared.components is not None:
        raise config.error("preparation", "the stored preparation has components already", "Leave one of them out")
    with config.pointing("preparation.components"):
        leading(np.eye(declared.inputs), table.components)


def declared_of(table: PreparationConfig) -> dict[str, Any]:
    """What of the table is fixed when the stream begins: all but where the lines are."""
    found = {part.name: getattr(table, part.name) for part in fields(table) if part.name != "path"}
    return found | {"delta": None if table.delta is None else str(table.delta)}


def prepared(
    config: StreamConfig, declared: Preparation, *, ledger: Ledger, store: StreamStore, key: JournalKey, keys: Path
) -> Preparation:
    """How records become vectors: as declared, or with the components that were, or are now, paid for."""
    table = config.preparation
    if table is None:
        return declared
    note = store.note(NOTE)
    if note is None:
        note = _draw(config, table, declared, ledger=ledger, store=store, key=key, keys=keys)
    _end_key(keys)
    if not _entries(ledger):
        raise InvalidStore(
            f"opening stream {config.name!r}", "its preparation is there, and nothing paid for it", "Restore the ledger"
        )
    return Preparation.from_json(note)


def _draw(
    config: StreamConfig,
    table: PreparationConfig,
    declared: Preparation,
    *,
    ledger: Ledger,
    store: StreamStore,
    key: JournalKey,
    keys: Path,
) -> dict[str, Any]:
    """Read, charge, draw, keep: in this order, so that lines that cannot be read cost nothing."""
    rows, ids = _read(config, table, declared)
    event = second_moment_event(table.noise_multiplier)
    receipt = charge_preparation(_charging(config, ledger, keys), event, purpose="second moment")
    paid = private_components(rows, count=table.components, norm=table.norm, receipt=receipt)
    note = declared.with_components(paid.components, origin="paid").to_json()
    store.keep_note(NOTE, note, apart=map(key.set_apart, ids if table.records == "held-out" else ()))
    return note


def _entries(ledger: Ledger) -> int:
    return sum(entry.why.phase == PREPARATION for entry in ledger.entries)


def _charging(config: StreamConfig, ledger: Ledger, keys: Path) -> Ledger | SealedPhase:
    if ledger.simulation:
        return ledger
    if _entries(ledger) and not any(keys.glob(f"phase-{PREPARATION}-*.key")):
        raise LedgerUnavailable(
            f"opening stream {config.name!r}",
            "its preparation was charged, and the key of its noise is missing: other noise would be a second release",
            f"Restore {keys.name} from a backup, or begin a new stream in another directory",
        )
    return SealedPhase(ledger, phase=PREPARATION, directory=keys)


def _end_key(keys: Path) -> None:
    """The components are durable: nobody shall take their noise away."""
    for key in keys.glob(f"phase-{PREPARATION}-*"):
        destroy(key)


def _read(config: StreamConfig, table: PreparationConfig, declared: Preparation) -> tuple[Floats, list[str]]:
    """Records as numbers after center and scale, and their ids. One that comes again, or cannot be read, is a null."""
    form, pieces, ids, most = line_form(config, declared), [], set[str](), MOST_NUMBERS // declared.inputs
    with config.pointing("preparation.path"):
        reader = LineReader.of(config.resolve(table.path))
        try:
            while (lines := reader.take(_PIECE, wait=None)) is not None:
                arrived = _arrivals(form, lines, reader.name, reader.number - len(lines))
                nulls = []
                for place, one in enumerate(arrived):
                    if one.id in ids or one.fields is None:
                        nulls.append(place)
                    ids.add(one.id)
                found = declared.scaled(inputs_of(declared, [one.fields or {} for one in arrived]))
                found[nulls] = np.nan
                pieces.append(found)
                if sum(map(len, pieces)) > most:
                    raise BadInput(reader.name, f"it has more than {most} records", "Give fewer: they are held at once")
        finally:
            reader.close()
        if not ids:
            raise BadInput(reader.name, "it has no records", "Give records to make components of")
    return np.concatenate(pieces), sorted(ids)


def _arrivals(form: LineForm, lines: list[bytes], name: str, before: int) -> list[Arrival]:
    found = []
    for number, line in enumerate(lines, before + 1):
        if not line.strip():
            continue
        try:
            one = form.read(line)
            if not isinstance(one, Arrival):
                raise Malformed("it is a label, and this file is for records", "Leave labels out")
        except Malformed as error:
            raise BadInput(f"{name}, line {number}", error.fact, error.remedy) from None
        found.append(one)
    return found
