"""Gradients of convolutions by a kernel in C (`written.c`), where a program asks for it and the machine can make it.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discreet.trainers.dp_sgd.engine.patches import Shape, padded

SOURCE = Path(__file__).with_name("written.c")
_FLAGS = [
    ["-march=native", "-mprefer-vector-width=512", "-fopenmp"],
    ["-march=native", "-fopenmp"],
    ["-march=native"],
    [],
]
_LOG = logging.getLogger("discreet.trainers.dp_sgd")
_SECONDS = 120

Kernel = Callable[[Tensor, Tensor, Shape, int, Tensor], Tensor]
"""Images, gradients of outputs, shape, rows of a unit, and where squared lengths go (U,); gives (U, P), the outputs
last."""


@functools.cache
def kernel() -> Kernel | None:
    """The kernel, compiled when it is asked for the first time; None, and a line in the log, if that fails."""
    try:
        return functools.partial(_written, _compiled())
    except (OSError, subprocess.SubprocessError, AttributeError) as failed:
        _LOG.warning("no kernel could be compiled (%s); gradients are computed by torch's own", type(failed).__name__)
        return None


def takes(images: Tensor, gradients: Tensor, shape: Shape) -> bool:
    """Whether the kernel is made for this."""
    kinds = {images.dtype, gradients.dtype}
    return images.device.type == "cpu" and kinds == {torch.float32} and shape.groups == 1


def _compiled() -> Any:
    """`written` of written.c."""
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    failed: subprocess.SubprocessError = subprocess.SubprocessError()
    with tempfile.TemporaryDirectory(prefix="discreet-") as place:
        made = Path(place) / "written.so"
        for flags in _FLAGS:
            command = [compiler, "-O3", *flags, "-shared", "-fPIC", "-w", "-o", str(made), str(SOURCE)]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
                break
            except subprocess.SubprocessError as problem:
                failed = problem
        else:
            raise failed
        found = ctypes.CDLL(str(made)).written  # stays in memory when the file is gone
    found.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int] + [ctypes.c_long] * 14
    found.restype = ctypes.c_int
    return found


def _written(run: Any, images: Tensor, gradients: Tensor, shape: Shape, rows: int, squares: Tensor) -> Tensor:
    pixels = padded(images.permute(0, 2, 3, 1), shape.padding)
    slopes = gradients.permute(0, 2, 3, 1).contiguous()
    (count, high, wide, channels), (down, along, after) = pixels.shape, slopes.shape[1:]
    units = count // rows
    out = pixels.new_empty(units, math.prod(shape.kernel) * channels * after)
    each = torch.empty(units, dtype=torch.float64)
    failed = run(
        *(part.data_ptr() for part in (pixels, slopes, out, each)),
        torch.get_num_threads(),
        *(units, rows, high, wide, channels, down, along, after),
        *(*shape.kernel, *shape.stride, *shape.dilation),
    )
    if failed:
        raise MemoryError("no memory for a record's gradients")
    squares.copy_(each)
    return out
