"""A pool that grows: positions run on, records stay what they were."""

import numpy as np
import pytest
from pool_files import COUNT, FILES, IDS, PERSONS, PIXELS, TEXTS, table, write_npy, write_parquet

from discreet.errors import BadInput
from discreet.pools import ArrayPool, JoinedPool, extended, open_pool
from discreet.testing import check_pool

BOTH = np.concatenate([PIXELS, 255 - PIXELS])
NEW = [f"new {place}" for place in range(COUNT)]


@pytest.fixture
def grown(tmp_path):
    _, _, options = FILES["parquet"]
    pool = open_pool(write_parquet(tmp_path / "a.parquet"), **options)
    write_parquet(tmp_path / "b.parquet", table(255 - PIXELS, ids=NEW))
    return extended(pool, tmp_path / "b.parquet", size=COUNT)


def test_a_further_cohort_follows_the_first(grown):
    check_pool(grown)
    assert grown.ids == IDS + NEW
    assert grown.persons == PERSONS * 2
    assert (np.asarray(grown.x) == BOTH).all()
    places = np.array([79, 0, 40, 39, 39])
    assert (grown.x[places] == BOTH[places]).all()
    assert (grown.x[30:50] == BOTH[30:50]).all()
    assert grown.x[80:].shape == (0, 4, 3)
    assert grown.text[places] == [(TEXTS * 2)[place] for place in places]
    assert grown.public()["cohorts"] == [COUNT, COUNT]
    assert grown.public()["size"] == 2 * COUNT


def test_a_third_cohort_follows_the_second(grown, tmp_path):
    write_parquet(tmp_path / "c.parquet", table(ids=[f"third {place}" for place in range(COUNT)]))
    third = extended(grown, tmp_path / "c.parquet")
    assert third.public()["cohorts"] == [COUNT] * 3
    assert (third.x[80:] == PIXELS).all()
    with pytest.raises(BadInput, match="40 ids are in more than one"):
        extended(third, tmp_path / "b.parquet")
    with pytest.raises(BadInput, match="size = 3"):
        extended(grown, tmp_path / "c.parquet", size=3)


def test_positions_as_ids_run_on(tmp_path):
    pool = open_pool(write_npy(tmp_path / "a.npy"), id="position", scale=255)
    both = extended(pool, write_npy(tmp_path / "b.npy", 255 - PIXELS))
    assert both.ids == [str(place) for place in range(80)]
    assert np.array_equal(both.x[:], BOTH.astype(np.float32) / np.float32(255))


def test_pools_that_do_not_fit_together():
    plain = ArrayPool(ids=IDS, x=PIXELS)
    for other in (
        ArrayPool(ids=NEW, x=PIXELS[:, :2]),
        ArrayPool(ids=NEW, x=PIXELS.astype(np.float32)),
        ArrayPool(ids=NEW, x=PIXELS, text=TEXTS),
        ArrayPool(ids=NEW, x=PIXELS, persons=PERSONS),
        ArrayPool(ids=NEW, text=TEXTS),
    ):
        for pools in ([plain, other], [other, plain]):
            with pytest.raises(BadInput, match="do not all have"):
                JoinedPool(pools)
    with pytest.raises(BadInput, match="there is none"):
        JoinedPool([])
