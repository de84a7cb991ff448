"""Whether somebody works is seen without touching the lock."""

import subprocess
import sys

import pytest

from discreet.storage.disk import is_held, locked

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"
)


def test_of_this_process(tmp_path):
    path = tmp_path / "working.lock"
    assert not is_held(path)
    with locked(path, asked="a test", doing="working"):
        assert is_held(path)
    assert not is_held(path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_of_another_process_and_it_is_not_in_its_way(tmp_path):
    path = tmp_path / "working.lock"
    command = [sys.executable, "-S", "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        assert is_held(path)
        other.communicate("\n")
    assert not is_held(path)
    with locked(path, asked="a test", doing="working"):
        pass
