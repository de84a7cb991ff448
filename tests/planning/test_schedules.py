"""The four schedules and the prices of selection: what each must be, beyond staying within the budget."""

from decimal import Decimal

import pytest

from discreet import plan
from discreet.errors import BadInput, InfeasiblePlan
from discreet.planning import plan_request
from discreet.planning.planner import price_list
from discreet.planning.selection import response_probabilities
from discreet.privacy.accounting.rdp import rdp_epsilon

pytestmark = pytest.mark.thorough

EXAMPLE = {
    "epsilon": 8,
    "delta": "4e-6",
    "initial": 10000,
    "queries": [3750] * 4,
    "batch": 4096,
    "epochs": 30,
    "accountant": "rdp",
}


def paths(made):
    return {path.name: path for path in made.trajectories}


def test_names_and_order_of_trajectories():
    made = plan(**EXAMPLE)
    assert list(paths(made)) == ["initial", "phase-1", "phase-2", "phase-3", "phase-4", "never-asked"]


def test_step_amplification_brings_every_cohort_to_the_budget():
    made = plan(**EXAMPLE, selection_epsilon=2)
    trained = [path.epsilon_rdp for path in made.trajectories if path.training]
    assert trained == pytest.approx([8] * 5, rel=1e-4)
    naive = plan(**EXAMPLE, schedule="naive", selection_epsilon=2)
    assert naive.participations(4) < made.participations(4)
    assert [len(phase.last.rates) for phase in made.phases] == [1, 2, 3, 4, 5]


def test_noise_reduction_keeps_the_steps_and_lowers_the_noise():
    made = plan(**EXAMPLE, schedule="noise-reduction")
    naive = plan(**EXAMPLE, schedule="naive")
    assert [p.steps for p in made.phases] == [p.steps for p in naive.phases]
    sigmas = [p.last.noise_multiplier for p in made.phases]
    assert sigmas == sorted(sigmas, reverse=True)
    assert sigmas[-1] < naive.noise_multiplier


def test_continual_lets_the_new_cohort_catch_up_alone():
    made = plan(**EXAMPLE, schedule="continual")
    catch_up, joint = made.phases[2].stages
    assert catch_up.rates[:2] == (0.0, 0.0)
    assert catch_up.rates[2] == 1.0  # 3,750 records, b = 4,096
    assert len(set(joint.rates)) == 1
    trained = [path.epsilon_rdp for path in made.trajectories if path.training]
    assert max(trained) == pytest.approx(8, rel=1e-3)
    assert min(trained) > 7.5  # a step of the whole new cohort is coarse, but each ends near the others


SCOUT = {
    "epsilon": 8,
    "delta": "1e-5",
    "initial": 1200,
    "queries": [4800],
    "batch": 6000,
    "epochs": 100,
    "schedule": "scout",
    "accountant": "rdp",
}


def test_a_scout_takes_little_and_the_last_training_the_rest():
    made = plan(**SCOUT)
    scout, last = made.phases
    assert (scout.batch, scout.steps, last.steps) == (1200, 30, 100)
    assert scout.last.rates == (1.0,)
    assert last.last.rates[0] < 0.97 < last.last.rates[1] * 1.0001  # who trained the scout has less left
    alone = plan(**SCOUT | {"initial": 6000, "queries": [], "schedule": "naive"})
    noise = (last.last.noise_multiplier / last.batch) / (alone.noise_multiplier / alone.batch)
    assert 1 < noise < 1.05  # squared budgets add up: .3 of 8 is little
    assert [path.epsilon_rdp for path in made.trajectories if path.training] == pytest.approx([8, 8], rel=1e-3)


def test_scouts_cost_by_themselves_what_they_may():
    for queries, each in (([4800], 2.4), ([2400, 2400], 2.4 / 2**0.5), ([1600] * 3, 0.5)):
        price = {"scout_epsilon": "0.5"} if each == 0.5 else {}
        made = plan(**SCOUT | {"queries": queries} | price)
        for number in range(len(queries)):
            assert rdp_epsilon(made.trajectories[0].training[number], 1e-5) == pytest.approx(each, rel=0.01)


def test_scouts_shrink_with_the_promise():
    ask = plan_request(**SCOUT | {"scout_epsilon": "5"})
    half = next(option for option in price_list(ask) if option.label == "half of epsilon").plan
    assert half is not None
    assert rdp_epsilon(half.trajectories[0].training[0], 1e-5) == pytest.approx(2.5, rel=0.01)


