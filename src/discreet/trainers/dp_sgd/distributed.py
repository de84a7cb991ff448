"""Several processes that train one model: who is there, and how they talk.

Rank 0 pays, draws and decides; the others compute gradients for it, and talk to it alone. Words travel as JSON and
tensors as their bytes, so nothing that is received can be executed. All of it goes by gloo through main memory, also
where gradients are computed on GPUs: gloo tells of an end or a silence, and the noise is drawn in main memory anyway.

Masks, seeds and sums before noise travel here, unencrypted: the network between the processes must be the owner's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from discreet.errors import BadInput, DiscreetError, ProcessFailed
from discreet.trainers.dp_sgd.checks import public_digest, same_records
from discreet.trainers.dp_sgd.cohorts import CohortRecords, Positions
from discreet.trainers.dp_sgd.engine.fast import GradientEngine

PATIENCE = timedelta(minutes=30)
"""How long a process waits for another. It must be longer than a step takes."""
_LAST_WORDS = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Process ``rank`` of ``count``; without arguments, a process by itself. Make one by `join_processes` or `of`."""

    rank: int = 0
    count: int = 1
    wire: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, group: Any = None, *, timeout: timedelta = PATIENCE) -> Processes:
        """The processes of a group of torch.distributed (all there are, if none is named). All of them call this."""
        if not (dist.is_available() and dist.is_initialized()):
            raise BadInput(
                "several processes",
                "torch.distributed was not started in this one",
                "Start the script by torchrun and use join_processes, or call init_process_group first",
            )
        if group is dist.GroupMember.NON_GROUP_MEMBER:
            raise BadInput("several processes", "this one is not in the group", "Train in the processes of the group")
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        with _talking():
            wire = dist.new_group(ranks, backend="gloo", timeout=timeout, use_local_synchronization=True)
        return cls(rank=dist.get_rank(wire), count=len(ranks), wire=wire)

    @property
    def first(self) -> bool:
        """Whether this is the one that holds the ledger."""
        return self.rank == 0

    @property
    def others(self) -> range:
        """The ranks that rank 0 talks to."""
        return range(1, self.count)

    def tell(self, rank: int, message: Mapping[str, Any]) -> None:
        """Send words to ``rank``."""
        content = _bytes_of(message)
        self.send(rank, torch.tensor([len(content)]))
        self.send(rank, content)

    def tell_others(self, message: Mapping[str, Any]) -> None:
        """Send words to all others."""
        for rank in self.others:
            self.tell(rank, message)

    def hear(self, rank: int = 0) -> dict[str, Any]:
        """Wait for words of ``rank``."""
        size = self.receive(rank, like=torch.zeros(1, dtype=torch.int64))
        content = self.receive(rank, like=torch.zeros(int(size), dtype=torch.uint8))
        message: dict[str, Any] = json.loads(content.numpy().tobytes())
        return message

    def answers(self) -> list[dict[str, Any]]:
        """What the others say, all of them: one that ended is a failure in words, and the rest is still heard."""
        messages = []
        for rank in self.others:
            try:
                messages.append(self.hear(rank))
            except ProcessFailed as gone:
                messages.append({"failed": [gone.fact, gone.remedy]})
        return messages

    def last_words(self, message: Mapping[str, Any]) -> None:
        """Tell the others why this is the end; those that do not listen are not waited for."""
        content = _bytes_of(message)
        for rank in self.others:
            try:
                for part in (torch.tensor([len(content)]), content):
                    sent = dist.isend(part, group_dst=rank, group=self.wire)
                    assert sent is not None  # None is for processes outside the group
                    sent.wait(_LAST_WORDS)
            except RuntimeError:  # it ended before
                continue

    def send(self, rank: int, tensor: torch.Tensor) -> None:
        """Send ``tensor`` to ``rank``."""
        with _talking(rank):
            dist.send(tensor.cpu().contiguous(), group_dst=rank, group=self.wire)

    def receive(self, rank: int, like: torch.Tensor) -> torch.Tensor:
        """A tensor of ``rank``, of the size and type of ``like`` and where that is."""
        received = torch.empty_like(like, device="cpu", memory_format=torch.contiguous_format)
        with _talking(rank):
            dist.recv(received, group_src=rank, group=self.wire)
        return received.to(like.device)


