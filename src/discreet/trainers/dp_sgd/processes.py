"""Several processes that train one model: who is there, and how they talk.

Rank 0 pays, draws and decides; the others compute gradients for it, and talk to it alone. Words travel as JSON and
tensors as their bytes, so nothing that is received can be executed. All of it goes by gloo through main memory, also
where gradients are computed on GPUs: gloo tells of an end or a silence, and the noise is drawn in main memory anyway.

Masks, seeds and sums before noise travel here, unencrypted: the network between the processes must be the owner's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from discreet.errors import BadInput, ProcessFailed

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
        with _talking(rank):
            dist.send(torch.tensor([len(content)]), group_dst=rank, group=self.wire)
            dist.send(content, group_dst=rank, group=self.wire)

    def tell_others(self, message: Mapping[str, Any]) -> None:
        """Send words to all others."""
        for rank in self.others:
            self.tell(rank, message)

    def hear(self, rank: int = 0) -> dict[str, Any]:
        """Wait for words of ``rank``."""
        size = torch.zeros(1, dtype=torch.int64)
        with _talking(rank):
            dist.recv(size, group_src=rank, group=self.wire)
            content = torch.zeros(int(size), dtype=torch.uint8)
            dist.recv(content, group_src=rank, group=self.wire)
        message: dict[str, Any] = json.loads(content.numpy().tobytes())
        return message

    def answers(self) -> list[dict[str, Any]]:
        """What the others say, all of them: one that ended is a failure in words, and the rest is still heard."""
        found = []
        for rank in self.others:
            try:
                found.append(self.hear(rank))
            except ProcessFailed as gone:
                found.append({"failed": [gone.fact, gone.remedy]})
        return found

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
        found = torch.empty_like(like, device="cpu", memory_format=torch.contiguous_format)
        with _talking(rank):
            dist.recv(found, group_src=rank, group=self.wire)
        return found.to(like.device)


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
