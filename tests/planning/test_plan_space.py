"""Over a space of requests: no path passes the budget, the worst is close to it, batches are b."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from discreet.errors import InfeasiblePlan
from discreet.planning import PlanRequest, make_plan
from discreet.privacy.budget import RATES_PER_COHORT, Budget

pytestmark = pytest.mark.thorough


@st.composite
def requests(draw, accountant, most_steps):
    initial = draw(st.sampled_from([1, 2, 7, 50, 1000, 20_000]))
    queries = tuple(draw(st.lists(st.sampled_from([1, 5, 60, 900, 5000]), max_size=4)))
    batch = draw(
        st.sampled_from(sorted({1, initial, max(1, initial - 1), max(1, initial // 3), max(1, initial // 20)}))
    )
    epsilon = draw(st.sampled_from(["0.1", "0.7", "2", "8", "20"]))
    schedule = draw(st.sampled_from(["naive", "step-amplification", "noise-reduction", "continual", "scout"]))
    selection = draw(st.sampled_from(["one-sided", "shards", "paper"]))
    share = draw(st.sampled_from([0.0, 0.1, 0.25, 0.6, 0.95, 0.99])) if queries else 0.0
    several = schedule in RATES_PER_COHORT
    epochs = draw(st.sampled_from([1, 3, 20]))
    while epochs * (initial + sum(queries)) // batch > most_steps:
        batch *= 2
        if batch > initial:
            return draw(requests(accountant, most_steps))
    return {
        "budget": Budget(epsilon=epsilon, delta=draw(st.sampled_from(["1e-8", "1e-5", "1e-3"]))),
        "initial": initial,
        "queries": queries,
        "batch": batch,
        "epochs": epochs,
        "schedule": schedule,
        "selection": selection,
        "selection_epsilon": round(float(epsilon) * share, 9),
        "threshold_epsilon": round(
            float(epsilon) * (draw(st.sampled_from([0.0, 0.001])) if share and selection != "paper" else 0), 9
        ),
        "individual_rates": share > 0 and several and selection != "paper" and draw(st.booleans()),
        "accountant": accountant,
    }


def check(**wish):
    try:
        ask = PlanRequest(**wish)
        made = make_plan(ask)
    except InfeasiblePlan as error:
        named = {name: int(value) if name in ("batch", "pool_size") else value for name, value in error.nearest.items()}
        if "epsilon" in named:
            named["budget"] = Budget(epsilon=named.pop("epsilon"), delta=wish["budget"].delta)
        assert named
        check_made(make_plan(PlanRequest(**wish | named)))  # what is named can be planned
        return
    check_made(made)
    for number, phase in enumerate(made.phases):
        assert phase.size == ask.sizes[number]


def check_made(made):
    budget = float(made.budget.epsilon)
    for path in made.trajectories:
        assert made.claim_of(path) <= budget
    assert max(made.claim_of(path) for path in made.trajectories if path.training) >= budget * 0.995
    for phase in made.phases:
        assert phase.last.expected_batch(made.cohorts) == pytest.approx(phase.batch, abs=1)
        assert phase.batch == made.batch or made.schedule == "scout"
        for stage in phase.stages:
            assert all(0 <= rate <= 1 for rate in stage.rates)
            assert stage.expected_batch(made.cohorts) <= made.batch + 1
            assert stage.noise_multiplier > 0


common = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=12, **common)
@given(requests("rdp", 20_000))
def test_plans_by_rdp(wish):
    """A dozen requests, others each time; most take a tenth of a second, a few take seven."""
    check(**wish)


@settings(max_examples=4, derandomize=True, phases=[Phase.generate], **common)
@given(requests("pld", 1_000))
def test_plans_by_pld(wish):
    check(**wish)


SMALL = {
    "budget": Budget(epsilon="1", delta="1e-6"),
    "initial": 300,
    "queries": (100, 50),
    "batch": 100,
    "epochs": 3,
    "selection_epsilon": "0.3",
}


@pytest.mark.parametrize("selection", ["one-sided", "shards", "paper"])
@pytest.mark.parametrize("schedule", ["naive", "step-amplification", "noise-reduction", "continual", "scout"])
def test_every_schedule_and_price_by_pld(schedule, selection):
    check(**SMALL, schedule=schedule, selection=selection)


def test_both_directions_are_certified_at_the_finer_interval():
    """A plan made at the planning interval holds when certified ten times finer, each direction by itself."""
    from discreet.privacy.accounting.pld import pld_epsilons

    made = make_plan(PlanRequest(**SMALL))
    for path in made.trajectories:
        if path.training:
            forward, backward = pld_epsilons(path.trained, 1e-6, interval=1e-4)
            assert float(path.forward) + forward <= 1
            assert float(path.backward) + backward <= 1


@pytest.mark.parametrize("schedule", ["naive", "step-amplification", "continual", "scout"])
def test_a_plans_claims_by_dp_accountings_own_accountant(schedule):
    """Where forward is the dearer direction of selection too, the claim is l plus what dp_accounting says."""
    import dp_accounting as dpa
    from dp_accounting.pld import PLDAccountant

    from discreet.privacy.event_forms import to_dp_accounting

    made = make_plan(PlanRequest(**SMALL, schedule=schedule))
    for path in made.trajectories:
        if not path.training:
            continue
        assert path.forward >= path.backward
        other = PLDAccountant(dpa.NeighboringRelation.REPLACE_SPECIAL, 1e-4)
        other.compose(to_dp_accounting(path.trained))
        truth = float(path.forward) + other.get_epsilon(1e-6)
        assert truth - 1e-5 <= path.epsilon_pld <= truth * 1.002


@settings(max_examples=25, **common)
@example(0.5, 1000)
@given(st.floats(0.2, 20), st.integers(200, 50_000))
def test_a_larger_budget_never_needs_more_noise(epsilon, initial):
    ask = PlanRequest(
        budget=Budget(epsilon=epsilon, delta="1e-6"),
        initial=initial,
        queries=(100,),
        batch=100,
        epochs=5,
        accountant="rdp",
    )
    more = replace(ask, budget=Budget(epsilon=epsilon * 1.3, delta="1e-6"))
    assert make_plan(more).noise_multiplier < make_plan(ask).noise_multiplier


@pytest.mark.long
@settings(max_examples=300, **common)
@given(requests("rdp", 20_000))
def test_plans_by_rdp_at_length(wish):
    check(**wish)


@pytest.mark.long
@settings(max_examples=300, **common)
@given(requests("pld", 20_000))
def test_plans_by_pld_at_length(wish):
    check(**wish)
