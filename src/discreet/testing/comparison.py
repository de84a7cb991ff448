"""Are two results identical, and how far apart are two mechanisms' inputs?"""

from __future__ import annotations

import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise.sources import Call

_ROUNDING = 1e-9
"""Inputs are sums in floating point; this much more than the declared sensitivity is rounding."""


def same(left: Any, right: Any) -> bool:
    """Equal in every bit that a reader could see, signs of zero and hidden attributes too; NaN equals itself."""
    if type(left) is not type(right):
        return False
    if left is None or isinstance(left, (bool, int, str, bytes, Decimal, Fraction)):
        return bool(left == right) and _same_attributes(left, right)
    if isinstance(left, (float, np.generic)):
        return np.asarray(left).tobytes() == np.asarray(right).tobytes()
    if isinstance(left, np.ndarray):
        return _same_array(left, right) and _same_attributes(left, right)
    if isinstance(left, dict):
        return same(list(left), list(right)) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (set, frozenset)):
        return bool(left == right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right)) and _same_attributes(left, right)
    if hasattr(left, "numpy") and hasattr(left, "detach"):  # a torch tensor, without importing torch
        return same(left.detach().cpu().numpy(), right.detach().cpu().numpy())
    return _same_object(left, right)


def _same_attributes(left: Any, right: Any) -> bool:
    ours, theirs = _attributes(left), _attributes(right)
    return same(ours, theirs) if ours or theirs else True


def _attributes(value: Any) -> dict[str, Any]:
    """What an object carries beside its value: its ``__dict__`` and slots."""
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _same_object(left: Any, right: Any) -> bool:
    """Objects are the same if all they carry is; those that carry nothing we can see, if they pickle the same."""
    ours, theirs = _attributes(left), _attributes(right)
    if ours or theirs:
        return same(ours, theirs)
    try:
        return pickle.dumps(left) == pickle.dumps(right)
    except Exception:  # noqa: BLE001 - anything may go wrong in a stranger's pickling
        raise BadInput(
            f"comparing two results of type {type(left).__name__}",
            "there is no way to look into them",
            "Return arrays, numbers, text or dataclasses",
        ) from None


def _same_array(left: Any, right: Any) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype == object:
        return all(map(same, left.ravel().tolist(), right.ravel().tolist()))
    return bool(np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes())


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
