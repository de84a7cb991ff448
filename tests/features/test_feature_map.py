"""Stored feature maps, and a contract that finds each mistake."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.features import (
    FEATURES,
    ArrayMap,
    Scattering,
    build_feature_map,
    feature_map_from_json,
    read_feature_map,
    write_feature_map,
)
from discreet.parts import Part
from discreet.pools.rows import PlacedRows
from discreet.testing import check_feature_map

ROWS = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Squares(ArrayMap):
    """An honest map."""

    name = "squares"
    input_shape: tuple[int, ...] = (4,)
    block = 16
    output_shape = (4,)
    norm_bound = 1.00001

    def options(self):
        return {"shape": list(self.input_shape)}

    @classmethod
    def from_options(cls, options):
        return cls(input_shape=tuple(options["shape"]))

    def features(self, records):
        return records**2 / np.maximum(np.sqrt((records**4).sum(axis=1, keepdims=True)), np.float32(1e-6))


class BatchNormalised(Squares):
    """Statistics of the batch, as batch normalisation in training mode."""

    def features(self, records):
        return (records - records.mean(axis=0)) / (10 * records.std(axis=0) + 1)


class ByPosition(Squares):
    def features(self, records):
        return records / (100 + np.arange(self.block, dtype=np.float32)[:, None])


class Stateful(Squares):
    def features(self, records):
        object.__setattr__(self, "seen", getattr(self, "seen", 0) + 1)
        return records / np.float32(100 + self.seen)


class Long(Squares):
    def features(self, records):
        return records


class Unflagged(Squares):
    def readable(self, batch):
        records = np.nan_to_num(np.asarray(batch, dtype=np.float32), posinf=0, neginf=0) / 1000
        return records, np.ones(len(records), dtype=bool)


class Raises(Squares):
    def readable(self, batch):
        if not np.isfinite(batch).all():
            raise ValueError("not finite")
        return super().readable(batch)


class Writes(Squares):
    def readable(self, batch):
        result = super().readable(batch)
        batch[:] = 0
        return result


class Wide(Squares):
    output_shape = (5,)

    def features(self, records):
        return records


def test_an_honest_map_passes():
    check_feature_map(Squares, ROWS)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (BatchNormalised, "other features than among others"),
        (ByPosition, "position|alone"),
        (Stateful, "differ|state|alone"),
        (Long, "longer than the stated bound"),
        (Unflagged, "not flagged"),
        (Writes, "writes into"),
    ],
)
def test_each_mistake_is_found(kind, says):
    with pytest.raises(AssertionError, match=says):
        check_feature_map(kind, ROWS.copy())


@pytest.mark.parametrize("kind", [Raises, Wide])
def test_a_map_that_raises_fails(kind):
    with pytest.raises((ValueError, AssertionError)):
        check_feature_map(kind, ROWS)


def test_nulls_of_the_records_are_nulls_of_the_features():
    placed = PlacedRows(ROWS, np.array([2, -1, 0]))
    values, fine = Squares().readable(placed)
    assert fine.tolist() == [True, False, True]
    assert np.array_equal(values[[0, 2]], Squares().transform(ROWS[[2, 0]]))


def test_many_records_are_read_piece_by_piece():
    rows = np.random.default_rng(1).normal(size=(3001, 4)).astype(np.float32)
    assert np.array_equal(Squares().transform(rows)[[0, 1500, 3000]], Squares().transform(rows[[0, 1500, 3000]]))


def test_every_map_says_what_it_makes():
    for part in FEATURES:
        assert part.makes
        assert part.reads == ()
        assert all(kind.name in (part.name, part.name.replace("_", "-")) for kind in part.makes)


def test_a_map_reads_back_from_its_file(tmp_path):
    made = Scattering(input_shape=(16, 16), scales=1)
    write_feature_map(tmp_path / "map.json", made)
    assert read_feature_map(tmp_path / "map.json") == made
    assert read_feature_map(tmp_path / "map.json").identity() == made.identity()


def stored(**changes):
    return build_feature_map("scattering", shape=(16, 16)).identity() | changes


@pytest.mark.parametrize(
    ("form", "says"),
    [
        (7, "not the form"),
        ({"name": "scattering"}, "not the form"),
        (stored(name=None), "no name"),
        (stored(name="scatering"), "Did you mean scattering"),
        (stored(version=0), "version 0"),
        (stored(options={"shape": [16, 16], "depth": 2}), "none of scattering"),
        (stored(options={"shape": [16, 16], "scales": 1}), "hash is not that"),
        (stored(options={"shape": "16"}), "not the shape"),
    ],
)
def test_a_stored_form_that_is_not_one_is_refused(form, says):
    with pytest.raises(BadInput, match=says):
        feature_map_from_json(form)


@pytest.mark.parametrize(("content", "says"), [(None, "no such file"), ("{", "not JSON"), ("[1]", "not the form")])
def test_a_file_that_is_not_one_is_refused(tmp_path, content, says):
    path = tmp_path / "map.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInput, match=says):
        read_feature_map(path)


def test_a_stored_map_holds_no_record():
    assert set(json.loads(json.dumps(stored()))) == {"name", "version", "options", "sha256"}


def test_a_map_of_another_package_reads_back(monkeypatch):
    part = Part(kind="feature", name="squares", summary="squares", build=Squares, reads=(), makes=(Squares,))
    monkeypatch.setattr("discreet.parts.third_party", lambda kind, name: part)
    assert feature_map_from_json(Squares().identity()) == Squares()
    monkeypatch.setattr("discreet.parts.third_party", lambda kind, name: replace(part, makes=()))
    with pytest.raises(BadInput, match="does not declare what squares makes"):
        feature_map_from_json(Squares().identity())
