"""kill -9 of a campaign on public data: the look at private records is paid for once, and its noise is repeated."""

import pytest
from killing import kills

pytestmark = pytest.mark.thorough


def test_before_every_write_by_which_something_comes_to_be():
    assert kills("public_kills.py", 0) >= 80


@pytest.mark.long
def test_before_every_write_of_any_kind():
    assert kills("public_kills.py", 1) >= 160
