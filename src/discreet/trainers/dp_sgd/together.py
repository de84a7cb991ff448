"""What several processes do together: agree on what they train, and add up a step.

Guarantee: rank 0 alone has receipts, so masks, seed and noise are drawn once. Micro-batch number j of a step is
computed by rank j mod W, of the rows and with the randomness it has in one process; rank 0 adds the sums in the order
of the ranks. So the sum is that of one process but for the order of additions, which `reach` covers: nowhere does a
term go through more of them (docs/proofs/dp-sgd.md, "Several processes"). Before the first draw all processes have
shown that they hold the same settings, phase, weights, labels and records.

Whoever fails says so, by the kind of error and never by data, and all end. Nobody is left waiting.

Symbols: W ``processes.count``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from discreet.errors import DiscreetError, ProcessFailed
from discreet.trainers.dp_sgd.checks import public_digest, same_records
from discreet.trainers.dp_sgd.cohorts import CohortRecords, Positions
from discreet.trainers.dp_sgd.engine.trial import Way
from discreet.trainers.dp_sgd.processes import Processes

T = TypeVar("T")
Prepared = tuple[nn.Module, dict[str, CohortRecords], torch.device, Way]
"""What a phase is trained with: the module with its first weights, the records by cohort, where to compute, and how."""
Sum = Callable[[Mapping[str, Positions], int], torch.Tensor]
"""From the sampled units and the seed of a step to this process's part of the sum."""
_AGAIN = "Mend that and start all of them again: a sealed phase goes on from its checkpoint"


@contextmanager
def leading(processes: Processes) -> Iterator[None]:
    """Around all that rank 0 does while others listen: if it ends, they hear why."""
    try:
        yield
    except BaseException as failed:
        if processes.first:
            fact, remedy = _told(failed, rank=0)
            told = failed.rank if isinstance(failed, ProcessFailed) else 0
            processes.last_words({"do": "stop", "rank": told, "failed": [fact, remedy]})
        raise


def alike(
    processes: Processes, prepare: Callable[[], Prepared], facts: Callable[[], Any], secret: Callable[[], bytes]
) -> Prepared:
    """What ``prepare`` makes, if it is the same in every process: public ``facts`` and weights, records and labels.

    Records are compared by digests under a ``secret`` of rank 0.
    """
    if processes.count == 1:
        return prepare()

    def named() -> tuple[Prepared, str]:
        made = prepare()
        layers = [type(layer).__qualname__ for layer in made[0].modules()]
        trained = [weights.requires_grad for weights in made[0].parameters()]
        return made, public_digest(
            repr((facts(), layers, trained, made[3])), made[0]
        ).hex()  # noise is scaled to the way

    made, key = _agreed(processes, "settings, phase, model, engine or first weights", named, secret)
    _agreed(processes, "records, labels or persons", lambda: (None, same_records(made[1], key)))
    return made


def _agreed(
    processes: Processes, what: str, work: Callable[[], tuple[T, str]], secret: Callable[[], bytes] = bytes
) -> tuple[T, bytes]:
    """Do ``work`` in every process and compare the name it gives. Returns what it made, and what rank 0 then shares.

    If it fails in one process, or a name differs, all raise.
    """
    made, failed = _tried(work)
    own = _report(processes, failed) | {"name": made[1] if made else ""}
    if processes.first:
        answers = [own, *processes.answers()]
        _unless_failed(answers, failed)
        for rank in processes.others:
            if answers[rank]["name"] != own["name"]:
                raise ProcessFailed(
                    "several processes",
                    f"rank {rank} has other {what} than rank 0, or makes another call",
                    "Start all of them with the same; give the model as a function, or call torch.manual_seed first",
                    rank=rank,
                )
        shared = secret()
        processes.tell_others({"do": "go", "secret": shared.hex()})
    else:
        processes.tell(0, own)
        shared = bytes.fromhex(_order(processes, failed)["secret"])
    assert made is not None  # or somebody failed
    return made[0], shared


