"""kill -9 of a crowd campaign, from its creation on: the gate is charged once and tosses the same coins again."""

import pytest
from killing import kills

pytestmark = pytest.mark.thorough


def test_before_every_write_by_which_something_comes_to_be():
    assert kills("crowd_kills.py", 0) >= 60


@pytest.mark.long
def test_before_every_write_of_any_kind():
    assert kills("crowd_kills.py", 1) >= 120
