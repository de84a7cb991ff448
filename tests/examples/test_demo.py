"""The demo, as `make demo` runs it: killed half way it goes on, and once it has ended it begins anew."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
COMMAND = [sys.executable, str(DEMO), "here", "--seeds", "1", "--json"]

pytestmark = pytest.mark.integration


def demo(place):
    done = subprocess.run(COMMAND, cwd=place, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr.splitlines()


def test_killed_half_way_it_goes_on(tmp_path):
    with subprocess.Popen(COMMAND, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as begun:
        first = begun.stderr.readline()  # one campaign is over, the other has begun
        begun.kill()
    assert first.startswith("seed 1, chosen privately")
    store = (tmp_path / "here" / "demo.db").stat().st_ino
    assert not (tmp_path / "here" / "demo.json").exists()
    form, lines = demo(tmp_path)
    assert lines[0] == first.strip()
    assert (tmp_path / "here" / "demo.db").stat().st_ino == store
    assert form["format"] == "discreet.demo/1"
    assert form["simulation"] is True
    assert form["certificate"]["ok"]
    assert form["certificate"]["claim"]["epsilon"] <= 8
    for figures in form["methods"].values():
        assert len(figures["accuracy"]) == 4
        assert figures["accuracy"][-1] > 0.7
    again, _ = demo(tmp_path)  # from the beginning: the same, under its seed
    assert again["methods"] == form["methods"]
