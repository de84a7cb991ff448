"""What a query leaves for the public report is paid for: recorded on one pool, replayed on its neighbours."""

import numpy as np
import pytest

from discreet.campaign.recipe import PhaseContext
from discreet.config import CampaignConfig
from discreet.pools import ArrayPool
from discreet.recipes import private_pool
from discreet.recipes.pool_queries import counted
from discreet.recipes.private_pool import PrivatePool, plan_of
from discreet.testing import NotPrivate, check_neighbours

SIZE = 40
NULL = np.array([1.0, 0.0], dtype=np.float32)
"""The model is sure of it, so it scores lowest."""
KINDS = {
    "threshold-response": {"selection_epsilon": "2", "threshold_epsilon": "0.5"},
    "hidden-threshold": {"selector": "hidden-threshold", "threshold_epsilon": "0.5"},
}


class Certain:
    """Believes what a record says of itself."""

    def predict_proba(self, x):
        return np.asarray(x, dtype=np.float64)


def recipe_of(kind):
    tables = private_pool(
        classes=["a", "b"],
        initial=8,
        queries=[6],
        batch=4,
        epochs=1,
        plan={"accountant": "rdp"} | ({"selection": "hidden"} if kind == "hidden-threshold" else {}),
        **KINDS[kind],
    )
    form = {
        "format": "discreet.campaign/1",
        "name": "n",
        "pool": {"path": "-", "kind": "arrays", "size": SIZE},
        "budget": {"epsilon": "8", "delta": "1e-4"},
        **tables,
    }
    config = CampaignConfig.from_json(form)
    return PrivatePool(config=config, plan=plan_of(config), inputs=(2,))


def shown(recipe, place):
    """What is recorded of a query for anybody to see."""

    def mechanism(rows, ledger):
        pool = ArrayPool(ids=[f"r{number}" for number in range(len(rows))], x=rows)
        context = PhaseContext(
            phase=1,
            pool=pool,
            ledger=ledger,
            source=ledger.source,
            members={"initial": ("r0", "r1")},
            model=Certain(),
            directory=place,
        )
        return dict(recipe.choose(context).facts)

    return mechanism


def rows():
    share = np.random.default_rng(2).uniform(0.5, 1.0, SIZE)
    return np.stack([share, 1 - share], axis=1).astype(np.float32)


@pytest.mark.parametrize("kind", list(KINDS))
def test_recorded_facts_of_a_query_are_paid_for(kind, tmp_path):
    recipe = recipe_of(kind)
    mechanism = shown(recipe, tmp_path)
    found = check_neighbours(mechanism, rows(), null=NULL, terms=recipe.terms(), most=4)
    assert found.pairs == 4
    assert found.releases >= 1


def test_exact_counts_would_be_found(tmp_path):
    recipe = recipe_of("threshold-response")
    mechanism = shown(recipe, tmp_path)

    def leaking(data, ledger):
        from discreet.recipes.learning import scorer_of

        facts = mechanism(data, ledger)
        scores = scorer_of(recipe.config).score(np.asarray(data, dtype=np.float64))
        return facts | {"exact": counted(scores, (0.0, 1.0), 16)}

    with pytest.raises(NotPrivate, match="output"):
        check_neighbours(leaking, rows(), null=NULL, terms=recipe.terms(), most=2)


def test_counted_as_a_query_counts():
    scores = np.array([0.0, 0.01, 0.49, 0.5, 1.0, np.nan])
    assert counted(scores, (0.0, 1.0), 2) == (2, 2)
