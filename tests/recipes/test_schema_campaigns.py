"""Campaigns whose pool has a schema: gaps cost no record, and exports, new files and pages read by the same schema."""

import csv
import random

import numpy as np
import pytest

from discreet.campaign.state import evaluations_of
from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import InvalidConfig
from discreet.exports import export_model, load_model
from discreet.oracles.label_studio import rendered
from discreet.recipes.opening import create
from discreet.web.queue import view_of

SCHEMA = """missing_values = ["?"]
[age]
type = "number"
low = 0
high = 100
[job]
type = "category"
values = ["admin", "clerk"]
[note]
type = "text"
"""
TOML = """format = "discreet.campaign/1"
name = "people"
[pool]
path = "people.csv"
kind = "csv"
id = "id"
size = 60
schema = "schema.toml"
[task]
kind = "binary"
classes = ["no", "yes"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 20
queries = [10]
batch = 10
epochs = 4
accountant = "rdp"
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
engine = "reference"
learning_rate = 2.0
[evaluation]
kind = "public"
path = "public.csv"
labels = "labels.csv"
"""
TRUE = {}


def write_table(path, name, size, seed):
    """Records of which a tenth of the cells is missing; who is older than fifty says yes."""
    rng = random.Random(seed)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "job", "age", "note", "spare"])
        for number in range(size):
            age, job = rng.randrange(100), rng.choice(["admin", "clerk", "pilot"])
            TRUE[f"{name}{number}"] = "yes" if age >= 50 else "no"
            cells = [rng.choice(["", "?"]) if rng.random() < 0.1 else cell for cell in (job, age, f"note {number}")]
            out.writerow([f"{name}{number}", *cells, "x"])


