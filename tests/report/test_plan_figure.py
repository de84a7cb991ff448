import pytest

from discreet.api import plan_request
from discreet.planning import make_plan
from discreet.report.plan_figure import plan_figure

pytestmark = pytest.mark.thorough

ASK = {"epsilon": 8, "delta": "1e-6", "initial": 1000, "queries": [300, 200], "batch": 200, "epochs": 5}


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
@pytest.mark.parametrize("epsilon", [8, 0.05])
def test_the_figure_ends_where_the_plan_does(accountant, epsilon):
    ask = plan_request(**ASK | {"epsilon": epsilon}, selection_epsilon=epsilon / 4, accountant=accountant)
    made = make_plan(ask)
    figure = plan_figure(ask, made)
    for path in made.trajectories:
        if path.training:
            curve = figure.plan.losses[path.name]
            assert curve[-1] == pytest.approx(made.claim_of(path), rel=1e-3)
            rising = [loss for loss in curve if loss is not None]
            assert rising == sorted(rising)
    assert figure.plan.losses["phase-2"][:2] == (None, None)
    assert figure.plan.starts["phase-2"] == (1.5, epsilon / 4)
    assert figure.steps == tuple(phase.steps for phase in made.phases)
    assert len(figure.naive_rates) == 3
