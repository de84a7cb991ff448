"""Every example runs, as a user would call it: from another directory, on what it makes itself."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.thorough

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
ELSEWHERE = {"demo"}  # tests/examples/test_demo.py runs it, and kills it
QUICK = {
    "own_model_on_images": ["--pictures", "60"],
    "train_mnist": ["--data", "data", "--records", "40", "--batch", "8", "--epochs", "1"],
}


def marked(path):
    """Those that train take seconds each, most of them to import torch: they run with the integration tests."""
    trains = "torch" in path.read_text() or "DPClassifier" in path.read_text()
    return pytest.param(path, id=path.stem, marks=[pytest.mark.integration] if trains else [])


@pytest.mark.parametrize("path", [marked(path) for path in EXAMPLES if path.stem not in ELSEWHERE])
def test_examples_run(path, tmp_path):
    if path.stem == "train_mnist":
        write_tiny_mnist(tmp_path / "data" / "mnist")
    command = [sys.executable, str(path), *QUICK.get(path.stem, [])]
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if path.stem in QUICK:  # and again, where the first run left something behind
        again = run(command, tmp_path)
        assert "Traceback" not in again.stderr
        assert (again.returncode == 0) == (path.stem != "train_mnist")  # a finished model is not trained twice


@pytest.mark.integration
def test_several_processes_train_the_example(tmp_path):
    path = next(path for path in EXAMPLES if path.stem == "train_several")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(path)]
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "by 2 processes" in done.stdout
    assert len((tmp_path / "out" / "several" / "digits.ledger").read_text().splitlines()) == 2
    assert not list((tmp_path / "out" / "several" / "keys").iterdir())
    assert "not trained twice" in run(command, tmp_path).stdout


def run(command, place):
    return subprocess.run(command, cwd=place, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def write_tiny_mnist(place):
    place.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for kind, count in (("train", 40), ("t10k", 10)):
        pixels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        head = bytes([0, 0, 8, 3]) + np.array([count, 28, 28], dtype=">u4").tobytes()
        (place / f"{kind}-images-idx3-ubyte.gz").write_bytes(head + pixels.tobytes())
        head = bytes([0, 0, 8, 1]) + np.array([count], dtype=">u4").tobytes()
        (place / f"{kind}-labels-idx1-ubyte.gz").write_bytes(
            head + rng.integers(0, 10, count, dtype=np.uint8).tobytes()
        )