@contextmanager
def join_processes(*, timeout: timedelta = PATIENCE) -> Iterator[Processes]:
    """The processes that torchrun started, until the end of the block. A script that was started by itself is one
    process. Where there are GPUs, each process of a machine gets one.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield Processes()
        return
    if dist.is_initialized():
        raise BadInput("joining processes", "torch.distributed was started already", "Use Processes.of(group)")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    with _talking():
        dist.init_process_group("gloo", timeout=timeout)
    try:
        yield Processes.of(timeout=timeout)
    finally:
        dist.destroy_process_group()


@contextmanager
def _talking(rank: int | None = None) -> Iterator[None]:
    """Around every use of the network: what goes wrong there, in words."""
    try:
        yield
    except (RuntimeError, ValueError) as failed:
        whom = "the processes did not find each other" if rank is None else f"rank {rank} ended, or was silent too long"
        raise ProcessFailed(
            "several processes",
            f"{whom} ({type(failed).__name__})",
            "See what the others say, and start all of them again: a sealed phase goes on from its checkpoint",
            rank=rank,
        ) from None


def _bytes_of(message: Mapping[str, Any]) -> torch.Tensor:
    return torch.frombuffer(bytearray(json.dumps(message).encode()), dtype=torch.uint8)


# What several processes do together: agree on what they train, and add up a step.
#
# Guarantee: rank 0 alone has receipts, so masks, seed and noise are drawn once. Micro-batch number j of a step is
# computed by rank j mod W, of the rows and with the randomness it has in one process; rank 0 adds the sums in the order
# of the ranks. So the sum is that of one process but for the order of additions, which `reach` covers: nowhere does a
# term go through more of them (docs/proofs/dp-sgd.md, "Several processes"). Before the first draw all processes have
# shown that they hold the same settings, phase, weights, labels and records.
#
# Whoever fails says so, by the kind of error and never by data, and all end. Nobody is left waiting.
#
# Symbols: W ``processes.count``.


T = TypeVar("T")
Prepared = tuple[nn.Module, dict[str, CohortRecords], torch.device, GradientEngine]
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
            failed_rank = failed.rank if isinstance(failed, ProcessFailed) else 0
            processes.last_words({"do": "stop", "rank": failed_rank, "failed": [fact, remedy]})
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
        prepared = prepare()
        layers = [type(layer).__qualname__ for layer in prepared[0].modules()]
        trained = [weights.requires_grad for weights in prepared[0].parameters()]
        public = repr((facts(), layers, trained, prepared[3]))  # noise is scaled to the engine
        return prepared, public_digest(public, prepared[0]).hex()

    ready, key = _agreed(processes, "settings, phase, model, engine or first weights", named, secret)
    _agreed(processes, "records, labels or persons", lambda: (None, same_records(ready[1], key)))
    return ready


def _agreed(
    processes: Processes, what: str, work: Callable[[], tuple[T, str]], secret: Callable[[], bytes] = bytes
) -> tuple[T, bytes]:
    """Do ``work`` in every process and compare the name it gives. Returns what it made, and what rank 0 then shares.

    If it fails in one process, or a name differs, all raise.
    """
    outcome, failed = _tried(work)
    report = _report(processes, failed) | {"name": outcome[1] if outcome else ""}
    if processes.first:
        answers = [report, *processes.answers()]
        _unless_failed(answers, failed)
        for rank in processes.others:
            if answers[rank]["name"] != report["name"]:
                raise ProcessFailed(
                    "several processes",
                    f"rank {rank} has other {what} than rank 0, or makes another call",
                    "Start all of them with the same; give the model as a function, or call torch.manual_seed first",
                    rank=rank,
                )
        shared = secret()
        processes.tell_others({"do": "go", "secret": shared.hex()})
    else:
        processes.tell(0, report)
        shared = bytes.fromhex(_order(processes, failed)["secret"])
    assert outcome is not None  # or somebody failed
    return outcome[0], shared


def sum_of(
    processes: Processes, part: Sum, module: nn.Module, sampled: Mapping[str, Positions], seed: int
) -> torch.Tensor:
    """The sum of a step, on rank 0: every process computes its part of it."""
    if processes.count == 1:
        return part(sampled, seed)
    units = {label: drawn.tolist() for label, drawn in sampled.items()}
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


def _unless_failed(answers: Sequence[Mapping[str, Any]], raised: BaseException | None) -> None:
    """On rank 0: raise if anybody failed."""
    for rank, answer in enumerate(answers):
        if answer["failed"]:
            _raise(rank, answer["failed"], raised if rank == 0 else None)


def _order(processes: Processes, failed: BaseException | None = None) -> dict[str, Any]:
    """On the others: what rank 0 wants next; raise if it is the end."""
    order = processes.hear()
    if order["do"] == "stop":
        _raise(order["rank"], order["failed"], failed)
    return order


def _raise(rank: int | None, words: Sequence[str], raised: BaseException | None) -> None:
    if isinstance(raised, DiscreetError) or (raised is not None and not isinstance(raised, Exception)):
        raise raised
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
