"""Charge the training of a phase before any of it is done (`discreet.noise.charge_once`: a redo finds it again)."""

from __future__ import annotations

from discreet.noise import SealedPhase, charge_once
from discreet.privacy.ledger import ChargeReason, Ledger, Receipt
from discreet.privacy.ledger.charges import request
from discreet.privacy.plan import TrainingPhase

TRAINING = "training"


def charge_training(where: Ledger | SealedPhase, phase: TrainingPhase) -> list[Receipt]:
    """A receipt for every stage of ``phase``, durable when this returns; after a restart, the same ones again."""
    return charge_once(
        where,
        [
            request(
                stage.events,
                count=stage.steps,
                why=ChargeReason(phase=phase.number, purpose=f"{TRAINING} stage {number}"),
            )
            for number, stage in enumerate(phase.stages)
        ],
    )
