"""`DPClassifier` on DataFrames: names are kept, a schema reads gaps and categories, order does not matter."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from discreet import DPClassifier
from discreet.errors import BadInput

SECRET = "Miller"
SCHEMA = {
    "age": {"type": "number", "low": 0, "high": 100},
    "job": {"type": "category", "values": ["clerk", "smith"]},
}
OPTIONS = {"epsilon": 8, "delta": 1e-4, "classes": ["no", "yes"], "batch": 50, "epochs": 5, "simulation_seed": 1}


def records(size=400, seed=0):
    random = np.random.default_rng(seed)
    age, job = random.uniform(0, 100, size), random.choice(["clerk", "smith", "king"], size).astype(object)
    y = np.where(age + 30 * (job == "smith") > 60, "yes", "no")
    job[::17], age[::13] = None, np.nan
    return pd.DataFrame({"name": [SECRET] * size, "job": job, "age": age}), y


@pytest.fixture(scope="module")
def fitted():
    x, y = records()
    return DPClassifier(**OPTIONS, schema=SCHEMA).fit(x, y)


def test_names_are_kept_and_order_and_further_columns_do_not_matter(fitted):
    x, y = records(seed=1)
    assert fitted.feature_names_in_.tolist() == ["age", "job"]
    assert fitted.n_features_in_ == 2
    chances = fitted.predict_proba(x)
    for other in (x[["age", "job"]], pl.from_pandas(x), x.astype({"job": "category"})):
        assert np.array_equal(fitted.predict_proba(other), chances)
    assert (fitted.predict(x) == y).mean() > 0.6
    assert clone(fitted).schema == SCHEMA


def test_unknown_categories_and_values_are_what_the_schema_declares(fitted):
    rows = pd.DataFrame({"age": [50.0] * 3 + ["x", 900, 100], "job": ["king", "queen", 7, "clerk", "clerk", "clerk"]})
    chances = fitted.predict_proba(rows)
    assert np.isfinite(chances).all()
    assert np.allclose(chances[0], chances[1], rtol=1e-5)
    assert np.array_equal(chances[0], chances[2])
    assert np.array_equal(chances[4], chances[5])  # clipped


def test_a_null_has_no_probability_of_its_own():
    x, y = records()
    strict = {"age": {**SCHEMA["age"], "missing": "null"}, "job": SCHEMA["job"]}
    model = DPClassifier(**OPTIONS, schema=strict).fit(x, y)
    assert (model.predict_proba(x.head(1)) == 0.5).all()
    kept = ~x["age"].isna()
    other = x.copy()
    other.loc[~kept, "job"] = "smith"
    assert np.array_equal(DPClassifier(**OPTIONS, schema=strict).fit(other, y).predict_proba(x), model.predict_proba(x))


def test_columns_without_a_schema_are_numbers_by_name():
    x, y = records()
    x["weight"] = np.arange(len(x)) / len(x)
    numbers = x[["age", "weight"]]
    model = DPClassifier(**OPTIONS, scale=100).fit(numbers, y)
    assert model.feature_names_in_.tolist() == ["age", "weight"]
    assert np.array_equal(model.predict_proba(numbers[["weight", "age"]]), model.predict_proba(numbers))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(numbers[["age"]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_cell_that_is_no_number_makes_a_null_of_its_record_and_no_error(make):
    """It makes the column one of objects, or of texts: what is fitted is what is fitted with a gap in its place."""
    x, y = records()
    columns = {"age": x["age"].fillna(50).tolist(), "weight": (np.arange(len(x)) / len(x)).tolist()}
    models = []
    for cell in (SECRET, None):
        cells = columns | {"age": [cell, *map(str, columns["age"][1:])] if cell else [None, *columns["age"][1:]]}
        models.append(DPClassifier(**OPTIONS, scale=100).fit(make(cells), y))
        assert models[-1].feature_names_in_.tolist() == ["age", "weight"]
    spoilt, gap = (model.predict_proba(make(columns)) for model in models)
    assert np.array_equal(spoilt, gap)
    assert (models[0].predict_proba(make({"age": [SECRET], "weight": [1.0]})) == 0.5).all()
    with pytest.raises(BadInput, match="two columns have one name"):
        DPClassifier(**OPTIONS).fit(pd.DataFrame([["a", 1]] * 9, columns=["b", "b"]), ["yes"] * 9)


def test_persons_may_be_a_column():
    x, y = records()
    owners = pd.Series([f"p{row // 2}" for row in range(len(x))])
    model = DPClassifier(**OPTIONS, schema=SCHEMA, unit="person").fit(x, y, persons=owners)
    assert model.plan_.budget.unit == "person"


def test_what_is_declared_wrong_is_refused_without_a_cell():
    x, y = records()
    for options, table, fact in (
        ({"schema": SCHEMA}, x[["age"]], "no column 'job'"),
        ({"schema": SCHEMA}, x[["age", "job"]].to_numpy(), "not one table"),
        ({"schema": SCHEMA, "center": 3}, x, "Leave them out"),
        ({"schema": {"name": {"type": "text"}}}, x, "is text"),
        ({"schema": {"age": {"type": "number", "low": 9, "high": 1}}}, x, "low"),
    ):
        with pytest.raises(BadInput, match=fact) as refused:
            DPClassifier(**OPTIONS, **options).fit(table, y)
        assert SECRET not in str(refused.value)
    with pytest.raises(NotFittedError):
        DPClassifier(**OPTIONS, schema=SCHEMA).predict(x)
