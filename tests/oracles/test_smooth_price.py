"""The smooth sensitivity of the data-dependent price: by brute force over all votes of few teachers; its release."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.oracles.data_dependent import (
    cost_release,
    data_dependent_epsilon,
    dependent_rdp,
    log_chance,
    release_cost,
    smooth_cost,
    step_costs,
    step_of,
)
from discreet.planning.pate import NoisyMaxPrice, price_answers
from discreet.privacy.budget import Budget
from discreet.privacy.events import Gaussian
from discreet.privacy.ledger import Ledger, MemorySink

pytestmark = pytest.mark.thorough

BUDGET = Budget(epsilon=8, delta="1e-5")


def price_of(teachers, classes, sigma):
    """With noise that is small beside so few votes: else the data-dependent bound never applies."""
    event = Gaussian(noise_multiplier=sigma / math.sqrt(2))
    return NoisyMaxPrice(
        aggregator="gaussian",
        budget=BUDGET,
        teachers=teachers,
        classes=classes,
        answers=1,
        charges=((event, 1),),
        noise=sigma,
    )


def all_votes(teachers, classes):
    return [np.array(row) for row in itertools.product(range(teachers + 1), repeat=classes) if sum(row) == teachers]


def moved(row):
    """Every row that one vote makes of it."""
    for giver, taker in itertools.permutations(range(len(row)), 2):
        if row[giver]:
            other = row.copy()
            other[giver] -= 1
            other[taker] += 1
            yield other


CASES = [(40, 2, 1.5, 8.0), (24, 2, 1.0, 3.0), (18, 3, 1.0, 2.5), (12, 4, 0.8, 2.0)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def world(request):
    """Every vote there can be, its cost, its bound by distance, its neighbours."""
    teachers, classes, sigma, order = request.param
    price = price_of(teachers, classes, sigma)
    rows = {tuple(row): row for row in all_votes(teachers, classes)}
    found = {key: smooth_cost(row[None], price=price, order=order, beta=0.1) for key, row in rows.items()}
    near = {key: [tuple(other) for other in moved(row)] for key, row in rows.items()}
    return found, near, sigma, order


def test_costs_are_worth_telling(world):
    found, _, sigma, order = world
    costs = {one.rdp for one in found.values()}
    assert max(costs) == pytest.approx(order / sigma**2)
    assert min(costs) < 0.2 * max(costs)


def test_the_bound_is_above_the_local_sensitivity_at_every_distance(world):
    found, near, _, _ = world
    local = {key: max(abs(found[key].rdp - found[other].rdp) for other in near[key]) for key in found}
    assert max(local.values()) > 0
    for start in found:
        reached, edge = {start}, {start}
        for bound in found[start].by_distance:
            assert max(local[key] for key in reached) <= bound * (1 + 1e-12)
            edge = {other for key in edge for other in near[key]} - reached
            reached |= edge
            if not edge:
                break


def test_it_is_smooth_and_what_is_local_alone_is_not(world):
    found, near, _, _ = world
    most = math.exp(0.1) * (1 + 1e-12)
    assert all(found[key].bound <= most * found[other].bound for key in found for other in near[key])
    alone = {key: max(float(one.by_distance[0]), 1e-12) for key, one in found.items()}
    assert any(alone[key] > most * alone[other] for key in found for other in near[key])  # so the test can fail


def test_equal_leads_move_by_two_at_most(world):
    """The premise of the tables, by brute force: a vote moves a question by no more steps than are allowed for."""
    found, near, sigma, order = world
    classes = len(next(iter(found)))
    steps = len(step_costs(sum(next(iter(found))), classes, sigma, order))
    place = {key: step_of(np.array(key), classes, sigma, steps) for key in found}
    assert max(abs(place[key] - place[other]) for key in found for other in near[key]) <= 9


def test_a_step_is_never_cheaper_than_what_the_theorem_says_of_a_larger_chance(world):
    """The cost of a step is the theorem's at its lower end, which is a chance of another answer above the true one."""
    found, _, sigma, order = world
    classes = len(next(iter(found)))
    costs = step_costs(sum(next(iter(found))), classes, sigma, order)
    for key, one in found.items():
        row = np.array(key)
        place = step_of(row, classes, sigma, len(costs))
        bound = min(0.0, math.log(classes - 1) + float(log_ndtr(-place * 0.25 / (math.sqrt(2) * sigma))))
        assert bound >= log_chance(row, sigma) - 1e-12
        exact = min(order / sigma**2, float(dependent_rdp(bound, sigma, np.array([order]))[0]))
        assert one.rdp == pytest.approx(exact)


