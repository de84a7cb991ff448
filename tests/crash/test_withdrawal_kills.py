"""kill -9 of a withdrawal, and withdrawals after a kill: nothing of the record is left, nothing is drawn twice."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

SCENARIOS = Path(__file__).with_name("withdrawal_kills.py")
MEMORY = "/dev/shm"


@pytest.mark.parametrize(("scenario", "fewest"), [("killed", 60), ("begun", 20)])
def test_a_kill_before_every_write(scenario, fewest):
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = [sys.executable, "-W", "error", str(SCENARIOS), scenario, directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= fewest
