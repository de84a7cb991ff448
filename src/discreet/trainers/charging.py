"""Charge the training of a phase before any of it is done.

In production a phase is sealed (`discreet.noise.SealedPhase`), so that after a crash the same charges return the same
receipts and the same draws. A simulation needs no seal: its seed repeats the draws, and a charge that is already in the
ledger is found again here. A ledger used directly, without a seal, cannot resume: a second run is a second charge.
"""

from __future__ import annotations

from discreet.noise import SealedPhase
from discreet.privacy.ledger import Charge, Ledger, Receipt, Why
from discreet.privacy.training_phase import TrainingPhase

TRAINING = "training"


def charge_training(where: Ledger | SealedPhase, phase: TrainingPhase) -> list[Receipt]:
    """A receipt for every stage of ``phase``, durable when this returns; after a restart, the same ones again."""
    if isinstance(where, SealedPhase):
        return [
            where.charge_together(stage.events, count=stage.steps, purpose=f"{TRAINING} stage {number}")
            for number, stage in enumerate(phase.stages)
        ]
    return [_charged(where, phase, number) for number in range(len(phase.stages))]


def _charged(ledger: Ledger, phase: TrainingPhase, number: int) -> Receipt:
    stage, why = phase.stages[number], Why(phase=phase.number, purpose=f"{TRAINING} stage {number}")
    charges = tuple(Charge(who=who, event=event, count=stage.steps) for who, event in stage.cohorts)
    if ledger.simulation and ledger.source is not None and ledger.source.fingerprint:
        for entry in ledger.earlier:
            if entry.public == (why, charges) and entry.key == ledger.source.fingerprint:
                return ledger.reissue(entry, source=ledger.source)
    return ledger.charge_together(stage.events, count=stage.steps, why=why)