def test_several_questions_add_up():
    price = price_of(20, 2, 1.0)
    rows = np.array([[20, 0], [12, 8], [3, 17]])
    whole = smooth_cost(rows, price=price, order=4.0, beta=0.2)
    parts = [smooth_cost(row[None], price=price, order=4.0, beta=0.2) for row in rows]
    assert whole.rdp == pytest.approx(sum(part.rdp for part in parts))
    assert whole.by_distance == pytest.approx(sum(part.by_distance for part in parts))
    assert whole.bound <= sum(part.bound for part in parts) + 1e-12


# -- the release


PRICE = price_answers("gaussian", budget=Budget(epsilon=4, delta="1e-5"), teachers=300, answers=30)
AGREED = np.tile([[300, 0]], (30, 1))
RELEASE = Budget(epsilon=1, delta="1e-6")


def released(seed, counts=AGREED, **options):
    plan = cost_release(RELEASE, price=PRICE, **options)
    ledger = Ledger.create(MemorySink(), plan.terms(), source=Seeded(seed))
    return release_cost(counts, price=PRICE, plan=plan, ledger=ledger), ledger


def test_a_release_is_charged_and_holds_as_often_as_it_says():
    plan = cost_release(RELEASE, price=PRICE)
    true = smooth_cost(AGREED, price=PRICE, order=plan.order, beta=plan.beta)
    above = sum(released(seed)[0].rdp >= true.rdp for seed in range(100))
    assert above >= 88  # 95 expected at gamma 0.05; fewer than 88 has a chance below 0.01
    found, ledger = released(1)
    assert [entry.why.purpose for entry in ledger.entries] == [
        "cost of answers (chance of a mistake)",
        "cost of answers (sensitivity)",
        "cost of answers",
    ]
    assert not any(count for _, count in ledger.lines_left())
    plan.terms().check_claim()
    assert found.claimed == PRICE.epsilon
    assert found.release == RELEASE


def test_agreement_is_worth_telling_and_disagreement_is_not():
    torn = np.tile([[155, 145]], (30, 1))
    agreed, other = ([released(seed, counts)[0].rdp for seed in range(15)] for counts in (AGREED, torn))
    plain = 30 * cost_release(RELEASE, price=PRICE).order / PRICE.noise**2
    assert np.median(agreed) < 0.5 * plain
    assert np.median(other) == pytest.approx(plain)  # never above what holds anyway
    assert max(agreed + other) <= plain * (1 + 1e-12)


def test_the_public_sensitivity_is_above_the_smooth_one_but_for_a_mistake():
    plan = cost_release(RELEASE, price=PRICE)
    true = smooth_cost(AGREED, price=PRICE, order=plan.order, beta=plan.beta)
    assert all(released(seed)[0].sensitivity >= true.bound for seed in range(50))
    assert plan.mistake < 1e-6


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"order": 1.0}, "not above 1"),
        ({"budget": Budget(epsilon=1, delta="0")}, "above 0"),
        ({"price": price_answers("laplace", budget=BUDGET, teachers=100, answers=2)}, "Gaussian"),
    ],
)
def test_nonsense_is_refused(wrong, said):
    given = {"price": PRICE, "order": None} | {k: v for k, v in wrong.items() if k != "budget"}
    with pytest.raises(BadInput, match=said):
        cost_release(wrong.get("budget", RELEASE), **given)


def test_refused_before_anything_is_charged():
    plan = cost_release(RELEASE, price=PRICE)
    ledger = Ledger.create(MemorySink(), plan.terms(), source=Seeded(1))
    for counts, gamma in ((AGREED[:, :1], 0.05), (AGREED.astype(float), 0.05), (AGREED, 1.5)):
        with pytest.raises(BadInput):
            release_cost(counts, price=PRICE, plan=plan, ledger=ledger, gamma=gamma)
    assert not ledger.entries


def test_it_is_apart_from_the_owners_number():
    assert data_dependent_epsilon(AGREED, price=PRICE).audience == "owner"
