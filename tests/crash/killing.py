"""Runs a file of kill scenarios in a process of its own, in memory where there is some."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

MEMORY = "/dev/shm"


def kills(scenarios, every):
    """How many kills ``scenarios`` (a file beside this one) survived; ``every`` write, or those that make something."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    paths = [str(Path(__file__).parents[1] / "recipes"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = [sys.executable, "-W", "error", str(Path(__file__).with_name(scenarios)), directory, str(every)]
        known = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=known)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])
