"""A folder with questions in it, and in time answers: late, partial, corrected, wrong; and restarts."""

import csv
import json
import tempfile
from pathlib import Path

import pytest

from discreet.errors import BadInput
from discreet.oracles import FileOracle
from discreet.oracles.answer_files import rows_of
from discreet.records import Question
from discreet.testing import check_oracle

CLASSES = ["cat", "dog"]
QUESTIONS = [Question(id=f"q{n}", record=f"r{n}", phase=0, place=n) for n in range(6)]


def values(oracle):
    return {(answer.question_id, answer.annotator): answer.value for answer in oracle.collect()}


def fill_in(path, labels, annotator="ida"):
    """As somebody does who opens the file in a spreadsheet and saves it with semicolons."""
    rows = [cells for _, cells in rows_of(path)]
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        for row in rows:
            label = labels.get(row["question_id"])
            writer.writerow(row | ({} if label is None else {"label": label, "annotator": annotator}))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_people_fill_in_the_file_in_parts(tmp_path):
    oracle = FileOracle(tmp_path / "asked", classes=CLASSES)
    oracle.ask(QUESTIONS)
    assert names(oracle.folder) == ["questions-0001.csv"]
    assert oracle.collect() == []
    path = oracle.folder / "questions-0001.csv"
    fill_in(path, {"q0": "cat", "q4": "SKIP"})
    assert values(oracle) == {("q0", "ida"): "cat", ("q4", "ida"): None}
    assert oracle.collect() == []
    fill_in(path, {"q1": "dog"}, annotator="bo")
    assert values(oracle) == {("q1", "bo"): "dog"}


def test_answers_come_in_files_of_their_own_and_a_change_comes_again(tmp_path):
    oracle = FileOracle(tmp_path, classes=CLASSES)
    oracle.ask(QUESTIONS)
    (tmp_path / "answers-bo.csv").write_text("question_id,label,annotator\nq1,cat,bo\n")
    (tmp_path / "answers.jsonl").write_text('{"record": "r1", "label": "dog", "annotator": "ida"}\n')
    (tmp_path / "notes.csv").write_text("anything\n")
    (tmp_path / "answers.txt").write_text("anything\n")
    assert values(oracle) == {("q1", "bo"): "cat", ("q1", "ida"): "dog"}
    (tmp_path / "answers-bo.csv").write_text("question_id,label,annotator\nq1,dog,bo\nq2,dog,bo\n")
    assert values(oracle) == {("q1", "bo"): "dog", ("q2", "bo"): "dog"}
    assert oracle.collect() == []


def test_a_restart_hands_out_nothing_twice_and_gives_all_answers_again(tmp_path):
    oracle = FileOracle(tmp_path, classes=CLASSES)
    oracle.ask(QUESTIONS[:3])
    fill_in(tmp_path / "questions-0001.csv", {"q0": "cat", "q1": "dog"})
    first = values(oracle)
    again = FileOracle(tmp_path, classes=CLASSES, kind="jsonl")
    again.ask(QUESTIONS[:3])
    assert names(tmp_path) == ["questions-0001.csv"]
    assert values(again) == first
    again.ask(QUESTIONS)
    assert names(tmp_path) == ["questions-0001.csv", "questions-0002.jsonl"]
    later = [json.loads(line) for line in (tmp_path / "questions-0002.jsonl").read_text().splitlines()]
    assert [form["question_id"] for form in later] == ["q3", "q4", "q5"]


def test_answers_to_what_was_not_asked_are_counted_and_left(tmp_path):
    oracle = FileOracle(tmp_path, classes=CLASSES)
    oracle.ask(QUESTIONS[:1])
    (tmp_path / "answers.csv").write_text("question_id,label\nq0,cat\nold,emu\nother,dog\n")
    (tmp_path / "answers-2.csv").write_text("record,label\nr7,dog\n")
    assert values(oracle) == {("q0", ""): "cat"}
    assert oracle.unknown == 3


@pytest.mark.parametrize("bad", ["q1,emu,ida", "q1,dog|cat,ida", 'q1,"dog', "q1,dog,ida,extra"])
def test_a_file_with_a_mistake_gives_nothing_until_it_is_mended(tmp_path, bad):
    oracle = FileOracle(tmp_path, classes=CLASSES)
    oracle.ask(QUESTIONS)
    (tmp_path / "answers-a.csv").write_text("question_id,label\nq0,cat\n")
    path = tmp_path / "answers-b.csv"
    path.write_text(f"question_id,label,annotator\nq2,dog,ida\n{bad}\n")
    for _ in range(2):
        with pytest.raises(BadInput, match="answers-b.csv.*line 3") as refused:
            oracle.collect()
        assert "emu" not in str(refused.value)
    path.write_text("question_id,label,annotator\nq2,dog,ida\n")
    assert values(oracle) == {("q0", ""): "cat", ("q2", "ida"): "dog"}


