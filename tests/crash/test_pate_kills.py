"""kill -9 of a campaign of teachers, from its creation on: an answer is charged once, and is the same answer again."""

import pytest
from killing import kills

pytestmark = pytest.mark.thorough


def test_before_every_write_by_which_something_comes_to_be():
    assert kills("pate_kills.py", 0) >= 80


@pytest.mark.long
def test_before_every_write_of_any_kind():
    assert kills("pate_kills.py", 1) >= 160
