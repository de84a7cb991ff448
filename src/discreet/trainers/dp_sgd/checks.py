"""What is checked before a phase is trained: that it was paid for, that its records are there, and which run it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import step_seal
from discreet.privacy.ledger import Receipt
from discreet.privacy.training_phase import TrainingPhase
from discreet.trainers.dp_sgd.batches import targets_of
from discreet.trainers.dp_sgd.cohorts import CohortRecords
from discreet.trainers.dp_sgd.state import State


def check_receipts(phase: TrainingPhase, receipts: Sequence[Receipt], *, pays: bool = True) -> None:
    """Refuse receipts that were not charged for exactly this phase, a stage each; any, if this process does not pay."""
    if not pays:
        if list(receipts) != [None]:
            raise ReceiptRefused(
                f"training phase {phase.number}", "rank 0 pays, and this is another process", "Give receipt=None here"
            )
        return
    wanted = [tuple((who, event, stage.steps) for who, event in stage.cohorts) for stage in phase.stages]
    if not all(isinstance(receipt, Receipt) for receipt in receipts):
        raise ReceiptRefused(f"training phase {phase.number}", "there is no receipt", "Use those of charge_training")
    paid = [tuple((charge.who, charge.event, charge.count) for charge in receipt.entry.charges) for receipt in receipts]
    if wanted != paid or any(receipt.entry.why.phase != phase.number for receipt in receipts):
        raise ReceiptRefused(
            f"training phase {phase.number}",
            "its receipts were not charged for its stages, one each",
            "Use the receipts of charge_training",
        )

    for receipt in receipts:
        if receipt.unit != phase.unit:
            raise ReceiptRefused(
                f"training phase {phase.number} for the {phase.unit}",
                f"its ledger protects the {receipt.unit}",
                "Train the plan the ledger was made for",
            )


def cohorts_of(phase: TrainingPhase, cohorts: Mapping[str, CohortRecords]) -> dict[str, CohortRecords]:
    """The records ``phase`` samples, by units: of persons where it protects persons, else of records."""
    if not isinstance(phase, TrainingPhase) or not isinstance(cohorts, Mapping):
        raise BadInput("training", "it needs a TrainingPhase and a dict of cohorts", "Use TrainingPhase.of(plan, 0)")
    missing = [label for label in phase.labels if not isinstance(cohorts.get(label), CohortRecords)]
    if missing:
        raise BadInput(
            f"training phase {phase.number}",
            f"there are no records of cohort {', '.join(missing)}",
            "Give CohortRecords for it, even if it is empty",
        )
    taken = {label: cohorts[label] for label in phase.labels}
    for label, slots in phase.slots:
        if label in taken and taken[label].units != slots:
            raise BadInput(
                f"cohort {label}",
                f"whom it was asked of is hidden, and it is not padded to its {slots} slots",
                "Use padded(records, slots, where=receipt)",
            )
    if phase.unit == "record":
        return {label: cohort.one_by_one() for label, cohort in taken.items()}
    persons: list[NDArray[Any]] = []
    for label, cohort in taken.items():
        if cohort.persons is None:
            raise BadInput(
                f"cohort {label}", "the plan protects persons, and nothing says whose records these are", "Give persons"
            )
        persons.append(np.unique(np.asarray(cohort.persons)))
    if persons and np.unique(np.concatenate(persons)).size < sum(part.size for part in persons):
        raise BadInput(
            f"training phase {phase.number}",
            "a person has records in two cohorts, and would be sampled twice",
            "Keep all records of a person in one cohort",
        )
    return taken


def made_up(cohort: CohortRecords, device: torch.device) -> Any:
    """Three records of the right shape and type that are nobody's."""
    luck = torch.Generator().manual_seed(0)
    found = {}
    for name, part in cohort.arrays.items():
        shape = (3, *part.shape[1:])
        if np.dtype(part.dtype).kind == "f":
            found[name] = torch.randn(shape, generator=luck, dtype=torch.float32).to(device)
        else:
            kind = torch.from_numpy(np.empty(0, dtype=part.dtype)).dtype
            found[name] = torch.randint(0, 2, shape, generator=luck).to(kind).to(device)
    return found if isinstance(cohort.x, Mapping) else found[""]


def made_up_targets(cohort: CohortRecords, device: torch.device) -> torch.Tensor:
    """Labels for `made_up` records: the first class, or no label at all of several."""
    return targets_of(np.zeros((3, *cohort.y.shape[1:]), dtype=cohort.y.dtype), device)


def run_name(
    state: State, facts: Sequence[Any], cohorts: Mapping[str, CohortRecords], receipts: Sequence[Receipt]
) -> str:
    """Names a run by what it is paid with, public ``facts``, its first weights, and (keyed) its records and labels.

    The key comes from the phase's own secret: the name cannot be used to confirm a guess of the data. Records that are
    not in memory (mapped files, readers) count by their shape only: that they stay the same is their owner's part.
    """
    public = public_digest("\0".join([repr(facts), *(receipt.entry.hash for receipt in receipts)]), state.module)
    return _keyed(public, cohorts, step_seal(receipts[0])).hexdigest()


def public_digest(facts: str, module: nn.Module) -> bytes:
    """Names public ``facts`` and a module by its weights and buffers."""
    public = hashlib.sha256(facts.encode())
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        public.update(f"{name} {tuple(value.shape)} {value.dtype}\0".encode())
        public.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return public.digest()


def same_records(cohorts: Mapping[str, CohortRecords], key: bytes) -> str:
    """Names records and labels for processes that share a secret ``key``, which says nothing to anybody else.

    Records that are not in memory count by a few rows at places the key chooses: rows in another order would put a
    unit into a step twice, once for each process, and are found.
    """
    secret = _keyed(b"", cohorts, key)
    luck = np.random.default_rng(list(key))
    for cohort in cohorts.values():
        if all(type(part) is np.ndarray for part in cohort.arrays.values()):
            continue
        places = luck.choice(len(cohort), size=min(len(cohort), _LOOKED_AT), replace=False)
        rows, readable = cohort.readable_rows(np.sort(places))
        secret.update(readable.tobytes())
        for part in rows.values() if isinstance(rows, dict) else [rows]:
            secret.update(np.ascontiguousarray(part).tobytes())
    return secret.hexdigest()


def _keyed(public: bytes, cohorts: Mapping[str, CohortRecords], key: bytes) -> hashlib.blake2b:
    secret = hashlib.blake2b(public, key=key, digest_size=32)
    for label, cohort in cohorts.items():
        secret.update(f"{label} {cohort.y.dtype} {cohort.y.shape}\0".encode())
        secret.update(np.ascontiguousarray(cohort.y).tobytes() + cohort.owners.tobytes())
        for name, part in cohort.arrays.items():
            secret.update(f"{name} {part.dtype} {tuple(part.shape)}\0".encode())
            if type(part) is np.ndarray:
                secret.update(np.ascontiguousarray(part).data)
    return secret


_LOOKED_AT = 64
