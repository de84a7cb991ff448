"""`DPClassifier(features=...)`: a map or its name, for numbers, pictures and tables with a schema."""

import json
import pickle
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import discreet
from discreet.classifier import DPClassifier
from discreet.errors import BadInput
from discreet.features import HashedText, build_feature_map
from discreet.pools import Schema
from discreet.privacy.certificate import verify, write_certificate
from discreet.trainers.dp_sgd import Settings

SCHEMA = {
    "age": {"type": "number", "low": 0, "high": 100},
    "day": {"type": "date", "low": "2020-01-01", "high": "2021-01-01", "missing": "null"},
}
COMMON = {
    "epsilon": "20",
    "delta": "1e-3",
    "classes": ["no", "yes"],
    "batch": 50,
    "epochs": 15,
    "simulation_seed": 1,
    "settings": Settings(learning_rate=8.0, clip=0.5, engine="reference"),
}


def frame_of(size=300):
    """Yes is in the middle of the ages, where no line divides."""
    ages = np.random.default_rng(0).integers(0, 101, size)
    frame = pd.DataFrame({"age": ages.astype(float), "day": pd.Timestamp("2020-05-05"), "other": "x"})
    return frame, np.where((ages > 30) & (ages < 70), "yes", "no")


def test_bins_of_a_table_divide_what_a_line_cannot():
    frame, y = frame_of()
    plain = DPClassifier(schema=SCHEMA, features=None, **COMMON).fit(frame, y)
    binned = DPClassifier(schema=SCHEMA, features="bins", feature_options={"edges": 8}, **COMMON).fit(frame, y)
    assert binned.score(frame, y) > 0.85
    assert plain.score(frame, y) < 0.75
    same = build_feature_map("bins", schema=SCHEMA, edges=8)
    assert np.array_equal(
        DPClassifier(schema=SCHEMA, features=same, **COMMON).fit(frame, y).predict_proba(frame),
        binned.predict_proba(frame),
    )
    unasked = DPClassifier(schema=SCHEMA, feature_options={"edges": 8}, **COMMON).fit(frame, y)
    assert np.array_equal(unasked.predict_proba(frame), binned.predict_proba(frame))


def test_a_null_is_a_null():
    frame, y = frame_of()
    broken = frame.copy()
    broken.loc[3, "day"] = pd.NaT
    fitted = DPClassifier(schema=SCHEMA, features="bins", **COMMON).fit(frame, y)
    assert fitted.predict_proba(broken)[3].tolist() == [0.5, 0.5]
    others = [place for place in range(len(frame)) if place != 3]
    assert np.array_equal(fitted.predict_proba(broken)[others], fitted.predict_proba(frame)[others])


def test_pictures_and_numbers():
    chance = np.random.default_rng(0)
    x = chance.random((120, 8, 8)).astype(np.float32) * 0.3
    for number in range(120):
        x[number][(number % 8, slice(None)) if number % 2 else (slice(None), number % 8)] = 1
    y = np.where(np.arange(120) % 2, "yes", "no")
    flat = x.reshape(120, 64)
    of_pictures = DPClassifier(features="scattering", feature_options={"angles": 4}, inputs=(8, 8), **COMMON)
    assert of_pictures.fit(flat, y).score(flat, y) > 0.9
    assert of_pictures.feature_map_.input_shape == (8, 8)
    options = {"size": 256, "lengthscale": 3.0}
    on_numbers = DPClassifier(features="random-fourier", feature_options=options, **COMMON).fit(flat, y)
    assert on_numbers.predictor_.module(np_tensor(256)).shape == (1, 2)


def np_tensor(size):
    import torch

    return torch.zeros(1, size)


def test_it_is_cloned_shown_and_stored(tmp_path):
    frame, y = frame_of(120)
    estimator = DPClassifier(schema=SCHEMA, features="bins", feature_options={"edges": 4}, **COMMON)
    assert clone(estimator).get_params()["feature_options"] == {"edges": 4}
    assert "features='bins'" in repr(estimator)
    made = build_feature_map("bins", schema=SCHEMA, edges=4)
    assert clone(DPClassifier(features=made)).features == made
    fitted = clone(estimator).fit(frame, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    certificate = fitted.certificate()
    assert certificate["features"]["sha256"] == made.identity()["sha256"]
    schema = Path(__file__).parents[2] / "docs/reference/certificate.schema.json"
    jsonschema.validate(certificate, json.loads(schema.read_text()))
    write_certificate(certificate, tmp_path / "certificate.json")
    assert verify(tmp_path / "certificate.json").ok
    assert "features" not in DPClassifier(schema=SCHEMA, features=None, **COMMON).fit(frame, y).certificate()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"features": "bin"}, "there is none of that name"),
        ({"features": 3}, "neither a map nor a name"),
        ({"features": None, "feature_options": {"edges": 3}}, "none is"),
        ({"features": "bins", "feature_options": {"edge": 3}}, "no such option"),
        ({"features": "hashed-text"}, "of texts"),
        ({"features": HashedText()}, "of texts"),
        ({"features": build_feature_map("bins", schema={"age": SCHEMA["age"]})}, "another schema"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    frame, y = frame_of(60)
    with pytest.raises(BadInput, match=says):
        DPClassifier(schema=SCHEMA, **options, **COMMON).fit(frame, y)


def test_a_table_map_needs_the_schema_of_the_table():
    made = build_feature_map("bins", schema=Schema.of(SCHEMA))
    with pytest.raises(BadInput, match="none is given"):
        DPClassifier(features=made, **COMMON).fit(np.zeros((60, 2)), ["no", "yes"] * 30)


def test_a_search_learns_from_features():
    frame, y = frame_of(200)
    model = DPClassifier(schema=SCHEMA, features="bins", feature_options={"edges": 8}, **COMMON)
    grid, public = {"epochs": [5, 15]}, (frame[100:], y[100:])
    result = discreet.tune(model, grid, frame[:100], y[:100], public=public, runs=2)
    assert result.classifier.predict_proba(frame).shape == (200, 2)
    assert result.classifier.certificate()["features"]["name"] == "bins"
