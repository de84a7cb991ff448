"""A whole campaign from its file, with its state in PostgreSQL: every verb, then moved to a file, where it goes on."""

import csv
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))

from small_campaign import written

from discreet import load_campaign
from discreet.cli.app import run

pytestmark = pytest.mark.integration


def verb(capsys, *words):
    assert run([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def answered(capsys, file, place):
    verb(capsys, "ask", file, "--out", place / "questions.csv")
    with (place / "questions.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    with (place / "answers.csv").open("w", newline="") as made:
        writer = csv.writer(made)
        writer.writerow(["question_id", "label"])
        writer.writerows([row["question_id"], "ab"[place % 2]] for place, row in enumerate(rows))
    (place / "questions.csv").unlink()
    if not rows:
        return 0
    return verb(capsys, "tell", file, place / "answers.csv")["new"]


def test_every_verb_of_a_campaign_in_a_database(url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path)
    file.write_text(file.read_text() + f'[storage]\nurl = "{url}"\n')
    verb(capsys, "init", file)
    assert answered(capsys, file, tmp_path) == 8
    verb(capsys, "train", file)
    assert verb(capsys, "status", file)["simulation"] is False
    assert verb(capsys, "verify", file)["ok"] is True
    verb(capsys, "ledger", "export", file, "--out", tmp_path / "certificate.json")
    asked = answered(capsys, file, tmp_path)
    assert 0 <= asked <= 4  # a threshold asks fewer, by chance
    assert verb(capsys, "withdraw", file, "r1")["withdrawn"] == 1
    assert len(load_campaign("small", storage=url).store.questions()) == 8 + asked
    name = url.partition("@/")[2].partition("?")[0]
    assert (tmp_path / f"{name}.files").stat().st_mode & 0o777 == 0o700
    verb(capsys, "storage", "copy", url, tmp_path / "small.db")
    assert run(["train", str(file)]) == 2
    assert "moved to another store" in capsys.readouterr().err
    file.write_text(file.read_text().replace(url, "sqlite:///small.db"))
    verb(capsys, "train", file)
    assert verb(capsys, "verify", file)["ok"] is True
    assert verb(capsys, "verify", tmp_path / "certificate.json", "--ledger", file)["ok"] is True
