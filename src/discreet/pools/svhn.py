"""Street View House Numbers, format 2: cropped digits in MATLAB files, as they are published (Netzer et al. 2011).

train_32x32.mat (73,257), test_32x32.mat (26,032), extra_32x32.mat (531,131 somewhat easier ones). Each holds X, bytes
of shape (32, 32, 3, n), and y, (n, 1) with classes 1 to 10, where 10 is the digit 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

TEN_IS_ZERO = 10


def read_svhn(path: Path | str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures (n, 3, height, width) and the digits in them."""
    place = Path(path)
    if not place.is_file():
        raise BadInput(f"reading {place.name}", "there is no such file", "Check the path")
    held = _loaded(place)
    x, y = (np.asarray(held.get(name, np.empty(0))) for name in ("X", "y"))
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[2] != 3 or y.size != x.shape[3] or y.dtype.kind not in "uif":
        raise _broken(place, "X is not bytes of shape (height, width, 3, n), or y not one class each")
    classes = y.ravel().astype(np.int64)
    if not np.array_equal(classes, y.ravel()) or not ((classes >= 0) & (classes <= TEN_IS_ZERO)).all():
        raise _broken(place, "a class is not from 1 to 10")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), classes % TEN_IS_ZERO


def _loaded(place: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        held: dict[str, Any] = loadmat(place, variable_names=["X", "y"])
    except NotImplementedError:  # MATLAB 7.3, which is another format
        raise _broken(place, "it is a MATLAB file of version 7.3") from None
    except Exception:  # noqa: BLE001 - whatever a broken file makes the reader do
        raise _broken(place, "it is no MATLAB file, or is cut off") from None
    return held


def _broken(place: Path, fact: str) -> BadInput:
    return BadInput(f"reading {place.name}", fact, "Get the file again: format 2, cropped digits")
