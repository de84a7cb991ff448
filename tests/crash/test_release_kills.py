"""kill -9 of a release: the same command goes on, and the coins of one key are never seen on two batches."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

MEMORY = "/dev/shm"


def killed(planted="nothing"):
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = [sys.executable, "-W", "error", str(Path(__file__).with_name("release_kills.py")), directory, planted]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def test_before_every_write():
    done = killed()
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 30


def test_an_output_that_is_not_bound_to_its_key_is_found():
    done = killed("unbound")
    assert done.returncode != 0
    assert "two batches" in done.stderr
