"""kill -9 of a campaign on public data: the look at private records is paid for once, and its noise is repeated."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCENARIOS = Path(__file__).with_name("public_kills.py")
MEMORY = "/dev/shm"


def killed(every):
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    paths = [str(Path(__file__).parents[1] / "recipes"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = [sys.executable, "-W", "error", str(SCENARIOS), directory, str(every)]
        known = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=known)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])


def test_before_every_write_by_which_something_comes_to_be():
    assert killed(0) >= 80


@pytest.mark.long
def test_before_every_write_of_any_kind():
    assert killed(1) >= 160
