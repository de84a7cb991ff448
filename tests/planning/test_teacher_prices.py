"""What answers of teachers cost: known answers, laws, refusals."""

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Budget
from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.pate import (
    AGGREGATORS,
    answers_at,
    exact_multiplier,
    paper_multiplier,
    price_answers,
)
from discreet.planning.pate.pricing import answers_bought, least_reach
from discreet.planning.pate.vote_noise import (
    failure_chance,
    failure_event,
    gaussian_delta,
    minimum_teachers,
    paper_spread,
    paper_threshold,
)
from discreet.privacy.accounting.pld import pld_epsilons
from discreet.privacy.events import Composed, Gaussian, Pure, Repeated
from discreet.privacy.ledger import Ledger, MemorySink

ROOT = Path(__file__).parents[2]
TWO = Budget(epsilon=2, delta="1e-5")


def test_the_papers_gaussian_and_the_exact_one():
    """l = 100 at (1, 1e-5): 49.0 becomes 37.3 for binary votes, 52.8 on the counts of a histogram."""
    assert paper_multiplier(100, 1, 1e-5) == pytest.approx(49.0, abs=0.05)
    assert exact_multiplier(100, 1, 1e-5) == pytest.approx(37.3, abs=0.05)
    price = price_answers("gaussian", budget=Budget(epsilon=1, delta="1e-5"), teachers=250, classes=10, answers=100)
    assert price.noise == pytest.approx(52.8, abs=0.05)


def test_the_papers_gaussian_solves_its_equation():
    for answers, epsilon, delta in ((1, 0.5, 1e-6), (10_000, 4.0, 1e-9)):
        sigma = paper_multiplier(answers, epsilon, delta)
        left = math.sqrt(2 * answers * math.log(1 / delta)) / sigma + answers / (2 * sigma**2)
        assert left == pytest.approx(epsilon, rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**7), st.floats(1e-3, 50), st.floats(-30, -0.05).map(lambda power: 10.0**power))
def test_exact_calibration_never_needs_more_noise_than_the_papers(answers, epsilon, delta):
    exact, paper = exact_multiplier(answers, epsilon, delta), paper_multiplier(answers, epsilon, delta)
    assert exact <= paper
    assert gaussian_delta(math.sqrt(answers) / exact, epsilon) <= delta


def test_a_second_accountant_agrees_on_the_exact_noise():
    """dp_accounting's privacy loss distribution, on the same many Gaussians."""
    for answers, epsilon, delta in ((1, 1.0, 1e-5), (100, 1.0, 1e-5), (5000, 4.0, 1e-6)):
        event = Repeated(event=Gaussian(noise_multiplier=exact_multiplier(answers, epsilon, delta)), count=answers)
        assert max(pld_epsilons(event, delta)) == pytest.approx(epsilon, rel=1e-5)


def test_answers_at_is_the_inverse_of_the_noise():
    for answers in (1, 7, 1000, 123_456):
        noise = exact_multiplier(answers, 1.0, 1e-6)
        assert answers_at(noise * (1 + 1e-9), 1.0, 1e-6) == answers
        assert answers_at(noise * (1 - 1e-6), 1.0, 1e-6) == answers - 1


def test_sparse_vector_the_papers_and_ours():
    """T = 20, l = 1000, (2, 1e-5): lambda 22.97 becomes 17.28, w 1318 becomes 647."""
    spread = paper_spread(20, 2, 1e-5)
    assert spread == pytest.approx(22.97, abs=0.005)
    assert paper_threshold(spread, 20, 1000, 1e-5) == pytest.approx(1318, abs=0.5)
    price = price_answers("sparse", budget=TWO, teachers=3000, answers=1000, unstable=20)
    assert price.spread == pytest.approx(17.28, abs=0.01)
    assert price.threshold == pytest.approx(647, abs=1)


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 2553), (1, 1289), (2, 657)])
def test_minimum_teachers_of_the_papers_constants(epsilon, least):
    """T = 1, l = 9000, delta = 1e-5."""
    assert minimum_teachers(paper_threshold(paper_spread(1, epsilon, 1e-5), 1, 9000, 1e-5)) == least
    budget = Budget(epsilon=epsilon, delta="1e-5")
    with pytest.raises(InfeasiblePlan, match=str(least)) as refused:
        price_answers("sparse-paper", budget=budget, teachers=least - 1, answers=9000, unstable=1)
    assert refused.value.nearest == {"teachers": str(least)}
    price_answers("sparse-paper", budget=budget, teachers=least, answers=9000, unstable=1)
    ours = price_answers("sparse", budget=budget, teachers=least, answers=9000, unstable=1)
    assert ours.minimum_teachers < least / 5  # one epoch is one pure event: nothing to compose


