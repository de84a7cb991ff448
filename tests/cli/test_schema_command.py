"""`discreet schema`: what it proposes of a public table can be read, and fits it."""

import json
import random

import pyarrow
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from discreet.cli.app import run
from discreet.pools import Schema
from discreet.pools.schema_proposal import proposed_schema

rng = random.Random(0)
COLUMNS = {
    "id": [f"c{number}" for number in range(200)],
    "age": [rng.choice(["17", "30.5", "90", "?"]) for _ in range(200)],
    "job title": [rng.choice(["admin", " clerk", "", "NA"]) for _ in range(200)],
    "since": [rng.choice(["2001-02-03", "2020-12-31T10:00"]) for _ in range(200)],
    "note": [f"a long text about the person number {number}" for number in range(200)],
    "remark": [f"another long text about the person {number}" for number in range(200)],
    "code": [f"x{number}" for number in range(200)],
    "city": [f"town {rng.randrange(60)}" for _ in range(200)],
    "empty": [""] * 200,
    "flag": [rng.choice([0, 1]) for _ in range(200)],
    "outcome": ["yes", "no"] * 100,
}


@pytest.fixture(params=["csv", "csv.gz", "parquet"])
def public(tmp_path, request):
    path = tmp_path / f"public.{request.param}"
    table = pyarrow.table(COLUMNS)
    if request.param == "parquet":
        parquet.write_table(table, path)
    else:
        with pyarrow.output_stream(str(path), compression="detect") as file:
            pyarrow.csv.write_csv(table, file)
    return path


def test_it_proposes_types_bounds_and_values(public, tmp_path, capsys):
    out = tmp_path / "schema.toml"
    asked = ["schema", str(public), "--out", str(out), "--id", "id", "--label", "outcome"]
    assert run(asked) == 0
    told = capsys.readouterr().out
    assert "must be public" in told
    schema = Schema.of(out)
    columns = {column.name: column for column in schema.columns}
    assert {name: column.type for name, column in columns.items()} == {
        "age": "number",
        "job title": "category",
        "since": "date",
        "note": "text",
        "city": "category",
        "flag": "number",
    }
    assert (columns["age"].low, columns["age"].high) == (17, 90)
    assert columns["job title"].values in (("admin", "clerk"), ("clerk", "admin"))
    assert (columns["since"].low, columns["since"].high) == ("2001-02-03", "2020-12-31")
    assert len(columns["city"].values) == 50
    assert schema.missing_values == ("?", "NA")
    counts = schema.count(COLUMNS)
    assert sum(counts.columns["age"][kind] for kind in ("unreadable", "outside")) == 0
    text = out.read_text()
    assert "must be public" in text
    assert "CHANGE" in text
    assert "rarer values are other" in text
    assert "left out: all its values differ" in text
    assert run(asked) == 2
    assert "it is there already" in capsys.readouterr().err


ODD = {
    "mostly": ["1"] * 95 + ["unknown"] * 5,
    "mostly_days": ["2001-02-03", "2002-02-03"] * 48 + ["soon"] * 4,
    "customer": [str(1000 + number) for number in range(100)],
    "same": ["7"] * 100,
    "skewed": ["1", "2"] * 49 + ["3", "1000000"],
    "other_days": [f"{number % 28 + 1:02d}.{number % 12 + 1:02d}.2020" for number in range(100)],
    "percent": [f"{number % 30}%" for number in range(100)],
    "many": [f"v{number}" for number in range(96)] + ["v1"] * 4,
}
SAID = {
    "mostly": '5.0% of the cells are no number, and missing: ["unknown"]',
    "mostly_days": "4.0% of the cells are no date, and missing",
    "customer": "remove it, if they are ids",
    "same": "all cells are the same",
    "skewed": "99% are at most",
    "other_days": "days, not written as 2001-12-24: convert",
    "percent": "numbers, not written as 1234.5: convert",
    "many": "left out: its 5 most frequent values are 9.0%",
}


def test_what_a_person_would_stumble_over_is_said_beside_the_column(tmp_path):
    path = tmp_path / "odd.csv"
    pyarrow.csv.write_csv(pyarrow.table(ODD), path)
    text = proposed_schema(path, max_categories=5)
    tables = {part.split("]")[0]: part for part in text.split("\n[")[1:] + text.split("\n# [")[1:]}
    for name, said in SAID.items():
        assert said in tables[name], name
    columns = {column.name: column for column in Schema.from_toml(text, "it").columns}
    assert {name: columns[name].type for name in ("mostly", "mostly_days")} == {
        "mostly": "number",
        "mostly_days": "date",
    }
    assert "many" not in columns


def test_without_a_file_it_prints_and_json_has_the_schema(public, capsys):
    assert run(["schema", str(public), "--id", "id", "--leave-out", "outcome", "--max-categories", "70"]) == 0
    assert len(Schema.from_toml(capsys.readouterr().out, "it").columns) == 6
    assert run(["schema", str(public), "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert (form["format"], form["audience"]) == ("discreet.schema/1", "public")
    assert Schema.from_json(form["schema"]).width == form["inputs"]


def test_nonsense_is_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "public.csv").write_text("id,age\n")
    (tmp_path / "two.csv").write_text("age,age\n1,2\n")
    (tmp_path / "names.csv").write_text("id\na\nb\n")
    (tmp_path / "other.csv").write_text("id;age\na;1\n")
    told = {
        ("public.csv",): "no record",
        ("public.csv", "--id", "nome"): "no column 'nome'",
        ("two.csv",): "2 column 'age'",
        ("names.csv", "--id", "id"): "no column is left",
        ("none.csv",): "not there",
        ("other.csv",): "no comma, but semicolons",
        ("names.csv", "--kind", "npz"): "has no columns",
    }
    for (name, *options), fact in told.items():
        assert run(["schema", str(tmp_path / name), *options]) == 2, name
        shown = capsys.readouterr()
        assert fact in shown.err
        assert shown.err.count("\n") == 1


CELLS = st.sampled_from(
    ["1", "2.5", "1e400", "-3", "", "NA", "a", 'b"\\', "2001-01-01", "\u00e4" * 300, "x\ty", "  ", "y\x7f"]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CELLS, min_size=1))
def test_any_public_cells_give_a_schema_or_say_that_there_is_none(tmp_path, cells):
    path = tmp_path / "public.parquet"
    parquet.write_table(pyarrow.table({"flag": [0, 1] * len(cells), 'a "b" é': cells * 2}), path)
    schema = Schema.from_toml(proposed_schema(path, max_categories=3), "it")
    assert "flag" in schema.names
    schema.count({"flag": [0, 1] * len(cells), 'a "b" é': cells * 2})
