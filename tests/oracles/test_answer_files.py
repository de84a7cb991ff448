"""Questions out, answers in: nasty text survives, spreadsheets' habits are read, mistakes are named by their line."""

import csv
import json
import os
import random
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.oracles import AnswerWords, read_answer_rows, read_answers, write_answers, write_questions
from discreet.oracles.answer_files import rows_of
from discreet.oracles.question_files import guarded, unguarded
from discreet.records import Answer, Question

SECRET = "Ida Grün"
NASTY = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.text(st.sampled_from("=+-@'\"\t\r\n,;| aé\u2028\ufeff\0\uff1d"), min_size=1, max_size=8),
)
IDS = NASTY.filter(str.strip)
LABELS = IDS.map(str.strip).filter(lambda label: label not in ("SKIP", "none", "") and "|" not in label)
SUFFIXES = st.sampled_from(["csv", "jsonl"])
FORMS = st.fixed_dictionaries({"delimiter": st.sampled_from(",;\t"), "bom": st.booleans()})
TIMES = st.none() | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3, minutes=-30))]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def question(number=0, **options):
    return Question(**({"id": f"q{number}", "record": f"r{number}", "phase": 1, "place": number} | options))


@given(ids=st.lists(IDS, unique=True, max_size=5), texts=st.lists(NASTY, min_size=5), suffix=SUFFIXES, form=FORMS)
@settings(max_examples=80, deadline=None)
def test_questions_come_back_as_they_were(folder, ids, texts, suffix, form):
    asked = [Question(id=i, record=f"{i}{i}", phase=2, place=n) for n, i in enumerate(ids)]
    shown = {f"{i}{i}": text for i, text in zip(ids, texts, strict=False)}
    path = folder / f"questions.{suffix}"
    write_questions(path, asked, extra={"=text": shown}, overwrite=True, **form)
    rows = [cells for _, cells in rows_of(path)] if asked else []
    assert [(row["question_id"], row["record"], str(row["phase"])) for row in rows] == [
        (q.id, q.record, "2") for q in asked
    ]
    assert [row["=text"] for row in rows] == [shown[q.record] for q in asked]
    if asked or suffix == "csv":
        assert read_answers(path) == []  # nobody has answered yet


@given(
    rows=st.lists(st.tuples(IDS, LABELS | st.none(), IDS.map(str.strip), TIMES), max_size=6),
    suffix=SUFFIXES,
    form=FORMS,
)
@settings(max_examples=80, deadline=None)
def test_answers_come_back_as_they_were(folder, rows, suffix, form):
    given_ = [Answer(question_id=q, value=v, annotator=who, at=at) for q, v, who, at in rows]
    path = folder / f"answers.{suffix}"
    write_answers(path, given_, overwrite=True, **form)
    assert read_answers(path) == given_


@given(values=st.lists(st.none() | st.lists(LABELS, max_size=4).map(tuple), max_size=6), suffix=SUFFIXES, form=FORMS)
@settings(max_examples=80, deadline=None)
def test_several_labels_come_back_as_they_were(folder, values, suffix, form):
    given_ = [Answer(question_id=f"q{n}", value=value) for n, value in enumerate(values)]
    path = folder / f"several.{suffix}"
    write_answers(path, given_, overwrite=True, **form)
    assert read_answers(path, multilabel=True) == given_


