"""Campaigns on DataFrames: made, loaded by another library, for records and persons, measured on files, exported."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from small_campaigns import BUDGET, TRAINER, finish

from discreet.api import create_campaign, export_model, load_campaign
from discreet.errors import BadInput
from discreet.exports import load_model, predict_file
from discreet.recipes import private_pool

SCHEMA = {
    "age": {"type": "number", "low": 0, "high": 100},
    "job": {"type": "category", "values": ["clerk", "smith"]},
    "opened": {"type": "date", "low": "2000-01-01", "high": "2030-01-01"},
}
SIZE = 300


def frame(size=SIZE, seed=0):
    """Records with gaps, unknown values and dates; a class that the age and the job tell."""
    random = np.random.default_rng(seed)
    age = random.uniform(0, 100, size).round(1)
    job = random.choice(["clerk", "smith", "king"], size).astype(object)
    truth = {f"r{row}": "ab"[int(age[row] / 50 + (job[row] == "smith") > 1)] for row in range(size)}
    days = pd.Timestamp("2010-01-01") + pd.to_timedelta(random.integers(0, 3000, size), unit="D")
    columns = {"customer": [*truth], "branch": random.integers(0, 9, size), "job": job, "age": age, "opened": days}
    for name in ("job", "age", "opened"):
        gaps = random.random(size) < 0.05
        columns[name] = pd.Series(columns[name]).mask(gaps)
    return pd.DataFrame(columns), truth


def recipe(**changes):
    usual = {"classes": ["a", "b"], "initial": 60, "queries": [30], "batch": 30, "epochs": 2, "trainer": TRAINER}
    plan = {"accountant": "rdp"} | changes.pop("plan", {})
    return private_pool(**(usual | {"simulation": {"seed": 3}, "plan": plan} | changes))


def test_a_campaign_on_a_data_frame_from_end_to_end(tmp_path):
    records, truth = frame()
    test, labels = frame(90, seed=1)
    test["customer"] = [f"t{row}" for row in range(90)]
    test.to_csv(tmp_path / "test.csv.gz", index=False)
    lines = [f"t{name[1:]},{label}\n" for name, label in labels.items()]
    (tmp_path / "labels.csv").write_text("record,label\n" + "".join(lines))
    files = {"path": str(tmp_path / "test.csv.gz"), "labels": str(tmp_path / "labels.csv")}
    tables = recipe(evaluation={"kind": "public", **files})
    options = {"storage": tmp_path / "c.db", "id": "customer"}
    campaign = create_campaign("bank", pool=records, schema=SCHEMA, budget=BUDGET, recipe=tables, **options)
    assert campaign.pool.x.shape == (SIZE, 8)
    again = load_campaign("bank", pool=pl.from_pandas(records), **options)
    finish(again, truth)
    loaded = load_campaign("bank", storage=tmp_path / "c.db", pool=records)
    assert loaded.state.step == "done"
    guesses = loaded.predict(records)
    assert guesses == loaded.predict(loaded.pool.x[:])
    assert np.mean([guess == truth[name] for guess, name in zip(guesses, records["customer"], strict=True)]) > 0.7
    export_model(loaded, tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert model.form["preprocessing"]["schema"]["columns"][0]["name"] == "age"
    predicted = predict_file(model, tmp_path / "test.csv.gz", tmp_path / "out.csv")
    assert (predicted.records, predicted.blank) == (90, 0)
    assert len(pd.read_csv(tmp_path / "out.csv")) == 90


def test_persons_of_a_data_frame(tmp_path):
    records, truth = frame()
    records["who"] = [f"p{row // 3}" for row in range(SIZE)]
    budget = {**BUDGET, "unit": "person", "records_per_person": 3}
    tables = recipe(initial=40, queries=[20], batch=20)
    options = {"storage": tmp_path / "c.db", "id": "customer", "person": "who"}
    campaign = create_campaign(
        "people", pool=records, schema=SCHEMA, budget=budget, recipe=tables, persons=100, **options
    )
    asked = finish(campaign, truth)
    owner = dict(zip(records["customer"], records["who"], strict=True))
    assert len({owner[question.record] for question in asked[0]}) == 40
    assert load_campaign("people", storage=tmp_path / "c.db", pool=records).state.step == "done"


def test_what_is_declared_wrong_is_refused_in_words(tmp_path):
    records, _ = frame()
    options = {"storage": tmp_path / "c.db", "budget": BUDGET, "recipe": recipe()}
    for pool, declared, fact in (
        (records, {"schema": SCHEMA}, "which column holds the ids"),
        (records, {"id": "patient", "schema": SCHEMA}, "no column 'patient'"),
        (records.assign(customer="one"), {"id": "customer", "schema": SCHEMA}, "299 repeat an id"),
        (records[["customer"]], {"id": "customer", "schema": SCHEMA}, "no column 'age'"),
        ([1, 2], {}, "neither a Pool nor a table"),
        ({"path": "a.csv"}, {"id": "customer"}, "are of a table in memory"),
    ):
        with pytest.raises(BadInput, match=fact):
            create_campaign("bank", pool=pool, **declared, **options)
    assert not (tmp_path / "c.db").exists()


def test_other_records_than_those_that_were_enrolled_are_refused(tmp_path):
    records, _ = frame()
    options = {"storage": tmp_path / "c.db", "id": "customer"}
    create_campaign("bank", pool=records, schema=SCHEMA, budget=BUDGET, recipe=recipe(), **options)
    with pytest.raises(BadInput, match="enrolled"):
        load_campaign("bank", pool=records.iloc[::-1], **options)
