"""kill -9 of a stream: it goes on, asks nobody again, decides nothing otherwise, and forgets no charge."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

SCENARIOS = Path(__file__).with_name("stream_kills.py")
MEMORY = "/dev/shm"
"""Where it is there: what a killed process wrote is the same in memory, and nobody waits for a busy disk."""


def killed(scenario, kills=0, *, batch=80, planted="nothing", kind="plain"):
    """In a process of its own, which forks its children warm."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        given = [scenario, directory, str(kills), str(batch), planted, kind]
        command = [sys.executable, "-W", "error", str(SCENARIOS), *given]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def count(done):
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])


def test_before_every_write():
    assert count(killed("writes")) >= 60


@pytest.mark.parametrize("kind", ["prepared", "persons"])
def test_before_every_write_of_other_kinds(kind):
    assert count(killed("writes", kind=kind)) >= 60


def test_at_random_moments():
    assert count(killed("random", 60, batch=23)) == 60


@pytest.mark.parametrize("planted", ["state-later", "write-behind"])
def test_a_planted_mistake_is_found(planted):
    done = killed("writes", planted=planted)
    assert done.returncode != 0
    assert "AssertionError" in done.stderr


@pytest.mark.long
def test_before_every_write_of_small_batches():
    assert count(killed("writes", batch=7)) >= 400


@pytest.mark.long
def test_at_many_random_moments():
    assert count(killed("random", 600, batch=7)) == 600
