"""Hidden selection on the command line: refusals that charge nothing, and stores made the old way."""

import csv

import pytest
from small_campaign import TOML, written

from discreet.campaign.questions import Questions
from discreet.cli.app import run
from discreet.config import cross_field_checks

pytestmark = pytest.mark.thorough

HIDDEN = TOML.replace('selection_epsilon = "2"', 'selection = "hidden"').replace(
    "threshold-response", "hidden-threshold"
)
CAP = '[oracle]\nname = "files"\nper_annotator = 5\n'


def said(capsys, *words, code=0):
    found = run([str(one) for one in words])
    printed = capsys.readouterr()
    assert found == code, printed
    return printed.out + printed.err


def labelled(place, rows=None):
    """The questions with a label; ``rows``: of the first ones alone."""
    with (place / "questions.csv").open(newline="", encoding="utf-8-sig") as opened:
        cells = list(csv.DictReader(opened))[:rows]
    text = ["question_id,label", *(f"{one['question_id']},{'ab'[number % 2]}" for number, one in enumerate(cells))]
    (place / "answers.csv").write_text("\n".join(text) + "\n")
    return place / "answers.csv"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, HIDDEN)


@pytest.fixture
def old_way(monkeypatch):
    """As it was before: nothing is refused."""
    with monkeypatch.context() as old:
        old.setattr(Questions, "hides_asked", False)
        old.setattr(cross_field_checks, "_hides_asked", lambda plan, selector: False)
        yield old


def test_training_with_open_questions_is_refused_and_charges_nothing(file, capsys):
    said(capsys, "init", file)
    said(capsys, "ask", file, "--out", "questions.csv")
    said(capsys, "tell", file, labelled(file.parent, 7))
    before = said(capsys, "ledger", "show", file)
    for verb in ("train", "run"):
        assert "selection is hidden" in said(capsys, verb, file, "--partial", code=2)
    assert "--partial" not in said(capsys, "train", file, code=2)
    assert "--annotator" in said(capsys, "ask", "--help")
    assert "name the annotator" in said(capsys, "ask", file, "--n", 3, code=2)
    assert said(capsys, "ledger", "show", file) == before
    said(capsys, "tell", file, labelled(file.parent))
    said(capsys, "train", file)
    assert "labelling: everybody who was asked" in said(capsys, "verify", file)


def test_a_cap_in_the_file_is_refused_with_its_line(file, capsys):
    file.write_text(HIDDEN.replace('[oracle]\nname = "files"\n', CAP))
    assert "an annotator who stops at a cap" in said(capsys, "init", file, code=2)
    file.write_text(HIDDEN.replace("epsilon = 8", "epsilon = 8\nlabels = 12"))
    assert "may ask up to" in said(capsys, "init", file, code=2)


def test_verify_fails_for_a_store_with_missing_labels_or_a_cap(file, capsys, old_way):
    file.write_text(HIDDEN.replace('[oracle]\nname = "files"\n', CAP))
    said(capsys, "init", file)
    said(capsys, "ask", file, "--out", "questions.csv")
    said(capsys, "tell", file, labelled(file.parent, 5))
    said(capsys, "train", file, "--partial")
    old_way.undo()
    assert "per_annotator" in said(capsys, "verify", file, code=2), "the file itself is refused first"
    file.write_text(HIDDEN)
    printed = said(capsys, "verify", file, code=1)
    assert "FAILED  cap: it was created with [oracle] per_annotator = 5" in printed
    assert "FAILED  labelling: phase 0 was trained while some of its questions were open" in printed
    assert "does not hold" in printed
