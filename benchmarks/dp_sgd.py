"""Speed, memory and correctness of clipped gradient sums, as ratios to the best non-private step of the same model.

A step here is forward pass, backward pass and the (clipped) sum of gradients of one micro-batch; noise and optimizer,
which are the same for all, are left out. All contenders run in one process, interleaved, with the same threads and the
same allocator settings, on the same weights, records and labels.

Correctness is measured in the same run, on 12 of the records: by how much of C the sum moves when one record is taken
away (at most 1 is what privacy needs), and how far the sum is from one computed record by record in double precision.

    python benchmarks/dp_sgd.py    # writes benchmarks/results/dp_sgd.md
"""

from __future__ import annotations

import copy
import itertools
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.profiler import ProfilerActivity, profile

from discreet.models import build_model
from discreet.trainers.dp_sgd.engine.fast import FastGradients
from discreet.trainers.dp_sgd.engine.parts import margin
from discreet.trainers.dp_sgd.optimization import cross_entropy
from timing import hardware

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 33)}
"""Freed memory is kept for the next step: else large batches spend their time in page faults, private or not."""
RESULT = Path(__file__).parent / "results" / "dp_sgd.md"
CLASSES, CLIP, FEW, THREADS = 10, 0.5, 12, 2
Step = Callable[[Tensor, Tensor], Tensor]
"""From records and labels to the sum of gradients, one flat vector in the order of the parameters."""


@dataclass(frozen=True)
class Case:
    """A model and its micro-batch."""

    title: str
    name: str
    shape: tuple[int, ...]
    batch: int
    goal: float
    rounds: int


CASES = [
    Case("MLP 784-256-10, batch 4096", "mlp", (1, 28, 28), 4096, 1.10, 41),
    Case("small CNN, batch 2048", "small_cnn", (1, 28, 28), 2048, 1.25, 25),
    Case("ResNet-9 (64-128-256), 3 x 32 x 32, batch 64", "resnet9", (3, 32, 32), 64, 1.10, 15),
]


def flat(parts: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def ordinary(module: nn.Module) -> Step:
    parameters = list(module.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        for weights in parameters:
            weights.grad = None
        nn.functional.cross_entropy(module(x), y, reduction="sum").backward()  # type: ignore[no-untyped-call]
        return flat([weights.grad for weights in parameters]) if len(x) <= FEW else torch.empty(0)

    return step


def ours(module: nn.Module, *, channels_last: bool, compiled: bool = False) -> Step:
    engine = FastGradients(module, cross_entropy, channels_last=channels_last, compiled=compiled)
    return lambda x, y: engine.sum_of(x[:, None], y, clip=CLIP)


def by_torch_func(module: nn.Module) -> Step:
    """As the tutorials write it: all gradients at once, in single precision."""
    weights = {name: value.detach() for name, value in module.named_parameters()}

    def loss(used: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(module, used, (x[None],)), y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))

    def step(x: Tensor, y: Tensor) -> Tensor:
        found = each(weights, x, y)
        lengths = torch.stack([part.flatten(1).norm(dim=1) for part in found.values()]).norm(dim=0)
        factors = CLIP / lengths.clamp_min(CLIP)
        return flat([torch.tensordot(factors, part, dims=1) for part in found.values()])

    return step


def opacus_hooks(module: nn.Module) -> Step:
    wrapped = GradSampleModule(copy.deepcopy(module), loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.0),
        noise_multiplier=0.0,
        max_grad_norm=CLIP,
        expected_batch_size=1,
        loss_reduction="sum",
    )

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(x), y, reduction="sum").backward()  # type: ignore[no-untyped-call]
        optimizer.clip_and_accumulate()
        return flat([weights.summed_grad for weights in wrapped.parameters()])

    return step


