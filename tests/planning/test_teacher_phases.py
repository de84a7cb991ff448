"""Prices of teachers' answers by phase: their lines are the whole price, and nothing is lost in storing them."""

import json
from collections import Counter

import pytest

from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning.pate.phases import TeacherPlan, plan_answers
from discreet.privacy.budget import Budget

BUDGET = Budget(epsilon=2, delta="1e-6")
QUERIES = (30, 50, 70)
CASES = [("gaussian", {}), ("laplace", {}), ("confident", {"answered_share": 0.4}), ("sparse", {"unstable": 3})]


def plan_of(aggregator, options, queries=QUERIES, teachers=4000):
    return plan_answers(aggregator, budget=BUDGET, teachers=teachers, classes=2, queries=queries, options=options)


@pytest.mark.parametrize(("aggregator", "options"), CASES)
def test_the_lines_of_all_phases_are_the_whole_price(aggregator, options):
    plan = plan_of(aggregator, options)
    terms = plan.terms()
    lines = Counter()
    for line in terms.lines:
        lines[line.event] += line.count
    assert lines == Counter(dict(plan.price.charges))
    terms.check_claim()
    assert {line.phase for line in terms.lines} == {0, 1, 2}
    for phase, asked in enumerate(QUERIES):
        part = plan.part(phase)
        assert getattr(part, "checks", part.answers) == asked
        assert getattr(part, "threshold", None) == getattr(plan.price, "threshold", None)
        assert getattr(part, "noise", None) == getattr(plan.price, "noise", None)


@pytest.mark.parametrize(("aggregator", "options"), CASES)
def test_a_plan_is_stored_and_read_again(aggregator, options):
    plan = plan_of(aggregator, options)
    assert TeacherPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert plan.digest() != plan_of(aggregator, options, queries=(30, 50, 71)).digest()


def test_a_phase_smaller_than_its_unstable_answers_may_all_be_so():
    plan = plan_of("sparse", {"unstable": 5}, queries=(3, 10))
    assert plan.unstable == (3, 5)
    assert plan.price.unstable == 8


def test_too_few_teachers_are_refused_by_number():
    with pytest.raises(InfeasiblePlan, match="Train at least"):
        plan_of("sparse", {"unstable": 3}, teachers=100)


@pytest.mark.parametrize("form", [None, {}, {"format": "discreet.teachers-plan/1"}, {"format": "other"}])
def test_what_is_no_plan_is_refused(form):
    with pytest.raises(BadInput):
        TeacherPlan.from_json(form)
