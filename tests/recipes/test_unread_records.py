"""A record that cannot be read is a null: it keeps its place, scores lowest, and is never worth asking."""

import numpy as np
import pytest
from small_campaigns import finish, ids_of, made, records, truth_of

from discreet.pools import ArrayPool
from discreet.recipes.pool_records import RowsAt, Units, null_scores
from discreet.recipes.specification import spec_of_campaign


def half_broken():
    """Of blank rows this model knows nothing: read as such, they would be asked first."""
    x, y = records()
    broken = np.random.default_rng(4).random(len(x)) < 0.5
    x[broken] = np.nan
    return (
        ArrayPool(ids=ids_of(), x=x),
        truth_of(y),
        {name for name, gone in zip(ids_of(), broken, strict=True) if gone},
    )


@pytest.mark.parametrize("scorer", ["entropy", "margin"])
def test_nobody_is_asked_about_what_cannot_be_read(tmp_path, scorer):
    pool, truth, broken = half_broken()
    campaign = made(tmp_path, pool, selector="exact", scorer=scorer, queries=[30])
    by_lot, chosen = finish(campaign, truth)
    assert {one.record for one in by_lot} & broken  # at random anybody is asked
    assert len(chosen) == 30
    assert not {one.record for one in chosen} & broken
    _, counts = spec_of_campaign(campaign).exact_counts(campaign, 1, 8)
    there = len(pool) - len(broken | {one.record for one in by_lot})
    assert sum(counts) == there  # nulls are counted nowhere


def test_rows_remember_which_could_not_be_read():
    pool, _, broken = half_broken()
    places = np.arange(0, len(pool), 3)
    rows = RowsAt(pool.x, places)
    assert not rows.broken.any()
    read = rows[10:40]
    assert np.isfinite(read).all()
    assert rows.broken[10:40].tolist() == [pool.ids[place] in broken for place in places[10:40].tolist()]
    assert not rows.broken[:10].any()


def test_a_person_is_as_unsure_as_the_records_that_can_be_read():
    pool = ArrayPool(ids=["a", "b", "c"], x=np.zeros((3, 2)), persons=["p", "p", "q"])
    units = Units.of(pool, "person", 2)
    found = units.scores(np.arange(2), np.array([np.nan, 0.25, np.nan]))
    assert found[0] == 0.25
    assert np.isnan(found[1])


def test_a_cohort_of_nulls_alone_is_trained_like_any_other(tmp_path):
    """Who reads a pool from its beginning is told if nothing can be read; a cohort that was drawn may be all nulls."""
    x, y = records()
    x[10:] = np.nan
    pool = ArrayPool(ids=ids_of(), x=x)
    assert pool.broken(np.arange(20, 60)).all()
    assert not pool.x[20:60].any()
    campaign = made(tmp_path, pool, queries=[30])
    finish(campaign, truth_of(y))
    assert campaign.state.step == "done"


def test_a_record_without_its_text_is_never_worth_asking():
    x, text = np.ones((3, 2), dtype=np.float32), ["a", None, "c"]
    pool = ArrayPool(ids=["a", "b", "c"], x=x, text=text)
    rows, places = RowsAt(pool.x, np.arange(3)), np.arange(3)
    rows[:]
    assert np.isnan(null_scores(np.ones(3), rows, pool, places)).tolist() == [False, True, False]