@given(NASTY)
def test_a_guarded_cell_never_begins_a_formula_and_is_unguarded_exactly(text):
    cell = guarded(text)
    assert cell.lstrip()[:1] not in {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"}
    assert cell[0] not in "\t\r\n"
    assert unguarded(cell) == text
    assert unguarded(text) in (text, text[1:])


def test_formulas_in_ids_texts_and_names_of_columns_are_guarded_in_csv(tmp_path):
    path = tmp_path / "questions.csv"
    risky = [question(0, id="=1+1", record="@sum"), question(1, id="'-2", record="x;=cmd|' /C calc'!A0")]
    write_questions(path, risky, extra={"=text": {"@sum": "+49 30", "x;=cmd|' /C calc'!A0": " =2"}})
    with path.open(newline="", encoding="utf-8") as file:
        cells = list(csv.reader(file))
    assert cells == [
        ["question_id", "record", "phase", "'=text", "label", "annotator"],
        ["'=1+1", "'@sum", "1", "'+49 30", "", ""],
        ["''-2", "x;=cmd|' /C calc'!A0", "1", "' =2", "", ""],
    ]
    assert all(cell.startswith('"') for line in path.read_text().splitlines() for cell in line.split(","))


def test_questions_stand_in_their_order_with_empty_columns_to_fill_in(tmp_path):
    path = tmp_path / "questions.jsonl"
    write_questions(path, [question(2), question(0), question(1)])
    forms = [json.loads(line) for line in path.read_text().splitlines()]
    assert [form["question_id"] for form in forms] == ["q0", "q1", "q2"]
    assert forms[0] == {"question_id": "q0", "record": "r0", "phase": 1, "label": None, "annotator": None}
    filled = path.read_text().replace('"label": null', '"label": "cat"', 1)
    path.write_text(filled)
    assert read_answers(path) == [Answer(question_id="q0", value="cat")]


def test_a_file_is_never_written_over_answers_unless_told(tmp_path):
    path = tmp_path / "questions.csv"
    write_questions(path, [question(0)])
    before = path.stat().st_mtime_ns
    write_questions(path, [question(0)])  # the same again: nothing happens
    assert path.stat().st_mtime_ns == before
    filled = path.read_bytes().replace(b'"",""', b'"cat","ida"')
    path.write_bytes(filled)
    for act in (write_questions, write_answers):
        some = [question(0)] if act is write_questions else [Answer(question_id="q", value="x")]
        with pytest.raises(BadInput, match="people may have answered"):
            act(path, some)
        assert path.read_bytes() == filled
    write_questions(path, [question(0)], overwrite=True)
    assert read_answers(path) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["questions.csv"]


def test_a_full_disk_is_said_and_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "questions.csv"
    write_questions(path, [question(0)])
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="No space left"):
        write_questions(path, [question(1)], overwrite=True)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["questions.csv"]


READ = [Answer(question_id="q1", value="cat", annotator="ida"), Answer(question_id="q2", value=None, annotator="bo")]


@pytest.mark.parametrize(
    "content",
    [
        b"question_id,label,annotator\nq1,cat,ida\nq2,SKIP,bo\n",
        b"\xef\xbb\xbfquestion_id;label;annotator\r\nq1;cat;ida\r\nq2;SKIP;bo\r\n",
        b"question_id\tlabel\tannotator\rq1\tcat\tida\rq2\tSKIP\tbo",
        b"sep=;\r\nquestion_id;label;annotator\r\nq1;cat;ida\r\nq2;SKIP;bo\r\n",
        b'"question_id","record","phase","label","annotator"\n"q1","x,y",1," cat ","ida"\n"q2","",1,"SKIP"," bo"\n',
        b'Label , ANNOTATOR,Question_ID,notes\ncat,ida,q1,"two\nlines"\n,,q3,\nSKIP,bo,q2\n,,,\n\n',
        b"question_id,label,annotator,,\nq1,cat,ida,,\nq2,SKIP,bo,,\n,,,,\n",
        b"question_id,label,annotator\nq1,cat,ida\nq3,,\nq4,  ,ida\nq2,SKIP,bo\n",
    ],
)
def test_what_spreadsheets_save_is_read(tmp_path, content):
    path = tmp_path / "answers.csv"
    path.write_bytes(content)
    assert read_answers(path) == READ


def test_jsonl_is_read(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"question_id": "q1", "label": "cat", "annotator": "ida"}\r\n\r\n'
        b'{"Label": "SKIP", "question_id": "q2", "annotator": "bo", "score": 0.5}\n'
        b'{"question_id": "q3", "label": null}\n{"question_id": "q4"}\n{"question_id": "q5", "label": ""}'
    )
    assert read_answers(path) == READ
    path.write_text('{"question_id": 7, "label": 3}')
    assert read_answers(path) == [Answer(question_id="7", value="3")]


