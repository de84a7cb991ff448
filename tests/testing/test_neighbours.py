"""The kit passes honest code and catches planted bugs, each by its name."""

import collections
import dataclasses
import os
import random
import sys
import threading
import types
from decimal import Decimal

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.noise import (
    SparseVector,
    discrete_laplace,
    exponential,
    gaussian,
    laplace,
    numerator,
    poisson_mask,
    threshold_coins,
)
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace, Laplace, PoissonSampledGaussian, Pure, ThresholdResponse
from discreet.privacy.ledger import adaptive
from discreet.testing import NotPrivate, check_neighbours

RECORDS = np.linspace(0.2, 1.0, 12)
HALF = Laplace(epsilon="0.5")


def noisy_sum(records, ledger):
    receipt = ledger.charge(event=HALF, who="pool", why="sum")
    return laplace(np.clip(records, 0, 1).sum(), sensitivity=1.0, receipt=receipt)


def test_a_ten_line_test_of_ones_own_mechanism():
    report = check_neighbours(noisy_sum, RECORDS, null=0.0)
    assert (report.pairs, report.charges, report.releases) == (12, 1, 1)


def honest_campaign(records, ledger):
    """Threshold from a noisy histogram, coins, then two steps on whoever was asked; the null counts nowhere."""
    there = records > 0
    receipt = ledger.charge(event=DiscreteLaplace(epsilon="0.5"), who="pool", why="threshold")
    histogram = discrete_laplace(np.histogram(records[there], bins=4, range=(0, 1))[0], receipt=receipt)
    tau = 0.25 * int(np.argmax(np.cumsum(histogram[::-1]) >= 3))
    receipt = ledger.charge(event=ThresholdResponse(asked=1, missed=1), who="pool", why="ask")
    low = numerator(0.2, up=True)
    asked = threshold_coins(there & (records >= tau), high=numerator(0.4, up=False), low=low, receipt=receipt)
    step = PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=2.0)
    training = ledger.charge(event=step, count=2, who="phase-1", why="train")
    weight = 0.0
    for _ in range(2):
        taken = poisson_mask(records.size, receipt=training)
        gradient = np.clip(records - weight, -1, 1) * (asked & taken & there)
        weight += 0.1 * gaussian(gradient.sum(), sensitivity=1.0, receipt=training)
    return {"asked": asked, "weight": weight}


@pytest.mark.parametrize("seed", range(5))
def test_an_honest_campaign_passes(seed):
    report = check_neighbours(honest_campaign, RECORDS, null=0.0, seed=seed)
    assert report.releases == 6


def test_choices_and_searches_pass():
    def chosen(records, ledger):
        receipt = ledger.charge(event=Pure(epsilon=1), count=2, who="pool", why="choose")
        counts = np.histogram(records[records > 0], bins=3, range=(0, 1))[0]
        picks = [exponential(counts, sensitivity=1.0, monotone=True, receipt=receipt) for _ in range(2)]
        search = SparseVector(receipt=ledger.charge(event=Pure(epsilon=1), who="pool", why="search"))
        return picks, [search.above(float(count), 4.0) for count in counts[:1]]

    assert check_neighbours(chosen, RECORDS, null=0.0).releases == 3


# -- planted bugs


def doubled_sensitivity(records, ledger):
    receipt = ledger.charge(event=HALF, who="pool", why="sum")
    return laplace(2 * records.sum(), sensitivity=1.0, receipt=receipt)


def private_parameter(records, ledger):
    receipt = ledger.charge(event=HALF, who="pool", why="sum")
    return laplace(records.sum(), sensitivity=float(records.max() * records.size), receipt=receipt)


def private_price(records, ledger):
    event = Laplace(epsilon="0.5" if records.sum() > 7 else "0.4")
    return laplace(records.sum(), sensitivity=1.0, receipt=ledger.charge(event=event, who="pool", why="sum"))


def private_count_of_steps(records, ledger):
    receipt = ledger.charge(event=HALF, count=int((records > 0).sum()), who="pool", why="sum")
    return laplace(records.sum(), sensitivity=1.0, receipt=receipt)


