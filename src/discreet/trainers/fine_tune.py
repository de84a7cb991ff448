"""Ordinary training on public records, from weights that are private already: fine-tuning, and learning by rotations.

Guarantee: reads a start model (private by its own guarantee) and public records with their labels, and nothing else. So
what comes out is post-processing of the start model: it costs nothing, and keeps the same guarantee. Chance (order,
views, new heads) comes from a public seed: the same records and labels give the same model.

`FineTuning.recall` keeps it from forgetting (trainers/fine_tune.py).

`rotations` is pre-training without labels (Gidaris et al. 2018): the trunk learns by how many quarters a public picture
was turned; DP-SGD then starts from its weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from discreet.errors import BadInput
from discreet.models.layers import has_seam
from discreet.noise import derived_seed
from discreet.trainers.dp_sgd.augmentation import views_of
from discreet.trainers.dp_sgd.cohorts import MISSING, CohortRecords
from discreet.trainers.dp_sgd.optimization import average_into, build_optimizer, factor_at, loss_named
from discreet.trainers.dp_sgd.settings import Settings
from discreet.trainers.tensors import each_part, tensor_of
from discreet.trainers.torch_predictor import Task, TorchPredictor, device_named

QUARTERS, MOST = 4, 1e6
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """``settings``: as of DP-SGD; what is about noise and clipping is not read. ``seed``: public.

    recall    what the start model says of unlabelled public records counts as much as so many labels; 0: not at all
    """

    settings: Settings
    epochs: int
    batch: int
    task: Task = "multiclass"
    seed: int = 0
    recall: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= 10**6:
                raise BadInput(f"fine-tuning with {name}={value}", "it is not a whole number from 1", "Try 20")
        if not isinstance(self.recall, (int, float)) or isinstance(self.recall, bool) or not 0 <= self.recall <= MOST:
            raise BadInput(f"fine-tuning with recall={self.recall}", f"it is no number from 0 to {MOST:g}", "Try 500")

    def train(
        self,
        start: nn.Module,
        records: CohortRecords,
        *,
        pool: CohortRecords | None = None,
        progress: Progress | None = None,
    ) -> TorchPredictor:
        """A copy of ``start``, trained on the records that have a label; without any, as it was.

        ``pool``: public records that are recalled; their labels are not read.
        """
        module = copy.deepcopy(start)
        labelled = np.flatnonzero(records.y != MISSING if records.y.ndim == 1 else ~np.isnan(records.y).all(axis=1))
        if len(labelled):
            loss, recall = _of_a_batch(self.settings, self.task), None
            if self.recall and pool is not None and len(pool):
                recall = Recall(
                    start=start,
                    records=pool,
                    share=self.recall / (self.recall + len(labelled)),
                    batch=max(1, self.batch // 2),
                    task=self.task,
                    seed=self.seed,
                    device=device_named(self.settings.device),
                )
            self._run(module, records, labelled, loss, progress, recall)
        return TorchPredictor(module, task=self.task, device=self.settings.device)

    def _run(
        self,
        module: nn.Module,
        records: CohortRecords,
        labelled: Any,
        loss: Callable[[Any, Any], Any],
        progress: Progress | None,
        recall: Recall | None = None,
    ) -> None:
        device, settings = device_named(self.settings.device), self.settings
        pictures = all(parameter.ndim < 5 for parameter in module.parameters())
        module.to(device).train()
        if pictures:  # convolutions of plain pictures take two thirds of the time so
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        chance = np.random.default_rng(self.seed)
        steps = self.epochs * -(-len(labelled) // self.batch)
        weights = [parameter for parameter in module.parameters() if parameter.requires_grad]
        optimizer = build_optimizer(
            settings.optimizer, weights, settings.learning_rate, dict(settings.optimizer_options)
        )
        averages = {name: value.detach().clone() for name, value in module.named_parameters()} if settings.ema else {}
        step = 0
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.seed)  # dropout
            for _ in range(self.epochs):
                order = chance.permutation(labelled)
                for first in range(0, len(order), self.batch):
                    some = order[first : first + self.batch]
                    for group in optimizer.param_groups:
                        group["lr"] = settings.learning_rate * factor_at(settings.schedule, step, steps)
                    optimizer.zero_grad(set_to_none=True)
                    target = torch.from_numpy(np.ascontiguousarray(records.y[some])).to(device)
                    step_loss = loss(module(self._views(_rows(records, some, device), "views", step)), target)
                    if recall is not None:
                        rows, recalled = recall.said(_rows(recall.records, recall.places(), device))
                        if len(recalled):
                            before = recall.loss(module(self._views(rows, "recalled views", step)), recalled)
                            step_loss = (1 - recall.share) * step_loss + recall.share * before
                    step_loss.backward()
                    optimizer.step()
                    step += 1
                    if settings.ema is not None:
                        average_into(averages, dict(module.named_parameters()), settings.ema, step)
                    if progress is not None:
                        progress(step, steps)
        module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        if averages:
            module.load_state_dict({**module.state_dict(), **averages})
        module.eval()

    def _views(self, rows: Any, use: str, step: int) -> Any:
        if isinstance(rows, dict) or not self.settings.augmentations:
            return rows
        return views_of(rows, self.settings.augmentations, 1, derived_seed(self.seed, use, step)).squeeze(1)


def _rows(records: CohortRecords, some: Any, device: torch.device) -> Any:
    rows = records.rows(np.sort(some))
    back = np.argsort(np.argsort(some))  # a file is read forwards
    tensors = each_part(lambda part: tensor_of(part[back], device), rows)
    pictures = isinstance(tensors, torch.Tensor) and tensors.ndim == 4
    return tensors.contiguous(memory_format=torch.channels_last) if pictures else tensors


def _of_a_batch(settings: Settings, task: Task) -> Callable[[Any, Any], Any]:
    """The mean loss of a batch. One of the user's is called for each record, as in private training."""
    if settings.loss == "cross-entropy" and task == "multiclass":
        return lambda outputs, target: functional.cross_entropy(outputs, target.long())
    loss_of = loss_named(settings.loss)

    def mean(outputs: Any, target: Any) -> Any:
        each = [loss_of(outputs[row : row + 1], target[row]).mean() for row in range(len(target))]
        return torch.stack(each).mean()

    return mean


