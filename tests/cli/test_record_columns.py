"""`discreet ask --out --with`, and `[oracle] show`: question files carry columns of the record, and can be told."""

import csv
import json

import numpy as np
import pytest
from PIL import Image
from test_campaign_verbs import FILE, charged, refused, said

from discreet.cli.app import run

NOTES = ["=1+1", "a;b, c\nd", "@SUM(A1)", "-", "", 'said "so"', "'=x", "ok"]
TABLE = 'path = "pool.csv"\nkind = "csv"\nid = "id"\ncolumns = ["c0", "c1"]\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(120, 2))
    with (tmp_path / "pool.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "c0", "c1", "note", "Amount", "label", "=a, b"])
        for row, (first, second) in enumerate(x.tolist()):
            amount = [row, "twelve", "", "2026-01-02"][row % 4]
            rows.writerow([f"r{row}", first, second, NOTES[row % 8], amount, "a", "x"])
    old = FILE[FILE.index("path = ") : FILE.index("size = ")]
    text = FILE.replace(old, TABLE).replace('"ORACLE"', '"files"')
    (tmp_path / "c.toml").write_text(text)
    (tmp_path / "shown.toml").write_text(
        text.replace('"files"', '"files"\nshow = ["note"]').replace('"tiny"', '"shown"')
    )
    for name in ("c.toml", "shown.toml"):
        assert run(["init", name]) == 0
    return tmp_path


def note_of(record):
    return NOTES[int(record[1:]) % 8]


def filled(path, label="a"):
    """A file of questions as a person leaves it behind: the label filled in."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    column = rows[0].index("label")
    for row in rows[1:]:
        row[column] = label
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return rows


def test_questions_carry_the_record_and_answers_in_the_same_file_are_told(place, capsys):
    said(capsys, "ask", "c.toml", "--out", "q.csv", "--with", "note, Amount")
    rows = filled(place / "q.csv")
    assert rows[0] == ["question_id", "record", "phase", "note", "Amount", "label", "annotator"]
    for _, record, _, note, amount, *_ in rows[1:]:
        plain = note_of(record)
        assert note == (f"'{plain}" if plain[:1] in ("=", "@", "-") or plain == "'=x" else plain)
        assert amount == [record[1:], "twelve", "", "2026-01-02"][int(record[1:]) % 4]
    assert "30 new answers" in said(capsys, "tell", "c.toml", "q.csv").out
    assert run(["train", "c.toml"]) == 0
    said(capsys, "ask", "c.toml", "--out", "q.jsonl", "--with", "note")
    forms = [json.loads(line) for line in (place / "q.jsonl").read_text().splitlines()]
    assert all(form["note"] == note_of(form["record"]) for form in forms)


def test_a_name_with_a_comma_stands_in_quotes_and_a_formula_in_a_name_is_quoted(place, capsys):
    said(capsys, "ask", "c.toml", "--out", "q.csv", "--with", 'note, "=a, b"')
    rows = filled(place / "q.csv")
    assert rows[0][3:5] == ["note", "'=a, b"]
    assert {row[4] for row in rows[1:]} == {"x"}
    assert "30 new answers" in said(capsys, "tell", "c.toml", "q.csv").out


def test_what_is_wrong_is_refused_before_a_query_is_charged(place, capsys):
    before = charged(place)
    assert "no column 'nothing'" in refused(capsys, "ask", "c.toml", "--out", "q.csv", "--with", "note,nothing")
    assert "these names are taken" in refused(capsys, "ask", "c.toml", "--out", "q.csv", "--with", "label")
    for wrong in (["--with", "note"], ["--out", "q.csv", "--with", ","]):
        assert "Write --out questions.csv --with" in refused(capsys, "ask", "c.toml", *wrong)
    assert charged(place) == before
    assert not (place / "q.csv").exists()


def test_files_of_the_files_oracle_carry_the_record(place, capsys):
    said(capsys, "run", "shown.toml")
    (file,) = (place / "shown.questions").glob("questions-*.csv")
    assert all(row[3].lstrip("'") == note_of(row[1]).lstrip("'") for row in filled(file)[1:])
    said(capsys, "run", "shown.toml")
    assert len(list((place / "shown.questions").glob("questions-*.csv"))) == 2


def test_records_that_joined_later_and_cells_that_are_too_long(place, capsys):
    header = (place / "pool.csv").read_text().splitlines()[0]
    lines = [f"m{row},{row % 3},1,{'long' * 50_000},x,a,x" for row in range(200)]
    (place / "more.csv").write_text("\n".join([header, *lines]) + "\n")
    said(capsys, "pool", "extend", "c.toml", "more.csv")
    said(capsys, "ask", "c.toml", "--out", "q.csv", "--with", "note")
    filled(place / "q.csv")
    said(capsys, "tell", "c.toml", "q.csv")
    assert run(["train", "c.toml"]) == 0
    said(capsys, "ask", "c.toml", "--out", "q2.csv", "--with", "note")
    new = [row for row in filled(place / "q2.csv")[1:] if row[1][0] == "m"]
    assert new
    assert all(len(row[3]) == 30_000 for row in new)
    said(capsys, "tell", "c.toml", "q2.csv")


def test_pictures_have_paths_from_where_the_file_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scans").mkdir()
    for row in range(120):
        pixels = np.random.default_rng(row).integers(0, 256, (4, 4), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "scans" / f"s{row}.png")
    old = FILE[FILE.index("path = ") : FILE.index("size = ")]
    pictures = 'path = "scans"\nkind = "images"\nshape = [1, 4, 4]\n'
    (tmp_path / "c.toml").write_text(FILE.replace(old, pictures).replace('"ORACLE"', '"files"'))
    assert run(["init", "c.toml"]) == 0
    (tmp_path / "out").mkdir()
    said(capsys, "ask", "c.toml", "--out", "out/q.csv", "--with", "path")
    for row in filled(tmp_path / "out" / "q.csv")[1:]:
        assert row[3] == f"../scans/{row[1]}"
        assert (tmp_path / "out" / row[3]).is_file()