def test_several_labels_in_one_cell(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("question_id,label\nq1,cat| dog\nq2,none\nq3,SKIP\nq4,\nq5,dog\n")
    found = {answer.question_id: answer.value for answer in read_answers(path, multilabel=True)}
    assert found == {"q1": ("cat", "dog"), "q2": (), "q3": None, "q5": ("dog",)}
    words = AnswerWords(separator=" + ", skip="?", none="-")
    path.write_text("question_id,label\nq1,cat + dog\nq2,-\nq3,?\n")
    found = {answer.question_id: answer.value for answer in read_answers(path, multilabel=True, words=words)}
    assert found == {"q1": ("cat", "dog"), "q2": (), "q3": None}
    path = tmp_path / "answers.jsonl"
    path.write_text('{"question_id": "q1", "label": ["cat", "d|g"]}\n{"question_id": "q2", "label": []}\n')
    found = {answer.question_id: answer.value for answer in read_answers(path, multilabel=True)}
    assert found == {"q1": ("cat", "d|g"), "q2": ()}


def test_answers_by_record_need_the_questions(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("record,label\nr1,cat\nr9,dog\n")
    with pytest.raises(BadInput, match="line 2: it names a record and no question"):
        read_answers(path)
    found = read_answer_rows(path, questions=[question(0), question(1)])
    assert [(row.line, row.answer.question_id) for row in found] == [(2, "q1"), (3, "")]
    with pytest.raises(BadInput, match="two questions"):
        read_answers(path, questions=[question(1), question(2, record="r1")])


def test_times_are_read_with_their_zone(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("question_id,label,at\nq1,cat,2026-05-17T09:30:00Z\nq2,dog,\n")
    assert [answer.at for answer in read_answers(path)] == [datetime(2026, 5, 17, 9, 30, tzinfo=UTC), None]


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "first line"),
        (b"question_id,answer\nq1,Ida Gr\xc3\xbcn\n", "first line"),
        (b"question_id,label,label\nq1,a,b\n", "first line"),
        (b"label\nIda Gr\xc3\xbcn\n", "first line"),
        (b"question_id,label\nq1,a\n,Ida Gr\xc3\xbcn\n", "line 3: it has a label and no question_id"),
        (b"question_id,label\nq1,a,Ida Gr\xc3\xbcn\n", "line 2 has more cells"),
        (b'question_id,label\nq1,"two\nlines"\nq2,"Ida Gr\xc3\xbcn\n', "begins in line 4 is not CSV"),
        (b'question_id,label\nq1,"a"Ida\n', "line 2 is not CSV"),
        (b"question_id,label\nq1,a\nq2,Ida Gr\xfcn\n", "line 3 is not UTF-8"),
        ("question_id,label\nq1,Ida Grün\n".encode("utf-16"), "UTF-16"),
        (b"question_id,label,at\nq1,a,Ida Gr\xc3\xbcn\n", "line 2: its time is not like"),
        (b"question_id,label,at\nq1,a,2026-05-17T09:30\n", "line 2: its time has no zone"),
        (b"question_id,label\nq1,Ida Gr\xc3\xbcn\nq2,b\nq1,b\n", "line 4: this question has another answer above"),
        (b"question_id,label\nq1," + b"Ida" * 50_000 + b"\n", "a cell is huge"),
    ],
)
def test_mistakes_in_csv_are_named_by_their_line_and_never_shown(tmp_path, content, fact):
    path = tmp_path / "answers.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=fact) as refused:
        read_answers(path)
    assert "Ida" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ('{"question_id": "q1", "label": "Ida"', "line 2 is not JSON"),
        ('{"question_id": "q1", "label": "Ida", "LABEL": "b"}', "line 2 is not JSON, or says one thing twice"),
        ('["q1", "Ida"]', "line 2 is no object"),
        ('{"id": "q1", "label": "Ida"}', "line 2 is no object"),
        ('{"question_id": "q1", "label": 1.5}', "line 2: its label is not text"),
        ('{"question_id": "q1", "label": true}', "line 2: its label is not text"),
        ('{"question_id": "q1", "label": ["Ida"]}', "line 2: its label is a list"),
        ('{"question_id": ["Ida"], "label": "a"}', "line 2: its question_id is not text"),
        ('{"question_id": "q1", "label": "a", "annotator": {}}', "line 2: its annotator is not text"),
        ('{"question_id": "Ida\\ud800", "label": "a"}', "line 2: a text in it is not Unicode"),
        ("[" * 100_000, "line 2 is not JSON"),
        ('{"question_id": ' + "1" * 5000 + ', "label": "a"}', "line 2 is not JSON"),
    ],
)
def test_mistakes_in_jsonl_are_named_by_their_line_and_never_shown(tmp_path, line, fact):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"question_id": "q0", "label": "a"}\n' + line)
    with pytest.raises(BadInput, match=fact) as refused:
        read_answers(path)
    assert "Ida" not in str(refused.value)


