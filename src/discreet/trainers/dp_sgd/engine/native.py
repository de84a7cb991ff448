"""Sums by kernels in C (`kernels.c`), where a program asks for them and the machine can make them.

The machine's own compiler is run once in a process, in a directory of its own that is gone afterwards. Nothing is kept
for others to find or to change. Without a compiler torch's functions do the same, slower; the log says so once.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.parts import LOST
from discreet.trainers.dp_sgd.engine.patches import Shape, padded

SOURCE = Path(__file__).with_name("kernels.c")
_FLAGS = [
    ["-march=native", "-mprefer-vector-width=512", "-fopenmp"],
    ["-march=native", "-fopenmp"],
    ["-march=native"],
    [],
]
_LOG = logging.getLogger("discreet.trainers.dp_sgd")
_SECONDS = 120


class Kernels:
    """The functions of a compiled library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._written, self._normalized = library.written, library.normalized
        self._written.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int] + [ctypes.c_long] * 14
        self._written.restype = ctypes.c_int
        self._normalized.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int] + [ctypes.c_long] * 3
        self._normalized.restype = None

    def written(self, images: Tensor, gradients: Tensor, shape: Shape, rows: int, squares: Tensor) -> Tensor:
        """(U, P), the outputs last, of images and the gradients of outputs, ``rows`` to a unit; and ``squares`` (U,)
        are written.
        """
        pixels = padded(images.permute(0, 2, 3, 1), shape.padding)
        slopes = gradients.permute(0, 2, 3, 1).contiguous()
        (count, high, wide, channels), (down, along, after) = pixels.shape, slopes.shape[1:]
        units = count // rows
        out = pixels.new_empty(units, math.prod(shape.kernel) * channels * after)
        each = torch.empty(units, dtype=torch.float64)
        failed = self._written(
            *(part.data_ptr() for part in (pixels, slopes, out, each)),
            torch.get_num_threads(),
            *(units, rows, high, wide, channels, down, along, after),
            *(*shape.kernel, *shape.stride, *shape.dilation),
        )
        if failed:
            raise MemoryError("no memory for a record's gradients")
        squares.copy_(each + out.shape[1] * LOST)
        return out

    def normalized(self, values: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, channels) each: sums of products, and of gradients, over the places of (rows, channels, ...)."""
        ordered = [part.flatten(2).transpose(1, 2).contiguous() for part in (values, gradients)]
        sums = [values.new_empty(values.shape[:2]) for _ in range(2)]
        self._normalized(*(part.data_ptr() for part in (*ordered, *sums)), torch.get_num_threads(), *ordered[0].shape)
        return sums[0], sums[1]


def takes(values: Tensor, gradients: Tensor, *, groups: int = 1) -> bool:
    """Whether kernels are made for this."""
    kinds = {values.dtype, gradients.dtype}
    return values.device.type == "cpu" and kinds == {torch.float32} and groups == 1


@functools.cache
def kernels() -> Kernels | None:
    """Compiled when they are asked for the first time; None, and a line in the log, if that fails."""
    try:
        return Kernels(_compiled())
    except (OSError, subprocess.SubprocessError, AttributeError) as failed:
        _LOG.warning("no kernels could be compiled (%s); sums are computed by torch's own", type(failed).__name__)
        return None


def _compiled() -> ctypes.CDLL:
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    failed: subprocess.SubprocessError = subprocess.SubprocessError()
    with tempfile.TemporaryDirectory(prefix="discreet-") as directory:
        library = Path(directory) / "kernels.so"
        for flags in _FLAGS:
            command = [compiler, "-O3", *flags, "-shared", "-fPIC", "-w", "-o", str(library), str(SOURCE)]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
                break
            except subprocess.SubprocessError as problem:
                failed = problem
        else:
            raise failed
        return ctypes.CDLL(str(library))  # stays in memory when the file is gone