def rows_in(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def begun(folder, text=TOML):
    write_table(folder / "people.csv", "r", 60, 1)
    write_table(folder / "public.csv", "p", 80, 2)
    (folder / "labels.csv").write_text("record,label\n" + "".join(f"p{n},{TRUE[f'p{n}']}\n" for n in range(80)))
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "people.toml").write_text(text)
    return create(CampaignConfig.read(folder / "people.toml"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    campaign = begun(folder)
    for _ in range(2):
        campaign.tell({question.id: TRUE[question.record] for question in campaign.ask()}, annotator="ann")
        campaign.train()
    return folder, campaign


def test_gaps_cost_no_record_and_the_model_learns(trained):
    _, campaign = trained
    assert not campaign.pool.broken(slice(None)).any()
    assert campaign.pool.x.shape == (60, 6)
    measured = evaluations_of(campaign.store.transitions())[1]
    assert measured["accuracy"] > 0.6


def test_exports_read_new_files_by_the_schema(trained, tmp_path):
    _, campaign = trained
    model = load_model(export_model(campaign, tmp_path / "model").directory)
    assert [column["name"] for column in model.form["preprocessing"]["schema"]["columns"]] == ["age", "job", "note"]
    table = {"age": ["99", "1", "?"], "job": ["astronaut", "admin", None], "note": ["", "", ""]}
    by_table = model.predict_proba(table)
    assert by_table[0, 1] > by_table[1, 1]
    rows = campaign.pool.declared.schema.encode(table)[0]
    assert (model.predict_proba(rows) == by_table).all()
    lines = [f"n{number},{table['age'][number]},{table['job'][number] or ''}," for number in range(3)]
    (tmp_path / "new.csv").write_text("\n".join(["id,age,job,note", *lines]) + "\n")
    asked = ["predict", str(tmp_path / "model"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "said.csv")]
    assert run([*asked, "--probabilities"]) == 0
    said = rows_in(tmp_path / "said.csv")
    assert np.allclose([float(row["p_yes"]) for row in said], by_table[:, 1], atol=1e-6)


def test_a_new_file_without_a_column_is_refused(trained, tmp_path, capsys):
    _, campaign = trained
    export_model(campaign, tmp_path / "model")
    (tmp_path / "new.csv").write_text("id,age,note\nn0,5,\n")
    assert run(["predict", str(tmp_path / "model"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "p.csv")]) == 2
    assert "no column 'job'. Its columns: id, age, note" in capsys.readouterr().err


def test_people_see_the_record_as_it_is_declared(trained):
    _, campaign = trained
    pool = campaign.pool
    clear = [row for row in rows_in(trained[0] / "people.csv") if row["job"] == "pilot" and row["age"].isdigit()]
    row = clear[0]
    seen = dict(view_of(pool, row["id"]).rows)
    assert seen == {"age": row["age"], "job": "(other)"}
    assert rendered(pool, [row["id"]])


def test_a_schema_that_changed_later_is_refused(trained):
    folder, _ = trained
    (folder / "schema.toml").write_text(SCHEMA.replace("high = 100", "high = 90"))
    with pytest.raises(InvalidConfig, match="created with something else"):
        create(CampaignConfig.read(folder / "people.toml"))
    (folder / "schema.toml").write_text(SCHEMA)
    create(CampaignConfig.read(folder / "people.toml"))


def test_a_dry_run_reads_by_the_schema(trained, tmp_path):
    from discreet.simulation.labelled_data import LabelledSource, read_labelled

    folder, _ = trained
    config = CampaignConfig.read(folder / "people.toml")
    data = read_labelled(config, LabelledSource(path=folder / "public.csv", labels=folder / "labels.csv"))
    assert data.pool.x.shape == (80, 6)
    assert data.part([0, 1]).x.shape == (2, 6)


def test_wrong_columns_are_refused_in_the_first_second_and_nothing_is_charged(tmp_path, capsys):
    write_table(tmp_path / "people.csv", "r", 60, 1)
    (tmp_path / "schema.toml").write_text(SCHEMA.replace("[age]", "[pulse]"))
    (tmp_path / "people.toml").write_text(TOML.partition("[evaluation]")[0])
    assert run(["init", str(tmp_path / "people.toml"), "--yes"]) == 2
    told = capsys.readouterr().err
    assert "no column 'pulse'. Its columns: id, job, age, note, spare" in told
    assert "people.toml" in told


def test_a_table_in_memory_with_a_text_keeps_its_schema(tmp_path):
    pandas = pytest.importorskip("pandas")
    from discreet import create_campaign, load_campaign

    write_table(tmp_path / "people.csv", "r", 60, 1)
    frame = pandas.read_csv(tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    form = CampaignConfig.from_text(TOML.partition("[evaluation]")[0], directory=tmp_path).to_json()
    tables = {name: form[name] for name in ("task", "recipe", "plan", "oracle", "model", "trainer")}
    asked = {"storage": tmp_path / "a.db", "pool": frame}
    campaign = create_campaign(
        "a", **asked, budget={"epsilon": 8, "delta": "1e-4"}, recipe=tables, id="id", schema=tmp_path / "schema.toml"
    )
    assert campaign.pool.x.shape == (60, 6)
    assert load_campaign("a", **asked).pool.declared.schema == campaign.pool.declared.schema


@pytest.mark.parametrize("link", ["itself", "copy", "symlink"])
def test_a_schema_that_was_proposed_from_the_private_file_is_refused(tmp_path, capsys, link):
    begun(tmp_path)
    assert run(["schema", str(tmp_path / "people.csv"), "--out", str(tmp_path / "own.toml"), "--id", "id"]) == 0
    assert run(["schema", str(tmp_path / "public.csv"), "--out", str(tmp_path / "theirs.toml"), "--id", "id"]) == 0
    if link != "itself":
        (tmp_path / "people.csv").rename(tmp_path / "moved.csv")
        make = (tmp_path / "people.csv").symlink_to if link == "symlink" else (tmp_path / "people.csv").write_bytes
        make(tmp_path / "moved.csv" if link == "symlink" else (tmp_path / "moved.csv").read_bytes())
    paid = TOML.replace('kind = "public"', 'kind = "paid"\nepsilon = "0.5"')
    for text, schema, code in ((TOML, "own", 2), (TOML, "theirs", 0), (paid, "theirs", 2)):
        file = tmp_path / f"{schema}{code}.toml"
        file.write_text(
            text.replace("schema.toml", f"{schema}.toml").replace('name = "people"', f'name = "{file.stem}x"')
        )
        assert run(["init", str(file)]) == code
        told = capsys.readouterr().err
        assert ("which holds private records" in told) == (code == 2)
        assert ("public.csv" if text is paid else "people.csv") in told or code == 0
    stored = (tmp_path / "theirs0x.db").read_bytes()
    assert b"proposed_from" not in stored