def test_the_chance_of_a_mistake_is_that_of_the_noise():
    rng = np.random.default_rng(7)
    spread, threshold = 3.0, 9.0
    drawn = rng.laplace(scale=2 * spread, size=400_000) - rng.laplace(scale=spread, size=400_000)
    chance = failure_chance(spread, threshold, 1)
    assert (drawn > threshold).mean() == pytest.approx(chance, abs=4 * math.sqrt(chance / 400_000))
    tail = least_reach(lambda x: (4 * math.exp(-x / 2) - math.exp(-x)) / 6, 0.05)
    assert (drawn > spread * tail).mean() == pytest.approx(0.05, abs=0.002)


def test_mistakes_and_epochs_together_cost_at_least_their_sum():
    """The event of a mistake beside T epochs: delta is at least that of the epochs plus the chance (proof)."""
    from discreet.privacy.accounting.pld import pld_pair

    epochs, chance, delta = Repeated(event=Pure(epsilon="0.1"), count=20), 4e-6, 1e-5
    both = Composed(events=(epochs, failure_event(chance, delta)))
    for epsilon in (1.9, 2.0):
        alone, together = (max(pld_pair(event).deltas(epsilon)) for event in (epochs, both))
        assert together >= alone + chance
        assert together <= alone + chance * 1.001


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_a_ledger_takes_every_price(aggregator):
    price = price_answers(aggregator, budget=TWO, teachers=5000, classes=3, answers=500, unstable=10)
    assert 0 < price.epsilon <= 2
    ledger = Ledger.create(MemorySink(), price.terms())
    for event, count in price.charges:
        ledger.charge(event=event, count=count, who="private", why="answers")
    event, count = price.charges[0]
    assert not ledger.price(event=event, count=1, who="private").fits  # the cap is a cap
    assert price.lead(0.99) > price.lead(0.9) > 0
    assert price.to_json()["aggregator"] == aggregator


@pytest.mark.parametrize("family", ["gaussian", "laplace", "sparse"])
def test_ours_spends_the_budget_and_the_papers_does_not(family):
    ours, papers = (
        price_answers(name, budget=TWO, teachers=5000, answers=1000) for name in (family, f"{family}-paper")
    )
    assert ours.epsilon == pytest.approx(2, rel=1e-4)
    assert papers.epsilon < 1.7
    assert ours.lead() < papers.lead()


def test_answers_bought_are_answers_that_can_be_had():
    for name in ("gaussian", "laplace", "sparse"):
        bought = answers_bought(name, budget=TWO, teachers=3000, classes=10, lead=0.6)
        price = price_answers(name, budget=TWO, teachers=3000, classes=10, answers=bought)
        assert price.lead() <= 0.6 * 3000 * 1.001
    assert answers_bought("sparse", budget=TWO, teachers=300, lead=0.6) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"answers": 0},
        {"answers": 2.5},
        {"teachers": 1},
        {"classes": 1},
        {"unstable": 0},
        {"unstable": 101},
        {"budget": Budget(epsilon=1, delta=0)},
        {"aggregator": "plain"},
    ],
)
def test_nonsense_is_refused(wrong):
    asked = {"aggregator": "sparse", "budget": TWO, "teachers": 5000, "answers": 100, "unstable": 5} | wrong
    with pytest.raises(BadInput):
        price_answers(asked.pop("aggregator"), **asked)


def test_the_committed_table_of_noise_is_what_is_computed():
    """benchmarks/results/teacher-noise.md, row by row."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "benchmarks/results/teacher-noise.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    assert len(rows) == 60
    for answers, epsilon, delta, paper, exact, ratio in rows:
        numbers = int(answers.replace(",", "")), float(epsilon), float(delta)
        assert float(paper) == pytest.approx(paper_multiplier(*numbers), rel=1e-3)
        assert float(exact) == pytest.approx(exact_multiplier(*numbers), rel=1e-3)
        assert Decimal(ratio) < 1