def test_the_last_training_has_the_most_records_a_step_for_its_noise():
    """No other noise, with the rates that it allows, is better."""
    from discreet.planning import PlanRequest
    from discreet.planning.schedules import scout_stage, strongest_stage
    from discreet.planning.spending import CohortSpending, Guess
    from discreet.privacy.budget import Budget

    wish = {key: value for key, value in SCOUT.items() if key not in ("epsilon", "delta")}
    for batch in (6000, 1000):
        ask = PlanRequest(budget=Budget(epsilon=8, delta="1e-5"), **wish | {"batch": batch, "scout_epsilon": "5"})
        spending = CohortSpending.for_request(ask)
        spending.spend(scout_stage(ask, spending, 0, 5.0))
        b, stage = strongest_stage(ask, spending, 1, 8.0)
        best = b / stage.noise_multiplier
        assert b <= batch
        for factor in (0.7, 0.9, 0.97, 1.03, 1.1, 1.5):
            sigma = stage.noise_multiplier * factor
            rates = spending.rates_to(8.0, 1, stage.steps, sigma, Guess(spending.sizes(1) * 0 + 0.5)).rates
            assert min(float(rates @ spending.sizes(1)), batch) / sigma <= best * 1.001


@pytest.mark.parametrize(
    "changes",
    [{"scout_epsilon": "8"}, {"scout_epochs": 0}, {"scout_epsilon": "0"}, {"scout_epochs": 10**6, "batch": 1}],
)
def test_scouts_that_cannot_be(changes):
    with pytest.raises(BadInput):
        plan(**SCOUT | changes)
    with pytest.raises(BadInput, match="that schedule has none"):
        plan(**EXAMPLE, scout_epsilon="1")


def test_the_naive_schedule_wastes_the_late_cohorts():
    last = paths(plan(**EXAMPLE, schedule="naive"))["phase-4"]
    assert last.epsilon_rdp < 3


def test_one_sided_prices_cost_the_maximum_not_the_sum():
    made = paths(plan(**EXAMPLE, selection_epsilon=2))
    assert made["initial"].forward == made["initial"].backward == 0
    for j in range(1, 5):
        assert made[f"phase-{j}"].forward == 2
        assert made[f"phase-{j}"].backward <= 2
    assert made["never-asked"].forward == 0
    assert made["never-asked"].backward <= 8
    assert made["phase-1"].backward == 0  # nothing was missed before


def test_given_caps_and_thresholds_are_charged():
    made = paths(plan(**EXAMPLE, selection_epsilon=2, missed=("0.2",) * 4, threshold_epsilon="0.05"))
    assert (made["phase-3"].forward, made["phase-3"].backward) == (Decimal("2.15"), Decimal("0.55"))
    assert (made["never-asked"].forward, made["never-asked"].backward) == (Decimal("0.20"), Decimal("1.00"))


def test_shards_have_no_earlier_misses():
    made = paths(plan(**EXAMPLE, selection="shards", selection_epsilon=2, threshold_epsilon="0.1"))
    for j in range(1, 5):
        assert (made[f"phase-{j}"].forward, made[f"phase-{j}"].backward) == (Decimal("2.1"), Decimal("0.1"))
    assert (made["never-asked"].forward, made["never-asked"].backward) == (Decimal("0.1"), Decimal("2.1"))


def test_the_papers_price_adds_up():
    made = paths(plan(**EXAMPLE, selection="paper", selection_epsilon=2))
    assert [made[f"phase-{j}"].forward for j in range(1, 5)] == [Decimal("0.5") * j for j in range(1, 5)]
    assert made["never-asked"].forward == made["never-asked"].backward == 2


def test_scores_that_read_training_data_cost_everyone_everything():
    made = paths(plan(**EXAMPLE, selection="paper", selection_epsilon=2, reads_training_data=True))
    assert {path.forward for path in made.values()} == {Decimal(2)}
    with pytest.raises(BadInput, match="paper"):
        plan(**EXAMPLE, selection="one-sided", selection_epsilon=2, reads_training_data=True)


def test_one_sided_selection_buys_more_training_than_the_papers_price_at_many_queries():
    many = EXAMPLE | {"queries": [1500] * 10}
    ours, theirs = plan(**many, selection_epsilon=2), plan(**many, selection="paper", selection_epsilon=20 * 0.2)
    # at eps_a = 2 a query the paper would pay 20; at 4 in all (0.4 a query) it already trains less than ours at 2
    assert ours.participations(10) > theirs.participations(10)


def test_individual_rates_split_cohorts_and_reward_the_low_part():
    made = plan(**EXAMPLE, selection_epsilon=2, individual_rates=True, pool_size=100000)
    assert [cohort.label for cohort in made.cohorts[:3]] == ["initial", "phase-1/high", "phase-1/low"]
    high, low = made.phases[1].last.rates[1:3]
    assert low > high
    assert paths(made)["phase-2/low"].forward == 0
    assert paths(made)["phase-2/low"].backward == paths(made)["phase-2/high"].backward
    assert made.phases[-1].last.expected_batch(made.cohorts) == pytest.approx(4096, abs=1)
    together = plan(**EXAMPLE, selection_epsilon=2)
    mean = sum(made.participations(c) * cohort.size for c, cohort in enumerate(made.cohorts)) / 25000
    assert mean > sum(together.participations(c) * cohort.size for c, cohort in enumerate(together.cohorts)) / 25000