def opacus_ghost(module: nn.Module) -> Step:
    wrapped = GradSampleModuleFastGradientClipping(
        copy.deepcopy(module), max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="sum"
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(wrapped.parameters(), lr=0.0),
        noise_multiplier=0.0,
        max_grad_norm=CLIP,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    loss = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum")

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss(wrapped(x), y).backward()
        optimizer.accumulate()
        return flat([weights.summed_grad for weights in wrapped.parameters()])

    return step


@dataclass
class Contender:
    """``slow``: runs in every eighth round only. ``private``: clips."""

    name: str
    step: Step
    x: Tensor
    private: bool = True
    slow: bool = False


def contenders(case: Case, module: nn.Module, x: Tensor) -> list[Contender]:
    def of(make: Callable[[nn.Module], Step], *, last: bool = False) -> Step:
        own = copy.deepcopy(module)
        return make(own.to(memory_format=torch.channels_last) if last else own)  # type: ignore[call-overload]

    found = [
        Contender("torch, not private", of(ordinary), x, private=False),
        Contender("**discreet**", of(lambda own: ours(own, channels_last=len(case.shape) > 1)), x),
        Contender("torch.func", of(by_torch_func), x, slow=True),
        Contender("Opacus, hooks", of(opacus_hooks), x, slow=True),
        Contender("Opacus, ghost clipping", of(opacus_ghost), x, slow=True),
    ]
    if case.name == "mlp":
        return found
    turned = x.contiguous(memory_format=torch.channels_last)
    return [
        *found[:1],
        Contender("torch, not private, channels-last", of(ordinary, last=True), turned, private=False),
        found[1],
        Contender("**discreet**, `compiled`", of(lambda own: ours(own, channels_last=True, compiled=True)), x),
        *found[2:],
        Contender("torch.func, channels-last", of(by_torch_func, last=True), turned, slow=True),
        Contender("Opacus, hooks, channels-last", of(opacus_hooks, last=True), turned, slow=True),
        Contender("Opacus, ghost clipping, channels-last", of(opacus_ghost, last=True), turned, slow=True),
    ]


def interleaved(found: list[Contender], y: Tensor, rounds: int) -> dict[str, float]:
    """Median seconds of each, one round after the other."""
    times: dict[str, list[float]] = {part.name: [] for part in found}
    for number in range(-1, rounds):
        for part in found:
            if part.slow and number % 8:
                continue
            start = time.perf_counter()
            part.step(part.x, y)
            if number >= 0:
                times[part.name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def peak(part: Contender, y: Tensor) -> float:
    """MiB of tensors that one step holds at most beyond what was there. What a process needs on top of that depends on
    its allocator, in the same way for all.
    """
    part.step(part.x, y)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        part.step(part.x, y)
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return float(max(itertools.accumulate(sizes))) / 2**20


def exact(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The clipped sum, record by record, in double precision."""
    own, total = copy.deepcopy(module).double(), torch.zeros(())
    for row in range(len(x)):
        own.zero_grad()
        loss = nn.functional.cross_entropy(own(x[row : row + 1].double()), y[row : row + 1])
        loss.backward()  # type: ignore[no-untyped-call]
        found = flat([weights.grad for weights in own.parameters()])
        total = total + found * (CLIP / found.norm().clamp_min(CLIP))
    return total


def correctness(part: Contender, module: nn.Module, y: Tensor) -> tuple[float, float]:
    """The most that taking a record away moves the sum, in C; and the relative error of the sum."""
    x = part.x[:FEW]
    whole = part.step(x, y[:FEW]).double().clone()
    gaps = []
    for row in range(FEW):
        kept = [other for other in range(FEW) if other != row]
        rows = x[kept]
        if x.is_contiguous(memory_format=torch.channels_last) and x.dim() == 4:
            rows = rows.contiguous(memory_format=torch.channels_last)
        gaps.append(float((whole - part.step(rows, y[kept]).double()).norm()) / CLIP)
    right = exact(module, x, y[:FEW])
    return max(gaps), float((whole - right).norm() / right.norm())


def table(case: Case) -> str:
    torch.manual_seed(0)
    x, y = torch.randn(case.batch, *case.shape), torch.randint(0, CLASSES, (case.batch,))
    module = build_model(case.name, inputs=case.shape, classes=CLASSES).train()
    found = contenders(case, module, x)
    seconds = interleaved(found, y, case.rounds)
    memory = {part.name: peak(part, y) for part in found}
    public = [part.name for part in found if not part.private]
    base = min(public, key=lambda name: seconds[name])
    lines = [
        f"| {case.title} | median | ratio | peak memory | ratio | one record moves the sum by | error of the sum |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in found:
        moved, error = correctness(part, module, y) if part.private else (float("nan"), float("nan"))
        right = f"{moved:.3f} C | {error:.0e}" if part.private else "no bound | "
        lines.append(
            f"| {part.name} | {1000 * seconds[part.name]:.1f} ms | {seconds[part.name] / seconds[base]:.2f} "
            f"| {memory[part.name]:.0f} MiB | {memory[part.name] / memory[base]:.2f} | {right} |"
        )
    print("\n".join(lines), flush=True)
    goal = f"Goal: {case.goal:.2f}. Noise is scaled to {1 + margin(case.batch):.4f} C, for rounding."
    return "\n".join(lines) + f"\n\n{goal}\n"


def main() -> None:
    if any(os.environ.get(name) != value for name, value in ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ALLOCATOR)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(THREADS)
    wanted = sys.argv[1:] or [case.name for case in CASES]
    tables = "\n".join(table(case) for case in CASES if case.name in wanted)
    settings = ", ".join(f"{name}={value}" for name, value in ALLOCATOR.items())
    text = f"""# DP-SGD: speed, memory, correctness

Made by `make bench` (benchmarks/dp_sgd.py): contenders interleaved in one process, medians, {THREADS} threads,
{settings}. Ratios are to the fastest non-private step of the table.
{hardware(torch=str(torch.__version__))}
A step is forward pass, backward pass and the (clipped) sum of gradients. Memory is that of the tensors a step holds at
most. The last two columns are measured on {FEW} of the records.

{tables}"""
    if len(wanted) == len(CASES):
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
