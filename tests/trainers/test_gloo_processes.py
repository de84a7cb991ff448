"""Real processes that talk by gloo: the same model as one, and an end for all when one ends."""

import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from test_several_processes import CASES
from training_runs import trained

HERE = pathlib.Path(__file__).parent
LIMIT = 60
pytestmark = pytest.mark.integration


class Launcher:
    """Starts processes and waits for their end."""

    def __init__(self):
        self.mother = subprocess.Popen(
            [sys.executable, str(HERE / "gloo_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        )

    def __call__(self, count, place, scenario, *, victim=None, how="kill"):
        """Every process's exit code, words and findings. ``victim`` is killed, or silent until all others ended."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free.getsockname()[1], "VICTIM": victim, "HOW": how}
        place.mkdir(exist_ok=True)
        for old in place.glob(f"{scenario}-*.json"):
            old.unlink()
        asked = {"count": count, "place": str(place), "scenario": scenario, "victim": victim, "environment": where}
        self.mother.stdin.write(json.dumps(asked) + "\n")
        self.mother.stdin.flush()
        assert select.select([self.mother.stdout], [], [], LIMIT)[0], "a process was left waiting"
        codes = json.loads(self.mother.stdout.readline())
        files = [place / f"{scenario}-{rank}.json" for rank in range(count)]
        found = [json.loads(file.read_text()) if file.exists() else None for file in files]
        return codes, [file.with_suffix(".txt").read_text() for file in files], found

    def end(self):
        """Of the processes it started, too."""
        os.killpg(self.mother.pid, signal.SIGKILL)
        self.mother.communicate()


@pytest.fixture(scope="module")
def start():
    launcher = Launcher()
    yield launcher
    launcher.end()


def test_two_and_three_processes_train_the_model_of_one(start, tmp_path):
    codes, errors, found = start(3, tmp_path, "equal")
    assert codes == [0, 0, 0], errors
    for name, (make, cohorts, phase, options) in CASES.items():
        torch.manual_seed(0)
        alone = trained(make(), cohorts, phase, **options)
        draws = [call.mechanism for call, _ in alone.calls]
        for count in (2, 3):
            for rank, one in enumerate(found[:count]):
                result = one[f"{name} {count}"]
                np.testing.assert_allclose(result["weights"], alone.weights(), rtol=1e-12)
                assert result["draws"] == ([] if rank else ["step-seal", *draws])
    assert "not in the group" in found[2]["outside"]
    beside = found[2]["records 1"]
    assert np.array_equal(np.float32(beside["weights"]), np.float32(found[0]["records 3"]["weights"]))
    assert beside["draws"] == found[0]["records 3"]["draws"][1:]


def test_one_that_differs_or_fails_ends_all_and_nobody_hangs(start, tmp_path):
    codes, errors, found = start(3, tmp_path, "refused")
    assert codes == [0, 0, 0], errors
    for rank, one in enumerate(found):
        assert "ProcessFailed" in one["differs"]["words"]
        assert "rank 2 has other records" in one["differs"]["words"]
        assert one["differs"]["draws"] == ([] if rank else ["step-seal"])
        assert "rank 1 ended with RuntimeError" in one["fails"]["words"]
        assert one["after"]["words"] == "trained"
    assert "gaussian" not in found[0]["fails"]["draws"]
    assert "1234" not in "".join(errors) + json.dumps(found)


@pytest.fixture(scope="module")
def uninterrupted(start, tmp_path_factory):
    codes, errors, found = start(1, tmp_path_factory.mktemp("alone"), "durable")
    assert codes == [0], errors
    return found[0]["weights"]


@pytest.mark.parametrize(("victim", "how"), [(1, "kill"), (0, "kill"), (2, "silence")])
def test_a_killed_process_ends_all_and_the_phase_goes_on_with_others(start, tmp_path, uninterrupted, victim, how):
    place = tmp_path / "run"
    codes, errors, found = start(3, place, "durable", victim=victim, how=how)
    assert codes[victim] == -signal.SIGKILL
    for rank in {0, 1, 2} - {victim}:
        assert codes[rank] == 0, errors
        assert found[rank]["words"].startswith("ProcessFailed: several processes: rank ")
    codes, errors, found = start(2, place, "durable")
    assert codes == [0, 0], errors
    for one in found:
        np.testing.assert_allclose(one["weights"], uninterrupted, rtol=1e-12)
        assert one["steps"] < 8  # it went on from the checkpoint
    assert len((place / "a.ledger").read_text().splitlines()) == 3  # two stages, charged once
