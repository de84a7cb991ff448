"""Teachers and students on features: from the file to an export; one record moves one vote."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
from pate_parts import CLASSES, toml
from test_feature_campaigns import SCHEMA, write_table

from discreet.campaign.loop import InternalOracle, run
from discreet.cli.app import run as command
from discreet.config import read_campaign
from discreet.errors import InvalidConfig
from discreet.exports import export_model, load_model
from discreet.exports.model_form import verify_export
from discreet.noise import SecretKey
from discreet.recipes import opening
from discreet.recipes.pate import private_tallies
from discreet.recipes.pate_student import rows_of
from discreet.recipes.pate_votes import kept_votes, private_labels, private_pool, private_rows
from discreet.recipes.pool_campaigns import feature_checks
from discreet.recipes.verification import verify_campaign
from discreet.trainers.teachers import train_teachers

COUNT, PUBLIC, HELD = 1200, 120, 200
TABLE = {
    "pool": {
        "path": "'public.csv'",
        "kind": "'csv'",
        "id": "'id'",
        "size": PUBLIC,
        "schema": "'schema.toml'",
    },
    "private": {"path": "'private.csv'", "size": COUNT, "labels": "'labels.csv'"},
    "teachers": {"count": 40, "options": "{ C = 30.0 }"},
    "budget": {"epsilon": "'8'"},
    "student": {"options": "{ C = 30.0 }"},
    "features": {"name": "'bins'", "public": "'public.csv'", "edges": 7},
    "evaluation": {"kind": "'public'", "path": "'held.csv'", "labels": "'heldlabels.csv'"},
}
TEXTS = TABLE | {
    "pool": {"path": "'public.csv'", "kind": "'csv'", "id": "'id'", "size": PUBLIC, "text": "'words'"},
    "features": {"name": "'hashed-text'", "size": 256},
}


def table_campaign(place, tables=None, **changes):
    """A rule that no line on the ages can say: high is in the middle."""
    tables = {name: keys | changes.get(name, {}) for name, keys in (tables or TABLE).items()}
    text = toml(**tables).replace("array = 'x'\n", "")
    file = place / "wage.toml"
    file.write_text(text)
    for seed, (name, size) in enumerate((("private", COUNT), ("public", PUBLIC), ("held", HELD))):
        write_table(place / f"{name}.csv", size, seed, f"{name}-")
    for name, size, labels in (("private", COUNT, "labels"), ("held", HELD, "heldlabels")):
        with (place / f"{labels}.csv").open("w", newline="") as out:
            rows = [[f"{name}-{number}", CLASSES[number % 2]] for number in range(size)]
            csv.writer(out).writerows([["record", "label"], *rows])
    (place / "schema.toml").write_text(SCHEMA)
    return file


def finished(file):
    campaign = opening.create(read_campaign(file), confirm=True)
    run(campaign, InternalOracle(campaign))
    return campaign


def accuracy(campaign):
    return [step.facts["evaluation"]["accuracy"] for step in campaign.store.transitions() if step.kind == "trained"][-1]


@pytest.mark.parametrize("tables", [TABLE, TEXTS], ids=["tables", "texts"])
def test_from_the_file_to_an_export(tmp_path, tables):
    file = table_campaign(tmp_path, tables)
    campaign = finished(file)
    assert accuracy(campaign) > 0.8
    identity = campaign.store.config["features"]
    assert campaign.certificate()["features"]["sha256"] == identity["sha256"]
    checks = {check.name: check.ok for check in verify_campaign(read_campaign(file)).checks}
    assert checks["features"]
    assert all(checks.values())
    # the directory alone says of records what the campaign says of them, and of their features what the student does
    export_model(campaign, tmp_path / "model")
    assert verify_export(tmp_path / "model").ok
    model = load_model(tmp_path / "model")
    raw = campaign.pool.text[:] if tables is TEXTS else campaign.pool.x[:]
    chances = campaign.predict_proba(raw)
    assert np.allclose(model.predict_proba(raw), chances)
    on_features = campaign.predictor().on_features.predict_proba(rows_of(campaign.recipe.config, campaign.pool)[:])
    assert np.allclose(on_features, chances)
    assert model.form["preprocessing"]["features"] == identity
    out = tmp_path / "p.csv"
    assert command(["predict", str(tmp_path / "model"), str(tmp_path / "held.csv"), "--out", str(out)]) == 0
    with out.open(newline="") as lines:
        told = [row["label"] for row in csv.DictReader(lines)]
    assert np.mean([label == CLASSES[place % 2] for place, label in enumerate(told)]) > 0.8


def test_without_features_a_line_does_not_find_it(tmp_path):
    tables = {name: keys for name, keys in TABLE.items() if name != "features"}
    assert accuracy(finished(table_campaign(tmp_path, tables))) < 0.7


def test_one_record_and_its_null_move_one_vote(tmp_path):
    """The features of the others are the same bits, so only the teacher of that record changes its mind."""
    file = table_campaign(tmp_path)
    campaign = finished(file)
    config, votes = campaign.recipe.config, kept_votes(campaign.store)
    pool, labels = private_pool(config), private_labels(config).values
    rows, fine = private_rows(rows_of(config, pool))
    key = SecretKey(b"k" * 32)
    public = rows_of(config, campaign.pool)[:]

    def counted(rows, named):
        made = train_teachers(
            rows, named, units=pool.ids, public=public, public_ids=campaign.pool.ids, classes=CLASSES,
            teachers=40, estimator=_logistic(), key=key,
        )  # fmt: skip
        return made.counts

    named = [labels[name] if ok else None for name, ok in zip(pool.ids, fine, strict=True)]
    whole, moved = counted(rows, named), 0
    for place in (0, 7, 111, 598):
        other, without = rows.copy(), list(named)
        other[place], without[place] = 0, None
        change = np.abs(counted(other, without) - whole).sum(axis=1)
        assert change.max() <= 2  # a vote less for one class, and one more for another
        moved += int(change.sum())
    assert moved  # records do teach
    assert votes.teachers == 40


def _logistic():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=30.0, max_iter=1000)


def test_a_record_whose_features_are_a_null_teaches_nobody(tmp_path):
    file = table_campaign(tmp_path)
    schema = (tmp_path / "schema.toml").read_text()
    assert 'missing = "null"' in schema
    lines = (tmp_path / "private.csv").read_text().splitlines()
    cells = lines[8].split(",")
    lines[8] = ",".join([*cells[:3], "", *cells[4:]])  # no day: a null
    (tmp_path / "private.csv").write_text("\n".join(lines) + "\n")
    config = finished(file).recipe.config
    rows, fine = private_rows(rows_of(config, private_pool(config)))
    assert not fine[7]
    assert not rows[7].any()
    assert fine.sum() == COUNT - 1
    assert private_tallies(read_campaign(file)).usable == COUNT - 1


def test_a_campaign_keeps_its_map(tmp_path):
    file = table_campaign(tmp_path)
    campaign = opening.create(read_campaign(file), confirm=True)
    before = campaign.store.config["features"]
    run(campaign, InternalOracle(campaign))
    write_table(tmp_path / "elsewhere.csv", 50, 9)
    text = file.read_text()
    file.write_text(text.replace("public = 'public.csv'", "public = 'elsewhere.csv'"))
    assert opening.load(read_campaign(file)).recipe.config.features.fitted.identity() == before
    file.write_text(text.replace("edges = 7", "edges = 8"))
    with pytest.raises(InvalidConfig, match="created with something else"):
        opening.load(read_campaign(file))
    changed = json.loads(json.dumps(before))
    changed["options"]["edges"]["age"][0] += 1
    file.write_text(text)
    (check,) = feature_checks(SimpleNamespace(config={"features": changed}, transitions=list), read_campaign(file))
    assert not check.ok


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"features": {"public": "'private.csv'"}}, "whose records are private"),
        ({"features": {"name": "'scattering'", "public": "'public.csv'"}}, "the pool is a table|nothing to fit"),
        ({"features": {"name": "'bin'"}}, "bins"),
        ({"features": {"cache": "true"}}, "not kept on the disk"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(tmp_path, changes, says):
    file = table_campaign(tmp_path, **changes)
    with pytest.raises(InvalidConfig, match=says):
        opening.create(read_campaign(file), confirm=True)
