"""Every kind of student and aggregator in a campaign of teachers, to its end, exported and read again."""

import pytest
from pate_parts import drawn, make

from discreet.campaign.loop import InternalOracle, run
from discreet.campaign.state import ledger_of
from discreet.config import read_campaign
from discreet.exports import export_model, load_model
from discreet.exports.model_form import verify_export
from discreet.recipes import opening
from discreet.recipes.verification import verify_campaign

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    "change",
    [
        {"student": {"ask": "'passive'", "pseudo_labels": "true"}},
        {"student": {"ask": "'disagreement'"}},
        {"student": {"ask": "'disagreement'", "name": "'tree'", "options": "{ min_samples_leaf = 5 }"}},
        {"student": {"ask": "'margin'", "name": "'voting'", "options": "{ rounds = 5 }"}},
        {"student": {"name": "'pate_parts:own_tree'"}, "teachers": {"name": "'pate_parts:own_tree'"}},
        {"answers": {"aggregator": "'laplace'"}},
        {"answers": {"aggregator": "'confident'"}, "student": {"unstable": "'pseudo-label'"}},
        {
            "answers": {"aggregator": "'sparse'", "unstable": 2},
            "budget": {"epsilon": "'50'"},
            "teachers": {"count": 150},
            "student": {"unstable": "'arbitrary'"},
        },
    ],
    ids=["semi-supervised", "disagreement", "committee", "ensemble", "own", "laplace", "confident", "sparse"],
)
def test_every_kind_of_student_and_aggregator(tmp_path, change):
    file = make(tmp_path, **change)
    campaign = opening.create(read_campaign(file), confirm=True)
    run(campaign, InternalOracle(campaign))
    assert campaign.done
    assert verify_campaign(read_campaign(file)).ok
    last = campaign.store.transitions()[-1].facts["evaluation"]["accuracy"]
    assert last > 0.6
    with ledger_of(campaign.store) as ledger:
        assert all(entry.why.purpose.startswith("answers") for entry in ledger.entries if entry.charges)
    asked = campaign.store.questions()
    assert len({one.record for one in asked}) == len(asked) <= 50
    answered = [one.facts["answered"] for one in campaign.store.transitions() if one.kind == "answered"]
    told = [one for one in campaign.store.answers() if one.value is not None]
    assert sum(answered) == len(told)
    made = export_model(campaign, tmp_path / "model")
    assert verify_export(made.directory).checks
    x, _ = drawn(50, 7)
    own = "pate_parts:own_tree" if ":" in campaign.recipe.config.student.name else None
    assert load_model(tmp_path / "model", model=own).predict(x) == campaign.predict(x)
