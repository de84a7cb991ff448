"""Where real data is: the directory named by DISCREET_DATA, or ``shared/data`` beside the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def data(name):
    """The folder of a data set. Without it a test is skipped, but never in CI."""
    place = Path(os.environ.get("DISCREET_DATA", ROOT.parent / "shared" / "data")) / name
    if not place.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"the data set {name} is missing, and CI may not skip this")
        pytest.skip(f"no data set {name}: name its folder by DISCREET_DATA")
    return place
