"""The contract of a pool: records under their own ids, read in any order, the same each time, and blank where broken.

    def test_my_pool():
        check_pool(MyPool(...))

A pool is anything that has what `discreet.pools.Pool` has: ``ids``, ``persons``, ``x``, ``text``, a length, ``rows``,
``broken`` and ``public``. It is read here and there, not whole. Each check raises AssertionError with what does not
hold; none repeats an id or a value.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from discreet.pools.manifest import MAC_BYTES, ManifestKey, macs

_MOST = 64


def check_pool(pool: Any) -> None:
    """Raise AssertionError with the first thing that a pool does wrong."""
    _check_names(pool)
    assert pool.x is not None or pool.text is not None, "it has neither numbers nor text"
    if pool.x is not None:
        _check_numbers(pool)
    if pool.text is not None:
        _check_texts(pool)
    _check_broken(pool)
    _check_public(pool)
    _check_manifest(pool)


def _check_names(pool: Any) -> None:
    ids = pool.ids
    assert isinstance(ids, list), "ids are not a list"
    assert len(pool) == len(ids) > 0, "its length is not the number of ids, or there is none"
    assert all(isinstance(name, str) and name for name in ids), "an id is not text, or empty"
    assert len(set(ids)) == len(ids), "an id occurs twice"
    if pool.persons is not None:
        assert isinstance(pool.persons, list), "persons are not a list"
        assert len(pool.persons) == len(ids), "not every record has a person"
        assert all(isinstance(name, str) and name for name in pool.persons), "a person's name is not text, or empty"


def asked_places(count: int) -> list[Any]:
    """Places in orders that readers get wrong: backwards, twice, from both ends, none."""
    some = np.random.default_rng(0).permutation(count)[:_MOST]
    ends = np.array([count - 1, 0, count - 1])
    return [some, np.sort(some)[::-1], ends, np.array([], dtype=np.int64)]


def _check_numbers(pool: Any) -> None:
    x, count = pool.x, len(pool)
    assert tuple(x.shape)[:1] == (len(x),) == (count,), "x does not have a row a record"
    assert len(x.shape) > 1, "a record of x is a bare number"
    assert np.dtype(x.dtype) in (np.float32, np.uint8), "x is neither float32 nor uint8"
    for places in asked_places(count):
        rows = np.asarray(x[places])
        assert rows.shape == (len(places), *x.shape[1:]), "rows by positions do not have the shape it says"
        assert rows.dtype == np.dtype(x.dtype), "rows do not have the type it says"
        assert np.isfinite(rows).all(), "a row holds what is not finite"
        alone = [np.asarray(x[int(index) : int(index) + 1])[0] for index in places]
        assert all(np.array_equal(*pair) for pair in zip(rows, alone, strict=True)), "slices and positions differ"
        assert np.array_equal(np.asarray(pool.rows(places)), rows), "rows and x differ"
    _check_slices(x, count)


def _check_slices(x: Any, count: int) -> None:
    last = min(count, _MOST)
    first = np.array(x[0:last])
    assert first.shape == (last, *x.shape[1:]), "a slice does not have the shape it says"
    assert len(x[count : count + 5]) == 0, "a slice beyond the end is not empty"
    tail = max(count - 3, 0)
    assert len(x[tail : count + 5]) == count - tail, "a slice over the end is not cut"
    written = x[0:last]
    if isinstance(written, np.ndarray) and written.flags.writeable:
        written[...] = 1 - np.minimum(written, 1)
    assert np.array_equal(np.asarray(x[0:last]), first), "it is not the same when it is read again, or after a write"


def _check_texts(pool: Any) -> None:
    count = len(pool)
    assert len(pool.text) == count, "there is not a text a record"
    for places in asked_places(count):
        texts = pool.text[places]
        assert isinstance(texts, list), "texts by positions are not a list"
        assert all(isinstance(text, str) for text in texts), "a text is not text"
        alone = [pool.text[int(index) : int(index) + 1] for index in places]
        assert [text for piece in alone for text in piece] == texts, "slices and positions of texts differ"
        assert pool.x is not None or pool.rows(places) == texts, "rows and text differ"


def _check_broken(pool: Any) -> None:
    for places in asked_places(len(pool)):
        broken = np.asarray(pool.broken(places))
        assert broken.dtype == np.bool_, "broken does not say yes or no"
        assert broken.shape == (len(places),), "broken does not answer for every record that was asked for"
        # a record whose text alone is missing keeps its numbers, so zeros are asked of pools of numbers alone
        if pool.x is not None and pool.text is None:
            assert not np.asarray(pool.x[places])[broken].any(), "a broken record is not zeros"


def _check_public(pool: Any) -> None:
    facts = pool.public()
    assert {"kind", "size", "shape"} <= set(facts), "public lacks kind, size or shape"
    assert facts["size"] == len(pool), "public says another size"
    printed = json.dumps(facts) + repr(pool) + repr(pool.x) + repr(pool.text)
    words = set(re.findall(r"[^\s\"'<>,:\[\]{}()]+", printed))
    names = {name for name in (*pool.ids, *(pool.persons or ())) if len(name) > 3 and not name.isdigit()}
    assert not names & words, "public facts or a repr hold an id or a person"


def _check_manifest(pool: Any) -> None:
    last = min(len(pool), _MOST)
    part = _First(pool, last)
    key = ManifestKey.fresh()
    codes = dict(macs(part, key))  # type: ignore[arg-type]
    assert list(codes) == pool.ids[:last], "a manifest does not have all records"
    assert all(len(code) == MAC_BYTES for code in codes.values()), "a code has another length"
    assert codes == dict(macs(part, key)), "a manifest differs when it is made again"  # type: ignore[arg-type]


class _First:
    """The first records of a pool, for a manifest."""

    def __init__(self, pool: Any, count: int) -> None:
        self.ids, self.x, self.text = pool.ids[:count], pool.x, pool.text
        self.persons = None if pool.persons is None else pool.persons[:count]

    def __len__(self) -> int:
        return len(self.ids)
