"""A campaign on a table with gaps, recorded and replayed on its neighbours: a record whose cells are all gone.

The neighbours are tables, not arrays: what libraries infer of a column, and what becomes of missing cells, is replayed.
"""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from discreet.campaign.recipe import PhaseContext
from discreet.campaign.state import PUBLISHED
from discreet.config import CampaignConfig
from discreet.noise import Seeded
from discreet.pools import open_frame
from discreet.recipes import private_pool, private_quantiles
from discreet.recipes.feature_rows import with_features
from discreet.recipes.private_pool import PrivatePool, plan_of
from discreet.storage import Transition
from discreet.testing import NotPrivate, check_neighbours
from discreet.trainers.metric_words import evaluation_words

pytestmark = pytest.mark.thorough

SIZE, HELD = 48, 30
SCHEMA = {
    "missing_values": ["?"],
    "age": {"type": "number", "low": 0, "high": 100, "missing": "null"},
    "day": {"type": "date", "low": "2000-01-01", "high": "2030-01-01", "outside": "missing"},
    "job": {"type": "category", "values": ["clerk", "smith"]},
    "note": {"type": "text", "missing": "null"},
}
NULL = {"age": None, "day": None, "job": None, "note": None}
"""`missing = "null"`: this record is one."""
TERMS = {
    "hidden-threshold": {"selector": "hidden-threshold", "threshold_epsilon": "0.5"},
    "threshold-response": {"selection_epsilon": "2", "threshold_epsilon": "0.5"},
}
TERMS["scout"] = TERMS["threshold-response"]
PLANS = {"hidden-threshold": {"selection": "hidden"}, "scout": {"schedule": "scout"}}
BINS = {"name": "bins", "edges": {"age": [18, 65]}, "crosses": [["age", "job"]]}
TERMS["bins"] = TERMS["threshold-response"] | {"features": BINS}
TERMS["random-fourier"] = TERMS["threshold-response"] | {
    "features": {"name": "random-fourier", "size": 8, "base": BINS}
}
QUANTILES = {"name": "bins", "edges": 4, "quantiles_epsilon": "1", "quantile_bins": 20}
TERMS["quantiles"] = TERMS["threshold-response"] | {"features": QUANTILES}


def rows(size, seed):
    """A fifth of the cells is missing or nonsense."""
    rng = np.random.default_rng(seed)
    table = []
    for number in range(size):
        row = {
            "age": int(rng.integers(-20, 120)),
            "day": f"20{rng.integers(0, 40):02}-02-0{rng.integers(1, 9)}",
            "job": rng.choice(["clerk", "smith", "king"]),
            "note": f"note {number}",
        }
        spoilt = rng.random(4) < 0.2
        odd = {name: rng.choice(["", "?", "a lot"]) for name in row}
        table.append({name: odd[name] if bad else cell for (name, cell), bad in zip(row.items(), spoilt, strict=True)})
    return table


def frame_of(table, name, persons):
    """As people have it: the library decides which type a column has."""
    owners = {"who": [f"{name}{number // 2}" for number in range(len(table))]} if persons else {}
    return pd.DataFrame({"id": [f"{name}{number}" for number in range(len(table))], **owners, **pd.DataFrame(table)})


