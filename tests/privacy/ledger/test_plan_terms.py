"""A plan executed through a ledger costs what the plan said, path by path."""

import pytest

from discreet import plan
from discreet.errors import BudgetExceeded
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, Terms, terms_of

SHAPES = [
    {},
    {"selection_epsilon": 2},
    {"selection_epsilon": 2, "threshold_epsilon": "0.05"},
    {"selection_epsilon": 2, "individual_rates": True},
    {"selection_epsilon": 2, "selection": "shards", "threshold_epsilon": "0.05"},
    {"selection_epsilon": 2, "selection": "paper"},
    {"selection_epsilon": 2, "selection": "paper", "reads_training_data": True},
    {"selection_epsilon": 2, "schedule": "continual"},
    {"selection": "hidden", "threshold_epsilon": "0.05"},
]


def made(shape):
    return plan(
        epsilon=8, delta="1e-6", initial=2000, queries=[500] * 3, batch=256, epochs=5, accountant="rdp", **shape
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_ledgers_trajectories_are_the_plans(shape):
    planned = made(shape)
    terms = terms_of(planned)
    ours = {path.name: path for path in terms.trajectories()}
    for path in planned.trajectories:
        found = ours.get(path.name)
        if found is None:  # cut into shards, each shard has its own record that is never asked
            found = max((p for name, p in ours.items() if name.startswith(path.name)), key=lambda p: p.backward)
        assert (found.forward, found.backward) == (path.forward, path.backward)
        assert found.rdp(float(terms.accounted.delta)) == pytest.approx(path.epsilon_rdp, rel=1e-8)
    assert Terms.from_json(terms.to_json()) == terms


@pytest.mark.parametrize("shape", SHAPES)
def test_the_whole_plan_can_be_charged_and_nothing_more(shape):
    terms = terms_of(made(shape))
    ledger = Ledger.create(MemorySink(), terms)
    for line in terms.lines:
        why = ChargeReason(phase=line.phase, purpose="run")
        ledger.charge(event=line.event, count=line.count, who=line.who, why=why)
        with pytest.raises(BudgetExceeded):
            ledger.charge(event=line.event, who=line.who, why=why)
    assert all(rest == 0 for _, rest in ledger.lines_left())
