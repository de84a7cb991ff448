"""The bench as a user has it: real campaigns over two processes, stopped half way, gone on with, made into a table."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.integration
BENCH = [sys.executable, "-m", "discreet", "bench"]


def test_a_run_that_is_interrupted_goes_on(tmp_path):
    arguments = ["try-out", "--results", str(tmp_path)]
    command = [*BENCH, "run", *arguments, "--seeds", "3", "--processes", "2"]
    worker = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    pieces, deadline = tmp_path / "try-out.pieces", time.monotonic() + 300
    while not list(pieces.glob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(worker.pid, signal.SIGINT)  # as Ctrl-C does, to all of them
    said = worker.communicate(timeout=60)[1]
    assert worker.returncode == 130
    assert "Traceback" not in said
    assert "finished cases are kept" in said
    kept = len(list(pieces.glob("*.parquet")))
    assert kept >= 1

    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["already_done"] == kept
    assert told["failed"] == []
    table = subprocess.run([*BENCH, "table", *arguments, "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(table.stdout)["tables"][0]["rows"]
    assert [row[0] for row in rows] == ["random", "exact (not private)", "threshold response, 2"]


def test_workers_go_with_a_parent_that_is_killed(tmp_path):
    command = [*BENCH, "run", "try-out", "--results", str(tmp_path), "--processes", "2"]
    parent = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 120
    while len(group_of(parent.pid)) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(group_of(parent.pid)) >= 3  # itself and two workers
    time.sleep(3)  # they have begun
    parent.kill()
    parent.wait()
    while group_of(parent.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert group_of(parent.pid) == []


def group_of(leader):
    """Processes of a session that are alive."""
    listed = subprocess.run(["ps", "-eo", "pid=,sid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(pid) for pid, session, state in rows if int(session) == leader and not state.startswith("Z")]
