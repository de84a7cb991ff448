"""Are two results identical, and how far apart are two mechanisms' inputs?"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from discreet.noise.sources import Call

_ROUNDING = 1e-9
"""Inputs are sums in floating point; this much more than the declared sensitivity is rounding."""


def same(left: Any, right: Any) -> bool:
    """Equal in every bit that a reader could see; not-a-number equals itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.shape == right.shape and left.dtype == right.dtype and _same_array(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if is_dataclass(left) and not isinstance(left, type):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in fields(left))
    if hasattr(left, "numpy") and hasattr(left, "detach"):  # a torch tensor, without importing torch
        return same(left.detach().cpu().numpy(), right.detach().cpu().numpy())
    if isinstance(left, float):
        return left == right or (left != left and right != right)  # noqa: PLR0124
    return bool(left == right)


def _same_array(left: Any, right: Any) -> bool:
    if left.dtype == object:
        return all(map(same, left.ravel().tolist(), right.ravel().tolist()))
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))


def excess(left: Call, right: Call) -> str:
    """Why the inputs of two calls differ by more than was declared, or an empty string. Says no value of either."""
    if left.inputs is None and right.inputs is None:
        return ""
    a, b = np.asarray(left.inputs, dtype=np.float64), np.asarray(right.inputs, dtype=np.float64)
    if a.shape != b.shape:
        return "its inputs have another shape on the neighbour"
    gaps = np.abs(a - b).ravel()
    if left.measure == "one-record":
        return _one_record(left, np.asarray(left.inputs), np.asarray(right.inputs))
    size = {"l1": gaps.sum(), "l2": float(np.sqrt((gaps**2).sum()))}.get(left.measure, gaps.max(initial=0.0))
    if size > left.sensitivity * (1 + _ROUNDING):
        return f"its inputs are {size / left.sensitivity:.6g} times the declared sensitivity apart"
    if left.measure == "linf-up" and (a > b).any() and (a < b).any():
        return "it was declared monotone, but a record raises some scores and lowers others"
    return ""


def _one_record(call: Call, a: Any, b: Any) -> str:
    changed = np.flatnonzero(a != b)
    if changed.size > 1:
        return f"{changed.size} records' probabilities changed with one record"
    null = call.parameters["null"]
    if changed.size and null not in (int(a[changed[0]]), int(b[changed[0]])):
        return "a null does not have the null's probability"
    return ""
