"""Plans with private quantiles: every path pays for them, in both directions, and nothing forgets them."""

from dataclasses import replace
from decimal import Decimal

import pytest

from discreet.errors import BadInput, InvalidEvent, InvalidPlan
from discreet.planning import make_plan, plan_request
from discreet.planning.planner import price_list
from discreet.privacy.event_forms import to_dp_accounting
from discreet.privacy.events import DiscreteLaplace
from discreet.privacy.ledger import Ledger, MemorySink, terms_of
from discreet.privacy.plan_files import plan_from_json

PRICE, EVENT = Decimal("0.2"), DiscreteLaplace(epsilon="0.2", sensitivity=6)
SMALL = {
    "epsilon": "1.2", "delta": "1e-6", "initial": 300, "queries": (100, 50), "batch": 100, "epochs": 3,
    "quantiles_epsilon": PRICE, "quantile_cells": 6,
}  # fmt: skip
WAYS = {
    "random": {},
    "one-sided": {"selection_epsilon": "0.3", "threshold_epsilon": "0.01", "pool_size": 1000},
    "shards": {"selection": "shards", "selection_epsilon": "0.3"},
    "paper": {"selection": "paper", "selection_epsilon": "0.3"},
    "all read": {"selection": "paper", "selection_epsilon": "0.3", "reads_training_data": True},
    "apart": {"selection": "separate-budget", "selection_epsilon": "0.3", "mechanism": "gaussian"},
    "hidden": {"selection": "hidden", "threshold_epsilon": "0.05"},
    "scout": {"selection_epsilon": "0.3", "schedule": "scout"},
    "individual": {"selection_epsilon": "0.3", "pool_size": 1000, "individual_rates": True},
}
ways = pytest.mark.parametrize("way", WAYS)


def planned(way, **changes):
    return make_plan(plan_request(**SMALL | WAYS[way] | {"accountant": "rdp"} | changes))


@ways
def test_every_path_of_plan_and_ledger_pays_once_in_both_directions(way):
    plan, held_out = planned(way), DiscreteLaplace(epsilon="0.3")
    free = make_plan(plan_request(**SMALL | WAYS[way] | {"accountant": "rdp", "quantiles_epsilon": 0, "epsilon": "2"}))
    terms = terms_of(plan, held_out=held_out)
    terms.check_claim()
    by_ledger = {path.name: path for path in terms.trajectories()}
    assert len(plan.trajectories) == len(free.trajectories)
    for path in (*plan.trajectories, *by_ledger.values()):
        paid = [branch.event for branch in path.selection].count(EVENT)
        assert paid == (path.name != "held-out")  # it is of no pool
    for name, path in by_ledger.items():
        if not name.startswith(("never-asked/", "held-out")):
            of_plan = next(other for other in plan.trajectories if other.name == name)
            assert (path.forward, path.backward) == (of_plan.forward, of_plan.backward)
            assert path.training == of_plan.training
    assert plan.claim <= Decimal("1.2")
    # it is the first line, and a charge of its own
    assert (terms.lines[0].who, terms.lines[0].phase, terms.lines[0].event) == ("whole-pool", 0, EVENT)
    ledger = Ledger.create(MemorySink(), terms)
    ledger.charge(event=EVENT, who="whole-pool", why="quantiles")
    touched = {path.name for path in terms.paths if ledger.total(path.name).epsilon > 0}
    assert touched == {path.name for path in terms.paths} - {"held-out"}


@pytest.mark.parametrize("way", ["random", "one-sided", "shards"])
def test_claims_by_dp_accountings_own_accountant(way):
    """Quantiles and selection as pure losses, and what dp_accounting says of the training. At random, when no choice
    depends on a record, the quantiles composed with the training cost no more than that.
    """
    import dp_accounting as dpa
    from dp_accounting.pld import PLDAccountant

    plan = planned(way, accountant="pld")
    for path in plan.trajectories:
        if not path.training:
            assert plan.claim_of(path) == float(max(path.forward, path.backward))
            continue
        other = PLDAccountant(dpa.NeighboringRelation.REPLACE_SPECIAL, 1e-4)
        other.compose(to_dp_accounting(path.trained))
        truth = float(max(path.forward, path.backward)) + other.get_epsilon(1e-6)
        assert truth - 1e-5 <= plan.claim_of(path) <= truth * 1.002
        if way == "random":
            together = PLDAccountant(dpa.NeighboringRelation.REPLACE_SPECIAL, 1e-4)
            together.compose(to_dp_accounting(DiscreteLaplace(epsilon=PRICE)))
            together.compose(to_dp_accounting(path.trained))
            assert together.get_epsilon(1e-6) <= plan.claim_of(path)


@ways
def test_a_stored_plan_cannot_forget_them(way):
    plan = planned(way)
    form = plan.to_json()
    assert plan_from_json(form) == plan
    del form["selection"]["quantiles"]
    with pytest.raises(InvalidPlan, match="do not follow"):
        plan_from_json(form)


def test_what_is_left_is_shared_by_the_rest():
    """Caps on misses of a never-asked record, and every plan of a price list."""
    plan = planned("one-sided", epsilon="0.7", selection_epsilon="0.4")
    assert plan.trajectories[-1].backward <= Decimal("0.7")
    ask = plan_request(**SMALL | WAYS["one-sided"] | {"accountant": "rdp"})
    half = next(option for option in price_list(ask) if option.label == "half of epsilon").plan
    assert half.selection.quantiles == replace(EVENT, epsilon=PRICE / 2)
    with_none = plan_request(**SMALL | {"quantiles_epsilon": 0})
    assert with_none.terms.quantiles is None
    with pytest.raises(InvalidEvent, match="negative"):
        plan_request(**SMALL | {"quantiles_epsilon": "-1"})


@pytest.mark.parametrize(
    ("way", "price"), [("random", {"quantiles_epsilon": "5e-12"}), ("one-sided", {"threshold_epsilon": "5e-13"})]
)
def test_noise_that_is_too_wide_to_be_drawn_is_refused_before_it_is_paid_for(way, price):
    with pytest.raises(BadInput, match=r"wider than 2\^40"):
        planned(way, **price)
    assert planned(way, **{name: Decimal(value) * 2 for name, value in price.items()})
