"""Transformers of scikit-learn as feature maps: row by row, without pickle, of a fixed list of types."""

import io
import json
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, PCA, FactorAnalysis, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from discreet import DPClassifier
from discreet.errors import BadInput
from discreet.features import ScikitLearn, build_feature_map, feature_map_from_json, stored_transformer
from discreet.pools import Schema
from discreet.testing import check_feature_map

pytest.importorskip("skops")

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(200, 6)).astype(np.float32)
ROWS = RNG.normal(size=(5, 6)).astype(np.float32)


def fitted(*steps):
    return make_pipeline(*steps).fit(PUBLIC)


def built(transformer, **options):
    return build_feature_map("scikit-learn", shape=6, transformer=transformer, **options)


PIPELINES = {
    "scaled components": (RobustScaler(), PCA(4)),
    "kernel": (StandardScaler(), Nystroem(n_components=40, random_state=0)),
    "columns": (
        ColumnTransformer(
            [
                ("bins", KBinsDiscretizer(4, encode="onehot", quantile_method="averaged_inverted_cdf"), [0, 1]),
                ("q", QuantileTransformer(n_quantiles=20), [2]),
            ],
            remainder=PowerTransformer(),
        ),
    ),
    "union": (make_union(PolynomialFeatures(2), SplineTransformer(), VarianceThreshold(), RBFSampler(random_state=0)),),
    "projections": (
        make_union(
            GaussianRandomProjection(3, random_state=0),
            SparseRandomProjection(3, random_state=0),
            TruncatedSVD(2, random_state=0),
            IncrementalPCA(2),
            KMeans(3, n_init=1, random_state=0),
            FactorAnalysis(2),
            FastICA(2, random_state=0),
        ),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_it_keeps_the_contract(name):
    transformer = fitted(*PIPELINES[name])
    assert isinstance(built(transformer), ScikitLearn)
    check_feature_map(lambda: built(transformer), ROWS)
    rows = built(transformer, unit_length=False).transform(ROWS)
    expected = transformer.transform(ROWS)
    np.testing.assert_allclose(rows, expected.toarray() if hasattr(expected, "toarray") else expected, atol=1e-4)


def test_it_is_stored_by_its_bytes_alone(tmp_path, monkeypatch):
    transformer = fitted(StandardScaler(), PCA(3))
    (tmp_path / "map.skops").write_bytes(stored_transformer(transformer))
    monkeypatch.chdir(tmp_path)
    made = built("map.skops")
    assert feature_map_from_json(json.loads(json.dumps(made.identity()))) == made
    assert np.array_equal(made.transform(ROWS), built(transformer).transform(ROWS))


def shout(rows):
    return rows


@pytest.mark.parametrize(
    ("transformer", "says"),
    [
        (FunctionTransformer(shout), "FunctionTransformer"),
        (FunctionTransformer(np.exp), "FunctionTransformer"),
        (NMF(2, max_iter=1000), "NMF"),
        (make_union(StandardScaler(), NMF(2, max_iter=1000)), "NMF"),
    ],
)
def test_types_that_are_not_on_the_list_are_refused(transformer, says):
    with pytest.raises(BadInput, match=f"not on the list of trusted ones: .*{says}"):
        built(transformer.fit(np.abs(PUBLIC)))


def rewritten(stored, change):
    archive, out = zipfile.ZipFile(io.BytesIO(stored)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for entry in archive.namelist():
            content = archive.read(entry)
            new.writestr(entry, change(content.decode()) if entry == "schema.json" else content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda schema: schema.replace("sklearn.preprocessing._data", "sklearn.preprocessing._data._x"), "trusted"),
        (lambda schema: schema.replace('"StandardScaler"', '"FunctionTransformer"'), "trusted"),
        (lambda schema: schema.replace('"ObjectNode"', '"MethodNode"'), "trusted"),
        (lambda schema: schema.replace("sklearn.preprocessing._data", "os.path"), "trusted"),
        (lambda schema: "{", "not one of skops"),
    ],
)
def test_a_file_that_was_changed_builds_nothing(tmp_path, change, says):
    stored = stored_transformer(StandardScaler().fit(PUBLIC))
    (tmp_path / "changed.skops").write_bytes(rewritten(stored, change))
    with pytest.raises(BadInput, match=says):
        built(str(tmp_path / "changed.skops"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no transformer is named"),
        ({"transformer": StandardScaler()}, "not fitted"),
        ({"transformer": "absent.skops"}, "no such file"),
        ({"transformer": StandardScaler().fit(PUBLIC[:, :4])}, "fitted on rows of 4 numbers"),
        ({"transformer": StandardScaler().fit(PUBLIC), "shape": (2, 3)}, "have 2 axes"),
    ],
)
def test_what_does_not_fit_is_refused(options, says):
    with pytest.raises(BadInput, match=says):
        build_feature_map("scikit-learn", **{"shape": 6} | options).transform(ROWS)


def test_a_row_that_the_transformer_refuses_is_a_null():
    encoder = built(OneHotEncoder().fit(np.arange(12.0).reshape(2, 6)))
    values, fine = encoder.readable(np.array([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 99]], dtype=np.float32))
    assert fine.tolist() == [True, False]
    assert not values[1].any()


def test_a_classifier_learns_on_them():
    schema = {"age": {"type": "number", "low": 0, "high": 100}, "job": {"type": "category", "values": ["a", "b"]}}
    people = pd.DataFrame({"age": RNG.integers(0, 100, 800), "job": RNG.choice(["a", "b"], 800)})
    works = np.where((people["age"] > 30) & (people["age"] < 70), "yes", "no")
    public = Schema.of(schema).encode(people.iloc[:100])[0]
    transformer = make_pipeline(SplineTransformer(6), StandardScaler(with_std=False)).fit(public)
    model = DPClassifier(
        epsilon=20,
        delta=1e-4,
        classes=["no", "yes"],
        schema=schema,
        features="scikit-learn",
        feature_options={"transformer": transformer},
        settings="auto",
    )
    model.fit(people, works)
    assert model.score(people, works) > 0.85
    assert model.certificate()["features"]["name"] == "scikit-learn"


def test_a_warning_of_the_transformer_tells_nothing_of_a_record():
    """OneHotEncoder warns of categories that are not known: whether a private cell has one."""
    encoder = OneHotEncoder(drop="first", handle_unknown="ignore").fit(np.tile([[0.0], [1.0], [2.0]], 6))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        built(encoder).transform(np.full((3, 6), 7.0))
    assert not told