@pytest.mark.parametrize("schedule", ["naive", "continual"])
def test_one_rate_schedules_have_no_individual_rates(schedule):
    with pytest.raises(BadInput, match="one rate"):
        plan(**EXAMPLE, schedule=schedule, selection_epsilon=2, individual_rates=True)


def test_response_probabilities_meet_the_theory():
    # theory section 4: k/m = 4%, eps_a = 2, threshold at the top 2k: eps_n about 0.2
    import math

    high, low = response_probabilities(4000, 100_000, 8000, 2.0)
    assert 8000 * high + 92_000 * low == pytest.approx(4000)
    assert math.log(high / low) == pytest.approx(2)
    assert math.log((1 - low) / (1 - high)) == pytest.approx(0.19, abs=0.01)


INFEASIBLE = [
    ({"batch": 20000}, "batch", "10000"),
    ({"selection_epsilon": 9}, "selection_epsilon", None),
    ({"selection_epsilon": 8}, "selection_epsilon", None),
    ({"selection": "paper", "selection_epsilon": 10}, "selection_epsilon", None),
    ({"selection_epsilon": 2, "missed": (3, 3, 3, 3)}, "epsilon", None),
    ({"selection_epsilon": "7.9999"}, "selection_epsilon", None),
    ({"epsilon": "1e-6"}, "epsilon", None),
    ({"delta": "0.5"}, "delta", "0.01"),
    ({"pool_size": 20000}, "pool_size", "25000"),
    (
        {"selection": "shards", "selection_epsilon": 2, "shards": ("0.1", "0.3", "0.3", "0.3"), "pool_size": 30000},
        "shards",
        None,
    ),
    ({"epsilon": 1000}, "epsilon", "100"),
]


@pytest.mark.parametrize(("change", "parameter", "value"), INFEASIBLE)
def test_an_infeasible_request_names_the_nearest_feasible_one(change, parameter, value):
    with pytest.raises(InfeasiblePlan) as caught:
        plan(**EXAMPLE | change)
    assert parameter in caught.value.nearest
    if value:
        assert caught.value.nearest[parameter] == value
    nearest = caught.value.nearest[parameter]
    if parameter == "shards":
        share = Decimal(nearest)
        fixed = {"shards": (share, *[(1 - share) / 3] * 2, 1 - share - 2 * ((1 - share) / 3))}
    elif parameter in ("batch", "pool_size"):
        fixed = {parameter: int(nearest)}
    else:
        fixed = {parameter: nearest}
    made = plan(**EXAMPLE | change | fixed)  # and that one is feasible
    assert made.claim <= made.budget.epsilon


@pytest.mark.parametrize(
    "change",
    [
        {"initial": 0},
        {"epochs": 0},
        {"batch": 1.5},
        {"queries": [100, -1]},
        {"schedule": "clever"},
        {"accountant": "gdp"},
        {"selection": "guess", "selection_epsilon": 1},
        {"selection_epsilon": -1},
        {"whole_batches": True},
        {"shards": "odd", "selection": "shards", "selection_epsilon": 1},
        {"shards": ("0.5", "0.5"), "selection": "shards", "selection_epsilon": 1},
        {"shards": ("0.5", "0.5", "0.5", "-0.5"), "selection": "shards", "selection_epsilon": 1},
        {"missed": ("0.1",), "selection_epsilon": 1},
        {"high_share": 2, "individual_rates": True, "selection_epsilon": 1},
        {"individual_rates": True},
        {"high_share": 0.5, "selection_epsilon": 1},
        {"missed": ("0.1",) * 4},
        {"threshold_epsilon": "0.1"},
        {"selection": "paper", "selection_epsilon": 1, "threshold_epsilon": "0.1"},
        {"selection": "paper", "selection_epsilon": 1, "missed": ("0.1",) * 4},
        {"delta": 0},
        {"queries": [1] * 300},
    ],
)
def test_nonsense_is_bad_input(change):
    with pytest.raises(BadInput):
        plan(**EXAMPLE | change)


def test_amplification_has_an_end():
    made = plan(epsilon=8, delta="1e-5", initial=10, queries=[1000], batch=2, epochs=5, accountant="rdp")
    assert made.phases[1].steps <= 10 * (5 * 1010 // 2)
    assert made.claim == pytest.approx(8, rel=5e-3)
