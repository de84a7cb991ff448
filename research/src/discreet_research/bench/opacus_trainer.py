"""Opacus as the trainer of a campaign: the same plan, cohorts, model and settings, clipped and hidden by its own code.

A peer to be compared with, not a trainer that is certified. Its noise and its batches are drawn from torch's generator,
in floating point and not from a receipt, so that no ledger vouches for them: it trains simulations and refuses anything
else. Per-record gradients by its hooks (`GradSampleModule`), clipping, noise and step by its `DPOptimizer`, batches by
its Poisson sampler, one a cohort.

What is ours are the public numbers. `PrivacyEngine` takes the rate from the length of a loader and the divisor from the
size of a set, both facts of the records; here rate, sigma and the divisor b are the plan's. A record without a label
has a loss of 0. One whose gradient is not finite makes every weight NaN: that is Opacus' own behaviour, and is left so.

Reference: Yousefpour et al. 2021, Opacus: user-friendly differential privacy library in PyTorch (1.6.0).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import BadInput, ReceiptRefused, require
from discreet.privacy.plan import TrainingPhase, TrainingStage

if TYPE_CHECKING:
    from torch import Tensor, nn

    from discreet.privacy.ledger import Receipt
    from discreet.trainers.dp_sgd import CohortRecords, Settings
    from discreet.trainers.torch_predictor import TorchPredictor

_PLAIN = {"augment": (), "adaptive_clip": None, "schedule": "constant", "loss": "cross-entropy", "optimizer": "sgd"}


class OpacusTrainer:
    """Trains phases of a simulation by Opacus. ``seed``: of torch's generator, for batches and noise."""

    def __init__(
        self,
        model: Callable[[], nn.Module],
        *,
        classes: int,
        settings: Settings,
        seed: int,
        watch: Callable[[int, int], None] | None = None,
    ) -> None:
        require("opacus", extra="peers", of="discreet-research", asked="training by Opacus")
        others = [name for name, value in _PLAIN.items() if getattr(settings, name) != value]
        if others:
            raise BadInput(f"{', '.join(others)} with Opacus", "this comparison does not carry it", "Leave it out")
        self._model, self._classes, self._settings, self._seed = model, classes, settings, seed
        self._watch = watch or (lambda done, steps: None)

    def train(
        self,
        *,
        phase: TrainingPhase,
        cohorts: Mapping[str, CohortRecords],
        start: TorchPredictor | None = None,
        receipt: Sequence[Receipt],
    ) -> TorchPredictor:
        """The model after ``phase``. Receipts say that it was charged, and that it is a simulation."""
        from discreet.trainers.torch_predictor import TorchPredictor

        if not receipt or not all(paid.simulation for paid in receipt):
            raise ReceiptRefused(
                f"training phase {phase.number} by Opacus",
                "its noise is not drawn on receipts, and these are not of a simulation",
                "Train by DPSGD",
            )
        if phase.unit != "record":
            raise BadInput("Opacus by persons", "it clips single records", "Train by DPSGD")
        module = copy.deepcopy(start.module) if start is not None else self._model()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Full backward hook is firing")  # inputs need no gradients
            self._steps(module, phase, {label: cohorts[label] for label in phase.labels})
        return TorchPredictor(module.eval(), task="multiclass")

    def _steps(self, module: nn.Module, phase: TrainingPhase, cohorts: Mapping[str, CohortRecords]) -> None:
        """All steps of a phase; ``module`` has the (averaged) weights afterwards."""
        import torch

        from discreet.trainers.dp_sgd.optimization import average_into

        rng = torch.Generator().manual_seed((self._seed * 1_000_003 + phase.number) % 2**63)
        clipped = OpacusSums(module, self._settings.clip, learning_rate=self._settings.learning_rate, generator=rng)
        weights = {name: value for name, value in module.named_parameters() if value.requires_grad}
        averages = {name: value.detach().clone() for name, value in weights.items()}
        done = 0
        for stage in phase.stages:
            for places in _batches(stage, cohorts, rng):
                rows, targets, usable = _joined(places, cohorts, self._classes)
                clipped.step(rows, targets, usable, noise_multiplier=stage.noise_multiplier, batch=phase.batch)
                done += 1
                if self._settings.ema is not None:
                    average_into(averages, weights, self._settings.ema, done)
                self._watch(done, phase.steps)
        clipped.leave()
        if self._settings.ema is not None:
            with torch.no_grad():
                for name, value in weights.items():
                    value.copy_(averages[name])


