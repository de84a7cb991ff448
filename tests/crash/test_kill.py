"""kill -9 between any two instructions: no entry that returned is lost, no draw was made without its entry."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

SCENARIOS = Path(__file__).with_name("kill_scenarios.py")


@pytest.mark.parametrize(
    "scenario",
    [
        "every_instruction_of_the_sinks_append",
        "every_instruction_of_the_marks_writing",
        "random_instructions_of_charging_and_drawing",
        "from_outside_at_random_times",
        "a_redo_repeats_every_draw_that_was_seen",
    ],
)
def test_what_is_killed_is_recovered(scenario, tmp_path):
    """In a process of its own: forked from one that has imported all tests, each kill costs three times as much."""
    command = [sys.executable, "-W", "error", str(SCENARIOS), scenario, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
