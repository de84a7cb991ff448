"""Arrays as torch takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def tensor_of(rows: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Records as a model takes them: floats in single precision, anything else as it is."""
    with np.errstate(all="ignore"):  # a warning would tell how large a value is
        plain = rows.astype(np.float32) if rows.dtype.kind == "f" else rows.astype(rows.dtype.newbyteorder("="))
    return torch.from_numpy(np.ascontiguousarray(plain)).to(device)


def row_of(rows: Any, row: int) -> Any:
    """One row, still with its axis."""
    if isinstance(rows, dict):
        return {name: part[row : row + 1] for name, part in rows.items()}
    return rows[row : row + 1]