class OpacusSums:
    """Clipped sums and noisy steps of one module, by Opacus. ``module`` itself moves, and has hooks until `leave`."""

    def __init__(self, module: nn.Module, clip: float, *, learning_rate: float, generator: Any = None) -> None:
        import torch
        from opacus.grad_sample import GradSampleModule
        from opacus.optimizers import DPOptimizer

        self._wrapped = GradSampleModule(module.train(), loss_reduction="sum")
        self._optimizer = DPOptimizer(
            torch.optim.SGD(module.parameters(), lr=learning_rate),
            noise_multiplier=0.0,
            max_grad_norm=clip,
            expected_batch_size=1,
            generator=generator,
        )

    def sum_of(self, rows: Tensor, targets: Tensor, usable: Tensor) -> Tensor:
        """The sum of clipped gradients, one flat vector, without noise."""
        import torch

        self._gradients(rows, targets, usable)
        self._optimizer.clip_and_accumulate()
        total = torch.cat([weights.summed_grad.reshape(-1).clone() for weights in self._optimizer.params])
        self._optimizer.zero_grad()
        return total

    def step(self, rows: Tensor, targets: Tensor, usable: Tensor, *, noise_multiplier: float, batch: int) -> None:
        """One step: the sum is hidden, divided by the public ``batch``, and followed."""
        self._optimizer.noise_multiplier, self._optimizer.expected_batch_size = noise_multiplier, batch
        self._gradients(rows, targets, usable)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def leave(self) -> None:
        """Take the hooks off the module."""
        self._wrapped.remove_hooks()
        for weights in self._optimizer.params:
            for name in ("grad_sample", "summed_grad", "_forward_counter"):
                if hasattr(weights, name):
                    delattr(weights, name)

    def _gradients(self, rows: Tensor, targets: Tensor, usable: Tensor) -> None:
        from torch.nn import functional

        each = functional.cross_entropy(self._wrapped(rows), targets, reduction="none")
        (each * usable).sum().backward()  # type: ignore[no-untyped-call]


def _batches(
    stage: TrainingStage, cohorts: Mapping[str, CohortRecords], rng: Any
) -> Iterator[dict[str, Sequence[int]]]:
    """Opacus' Poisson batches: of every cohort with records, at the plan's rate."""
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    samplers = {
        label: iter(
            UniformWithReplacementSampler(
                num_samples=len(cohorts[label]), sample_rate=event.sampling_rate, generator=rng, steps=stage.steps
            )
        )
        for label, event in stage.cohorts
        if len(cohorts[label])
    }
    for _ in range(stage.steps):
        yield {label: next(sampler) for label, sampler in samplers.items()}


def _joined(
    places: Mapping[str, Sequence[int]], cohorts: Mapping[str, CohortRecords], classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, class numbers (0 where there is none) and which of them count."""
    import torch

    rows, labels, counts = [], [], []
    for label, taken in places.items():
        cohort, chosen = cohorts[label], np.asarray(taken, dtype=np.int64)
        labelled = cohort.labelled(classes)[chosen]
        rows.append(cohort.rows(chosen))
        labels.append(np.where(labelled, cohort.y[chosen], 0))
        counts.append(labelled)
    return (
        torch.from_numpy(np.concatenate(rows).astype(np.float32)),
        torch.from_numpy(np.concatenate(labels).astype(np.int64)),
        torch.from_numpy(np.concatenate(counts)),
    )