def private_size(records, ledger):
    receipt = ledger.charge(event=HALF, who="pool", why="rows")
    return laplace(records[records > 0], sensitivity=1.0, receipt=receipt).sum()


def private_control_flow(records, ledger):
    receipt = ledger.charge(event=HALF, count=2, who="pool", why="sum")
    first = laplace(records.sum(), sensitivity=1.0, receipt=receipt)
    return first if records[3] == 0 else laplace(records.sum(), sensitivity=1.0, receipt=receipt)


def private_choice_of_mechanism(records, ledger):
    receipt = ledger.charge(event=Pure(epsilon=1), who="pool", why="sum")
    if records.min() > 0:
        return laplace(records.sum(), sensitivity=1.0, receipt=receipt)
    return float(exponential([1.0, 2.0], sensitivity=1.0, receipt=receipt))


def private_error(records, ledger):
    total = noisy_sum(records, ledger)
    if records[5] == 0:
        raise ValueError("a record is missing")
    return total


def draw_without_charge(records, ledger):
    receipt = ledger.charge(event=HALF, who="pool", why="sum")
    return [laplace(records.sum(), sensitivity=1.0, receipt=receipt) for _ in range(2)]


def noise_from_numpy(records, ledger):
    return noisy_sum(records, ledger) + float(np.random.default_rng().laplace())


def noise_from_a_global(records, ledger):
    return noisy_sum(records, ledger) + random.random()


GENERATOR = np.random.default_rng(7)


def noise_from_an_old_generator(records, ledger):
    return noisy_sum(records, ledger) + float(GENERATOR.laplace())


@dataclasses.dataclass
class Answer:
    noisy: float
    exact: float


def exact_value_beside_the_noisy_one(records, ledger):
    return Answer(noisy=noisy_sum(records, ledger), exact=float(records.sum()))


def monotone_though_it_is_not(records, ledger):
    receipt = ledger.charge(event=Pure(epsilon=1), who="pool", why="choose")
    return exponential([records.sum(), -records.sum()], sensitivity=1.0, monotone=True, receipt=receipt)


def coins_that_look_at_others(records, ledger):
    receipt = ledger.charge(event=ThresholdResponse(asked=1, missed=1), who="pool", why="ask")
    above = records > np.median(records) - 0.3 * (records.min() > 0)
    return threshold_coins(above, high=numerator(0.4, up=False), low=numerator(0.2, up=True), receipt=receipt)


CACHE = []


def one_object_for_both_runs(records, ledger):
    noisy_sum(records, ledger)
    CACHE[:] = records
    return CACHE