def rotations(
    start: nn.Module,
    pictures: Any,
    *,
    settings: Settings,
    epochs: int,
    batch: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> nn.Module:
    """``start`` with a trunk that learnt to tell turned public ``pictures`` (n, C, H, W) apart; its head is as it was.

    Reads public records alone: the weights may be where a private training begins.
    """
    if not has_seam(start):
        raise BadInput("learning by rotations", "the model has no features() and head()", "Use a model of build_model")
    shape = tuple(pictures.shape)
    if len(shape) != 4 or shape[2] != shape[3]:
        raise BadInput("learning by rotations", "the records are not square pictures", "Give (n, C, H, H)")
    module = copy.deepcopy(start)
    free = [parameter.requires_grad for parameter in module.parameters()]
    turning = _Turning(module, _width(module, shape[1:]), seed)
    records = CohortRecords(x=_Turned(pictures), y=np.tile(np.arange(QUARTERS), shape[0]))
    plan = FineTuning(settings=settings, epochs=epochs, batch=batch, seed=seed)
    labelled = np.arange(len(records))
    plan._run(turning, records, labelled, _of_a_batch(settings, "multiclass"), progress)
    for parameter, before in zip(module.parameters(), free, strict=True):
        parameter.requires_grad_(before)
    return module.cpu()


class _Turning(nn.Module):
    """The trunk of a model under a new head of four."""

    def __init__(self, module: Any, width: int, seed: int) -> None:
        super().__init__()
        self.trunk = module
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.quarters = nn.Linear(width, QUARTERS)
        if isinstance(module.head, nn.Module):
            for parameter in module.head.parameters():
                parameter.requires_grad_(False)

    def forward(self, rows: Any) -> Any:
        """Four outputs a picture."""
        return self.quarters(self.trunk.features(rows).flatten(1))


class _Turned:
    """Every picture four times, turned by 0, 1, 2, 3 quarters; made when it is asked for."""

    def __init__(self, pictures: Any) -> None:
        self._pictures = pictures
        self.shape = (QUARTERS * pictures.shape[0], *pictures.shape[1:])
        self.dtype, self.ndim = np.dtype(np.float32), len(self.shape)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Any:
        places = np.arange(len(self))[key]
        rows = np.asarray(self._pictures[places // QUARTERS], dtype=np.float32)
        turns = places % QUARTERS
        for quarter in range(1, QUARTERS):
            rows[turns == quarter] = np.rot90(rows[turns == quarter], quarter, axes=(2, 3))
        return rows


def _width(module: Any, inputs: tuple[int, ...]) -> int:
    with torch.no_grad():
        return int(module.eval().features(torch.zeros((1, *inputs))).flatten(1).shape[1])


# What a model said before it was fine-tuned, of public records without a label: so that it does not forget.
#
# Few labels, most of them of records that the model was unsure of, make it forget the easy ones: fine-tuned on them
# alone
# it may end below where it began. So every step also sees unlabelled public records, and is held to what the start
# model
# itself says of them (Li and Hoiem 2016, Learning without forgetting; Hinton et al. 2015). All of that counts as
# much as
# a fixed number of labels, R: with n labels a step's loss is
#
#     n/(n + R) * loss on labelled records  +  R/(n + R) * cross-entropy to what the start model said
#
# Guarantee: reads the start model and public records. No label of theirs is read, so it is post-processing as
# fine-tuning is.


_STREAM = 1
"""Of the seed: places of recalled records do not depend on the order of the labelled ones."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Recall:
    """``share``: of a step's loss, R/(n + R). ``batch``: how many are recalled in a step."""

    start: nn.Module
    records: CohortRecords
    share: float
    batch: int
    task: Task
    seed: int
    device: torch.device
    chance: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", copy.deepcopy(self.start).to(self.device).eval())
        object.__setattr__(self, "chance", np.random.default_rng([self.seed, _STREAM]))

    def places(self) -> Any:
        """Of the next step's records, drawn at random."""
        return self.chance.choice(len(self.records), size=min(self.batch, len(self.records)), replace=False)

    def said(self, rows: Any) -> tuple[Any, torch.Tensor]:
        """Rows, and what the start model says of them as probabilities. One of which it says nothing finite is left
        out: its gradient would not be finite, either.
        """
        with torch.no_grad():
            outputs: torch.Tensor = self.start(rows)
        finite = torch.isfinite(outputs).all(dim=-1)
        finite_rows = each_part(lambda part: part[finite], rows)
        answers = outputs[finite]
        return finite_rows, answers.sigmoid() if self.task == "multilabel" else answers.softmax(dim=-1)

    def loss(self, outputs: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        """Cross-entropy to what was said."""
        if self.task == "multilabel":
            return functional.binary_cross_entropy_with_logits(outputs, answers)
        return functional.cross_entropy(outputs, answers)
