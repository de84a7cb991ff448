"""Charge the training of a phase before any of it is done.

In production a phase is sealed (`discreet.noise.SealedPhase`), so that after a crash the same charges return the same
receipts and the same draws. A simulation needs no seal: its seed repeats the draws, and a charge that is already in the
ledger is found again here. A ledger used directly, without a seal, cannot resume: a second run is a second charge.
"""

from __future__ import annotations

from discreet.errors import BadInput
from discreet.noise import SealedPhase
from discreet.privacy.ledger import Entry, Ledger, Receipt, Request, Why
from discreet.privacy.ledger.ledger import request
from discreet.privacy.training_phase import TrainingPhase

TRAINING = "training"


def charge_training(where: Ledger | SealedPhase, phase: TrainingPhase) -> list[Receipt]:
    """A receipt for every stage of ``phase``, durable when this returns; after a restart, the same ones again."""
    if isinstance(where, SealedPhase):
        if where.phase != phase.number:
            raise BadInput(
                f"charging phase {phase.number}",
                f"the sealed phase is number {where.phase}",
                "Seal the phase you train",
            )
        return [
            where.charge_together(stage.events, count=stage.steps, purpose=f"{TRAINING} stage {number}")
            for number, stage in enumerate(phase.stages)
        ]
    wanted = _requests(phase)
    earlier = [_earlier(where, one) for one in wanted]
    missing = [one for one, found in zip(wanted, earlier, strict=True) if found is None]
    fresh = iter(where.charge_all(missing) if missing else [])  # all of them or none
    return [where.reissue(found, source=where.source) if found and where.source else next(fresh) for found in earlier]


def _requests(phase: TrainingPhase) -> list[Request]:
    return [
        request(stage.events, count=stage.steps, why=Why(phase=phase.number, purpose=f"{TRAINING} stage {number}"))
        for number, stage in enumerate(phase.stages)
    ]


def _earlier(ledger: Ledger, wanted: Request) -> Entry | None:
    """In a simulation: the entry of the same charge, made before this ledger was opened with the same seed."""
    if not ledger.simulation or ledger.source is None or not ledger.source.fingerprint:
        return None
    key = ledger.source.fingerprint
    same = (entry for entry in ledger.earlier if entry.public == (wanted.why, wanted.charges) and entry.key == key)
    return next(same, None)
