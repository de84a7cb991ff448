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

from discreet.components import leading, second_moment_event
from discreet.config import StreamConfig
from discreet.config.stream import PreparationConfig
from discreet.errors import BadInput, InvalidStore, LedgerUnavailable
from discreet.noise import SealedPhase
from discreet.noise.keys import destroy
from discreet.privacy.ledger import Ledger
from discreet.storage.stream_store import StreamStore
from discreet.stream.declaration import line_form
from discreet.stream.journal import JournalKey
from discreet.stream.linear_model import Floats
from discreet.stream.lines import Arrival, LineForm, LineReader, Malformed
from discreet.stream.preparation import Preparation, private_components
from discreet.stream.terms import PREPARATION, charge_preparation

NOTE, KEYS = "preparation", "keys"
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
    declared = {part.name: getattr(table, part.name) for part in fields(table) if part.name != "path"}
    return declared | {"delta": None if table.delta is None else str(table.delta)}


def prepared(
    config: StreamConfig, declared: Preparation, *, ledger: Ledger, store: StreamStore, key: JournalKey
) -> Preparation:
    """How records become vectors: as declared, or with the components that were, or are now, paid for."""
    table = config.preparation
    if table is None:
        return declared
    note = store.note(NOTE)
    if note is None:
        note = _draw(config, table, declared, ledger=ledger, store=store, key=key)
    _end_key(config.directory / KEYS)
    if not charged(ledger, PREPARATION):
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
) -> dict[str, Any]:
    """Read, charge, draw, keep: in this order, so that lines that cannot be read cost nothing."""
    rows, ids = _read(config, table, declared)
    lost = "its preparation was charged, and the key of its noise is missing: other noise would be a second release"
    where = charging(config, ledger, PREPARATION, lost=lost)
    receipt = charge_preparation(where, second_moment_event(table.noise_multiplier), purpose="second moment")
    paid = private_components(rows, count=table.components, norm=table.norm, receipt=receipt)
    note = declared.with_components(paid.components, origin="paid").to_json()
    store.keep_note(NOTE, note, apart=map(key.set_apart, ids if table.records == "held-out" else ()))
    return note


def charged(ledger: Ledger, phase: int) -> bool:
    """Whether an entry of the ledger pays for this phase."""
    return any(entry.why.phase == phase for entry in ledger.entries)


def charging(config: StreamConfig, ledger: Ledger, phase: int, *, lost: str) -> Ledger | SealedPhase:
    """Where a phase is charged: in production, with a sealed key, which must be there if it was used. ``lost``: what a
    missing key means.
    """
    keys = config.directory / KEYS
    if ledger.simulation:
        return ledger
    if charged(ledger, phase) and not any(keys.glob(f"phase-{phase}-*.key")):
        raise LedgerUnavailable(
            f"opening stream {config.name!r}",
            lost,
            f"Restore {keys.name} from a backup, or begin a new stream in another directory",
        )
    return SealedPhase(ledger, phase=phase, directory=keys)


def _end_key(keys: Path) -> None:
    """The components are durable: nobody shall take their noise away."""
    for key in keys.glob(f"phase-{PREPARATION}-*"):
        destroy(key)


def _read(config: StreamConfig, table: PreparationConfig, declared: Preparation) -> tuple[Floats, list[str]]:
    """Records as numbers after center and scale, and their ids. One that comes again, or cannot be read, is a null."""
    form, pieces, ids, limit = line_form(config, declared), [], set[str](), MOST_NUMBERS // declared.inputs
    with config.pointing("preparation.path"):
        reader = LineReader.of(config.resolve(table.path))
        try:
            while (lines := reader.take(_PIECE, wait=None)) is not None:
                arrived = _arrivals(form, lines, reader.name, reader.number - len(lines))
                nulls = []
                for record in arrived:
                    nulls.append(record.id in ids or record.fields is None)
                    ids.add(record.id)
                rows = declared.scaled(declared.numbers([record.fields or {} for record in arrived]))
                rows[nulls] = np.nan
                pieces.append(rows)
                if sum(map(len, pieces)) > limit:
                    raise BadInput(
                        reader.name, f"it has more than {limit} records", "Give fewer: they are held at once"
                    )
        finally:
            reader.close()
        if not ids:
            raise BadInput(reader.name, "it has no records", "Give records to make components of")
    return np.concatenate(pieces), sorted(ids)


def _arrivals(form: LineForm, lines: list[bytes], name: str, before: int) -> list[Arrival]:
    records = []
    for number, line in enumerate(lines, before + 1):
        if not line.strip():
            continue
        try:
            record = form.read(line)
            if not isinstance(record, Arrival):
                raise Malformed("it is a label, and this file is for records", "Leave labels out")
        except Malformed as error:
            raise BadInput(f"{name}, line {number}", error.fact, error.remedy) from None
        records.append(record)
    return records