def test_two_unnamed_people_who_differ_are_not_taken_for_one(tmp_path):
    oracle = FileOracle(tmp_path, classes=CLASSES)
    oracle.ask(QUESTIONS)
    (tmp_path / "answers-a.csv").write_text("question_id,label\nq0,cat\nq1,cat\n")
    (tmp_path / "answers-b.csv").write_text("question_id,label\nq0,cat\nq1,dog\n")
    with pytest.raises(BadInput, match="answers-b.csv: line 3: another file answers this question otherwise"):
        oracle.collect()
    (tmp_path / "answers-b.csv").write_text("question_id,label,annotator\nq0,cat,bo\nq1,dog,bo\n")
    assert len(values(oracle)) == 4


def test_several_labels_stand_in_the_order_of_the_classes(tmp_path):
    oracle = FileOracle(tmp_path, classes=CLASSES, multilabel=True)
    oracle.ask(QUESTIONS)
    (tmp_path / "answers.csv").write_text("question_id,label\nq0,dog|cat|dog\nq1,none\n")
    assert values(oracle) == {("q0", ""): ("cat", "dog"), ("q1", ""): ()}
    (tmp_path / "answers.csv").write_text("question_id,label\nq0,cat|dog\nq1,none\n")
    assert oracle.collect() == []  # the same labels in another order are the same answer


def test_extra_columns_and_formats(tmp_path):
    text = {"r0": "=text", "r1": "two\nlines"}
    oracle = FileOracle(tmp_path, classes=CLASSES, extra={"text": text}, delimiter=";", bom=True)
    oracle.ask(QUESTIONS[:2])
    data = (tmp_path / "questions-0001.csv").read_bytes()
    assert data.startswith(b'\xef\xbb\xbf"question_id";"record"')
    assert b'"\'=text"' in data
    assert oracle.collect() == []


def test_what_means_nothing_is_refused(tmp_path):
    for options in ({"kind": "xlsx"}, {"classes": ["SKIP", "a"]}, {"classes": ["a"]}):
        with pytest.raises(BadInput):
            FileOracle(tmp_path, **({"classes": CLASSES} | options))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be made"):
        FileOracle(tmp_path / "file" / "below", classes=CLASSES).ask(QUESTIONS)


def test_its_repr_has_counts_alone(tmp_path):
    oracle = FileOracle(tmp_path, classes=CLASSES)
    oracle.ask(QUESTIONS)
    assert repr(oracle) == "FileOracle(asked=6, answers=0)"


@pytest.mark.parametrize(("kind", "multilabel"), [("csv", False), ("jsonl", True)])
def test_it_keeps_the_contract(tmp_path, kind, multilabel):
    def make():
        return FileOracle(tempfile.mkdtemp(dir=tmp_path), classes=CLASSES, multilabel=multilabel, kind=kind)

    def people(oracle, questions):
        """Bo answers all but every third question; what was answered before stays as it is."""
        path = Path(oracle.folder) / "answers.jsonl"
        rows = path.read_text() if path.exists() else ""
        for question in questions:
            if question.place % 3:
                row = {"question_id": question.id, "label": "dog", "annotator": "bo"}
                rows += json.dumps(row) + "\n"
        path.write_text(rows)

    check_oracle(make, classes=CLASSES, multilabel=multilabel, answer=people)


def test_files_of_questions_that_are_answered_stand_in_nobodys_way(tmp_path):
    """A later process asks what is open; the files of what was asked before are still there, and no mistake."""
    before = Question(id="0.0", record="a", phase=0, place=0)
    first = FileOracle(tmp_path, classes=["no", "yes"])
    first.ask([before])
    (path,) = tmp_path.glob("questions-*.csv")
    path.write_text(path.read_text().replace('"",""', '"yes",""'))
    assert [answer.value for answer in first.collect()] == ["yes"]
    later = FileOracle(tmp_path, classes=["no", "yes"])
    later.ask([Question(id="1.0", record="b", phase=1, place=0)])
    assert list(later.collect()) == []