class Agreeable:
    """Says it equals everything."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return True

    __hash__ = None


def an_object_that_equals_everything(records, ledger):
    noisy_sum(records, ledger)
    return Agreeable(float(records.sum()))


def a_hidden_attribute(records, ledger):
    answer = Answer(noisy=noisy_sum(records, ledger), exact=0.0)
    answer.extra = float(records.max())
    return answer


def the_sign_of_zero(records, ledger):
    noisy_sum(records, ledger)
    return -0.0 if records.min() > 0 else 0.0


def entropy_of_the_operating_system(records, ledger):
    return round(noisy_sum(records, ledger) / 1e6 + os.urandom(1)[0] / 1e12, 3)


BUGS = {
    one_object_for_both_runs: "output",
    an_object_that_equals_everything: "output",
    a_hidden_attribute: "output",
    the_sign_of_zero: "output",
    entropy_of_the_operating_system: "unpaid-randomness",
    doubled_sensitivity: "sensitivity",
    private_parameter: "parameter",
    private_price: "charge",
    private_count_of_steps: "charge",
    private_size: "parameter",
    private_control_flow: "control-flow",
    private_choice_of_mechanism: "control-flow",
    private_error: "control-flow",
    draw_without_charge: "draw-without-charge",
    noise_from_numpy: "unpaid-randomness",
    noise_from_a_global: "unpaid-randomness",
    noise_from_an_old_generator: "unpaid-randomness",
    exact_value_beside_the_noisy_one: "output",
    monotone_though_it_is_not: "sensitivity",
    coins_that_look_at_others: "sensitivity",
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught_by_name(bug):
    with pytest.raises(NotPrivate) as caught:
        check_neighbours(bug, RECORDS, null=0.0)
    assert BUGS[bug] in {finding.kind for finding in caught.value.findings}


def closure_over_the_data(records, ledger):
    noisy_sum(records, ledger)

    def answer():
        return records

    answer.public = 1
    return answer


class Tail(collections.deque):
    pass


def contents_beside_an_attribute(records, ledger):
    noisy_sum(records, ledger)
    tail = Tail(records.tolist())
    tail.public = 1
    return tail


def a_set_of_zeros(records, ledger):
    noisy_sum(records, ledger)
    return {0.0 if records.min() > 0 else -0.0}


@pytest.mark.parametrize("bug", [closure_over_the_data, contents_beside_an_attribute, a_set_of_zeros])
def test_results_are_looked_into(bug):
    with pytest.raises(NotPrivate, match="output"):
        check_neighbours(bug, RECORDS, null=0.0)


def honest_odds_and_ends(records, ledger):
    start = float(np.random.RandomState(0).rand() + np.random.default_rng(0).random())  # public seeds
    loop = [noisy_sum(records, ledger), start, float("nan"), Decimal("NaN"), {float("nan")}, float, len]
    loop.append(loop)
    masked = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    return loop, masked, types.SimpleNamespace(kind=float), collections.OrderedDict(a=1), {1, "a"}, range(3), slice(2)


def test_ordinary_results_are_no_alarm():
    assert check_neighbours(honest_odds_and_ends, RECORDS, null=0.0).releases == 1


def test_what_cannot_be_looked_into_is_refused():
    def locked(records, ledger):
        noisy_sum(records, ledger)
        return threading.Lock()

    with pytest.raises(BadInput, match="result"):
        check_neighbours(locked, RECORDS, null=0.0)


def test_findings_hold_no_data():
    with pytest.raises(NotPrivate) as caught:
        check_neighbours(exact_value_beside_the_noisy_one, np.array([0.123456789, 0.5]), null=0.0)
    assert "0.123456789" not in str(caught.value)


def test_neighbours_may_be_given_outright_and_terms_too():
    people = {"ann": [0.5, 0.2], "bob": [1.0]}

    def per_person(data, ledger):
        total = sum(min(sum(values), 1.0) for values in data.values())
        return laplace(total, sensitivity=1.0, receipt=ledger.charge(event=HALF, who="pool", why="sum"))

    others = [people | {"ann": []}, people | {"bob": []}]
    terms = adaptive(Budget(epsilon=1, delta="1e-6"))
    assert check_neighbours(per_person, people, neighbours=others, terms=terms).pairs == 2


LIBRARY = "import os\nimport random\nNAME = os.urandom(4).hex()\n\n\ndef draw():\n    return os.urandom(1)[0]\n"


def test_what_a_library_draws_when_it_is_first_imported_is_no_alarm_but_what_it_draws_later_is(tmp_path, monkeypatch):
    (tmp_path / "names_itself.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)

    def honest(records, ledger):
        import names_itself  # noqa: F401

        return noisy_sum(records, ledger)

    def leaking(records, ledger):
        import names_itself

        return noisy_sum(records, ledger), names_itself.draw() * 0

    assert check_neighbours(honest, RECORDS, null=0.0).releases == 1
    monkeypatch.delitem(sys.modules, "names_itself")
    with pytest.raises(NotPrivate, match="unpaid-randomness"):
        check_neighbours(leaking, RECORDS, null=0.0)


def test_code_that_releases_nothing_is_not_called_private():
    with pytest.raises(BadInput, match="released nothing"):
        check_neighbours(lambda records, ledger: 7, RECORDS, null=0.0)
    with pytest.raises(BadInput, match="null"):
        check_neighbours(noisy_sum, RECORDS)


def test_an_ordinary_bug_is_not_hidden():
    def broken(records, ledger):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        check_neighbours(broken, RECORDS, null=0.0)
