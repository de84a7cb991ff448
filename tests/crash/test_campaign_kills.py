"""kill -9 of a whole campaign: it goes on, ends as if nothing had happened, and shows nothing that was not paid for."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

SCENARIOS = Path(__file__).with_name("campaign_kills.py")
MEMORY = "/dev/shm"
"""Where it is there: what a killed process wrote is the same in memory, and nobody waits for a busy disk."""


def killed(scenario, kills):
    """In a process of its own, which forks its children warm."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = [sys.executable, "-W", "error", str(SCENARIOS), scenario, directory, str(kills)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])


def test_before_every_write_by_which_something_comes_to_be():
    assert killed("writes", 0) >= 100


def test_before_every_write_of_a_replanning():
    assert killed("replan", 0) == 7  # lines, mark and its sync, in a simulation and in production; the rows' mark


def test_at_random_moments():
    assert killed("random", 84) == 84


@pytest.mark.long
def test_before_every_write_of_any_kind():
    assert killed("writes", 1) >= 200


@pytest.mark.long
def test_at_many_random_moments():
    assert killed("random", 1800) == 1800
