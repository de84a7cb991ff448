"""Are two results identical, and how far apart are two mechanisms' inputs?"""

from __future__ import annotations

import pickle
import types
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.noise.sources import Call

_ROUNDING = 1e-9
"""Inputs are sums in floating point; this much more than the declared sensitivity is rounding."""


_NAMED = (type, types.BuiltinFunctionType, types.ModuleType, types.MethodDescriptorType, np.ufunc, np.dtype)
_PLAIN = (bool, int, str, bytes, Decimal, Fraction, range, slice)


def same(left: Any, right: Any) -> bool:
    """Equal in every bit that a reader could see: signs of zero, contents and attributes; NaN equals itself."""
    try:
        return _same(left, right, set())
    except RecursionError:
        raise BadInput("comparing two results", "they nest too deep", "Return flatter results") from None


def _same(left: Any, right: Any, seen: set[tuple[int, int]]) -> bool:
    if type(left) is not type(right):
        return False
    if (id(left), id(right)) in seen:  # a structure that contains itself
        return True
    seen = seen | {(id(left), id(right))}
    if left is None or isinstance(left, _NAMED):
        return left is right or bool(left == right)
    if isinstance(left, _PLAIN) and type(left) in _PLAIN:
        return repr(left) == repr(right)
    if isinstance(left, (float, complex, np.generic)) and not hasattr(left, "__dict__"):
        return np.asarray(left).tobytes() == np.asarray(right).tobytes()
    if isinstance(left, np.ndarray) and left.dtype != object and type(left) is np.ndarray:
        return bool(left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes())
    if isinstance(left, types.FunctionType):
        return _same(_function_parts(left), _function_parts(right), seen)
    if hasattr(left, "numpy") and hasattr(left, "detach"):  # a torch tensor, without importing torch
        return bool(left.dtype == right.dtype) and _same(_tensor_bytes(left), _tensor_bytes(right), seen)
    if type(left) in (list, tuple):
        return len(left) == len(right) and all(_same(a, b, seen) for a, b in zip(left, right, strict=True))
    if type(left) is dict:
        return _same(list(left.items()), list(right.items()), seen)
    if type(left) in (set, frozenset):
        return sorted(map(_bits, left)) == sorted(map(_bits, right))
    return _same(_parts(left), _parts(right), seen)


def _bits(value: Any) -> tuple[str, bytes]:
    return type(value).__name__, pickle.dumps(value, 2)


def _function_parts(function: types.FunctionType) -> list[Any]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [function.__qualname__, function.__code__.co_code, cells, function.__defaults__, function.__dict__]


def _tensor_bytes(tensor: Any) -> list[Any]:
    plain = tensor.detach().cpu().contiguous()
    return [list(plain.shape), bytes(plain.reshape(-1).view(_torch_bytes()).numpy().tobytes())]


def _torch_bytes() -> Any:
    import sys

    return sys.modules["torch"].uint8


def _parts(value: Any) -> list[Any]:
    """What it takes to make an object again: its class, arguments, state, items."""
    try:
        reduced = value.__reduce_ex__(2)
    except Exception:  # noqa: BLE001 - anything may go wrong in a stranger's object
        raise BadInput(
            f"comparing two results of type {type(value).__name__}",
            "there is no way to look into them",
            "Return arrays, numbers, text or dataclasses",
        ) from None
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if position in (3, 4) and part is not None else part for position, part in enumerate(reduced)]


def excess(left: Call, right: Call) -> str:
    """Why the inputs of two calls differ by more than was declared, or an empty string. Says no value of either."""
    if left.inputs is None and right.inputs is None:
        return ""
    a, b = np.asarray(left.inputs, dtype=np.float64), np.asarray(right.inputs, dtype=np.float64)
    if a.shape != b.shape:
        return "its inputs have another shape on the neighbour"
    gaps = np.abs(a - b).ravel()
    if left.measure == "votes":
        return _one_vote(gaps)
    if left.measure == "one-record":
        return _one_record(left, np.asarray(left.inputs), np.asarray(right.inputs))
    size = {"l1": gaps.sum(), "l2": float(np.sqrt((gaps**2).sum()))}.get(left.measure, gaps.max(initial=0.0))
    if size > left.sensitivity * (1 + _ROUNDING):
        return f"its inputs are {size / left.sensitivity:.6g} times the declared sensitivity apart"
    if left.measure == "linf-up" and (a > b).any() and (a < b).any():
        return "it was declared monotone, but a record raises some scores and lowers others"
    return ""


def _one_vote(gaps: Any) -> str:
    if gaps.max(initial=0.0) > 1 or gaps.sum() > 2:
        return "more than one vote moved with one unit"
    return ""


def _one_record(call: Call, a: Any, b: Any) -> str:
    changed = np.flatnonzero(a != b)
    if changed.size > 1:
        return f"{changed.size} records' probabilities changed with one record"
    null = call.parameters["null"]
    if changed.size and null not in (int(a[changed[0]]), int(b[changed[0]])):
        return "a null does not have the null's probability"
    return ""
