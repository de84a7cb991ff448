"""kill -9 at random moments: what returned is there, what did not is whole or absent."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough


def killed(tmp_path, kills):
    command = [sys.executable, str(Path(__file__).with_name("storage_kills.py")), str(tmp_path), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{kills} kills")


def test_sixty_processes_killed_at_random_moments(tmp_path):
    killed(tmp_path, 60)


@pytest.mark.long
def test_a_thousand_processes_killed_at_random_moments(tmp_path):
    killed(tmp_path, 1000)
