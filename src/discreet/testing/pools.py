"""The contracts of a pool (records under their own ids, the same each time) and of a feature map of its records.

    def test_my_pool():
        check_pool(MyPool(...))

A pool is anything that has what `discreet.pools.Pool` has: ``ids``, ``persons``, ``x``, ``text``, a length, ``rows``,
``broken`` and ``public``. It is read here and there, not whole, in any order; a broken record is blank.

    def test_my_map():
        check_feature_map(lambda: MyMap(input_shape=(8,)), records)

A feature map is a public function of one record alone, to the bit, of a known shape and norm. ``records``: made-up
records as the map takes them, at least four: an array with a row a record, or a list. ``nulls``: records of which the
map must say that they are nulls; for an array of floats they are made up (a value that is not a number, an infinite
one), unless an empty list says that the map takes those for values.

Each check raises AssertionError with what does not hold; none repeats an id or a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.features import FeatureMap
from discreet.pools.manifest import MAC_BYTES, ManifestKey, macs
from discreet.pools.rows import Mask

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


Factory = Callable[[], FeatureMap]
_MANY = 150


def check_feature_map(make: Factory, records: Any, *, nulls: Any = None) -> None:
    """Raise AssertionError with the first thing that a feature map does wrong."""
    assert len(records) >= 4, "too few records to check with"
    broken = _broken(records) if nulls is None else nulls
    _check_facts(make)
    _check_values(make(), records)
    _check_alone(make, records)
    _check_company(make, records, broken)
    _check_threads(make, records)
    _check_nulls(make(), records, broken)


def _check_facts(make: Factory) -> None:
    first, second = make(), make()
    assert isinstance(first.name, str), "its name is not text"
    assert first.name, "it has no name"
    assert all(type(size) is int and size > 0 for size in first.output_shape), "its output has no fixed shape"
    assert first.output_size == int(np.prod(first.output_shape)), "its output size is not that of its shape"
    assert first.norm_bound is None or 0 < first.norm_bound < np.inf, "the bound of its norm is not a positive number"
    form = first.identity()
    assert json.loads(json.dumps(form, allow_nan=False)) == form, "its identity does not survive JSON"
    assert isinstance(form.get("sha256"), str), "its identity has no hash"
    assert second.identity() == form, "two maps of the same options have two identities"


def _check_values(feature_map: FeatureMap, records: Any) -> None:
    before = json.dumps(np.asarray(records).tolist(), default=str)
    values = _features(feature_map, records)[0]
    assert json.dumps(np.asarray(records).tolist(), default=str) == before, "it writes into what it is given"
    assert np.array_equal(feature_map.transform(records), values), "transform and readable differ"
    assert len(_features(feature_map, _taken(records, []))[0]) == 0, "no records do not have no features"
    if feature_map.norm_bound is not None:
        norms = np.sqrt((values.astype(np.float64).reshape(len(values), -1) ** 2).sum(axis=1))
        assert (norms <= feature_map.norm_bound).all(), "a record's features are longer than the stated bound"


def _check_alone(make: Factory, records: Any) -> None:
    """A record alone, among others, elsewhere among them, by a used and by a new map: the same bits."""
    feature_map, places = make(), np.arange(_MANY) % len(records)
    values, fine = _features(feature_map, _taken(records, places))
    for place in range(len(records)):
        alone, present = _features(make() if place == 0 else feature_map, _taken(records, [place]))
        assert present[0] == fine[place], "a record alone is another null than among others"
        assert np.array_equal(alone[0], values[place]), "a record alone has other features than among others"
    order = np.random.default_rng(0).permutation(_MANY)
    moved, _ = _features(feature_map, _taken(records, places[order]))
    assert np.array_equal(moved, values[order]), "features depend on the position of the record"
    assert np.array_equal(_features(feature_map, _taken(records, places))[0], values), "the map has a state"


def _check_company(make: Factory, records: Any, broken: Any) -> None:
    """Other records in the same places, nulls among them, change nothing at all."""
    feature_map, count = make(), len(records)
    values, _ = _features(feature_map, records)
    for other in (_taken(records, [count - 1]), *([broken] if len(broken) else [])):
        for place in (0, count // 2, count - 1):
            mixed = _joined([_taken(other, [at % len(other)]) for at in range(count)])
            mixed = _joined(
                [_taken(mixed, range(place)), _taken(records, [place]), _taken(mixed, range(place + 1, count))]
            )
            assert np.array_equal(_features(feature_map, mixed)[0][place], values[place]), (
                "features depend on other records"
            )


def _check_threads(make: Factory, records: Any) -> None:
    from threadpoolctl import threadpool_limits

    many = _taken(records, np.arange(_MANY) % len(records))
    results = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            results.append(_features(make(), many)[0])
    assert np.array_equal(results[0], results[1]), "features depend on the number of threads"


def _check_nulls(feature_map: FeatureMap, records: Any, broken: Any) -> None:
    if len(broken):
        mixed = _joined([_taken(records, [0]), broken])
        values, fine = _features(feature_map, mixed)
        assert np.array_equal(values[0], _features(feature_map, _taken(records, [0]))[0][0]), (
            "a null changes another record"
        )
        assert not fine[1:].any(), "a null is not flagged"


def _features(feature_map: FeatureMap, records: Any) -> tuple[NDArray[Any], Mask]:
    values, fine = feature_map.readable(records)
    assert isinstance(values, np.ndarray), "it does not give an array"
    assert values.dtype == np.float32, "its features are not float32"
    assert values.shape == (len(records), *feature_map.output_shape), "its features do not have the shape it says"
    assert np.isfinite(values).all(), "a feature is not finite"
    assert fine.dtype == np.bool_, "the flags do not say yes or no"
    assert fine.shape == (len(records),), "there is not one flag a record"
    assert not values[~fine].any(), "the features of a null are not zeros"
    return values, fine


def _broken(records: Any) -> Any:
    """A record with one value that is not finite, three times; none where records are not floats."""
    if not isinstance(records, np.ndarray) or records.dtype.kind != "f":
        return records[:0]
    rows = np.repeat(records[:1], 3, axis=0)
    rows.reshape(3, -1)[:, 0] = (np.nan, np.inf, -np.inf)
    return rows


def _taken(records: Any, places: Any) -> Any:
    if isinstance(records, np.ndarray):
        return records[np.asarray(places, dtype=np.int64)]
    return [records[int(place)] for place in places]


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [record for part in parts for record in part]
