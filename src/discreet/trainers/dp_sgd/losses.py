"""Losses of one record, and how uncertain labels become targets.

A loss is a function ``loss(outputs, target)``: ``outputs`` (K, C) are the model's raw outputs for the K views of *one*
record (K = 1 without augmentation), ``target`` is its label. It returns a number, or one a view, which are averaged.
It is called for each record alone, so it cannot mix them, whatever it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, alternatives

Loss = Callable[[Any, Any], Any]
CHEXPERT_POSITIVE = ("Atelectasis", "Edema", "Pleural Effusion")
"""Where CheXpert's "uncertain" is better read as positive; elsewhere as negative (Irvin et al. 2019)."""
UNCERTAIN = -1


def cross_entropy(outputs: Any, target: Any) -> Any:
    """Softmax cross-entropy of one class."""
    from torch.nn import functional

    return functional.cross_entropy(outputs, target.expand(outputs.shape[0]))


def multilabel_bce(*, smoothing: float = 0.0) -> Loss:
    """Sigmoid cross-entropy of every label, averaged over all of them; a NaN label counts 0.

    ``smoothing`` a moves targets to (1 - a) y + a / 2.
    """
    if not isinstance(smoothing, (int, float)) or not 0 <= smoothing < 1:
        raise BadInput(f"label smoothing {smoothing}", "it is not in [0, 1)", "Try 0.2")

    def loss(outputs: Any, target: Any) -> Any:
        from torch.nn import functional

        known = ~target.isnan()
        wanted = target.nan_to_num(0.0) * (1 - smoothing) + smoothing / 2
        each = functional.binary_cross_entropy_with_logits(outputs, wanted.expand_as(outputs), reduction="none")
        return (each * known).mean(dim=-1)

    return loss


def chexpert_targets(
    labels: NDArray[Any],
    names: Sequence[str],
    *,
    positive: Sequence[str] = CHEXPERT_POSITIVE,
    smoothing: float = 0.2,
    blank: str = "negative",
) -> NDArray[np.float32]:
    """CheXpert's table (1 present, 0 absent, -1 uncertain, blank not mentioned) as targets.

    An uncertain label becomes positive in the columns ``positive`` and negative elsewhere, smoothed: 1 - a/2 or a/2.
    ``blank``: ``negative``, or ``ignored`` (NaN). Each row depends on itself alone.
    """
    try:
        table = np.asarray(labels, dtype=np.float32)
    except (TypeError, ValueError):
        raise BadInput("CheXpert labels", "a cell is no number", "Give 1, 0, -1 and NaN") from None
    unknown = [name for name in positive if name not in names]
    if (
        table.ndim != 2
        or table.shape[1] != len(names)
        or not 0 <= smoothing < 1
        or blank not in ("negative", "ignored")
    ):
        raise BadInput(
            "CheXpert labels", "columns, smoothing or the reading of blanks are not possible", "See its help"
        )
    if unknown:
        raise BadInput(f"uncertain as positive in {', '.join(unknown)}", "there is no such column", "Name columns")
    toward = np.array([1 - smoothing / 2 if name in positive else smoothing / 2 for name in names], dtype=np.float32)
    targets = np.where(table == UNCERTAIN, toward, table)
    if blank == "negative":
        targets = np.where(np.isnan(targets), np.float32(0), targets)
    return np.asarray(targets, dtype=np.float32)


def loss_named(name: str | Loss) -> Loss:
    """A built-in loss by its name, or the function itself."""
    if callable(name):
        return name
    losses: dict[str, Loss] = {"cross-entropy": cross_entropy, "multilabel-bce": multilabel_bce()}
    if name not in losses:
        raise BadInput(f"loss {name}", "there is no such loss", f"{alternatives(name, losses)}, or give a function")
    return losses[name]
