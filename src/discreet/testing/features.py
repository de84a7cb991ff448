"""The contract of a feature map: a public function of one record alone, to the bit, of a known shape and norm.

    def test_my_map():
        check_feature_map(lambda: MyMap(input_shape=(8,)), records)

``records``: made-up records as the map takes them, at least four: an array with a row a record, or a list. ``nulls``:
records of which the map must say that they are nulls; for an array of floats they are made up (a value that is not a
number, an infinite one), unless an empty list says that the map takes those for values.

Each check raises AssertionError with what does not hold; none repeats a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.features import FeatureMap
from discreet.pools.rows import Mask

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
