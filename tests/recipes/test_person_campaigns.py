"""Persons: one score, one coin, one cohort with all records; counted and promised for as persons."""

import numpy as np
import pytest
from small_campaigns import BUDGET, again, finish, opened_ledger, records, tables, truth_of

from discreet.api import create_campaign
from discreet.errors import BadInput, InvalidConfig
from discreet.pools import ArrayPool
from discreet.recipes.learning import cohort_of
from discreet.recipes.pool_records import Units

pytestmark = pytest.mark.thorough

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
            {"selection_epsilon": "2", "selector": "gaussian", "plan": {"selection": "separate-budget"}},
            marks=pytest.mark.long,
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
    from discreet.selectors import threshold_selector

    pool, truth, persons = people()
    campaign = campaign_of(tmp_path, pool, persons, queries=[20], selection_epsilon="2", threshold_epsilon="0.2")
    counts = []
    real = threshold_selector.discrete_laplace
    monkeypatch.setattr(
        threshold_selector, "discrete_laplace", lambda given, **rest: counts.append(given) or real(given, **rest)
    )
    finish(campaign, truth)
    assert [int(np.sum(one)) for one in counts] == [persons - 40]
    assert len(pool) > 2 * persons


def test_a_pool_that_does_not_say_whose_records_they_are_is_refused(tmp_path):
    pool, _, persons = people()
    nameless = ArrayPool(ids=pool.ids, x=pool.x)
    with pytest.raises(InvalidConfig, match="whose records"):
        campaign_of(tmp_path, nameless, persons)


def test_a_cohort_that_nobody_entered_can_be_trained_on(tmp_path):
    pool, _, persons = people()
    config = campaign_of(tmp_path, pool, persons).recipe.config
    assert len(cohort_of(config, pool, [], {}).persons) == 0


def test_k_centre_is_for_records(tmp_path):
    pool, _, persons = people()
    changes = {"selector": "k-centre", "scorer": "random", "selection_epsilon": "2", "plan": {"selection": "paper"}}
    with pytest.raises(InvalidConfig, match="one record a unit"):
        campaign_of(tmp_path, pool, persons, **changes)


def test_labels_are_counted_by_records_and_not_by_persons(tmp_path):
    pool, _, persons = people()
    campaign = campaign_of(tmp_path, pool, persons)
    assert [campaign.recipe.labels_planned(phase) for phase in range(3)] == [40 * MOST, 20 * MOST, 20 * MOST]
    declared = {"path": "none", "kind": "arrays", "size": len(pool), "person": "p", "persons": persons}
    budget = {**BUDGET, "unit": "person", "records_per_person": MOST, "labels": 239}
    with pytest.raises(InvalidConfig, match="asks 240 questions.*people answer 239"):
        create_campaign(
            "few",
            storage=tmp_path / "c.db",
            pool=pool,
            budget=budget,
            recipe=tables(initial=40, queries=[20, 20], batch=20) | {"pool": declared},
        )


@pytest.mark.thorough
def test_a_person_withdraws_with_all_records_and_one_whose_first_record_is_gone_is_not_asked_again(tmp_path):
    pool, truth, persons = people()
    campaign = campaign_of(tmp_path, pool, persons)
    owner = dict(zip(pool.ids, pool.persons, strict=True))
    first = campaign.ask()
    asked = owner[first[0].record]
    mine = [one for one in pool.ids if owner[one] == asked]
    campaign.tell({one.id: truth[one.record] for one in first})
    waiting = next(name for name in sorted(set(pool.persons)) if name not in {owner[one.record] for one in first})
    campaign.withdraw(persons=[waiting])
    campaign.withdraw(mine[:1])
    campaign.train()
    left = [place for place, one in enumerate(pool.ids) if one != mine[0] and owner[one] != waiting]  # of the owner's
    shorter = ArrayPool(
        ids=[pool.ids[p] for p in left], x=np.asarray(pool.x)[left], persons=[pool.persons[p] for p in left]
    )
    again = campaign_of(tmp_path, shorter, persons)
    assert len(again.pool) == len(pool)
    met = []
    while not again.done:
        questions = again.ask()
        met += [owner[one.record] for one in questions]
        again.tell({one.id: truth[one.record] for one in questions})
        again.train()
    assert len(met) >= 20
    assert asked not in met
    assert waiting not in met
    assert sum(one.erased for one in again.store.withdrawn()) == 1 + sum(name == waiting for name in pool.persons)


@pytest.mark.thorough
def test_of_a_person_nobody_knows_any_more_a_record_is_not_withdrawn_blindly(tmp_path):
    from discreet.campaign.withdrawal import mark
    from discreet.errors import NotNow

    pool, _, persons = people()
    campaign = campaign_of(tmp_path, pool, persons)
    mark(campaign.store, [pool.ids[5]])
    left = [place for place in range(len(pool)) if place != 5]
    shorter = ArrayPool(
        ids=[pool.ids[p] for p in left], x=np.asarray(pool.x)[left], persons=[pool.persons[p] for p in left]
    )
    again = campaign_of(tmp_path, shorter, persons)
    with pytest.raises(NotNow, match="whose it was"):
        again.ask()
    whole = campaign_of(tmp_path, pool, persons)  # its row restored
    assert whole.store.withdrawn()[0].done


def test_a_re_planning_counts_persons_as_the_plan_does(tmp_path):
    pool, truth, persons = people()
    campaign = campaign_of(tmp_path, pool, persons)
    campaign.tell({one.id: truth[one.record] for one in campaign.ask()})
    campaign.train()

    def asked(**wish):
        made = campaign.replan(because="outside", epsilon="9", dry_run=True, **wish)
        return [phase["labels"] for phase in made.figures["after"]["phases"][-2:]]

    assert asked() == [20, 20], "persons, and not three times as many"
    assert asked(labels=30 * MOST) == [15, 15]


def test_records_and_persons_are_not_withdrawn_in_one_command(tmp_path):
    from discreet.config import CampaignConfig
    from discreet.recipes.pool_changes import withdraw

    pool, _, persons = people()
    campaign = campaign_of(tmp_path, pool, persons)
    config = CampaignConfig.from_json(campaign.store.config["config"], directory=tmp_path)
    with pytest.raises(BadInput, match="both records and persons"):
        withdraw(config, [pool.ids[0]], persons=["nobody"])
    assert campaign.store.withdrawn() == []


def test_a_person_who_withdraws_again_is_known(tmp_path):
    """Also when their rows are gone; who never was there is refused."""
    pool, truth, persons = people()
    campaign = campaign_of(tmp_path, pool, persons)
    who = pool.persons[0]
    mine = sum(one == who for one in pool.persons)
    done = campaign.withdraw(persons=[who])
    assert (done.new, done.known) == (mine, 0)
    rest = [place for place, one in enumerate(pool.persons) if one != who]
    owners = [pool.persons[place] for place in rest]
    left = ArrayPool(ids=[pool.ids[place] for place in rest], x=pool.x[rest], persons=owners)
    opened = again(tmp_path, left, "people")
    done = opened.withdraw(persons=[who])
    assert (done.new, done.known) == (0, mine)
    with pytest.raises(BadInput, match="1 of 2 are not in the pool"):
        opened.withdraw(persons=[who, "nobody"])
    done = opened.withdraw(persons=[who, owners[0]])
    assert done.new == sum(one == owners[0] for one in owners)
    finish(opened, truth)
