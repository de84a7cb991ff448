"""What a model said before it was fine-tuned, of public records without a label: so that it does not forget.

Few labels, most of them of records that the model was unsure of, make it forget the easy ones: fine-tuned on them alone
it may end below where it began. So every step also sees unlabelled public records, and is held to what the start model
itself says of them (Li and Hoiem 2016, Learning without forgetting; Hinton et al. 2015). All of that counts as much as
a fixed number of labels, R: with n labels a step's loss is

    n/(n + R) * loss on labelled records  +  R/(n + R) * cross-entropy to what the start model said

Guarantee: reads the start model and public records. No label of theirs is read, so it is post-processing as
fine-tuning is.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from discreet.trainers.dp_sgd.cohorts import CohortRecords
from discreet.trainers.torch_predictor import Task

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
        whole = torch.isfinite(outputs).all(dim=-1)
        kept = {name: part[whole] for name, part in rows.items()} if isinstance(rows, dict) else rows[whole]
        said = outputs[whole]
        return kept, said.sigmoid() if self.task == "multilabel" else said.softmax(dim=-1)

    def loss(self, outputs: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        """Cross-entropy to what was said."""
        if self.task == "multilabel":
            return functional.binary_cross_entropy_with_logits(outputs, said)
        return functional.cross_entropy(outputs, said)
