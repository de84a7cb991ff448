"""What is checked before a phase is trained: its layers, its receipts, its records, and which run it is."""

from __future__ import annotations

import hashlib
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from discreet.errors import BadInput, DiscreetError, ReceiptRefused
from discreet.models.layers import check_sized, refuse_mixing
from discreet.noise import step_seal
from discreet.privacy.ledger import Receipt
from discreet.privacy.plan import TrainingPhase
from discreet.trainers.dp_sgd.batches import targets_of
from discreet.trainers.dp_sgd.checkpoints import State
from discreet.trainers.dp_sgd.cohorts import CohortRecords
from discreet.trainers.tensors import row_of

_SAME, _SEEDS = 1e-3, 8
"""Rounding of a batch against single records stays far below this; mixing is far above."""


def check_layers(module: nn.Module) -> None:
    """Refuse layers that mix records or keep statistics of them; the error names layer and replacement."""
    refuse_mixing(module, "training this model")
    check_sized(module)
    if not any(weights.requires_grad for weights in module.parameters()):
        raise BadInput("training this model", "none of its parameters is to be trained", "Set requires_grad")
    if any(weights.is_complex() for weights in module.parameters()):
        raise BadInput("training this model", "it has complex weights", "Use real ones")


def check_by_trying(module: nn.Module, made_up: Any, classes: int) -> None:
    """Run ``module``, a copy, on three made-up records together and apart; refuse it if that differs or moves a buffer.

    ``made_up`` holds no private data, so what goes wrong here may be said in full.
    """
    probe = module.train()
    for layer in probe.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.eval()
    before = {name: value.clone() for name, value in probe.named_buffers()}
    cuda = sorted({weights.device for weights in module.parameters() if weights.is_cuda}, key=str)
    with torch.no_grad(), torch.random.fork_rng(devices=cuda):
        torch.manual_seed(0)
        together = _outputs(probe, made_up)
        for name, value in probe.named_buffers():
            if not torch.equal(value, before[name]):
                raise BadInput(
                    f"buffer {name} of this model", "a forward pass changes it, and no noise is added", "Remove it"
                )
        if together.shape != (3, classes):
            raise BadInput(
                "this model", f"for 3 records it gives {tuple(together.shape)}", f"Return a row of {classes} a record"
            )
        _check_company(probe, made_up)
        if not torch.equal(together, _outputs(probe, made_up)):
            return  # it draws at random by itself: batches of other sizes cannot be compared
        apart = torch.cat([_outputs(probe, row_of(made_up, row)) for row in range(len(together))])
    scale = together.abs().max().clamp_min(1e-6)
    if together.shape != apart.shape or not bool(((together - apart).abs() <= _SAME * scale).all()):
        _refuse()


def _refuse() -> None:
    raise BadInput(
        "training this model",
        "a record's output changes with the records beside it",
        "Remove what reads the batch axis: normalisation over it, sorting, attention between records",
    )


def _check_company(probe: nn.Module, made_up: Any) -> None:
    """Refuse a model if, with the same random draws, one record that changes changes what it says of another."""
    for seed in range(_SEEDS):
        before, again = (_with_seed(probe, made_up, seed) for _ in range(2))
        if not torch.equal(before, again):
            return  # it draws from another source, which no seed repeats; `choose_engine` leaves it to the reference
        for row, factor in enumerate((0, 1000, 0)):
            after = _with_seed(probe, _with_row(made_up, row, factor), seed)
            others = torch.arange(len(before), device=before.device) != row
            gap = (after - before)[others].abs()
            if not bool((gap <= _SAME * before.abs().max().clamp_min(1e-6)).all()):
                _refuse()


def _with_seed(probe: nn.Module, rows: Any, seed: int) -> torch.Tensor:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed writes down the stack for devices that are not there
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    return _outputs(probe, rows)


def _with_row(rows: Any, row: int, factor: int) -> Any:
    if isinstance(rows, dict):
        return {name: _with_row(part, row, factor) for name, part in rows.items()}
    changed = rows.clone()
    changed[row] *= factor if rows.is_floating_point() else 0
    return changed


def _outputs(module: nn.Module, rows: Any) -> torch.Tensor:
    with in_full("the model", "Give records as the model takes them"):
        out = module(rows)
    if not isinstance(out, torch.Tensor) or out.dim() != 2:
        raise BadInput("this model", "its output is not a table of one row a record", "Return (records, classes)")
    return out


# What a stranger's code says when it fails: on made-up records all of it, on private ones the kind of error alone.


T = TypeVar("T")
_TRIES = 3


@contextmanager
def hushed(what: str) -> Iterator[None]:
    """Around code that sees private records: its errors and warnings may quote one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DiscreetError:
        raise
    except Exception as failed:  # noqa: BLE001 - whatever it is
        raise BadInput(
            what, f"on your records it ended with {type(failed).__name__}", "Try it on made-up records like yours"
        ) from None


@contextmanager
def in_full(what: str, remedy: str = "Model and loss must work for one record under torch.func.vmap") -> Iterator[None]:
    """Around the same code on made-up or public records, before anything is charged."""
    try:
        yield
    except DiscreetError:
        raise
    except Exception as failed:
        raise BadInput(
            what,
            f"on made-up records like yours it ended with {type(failed).__name__}: {failed}",
            remedy,
        ) from failed


def drawing_with_torch(what: str, work: Callable[[], T]) -> T:
    """What ``work`` makes of made-up records. Refused if it draws from a generator that a step does not seed; it is
    tried again before that, because another thread may have drawn.
    """
    for _ in range(_TRIES):
        before = _other_generators()
        outcome = work()
        if _other_generators() == before:
            return outcome
    raise BadInput(
        what,
        "it draws from the global generator of Python or numpy, whose seed is no secret of a training step",
        "Draw with torch; in an augmentation, from the generator that it is given",
    )


def _other_generators() -> tuple[object, ...]:
    kind, key, *rest = np.random.get_state(legacy=True)
    return random.getstate(), kind, np.asarray(key).tobytes(), *rest


# What is checked before a phase is trained: that it was paid for, that its records are there, and which run it is.


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
    generator = torch.Generator().manual_seed(0)
    arrays = {}
    for name, part in cohort.arrays.items():
        shape = (3, *part.shape[1:])
        if np.dtype(part.dtype).kind == "f":
            arrays[name] = torch.randn(shape, generator=generator, dtype=torch.float32).to(device)
        else:
            kind = torch.from_numpy(np.empty(0, dtype=part.dtype)).dtype
            arrays[name] = torch.randint(0, 2, shape, generator=generator).to(kind).to(device)
    return arrays if isinstance(cohort.x, Mapping) else arrays[""]


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
    rng = np.random.default_rng(list(key))
    for cohort in cohorts.values():
        if all(type(part) is np.ndarray for part in cohort.arrays.values()):
            continue
        places = rng.choice(len(cohort), size=min(len(cohort), _LOOKED_AT), replace=False)
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