def sum_of(
    processes: Processes, part: Sum, module: nn.Module, sampled: Mapping[str, Positions], seed: int
) -> torch.Tensor:
    """The sum of a step, on rank 0: every process computes its part of it."""
    if processes.count == 1:
        return part(sampled, seed)
    units = {label: found.tolist() for label, found in sampled.items()}
    processes.tell_others({"do": "step", "seed": seed, "sampled": units})
    _send_weights(processes, module)
    total, failed = _tried(partial(part, sampled, seed))
    _unless_failed([_report(processes, failed), *processes.answers()], failed)
    assert total is not None
    processes.tell_others({"do": "send"})
    for rank in processes.others:
        total += processes.receive(rank, like=total)
    return total


def follow(processes: Processes, part: Sum, module: nn.Module) -> None:
    """What the others do: steps with the weights of rank 0, until it says that this is the end."""
    while (order := _order(processes))["do"] == "step":
        _receive_weights(processes, module)
        sampled = {label: np.array(units, dtype=np.int64) for label, units in order["sampled"].items()}
        total, failed = _tried(partial(part, sampled, order["seed"]))
        processes.tell(0, _report(processes, failed))
        _order(processes, failed)
        assert total is not None
        processes.send(0, total)


def same_weights(processes: Processes, module: nn.Module) -> nn.Module:
    """End the phase: every process has the trained weights of rank 0 in ``module``."""
    if processes.first:
        if processes.count > 1:
            processes.tell_others({"do": "end"})
            _send_weights(processes, module)
    else:
        _receive_weights(processes, module)
    return module


def _tried(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as failed:  # noqa: BLE001 - raised again when the others know
        return None, failed


def _report(processes: Processes, failed: BaseException | None) -> dict[str, Any]:
    return {"failed": None if failed is None else _told(failed, rank=processes.rank)}


def _told(failed: BaseException, *, rank: int | None) -> list[str]:
    """What others hear of ``failed``: our own errors carry no data and are told in full, of the rest the kind alone."""
    if isinstance(failed, ProcessFailed):
        return [failed.fact, failed.remedy]
    if isinstance(failed, DiscreetError):
        return [f"rank {rank} ended with {type(failed).__name__}: {failed.asked}: {failed.fact}", failed.remedy]
    return [f"rank {rank} ended with {type(failed).__name__}", _AGAIN]


def _unless_failed(answers: Sequence[Mapping[str, Any]], own: BaseException | None) -> None:
    """On rank 0: raise if anybody failed."""
    for rank, answer in enumerate(answers):
        if answer["failed"]:
            _raise(rank, answer["failed"], own if rank == 0 else None)


def _order(processes: Processes, failed: BaseException | None = None) -> dict[str, Any]:
    """On the others: what rank 0 wants next; raise if it is the end."""
    order = processes.hear()
    if order["do"] == "stop":
        _raise(order["rank"], order["failed"], failed)
    return order


def _raise(rank: int | None, words: Sequence[str], own: BaseException | None) -> None:
    if isinstance(own, DiscreetError) or (own is not None and not isinstance(own, Exception)):
        raise own
    raise ProcessFailed("several processes", words[0], words[1], rank=rank) from None


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [weights for weights in module.parameters() if weights.requires_grad]


def _send_weights(processes: Processes, module: nn.Module) -> None:
    plain = torch.cat([_plain(weights) for weights in _trained(module)])
    for rank in processes.others:
        processes.send(rank, plain)


def _receive_weights(processes: Processes, module: nn.Module) -> None:
    held = [_plain(weights) for weights in _trained(module)]
    pieces = torch.split(processes.receive(0, like=torch.cat(held)), [len(piece) for piece in held])
    with torch.no_grad():
        for weights, piece in zip(_trained(module), pieces, strict=True):
            weights.copy_(piece.clone().view(weights.dtype).reshape(weights.shape))


def _plain(weights: torch.Tensor) -> torch.Tensor:
    """Their bytes: whatever type they have, they arrive to the bit."""
    return weights.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
