"""Who was asked from below a threshold trains with the rate of those who lost nothing; nobody is lost on the way."""

import pytest

from discreet.api import plan
from discreet.errors import BadInput
from discreet.records import Selection
from discreet.selectors import into_cohorts

SHAPE = {"epsilon": 4, "delta": "1e-5", "initial": 1000, "queries": [200, 200], "batch": 100, "epochs": 3}
ASKED = Selection(ids=("a", "b", "c"), mechanism="threshold-response", above=frozenset({"b"}))


@pytest.fixture(scope="module")
def parted():
    return plan(**SHAPE, selection_epsilon=1, individual_rates=True, accountant="rdp")


def test_by_the_side_they_were_on(parted):
    assert into_cohorts(parted, 2, ASKED) == {"phase-2/high": ("b",), "phase-2/low": ("a", "c")}
    rates = dict(zip((cohort.label for cohort in parted.cohorts), parted.phases[1].last.rates, strict=False))
    assert rates["phase-1/low"] > rates["phase-1/high"]  # who missed nothing and was asked from below has lost nothing


def test_one_cohort_where_rates_are_the_same():
    whole = plan(**SHAPE, selection_epsilon=1, accountant="rdp")
    assert into_cohorts(whole, 1, ASKED) == {"phase-1": ("a", "b", "c")}


def test_what_cannot_be(parted):
    with pytest.raises(BadInput, match="who was asked from above"):
        into_cohorts(parted, 1, Selection(ids=("a",), mechanism="laplace"))
    for query in (0, 3):
        with pytest.raises(BadInput, match="the plan has 2 queries"):
            into_cohorts(parted, query, ASKED)
