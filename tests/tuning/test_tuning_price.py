"""What a search costs: the whole keeps the budget, and only the number of runs and what a run does have a price."""

import json

import pytest

from discreet.errors import InfeasiblePlan
from discreet.privacy.accounting.rdp import rdp_epsilon
from discreet.privacy.budget import Budget
from discreet.privacy.tuned import runs_of
from discreet.tuning import RunShape, price_search

BUDGET = Budget(epsilon=8, delta="1e-4")


def test_the_price_keeps_the_budget_and_follows_from_the_number_of_runs():
    def price(mean, shapes=((256, 10),), settings=12, **more):
        asked = [RunShape(batch=batch, epochs=epochs) for batch, epochs in shapes]
        law = runs_of(mean=mean, eta=1)
        return price_search(budget=BUDGET, units=1000, settings=settings, shapes=asked, law=law, **more)

    few, many = price(3), price(30)
    for one in (few, many):
        assert 0.999 * 8 < one.epsilon <= 8
        assert rdp_epsilon(one.training, 1e-4) <= 8
        assert one.one_run < one.epsilon < one.all_settings
        assert one.runs[0].step.noise_multiplier > one.alone
    assert many.runs[0].step.noise_multiplier > few.runs[0].step.noise_multiplier
    assert price(3, settings=50).epsilon == few.epsilon  # the length of the list has no price
    mixed = price(3, shapes=((256, 10), (128, 10), (256, 30)), held_out=True)
    costs = [rdp_epsilon(run.event, 1e-4) for run in mixed.runs]
    assert max(costs) < 1.02 * min(costs)
    assert 0.99 * 8 < mixed.epsilon <= 8
    assert mixed.scoring.pure_epsilon() <= 8 < mixed.scoring.pure_epsilon() + 1
    assert "costs epsilon 8" in few.sentence() or "costs epsilon 7.99" in few.sentence()
    assert json.loads(json.dumps(few.to_json()))["format"] == "discreet.tuning-price/1"


def test_a_budget_that_no_noise_keeps_is_refused():
    with pytest.raises(InfeasiblePlan, match="whatever their noise"):
        price_search(
            budget=Budget(epsilon="0.0001", delta="1e-9"),
            units=1000,
            settings=2,
            shapes=[RunShape(batch=100, epochs=10)],
            law=runs_of(mean=100, eta=1),
        )
