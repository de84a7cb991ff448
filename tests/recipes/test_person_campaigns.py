"""Persons: one score, one coin, one cohort with all records; counted and promised for as persons."""

import numpy as np
import pytest
from small_campaigns import BUDGET, finish, opened_ledger, records, tables, truth_of

from discreet.api import create_campaign
from discreet.errors import InvalidConfig
from discreet.pools import ArrayPool
from discreet.recipes.units import Units

SIZES = (1, 2, 3, 5)
"""Records of a person; at most three are used."""
MOST = 3


def people(count=120):
    """Persons whose records do not lie side by side."""
    owners = [f"p{number}" for number in range(count) for _ in range(SIZES[number % len(SIZES)])]
    order = np.random.default_rng(1).permutation(len(owners))
    owners = [owners[place] for place in order]
    x, y = records(len(owners))
    ids = [f"r{number}" for number in range(len(owners))]
    return ArrayPool(ids=ids, x=x, persons=owners), truth_of(y), count


def campaign_of(tmp_path, pool, persons, **changes):
    given = {"initial": 40, "queries": [20, 20], "batch": 20, **changes}
    declared = {"path": "none", "kind": "arrays", "size": len(pool), "person": "p", "persons": persons}
    budget = {**BUDGET, "unit": "person", "records_per_person": MOST}
    recipe = tables(**given) | {"pool": declared}
    return create_campaign("people", storage=tmp_path / "c.db", pool=pool, budget=budget, recipe=recipe)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.long),
        {"selection_epsilon": "2", "threshold_epsilon": "0.2", "plan": {"individual_rates": True}},
        pytest.param(
            {"selection_epsilon": "2", "selector": "gaussian", "plan": {"selection": "apart"}}, marks=pytest.mark.long
        ),
    ],
    ids=["random", "individual rates", "gaussian"],
)
def test_all_records_of_a_person_are_asked_together(changes, tmp_path):
    pool, truth, persons = people()
    campaign = campaign_of(tmp_path, pool, persons, **changes)
    asked = finish(campaign, truth)
    owner = dict(zip(pool.ids, pool.persons, strict=True))
    units = Units.of(pool, "person", MOST)
    met = [{owner[one.record] for one in phase} for phase in asked]
    assert len(met[0]) == 40
    assert all(0 < len(one) <= 20 for one in met[1:])
    assert not met[0] & met[1] | met[0] & met[2] | met[1] & met[2]
    for phase, names in zip(asked, met, strict=True):
        allowed = [pool.ids[place] for name in names for place in units.records[name]]
        assert sorted(one.record for one in phase) == sorted(allowed)  # all of them, and none beyond three
    for label, members in campaign.store.cohort_members().items():
        others = {owner[one] for name, more in campaign.store.cohort_members().items() if name != label for one in more}
        assert not {owner[one] for one in members} & others
    with opened_ledger(campaign) as ledger:
        assert ledger.terms.budget.unit == "person"
    assert campaign.recipe.plan.claim <= 8


def test_a_person_scores_as_their_highest_record_does():
    pool, _, _ = people()
    units = Units.of(pool, "person", MOST)
    scores = np.random.default_rng(2).random(len(pool))
    numbers = np.array([5, 0, 17, 3])
    found = units.scores(numbers, scores[units.places(numbers)])
    for number, score in zip(numbers.tolist(), found.tolist(), strict=True):
        mine = [place for place, name in enumerate(pool.persons) if name == units.names[number]][:MOST]
        assert score == max(scores[mine])


def test_a_histogram_counts_persons(tmp_path, monkeypatch):
    """What reaches the noise of a threshold is one entry a person."""
    from discreet.selectors import responding

    pool, truth, persons = people()
    campaign = campaign_of(tmp_path, pool, persons, queries=[20], selection_epsilon="2", threshold_epsilon="0.2")
    counts = []
    real = responding.discrete_laplace
    monkeypatch.setattr(
        responding, "discrete_laplace", lambda given, **rest: counts.append(given) or real(given, **rest)
    )
    finish(campaign, truth)
    assert [int(np.sum(one)) for one in counts] == [persons - 40]
    assert len(pool) > 2 * persons


def test_a_pool_that_does_not_say_whose_records_they_are_is_refused(tmp_path):
    pool, _, persons = people()
    nameless = ArrayPool(ids=pool.ids, x=pool.x)
    with pytest.raises(InvalidConfig, match="whose records"):
        campaign_of(tmp_path, nameless, persons)


def test_k_centre_is_for_records(tmp_path):
    pool, _, persons = people()
    changes = {"selector": "k-centre", "scorer": "random", "selection_epsilon": "2", "plan": {"selection": "paper"}}
    with pytest.raises(InvalidConfig, match="one record a unit"):
        campaign_of(tmp_path, pool, persons, **changes)
