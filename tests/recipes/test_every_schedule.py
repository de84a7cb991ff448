"""Every schedule, price and selector of the private-pool recipe, from the first question to the certificate."""

from decimal import Decimal

import numpy as np
import pytest
from small_campaigns import accuracy, again, finish, made, opened_ledger, pool_and_truth

from discreet.errors import BadInput, BudgetExceeded, InvalidConfig
from discreet.privacy.certificate.statement import dump_certificate
from discreet.privacy.certificate.verification import verify_certificate
from discreet.privacy.ledger import ChargeReason

pytestmark = pytest.mark.thorough

PAID = {"selection_epsilon": "2"}
ONE_SIDED = {"selector": "threshold-response", "threshold_epsilon": "0.2", **PAID}
WAYS = {
    "naive": {"plan": {"schedule": "naive"}},
    "step-amplification": {**ONE_SIDED},
    "noise-reduction": {"plan": {"schedule": "noise-reduction"}, **ONE_SIDED},
    "continual": {"plan": {"schedule": "continual"}},
    "scout": {"plan": {"schedule": "scout", "batch": 100}, **ONE_SIDED},
    "individual rates": {"plan": {"individual_rates": True}, **ONE_SIDED},
    "shards": {"plan": {"selection": "shards"}, **ONE_SIDED},
    "hidden": {"plan": {"selection": "hidden"}, "selector": "hidden-threshold", "threshold_epsilon": "0.3"},
    "laplace": {"plan": {"selection": "paper"}, "selector": "laplace", **PAID},
    "clipped-laplace": {"plan": {"selection": "paper"}, "selector": "clipped-laplace", **PAID},
    "exponential": {"plan": {"selection": "paper"}, "selector": "exponential", **PAID},
    "k-centre": {"plan": {"selection": "paper"}, "selector": "k-centre", "scorer": "random", **PAID},
    "gaussian": {"plan": {"selection": "separate-budget"}, "selector": "gaussian", **PAID},
    "subsampled-gaussian": {"plan": {"selection": "separate-budget"}, "selector": "subsampled-gaussian", **PAID},
    "random": {},
    "exact": {"selector": "exact"},
    "no queries": {"queries": []},
}
QUICK = ("individual rates", "hidden", "gaussian", "scout")
"""The others differ from these in a plan or a selector alone."""


@pytest.mark.parametrize("way", [pytest.param(way, marks=() if way in QUICK else pytest.mark.long) for way in WAYS])
def test_a_campaign_ends_with_a_model_and_a_certificate_of_its_budget(way, tmp_path):
    pool, truth = pool_and_truth()
    campaign = made(tmp_path, pool, **WAYS[way])
    asked = finish(campaign, truth)
    records = [one.record for phase in asked for one in phase]
    assert len(set(records)) == len(records)
    assert len(asked[0]) == 60
    limits = campaign.recipe.plan.selection.hidden.slots if way == "hidden" else (30, 30)
    assert all(0 < len(phase) <= most for phase, most in zip(asked[1:], limits, strict=False))
    assert accuracy(campaign, pool, truth) > 0.8
    campaign.recipe.terms().check_claim()
    _refuses_more(campaign)
    assert (
        2 < campaign.budget_usage().spent < Decimal("8.1")
    )  # an odometer by orders, a little above the plan's own RDP
    assert campaign.status().private == (way != "exact")
    loaded = again(tmp_path, pool)
    assert loaded.done
    assert loaded.predict(np.asarray(pool.x[:20])) == campaign.predict(np.asarray(pool.x[:20]))


def _refuses_more(campaign):
    """The ledger has no line left."""
    last = campaign.recipe.phases - 1
    with opened_ledger(campaign) as ledger:
        before, lines = len(ledger), [line for line in ledger.terms.lines if line.phase == last]
        for line in lines:
            why = ChargeReason(phase=last, purpose="once more")
            with pytest.raises((BudgetExceeded, BadInput), match="committed|begun"):
                ledger.charge(event=line.event, count=line.count, who=line.who, why=why)
        assert lines
        assert len(ledger) == before


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_certificate_of_every_way_is_verified_by_both_accountants(way, tmp_path):
    pool, truth = pool_and_truth()
    campaign = made(tmp_path, pool, **WAYS[way])
    finish(campaign, truth)
    form = campaign.certificate()
    verdict = verify_certificate(dump_certificate(form).encode())
    assert verdict.ok, [check for check in verdict.checks if not check.ok]
    assert Decimal(str(form["claim"]["epsilon"])) <= 8
    assert all(path["epsilon_pld"] <= path["epsilon_rdp"] for path in form["trajectories"])
    assert ("not_released" in form) == (way == "hidden")


@pytest.mark.long
def test_a_campaign_repeats_itself_under_its_seed(tmp_path):
    pool, truth = pool_and_truth()
    for way in ("hidden", "gaussian"):
        first, second = (made(tmp_path, pool, name=f"{way} {n}", **WAYS[way]) for n in "12")
        assert finish(first, truth) == finish(second, truth)
        assert first.store.file("model", 2).read_bytes() == second.store.file("model", 2).read_bytes()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"selector": "gaussian", "plan": {"selection": "paper"}, **PAID}, "does not price gaussian"),
        ({"selector": "laplace", **PAID}, "does not price laplace"),
        ({"selector": "threshold-response", "plan": {"selection": "separate-budget"}, **PAID}, "thresholds"),
        ({"selector": "nobody", **PAID}, "there is no 'nobody'"),
        ({"selector": "exact", "simulation": None}, "not private"),
        ({"plan": {"selection": "hidden"}}, "is free"),
        ({**WAYS["k-centre"], "selector_options": {"delta": "1e-6"}}, "delta 0"),
        ({**WAYS["hidden"], **PAID}, "costs nothing"),
        ({**WAYS["gaussian"], "selector_options": {"delta": "1e-3"}}, "no part of delta"),
    ],
)
def test_a_selector_that_the_plan_does_not_pay_for_is_refused(changes, word, tmp_path):
    pool, _ = pool_and_truth()
    options = changes.pop("selector_options", {})
    from small_campaigns import BUDGET, tables

    from discreet.api import create_campaign

    form = tables(**{name: value for name, value in changes.items() if name != "simulation"})
    form["selector"] |= options
    if "simulation" in changes:
        del form["simulation"]
    with pytest.raises(InvalidConfig, match=word):
        create_campaign("refused", storage=tmp_path / "c.db", pool=pool, budget=BUDGET, recipe=form)