def recipe_of(kind, place, persons):
    many = {"records_per_person": 2, "unit": "person"} if persons else {}
    tables = private_pool(
        classes=["no", "yes"],
        initial=8,
        queries=[6],
        batch=6,
        epochs=2,
        trainer={"engine": "reference", "learning_rate": 1.0},
        plan={"accountant": "rdp"} | PLANS.get(kind, {}),
        evaluation={
            "kind": "paid", "epsilon": "0.5", "path": str(place / "held.csv"), "labels": str(place / "labels.csv"),
            "group": "job", "groups": ["clerk", "smith"],
        },
        **TERMS[kind],
    )  # fmt: skip
    pool = {"path": "-", "kind": "arrays", "size": SIZE, "id": "id", "schema": SCHEMA}
    form = {
        "format": "discreet.campaign/1",
        "name": "n",
        "pool": pool | ({"person": "who", "persons": SIZE // 2} if persons else {}),
        "budget": {"epsilon": "8", "delta": "1e-4", **many},
        **tables,
    }
    config = CampaignConfig.from_json(form)
    (place / "held.csv").touch()
    lines = [f"h{number},{'yes' if number % 3 else 'no'}" for number in range(HELD)]
    (place / "labels.csv").write_text("\n".join(["record,label", *lines]) + "\n")
    shown = frame_of(rows(SIZE, 3), "r", persons=False)
    config = with_features(config, open_frame(shown, id="id", schema=SCHEMA))
    inputs = (7,) if config.features is None else config.features.fitted.output_shape
    return PrivatePool(config=config, plan=plan_of(config), inputs=inputs)


def campaign(recipe, place, persons):
    """Both phases: what anybody may see of them."""

    def mechanism(table, ledger):
        held, table = table[:HELD], table[HELD:]
        own = place / f"run {len(list(place.iterdir()))}"
        own.mkdir()
        frame_of(held, "h", persons).to_csv(place / "held.csv", index=False)
        pool = open_frame(
            frame_of(table, "r", persons), id="id", schema=SCHEMA, **({"person": "who"} if persons else {})
        )
        going_on, members, model, seen = recipe, {}, None, [pool.public(), repr(pool)]
        for phase in range(2):
            context = PhaseContext(
                phase=phase, pool=pool, ledger=ledger, source=Seeded(7), members=members, model=model,
                directory=own,
            )  # fmt: skip
            chosen = going_on.choose(context)
            for record in chosen.ids:
                members.setdefault(chosen.cohorts[record], []).append(record)
            if phase == 0 and recipe.awaits_release:  # as a campaign does, by what the step has recorded
                step = Transition(number=1, kind=PUBLISHED, phase=0, at=datetime(2027, 1, 1), facts=dict(chosen.facts))
                going_on = recipe.after([step])
            labels = {record: "yes" if int(record[1:]) % 3 else "no" for one in members.values() for record in one}
            trained = going_on.train(context, labels)
            model = going_on.predictor(trained.content)
            evaluation = trained.evaluation.to_json()
            seen += [dict(chosen.facts), trained.content, evaluation, evaluation_words(evaluation)]
        return seen

    return mechanism


def neighbours(table, persons):
    """A unit's records are gone, or are words; of the pool, and of what is measured on."""
    others = []
    for first in (4, 12, HELD + 2, HELD + 20, HELD + SIZE - 2):
        other = list(table)
        for place in (first, first + 1) if persons else (first,):
            other[place] = NULL
        others.append(other)
    return others


@pytest.mark.parametrize(
    ("kind", "persons"),
    [
        ("hidden-threshold", False),
        ("threshold-response", False),
        ("threshold-response", True),
        ("scout", False),
        ("bins", False),
        ("random-fourier", True),
        ("random-fourier", False),
        ("quantiles", False),
        ("quantiles", True),
    ],
)
def test_nothing_but_what_was_paid_for_depends_on_a_record_with_or_without_gaps(kind, persons, tmp_path):
    recipe = recipe_of(kind, tmp_path, persons)
    table = rows(HELD, 1) + rows(SIZE, 2)
    found = check_neighbours(
        campaign(recipe, tmp_path, persons), table, neighbours=neighbours(table, persons), terms=recipe.terms()
    )
    assert found.pairs == 5
    assert found.releases > 8


def test_a_pool_that_tells_how_many_cells_are_missing_is_found(tmp_path):
    """The power of the test above."""
    recipe = recipe_of("threshold-response", tmp_path, persons=False)
    plain = campaign(recipe, tmp_path, persons=False)
    table = rows(HELD, 1) + rows(SIZE, 2)

    def telling(data, ledger):
        pool = open_frame(frame_of(data[HELD:], "r", persons=False), id="id", schema=SCHEMA)
        return [*plain(data, ledger), pool.x.counts().nulls]

    other = list(table)
    fine = next(number for number in range(HELD, HELD + SIZE) if isinstance(table[number]["age"], int))
    other[fine] = NULL
    with pytest.raises(NotPrivate, match="output"):
        check_neighbours(telling, table, neighbours=[other], terms=recipe.terms())


def counted_twice(counts, *rest):
    """A column adds 2."""
    return counts(*rest) * np.array([[2], [1]])


def null_counted(counts, *rest):
    """Nulls and missing cells are in the first cell."""
    exact = counts(*rest)
    exact[:, 0] += SIZE - exact.sum(axis=1)
    return exact


def beyond_the_limit(counts, pool, units, *rest):
    """All records of a person."""
    every = replace(units, records=None, names=list(pool.ids))
    return counts(pool, every, *rest)


@pytest.mark.parametrize("fault", [counted_twice, null_counted, beyond_the_limit])
def test_faults_in_the_counts_of_private_quantiles_are_found(fault, tmp_path, monkeypatch):
    persons = fault is beyond_the_limit
    recipe = recipe_of("quantiles", tmp_path, persons)
    if persons:  # of two records one takes part
        budget = replace(recipe.config.budget, records_per_person=1)
        config = replace(recipe.config, budget=budget)
        recipe = replace(recipe, config=config, plan=plan_of(config))
    counts = private_quantiles.counted
    monkeypatch.setattr(private_quantiles, "counted", lambda *rest: fault(counts, *rest))
    table = rows(HELD, 1) + rows(SIZE, 2)
    full = {"age": 50, "day": "2010-02-01", "job": "clerk", "note": "a"}
    places = [HELD + 4, HELD + 5][: 1 + persons]
    for place in places:
        table[place] = full
    other = [NULL if place in places else row for place, row in enumerate(table)]
    terms = recipe.terms()
    with pytest.raises(NotPrivate, match="sensitivity"):
        check_neighbours(campaign(recipe, tmp_path, persons), table, neighbours=[other], terms=terms)
