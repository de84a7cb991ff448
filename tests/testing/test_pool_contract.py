"""The contract of pools passes ours and fails pools with a planted bug."""

import numpy as np
import pytest

from discreet.pools import ArrayPool
from discreet.testing import check_pool

IDS = [f"record-{place}" for place in range(30)]
X = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)


class Own:
    """As small as a pool of a user's own may be."""

    def __init__(self):
        self.ids, self.x, self.text, self.persons = list(IDS), Rows(X), None, None

    def __len__(self):
        return len(self.ids)

    def rows(self, places):
        return self.x[places]

    def broken(self, places):
        return np.zeros(len(places), dtype=bool)

    def public(self):
        return {"kind": "own", "size": len(self), "shape": [5]}


class Rows:
    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return self.values[key].copy()


def with_x(rows):
    pool = Own()
    pool.x = rows
    return pool


def changed(**values):
    pool = Own()
    for name, value in values.items():
        setattr(pool, name, value)
    return pool


class Sorting(Rows):
    def __getitem__(self, key):
        return self.values[np.sort(key) if isinstance(key, np.ndarray) else key].copy()


class Restless(Rows):
    reads = 0

    def __getitem__(self, key):
        self.reads += 1
        return self.values[key] + np.float32(self.reads > 20)


class View(Rows):
    def __getitem__(self, key):
        return self.values[key]


class Telling(Rows):
    def __repr__(self):
        return f"rows of {IDS[3]} and others"


def told():
    pool = Own()
    pool.public = lambda: {"kind": "own", "size": 30, "shape": [5], "first": IDS[0]}
    return pool


def unblanked():
    pool = Own()
    pool.broken = lambda places: np.asarray(places) == 4
    return pool


def test_a_small_pool_of_ones_own_keeps_the_contract():
    check_pool(Own())
    check_pool(ArrayPool(ids=IDS, x=X))


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: changed(ids=[IDS[0], *IDS[:-1]]), "occurs twice"),
        (lambda: changed(ids=[*range(30)]), "not text"),
        (lambda: changed(ids=IDS[1:]), "row a record"),
        (lambda: changed(persons=["a"] * 29), "has a person"),
        (lambda: changed(x=None), "neither"),
        (lambda: changed(text=["a"] * 29), "a text a record"),
        (lambda: with_x(Rows(X.astype(np.float64))), "float32"),
        (lambda: with_x(Rows(np.where(X > 0, X, np.nan).astype(np.float32))), "not finite"),
        (lambda: with_x(Sorting(X)), "slices and positions differ"),
        (lambda: with_x(Restless(X)), "differ|again"),
        (lambda: with_x(View(X.copy())), "after a write"),
        (lambda: with_x(Telling(X)), "hold an id"),
        (lambda: changed(rows=lambda places: X[places] * 2), "rows and x differ"),
        (lambda: changed(broken=lambda places: None), "yes or no"),
        (unblanked, "not zeros"),
        (lambda: changed(public=lambda: {"kind": "own"}), "lacks"),
        (told, "hold an id"),
    ],
)
def test_planted_bugs_are_found(make, wrong):
    with pytest.raises(AssertionError, match=wrong) as caught:
        check_pool(make())
    assert "record-" not in str(caught.value.args[0]).splitlines()[0]