def test_nothing_between_two_separators(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("question_id,label\nq1,cat||dog\n")
    with pytest.raises(BadInput, match="line 2: there is nothing between two separators"):
        read_answers(path, multilabel=True)
    assert read_answers(path)[0].value == "cat||dog"


def test_files_that_are_not_there_or_not_files(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, fact in (("none.csv", "no such file"), ("folder.csv", "cannot be read"), ("a.xlsx", "does not say")):
        with pytest.raises(BadInput, match=fact):
            read_answers(tmp_path / name)
    with pytest.raises(BadInput, match="cannot be written"):
        write_questions(tmp_path / "nowhere" / "q.csv", [question(0)])


@pytest.mark.parametrize(
    "act",
    [
        lambda path: write_questions(path, [question(0, id=" ")]),
        lambda path: write_questions(path, [question(0, id="\ud800")]),
        lambda path: write_questions(path, [question(0)], extra={" Label": {}}),
        lambda path: write_questions(path, [question(0)], delimiter="|"),
        lambda path: write_questions(path, [question(0)], extra={"text": {"r0": "x" * 200_000}}),
        lambda path: write_answers(path, [Answer(question_id="q", value="SKIP")]),
        lambda path: write_answers(path, [Answer(question_id="q", value=" a")]),
        lambda path: write_answers(path, [Answer(question_id="q", value="")]),
        lambda path: write_answers(path, [Answer(question_id="q", value=("a|b",))]),
        lambda path: write_answers(path, [Answer(question_id="q", value=("none",))]),
        lambda path: write_answers(path, [Answer(question_id="q", value="a", annotator="ida ")]),
        lambda path: write_answers(path, [Answer(question_id="q", value="a", at=datetime(2026, 1, 1))]),
    ],
)
def test_what_would_not_be_read_back_is_not_written(tmp_path, act):
    with pytest.raises(BadInput):
        act(tmp_path / "file.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "multilabel"),
    [("SKIP", False), ("SKIP", True), ("none", True), ("a|b", True), (" a", False), ("'=a", False), ("'-1", True)],
)
def test_classes_that_a_cell_could_not_tell_are_refused(name, multilabel):
    with pytest.raises(BadInput):
        AnswerWords().check_classes(["fine", name], multilabel=multilabel)
    AnswerWords().check_classes(["fine", "-1", "=", "d'oh", "two words"], multilabel=multilabel)


@pytest.mark.parametrize(
    "words",
    [{"skip": ""}, {"skip": "none"}, {"separator": ""}, {"skip": "a|b"}, {"none": " x"}, {"skip": "'=x"}, {"none": 3}],
)
def test_words_that_mean_two_things_are_refused(words):
    with pytest.raises(BadInput):
        AnswerWords(**words)


GOOD = {
    "csv": 'question_id;label;annotator;at\r\nq1;cat;ida;2026-05-17T09:30:00Z\r\nq2;"a;|b";bo;\r\n\'=q3;SKIP;;\r\n',
    "jsonl": '{"question_id": "q1", "label": ["cat", "dog"], "at": "2026-05-17T09:30:00Z"}\n'
    '{"question_id": "q2", "label": "SKIP", "annotator": "bo"}\n',
}
SALT = [
    b"",
    b"\0",
    b"\n",
    b"\r",
    b'"',
    b"{",
    b"}",
    b"[",
    b",",
    b";",
    b"\t",
    b"'",
    b"=",
    b"\xff",
    b"\\ud800",
    b"9" * 5000,
]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_mutated_and_random_files_are_read_or_refused_never_anything_else(monkeypatch, suffix):
    """3,000 files each, in memory; a few are read, most are not."""
    rng, path, read = random.Random(suffix), Path(f"answers.{suffix}"), 0
    good = GOOD[suffix].encode()
    monkeypatch.setattr(Path, "read_bytes", lambda self: bytes(data))
    for number in range(3000):
        data = bytearray(rng.randbytes(rng.randrange(60)) if number % 5 == 0 else good)
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(data) + 1)
            data[place : place + rng.choice([0, 0, 1, 1, 9])] = rng.choice([*SALT, rng.randbytes(2)])
        try:
            found = read_answers(path, multilabel=number % 2 == 0)
        except BadInput as refused:
            assert refused.fact
            continue
        read += 1
        for answer in found:
            assert answer.question_id.encode()
            assert answer.value is None or isinstance(answer.value, (str, tuple))
            assert answer.at is None or answer.at.tzinfo is not None
    assert 30 < read < 2500


@given(st.binary(max_size=200), SUFFIXES, st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_read_or_refused(folder, data, suffix, multilabel):
    path = Path(folder) / f"bytes.{suffix}"
    path.write_bytes(data)
    try:
        read_answers(path, multilabel=multilabel)
    except BadInput as refused:
        assert refused.asked == f"reading bytes.{suffix}"


@pytest.mark.parametrize("header", ["customer,Label", "customer;label", "record,outcome"])
def test_a_header_with_other_columns_is_listed(tmp_path, header):
    (tmp_path / "a.csv").write_text(f"{header}\nr1,{SECRET}\n")
    with pytest.raises(BadInput, match="its columns: " + ", ".join(header.casefold().replace(";", ",").split(","))):
        read_answers(tmp_path / "a.csv")


def test_a_first_line_that_may_be_a_record_is_not_listed(tmp_path):
    (tmp_path / "a.csv").write_text(f"r1,{SECRET}\nr2,b\n")
    with pytest.raises(BadInput) as refused:
        read_answers(tmp_path / "a.csv")
    assert "columns" not in str(refused.value)
