"""Answers out of files that people saved: CSV of any spreadsheet, or JSONL.

Columns: ``question_id`` (or ``record``), ``label``, and if there are, ``annotator`` and ``at`` (a time with its zone).
Others are passed over. Commas, semicolons or tabs; quoted cells; a byte order mark; any line ends; the ``sep=`` line of
Excel. A row whose label is empty is not answered yet, and gives nothing.

Labels by record (true ones for a simulation, public ones, or ones that were there before a campaign) have columns
``record`` and ``label``. A record whose label is empty or a skip has none.

Guarantee: a file is read whole or refused with BadInput, which names the line and never what stands in it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.oracles.question_files import AnswerWords, NotReadable, kind_of, unguarded
from discreet.records import Answer, Question, Value

_DELIMITERS = (",", ";", "\t")
_COLUMNS = frozenset({"question_id", "record", "label", "annotator", "at"})
_LISTED = 40
"""Columns, and characters of a column's name, that an error lists at most."""
NOT_ASKED = ""
"""The question of a record that nobody asked about. No question has this id: `check_answers` finds it unknown."""
Row = tuple[int, dict[str, Any]]
"""The line a row begins in, and its cells by column."""


@dataclass(frozen=True, kw_only=True)
class AnswerRow:
    """An answer, and the line of its file. Audience: owner."""

    line: int
    answer: Answer


def read_answers(
    path: Path | str,
    *,
    multilabel: bool = False,
    words: AnswerWords | None = None,
    questions: Iterable[Question] | None = None,
) -> list[Answer]:
    """The answers in a file.

    ``questions`` are needed where it names records, not questions. A record that none of them is about gives an answer
    to the question "": `check_answers` counts it as unknown.
    """
    rows = read_answer_rows(path, multilabel=multilabel, words=words, questions=questions)
    return [row.answer for row in rows]


def read_answer_rows(
    path: Path | str,
    *,
    multilabel: bool = False,
    words: AnswerWords | None = None,
    questions: Iterable[Question] | None = None,
    passed_over: Callable[[Mapping[str, Any]], bool] | None = None,
) -> list[AnswerRow]:
    """As `read_answers`, with the line of each, for `check_answers` to point at.

    ``passed_over``: of the cells of a row, whether it is not looked at: its record was withdrawn.
    """
    file, cell_words = Path(path), words or AnswerWords()
    by_record = None if questions is None else _ByRecord(questions)
    answer_rows: list[AnswerRow] = []
    unnamed: dict[str, Value] = {}
    for line, cells in rows_of(file):
        if passed_over is not None and passed_over(cells):
            continue
        try:
            answer = _answer(cells, cell_words, multilabel, by_record)
            if answer is not None:
                _check_unnamed(answer, unnamed)
        except NotReadable as why:
            raise refused(file, f"line {line}: {why}") from None
        if answer is not None:
            answer_rows.append(AnswerRow(line=line, answer=answer))
    return answer_rows


def _check_unnamed(answer: Answer, unnamed: dict[str, Value]) -> None:
    """Two people who both left their name out would count as one who changed their mind."""
    if answer.annotator or not answer.question_id:
        return
    if unnamed.setdefault(answer.question_id, answer.value) != answer.value:
        raise NotReadable("this question has another answer above, and neither names its annotator")


def rows_of(path: Path, *, passed: Callable[[int], None] | None = None) -> Iterator[Row]:
    """Rows that are not blank, by column, names in lower case.

    ``passed``: called with the line of a row that cannot be taken apart, which is then passed over instead of refused.
    What is not UTF-8 is kept as lone surrogates then, for whoever reads the cell. A quote that stays open is refused
    all the same: whose the next lines are is not sure.
    """
    kind = kind_of(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"reading {path.name}", "there is no such file", "Check the path") from None
    except OSError as problem:
        raise BadInput(f"reading {path.name}", f"it cannot be read ({problem.strerror})", "See to its rights") from None
    text = _text(path, data, lenient=passed is not None)
    return _csv_rows(path, text, passed) if kind == "csv" else _jsonl_rows(path, text, passed)


def refused(path: Path, fact: str) -> BadInput:
    """An error that names a line, never a cell."""
    return BadInput(f"reading {path.name}", fact, "Correct it and read it again; nothing was taken")


def _text(path: Path, data: bytes, *, lenient: bool = False) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refused(path, "it is UTF-16, not UTF-8")
    try:
        return data.decode("utf-8-sig", errors="surrogateescape" if lenient else "strict")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise refused(path, f"line {line} is not UTF-8") from None


def _csv_rows(path: Path, text: str, passed: Callable[[int], None] | None) -> Iterator[Row]:
    delimiters: tuple[str, ...] = _DELIMITERS
    skipped = 0
    first = text[:6].rstrip("\r\n").lower()
    if len(first) == 5 and first.startswith("sep="):  # the spreadsheet's own hint
        delimiters, skipped = (first[4],), 1
    known: list[str] = []
    for delimiter in delimiters:
        rows = _parsed(path, text, delimiter if delimiter in _DELIMITERS else ",")
        try:
            for _ in range(skipped):
                next(rows, None)
            _, header = next(rows, (0, []))
        except BadInput:
            continue
        names = [unguarded(name.strip()).casefold() for name in header]
        if _complete(names):
            return _by_column(path, names, rows, passed)
        if len(names) > len(known) and _COLUMNS & set(names):  # it is a header, and no record
            known = names
    listed = ", ".join(name for name in known[:_LISTED] if len(name) <= _LISTED and name.isprintable())
    fact = "its first line does not name question_id (or record) and label, each once"
    raise refused(path, f"{fact}; its columns: {listed}" if listed else fact)


def _parsed(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error:
        raise refused(
            path, f"the row that begins in line {line} is not CSV: a quote is open, or a cell is huge"
        ) from None


def _by_column(
    path: Path, names: list[str], rows: Iterator[tuple[int, list[str]]], passed: Callable[[int], None] | None
) -> Iterator[Row]:
    for line, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if any(cell.strip() for cell in row[len(names) :]):
            if passed is None:
                raise refused(path, f"line {line} has more cells than the first line")
            passed(line)
            continue
        yield line, {name: unguarded(cell) for name, cell in zip(names, row, strict=False)}


def _jsonl_rows(path: Path, text: str, passed: Callable[[int], None] | None) -> Iterator[Row]:
    for line, part in enumerate(text.split("\n"), 1):
        if not part.strip():
            continue
        try:
            form = json.loads(part, object_pairs_hook=_pairs)
            if not isinstance(form, dict) or not ({"question_id", "record"} & set(form)):
                raise refused(path, f"line {line} is no object with question_id (or record) and label")
        except (ValueError, RecursionError) as problem:
            if passed is not None:
                passed(line)
                continue
            if isinstance(problem, BadInput):
                raise
            raise refused(path, f"line {line} is not JSON, or says one thing twice") from None
        yield line, form


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    form = {name.strip().casefold(): value for name, value in pairs}
    if len(form) < len(pairs):
        raise ValueError
    return form


def _complete(names: list[str]) -> bool:
    known = [name for name in names if name in _COLUMNS]
    return "label" in known and ("question_id" in known or "record" in known) and len(set(known)) == len(known)


def _answer(
    cells: Mapping[str, Any], words: AnswerWords, multilabel: bool, by_record: _ByRecord | None
) -> Answer | None:
    if unanswered(cells):
        return None
    return Answer(
        question_id=_question(cells, by_record),
        value=label_in(cells, words, multilabel),
        annotator=_told(cells.get("annotator"), "annotator").strip(),
        at=_time(_told(cells.get("at"), "at").strip()),
    )


def unanswered(cells: Mapping[str, Any]) -> bool:
    """Whether a row has no label yet."""
    value = cells.get("label")
    return value is None or (isinstance(value, str) and not value.strip())


def label_in(cells: Mapping[str, Any], words: AnswerWords, multilabel: bool) -> Value:
    """The label of a row; None for a skip."""
    value = cells.get("label")
    if not isinstance(value, list):
        return words.value(_told(value, "label").strip(), multilabel=multilabel)
    if not multilabel or not all(isinstance(label, str) and label for label in value):
        raise NotReadable("its label is a list, and the task has one label a record, or it is no list of texts")
    return tuple(_whole(label) for label in value)


def _question(cells: Mapping[str, Any], by_record: _ByRecord | None) -> str:
    if "question_id" in cells:
        question = name_in(cells, "question_id")
        record = _told(cells.get("record"), "record")
        # of another campaign, or changed by a spreadsheet (0.10 to 0.1): it would label another record
        if record and by_record is not None and question in by_record.asked and by_record.get(record) != question:
            raise NotReadable("its question was not asked about its record")
        return question
    record = name_in(cells, "record")
    if by_record is None:
        raise NotReadable("it names a record and no question; give the questions that were asked")
    return by_record.get(record, NOT_ASKED)


class _ByRecord(dict[str, str]):
    """Questions by the record they are about, and all that were asked."""

    def __init__(self, questions: Iterable[Question]) -> None:
        super().__init__()
        for question in questions:
            if self.setdefault(question.record, question.id) != question.id:
                raise BadInput("answers by record", "a record has two questions", "Name the question in the file")
        self.asked = frozenset(self.values())


def name_in(cells: Mapping[str, Any], column: str) -> str:
    """The question or record of a row that has a label."""
    name = _told(cells.get(column), column)
    if not name.strip():
        raise NotReadable(f"it has a label and no {column}")
    return name


def _told(value: Any, column: str) -> str:
    """Text; a whole number of JSON as its digits; nothing as nothing."""
    if value is None or type(value) is int:
        return "" if value is None else str(value)
    if not isinstance(value, str):
        raise NotReadable(f"its {column} is not text")
    return _whole(value)


def _whole(text: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise NotReadable("a text in it is not Unicode (a lone surrogate)")
    return text


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise NotReadable("its time is not like 2026-05-17T09:30:00+00:00") from None
    if at.tzinfo is None:
        raise NotReadable("its time has no zone, such as +00:00 at its end")
    return at


def read_labels(path: Path | str, *, multilabel: bool = False, words: AnswerWords | None = None) -> dict[str, Value]:
    """The label of every record that has one; a record that stands there twice is refused."""
    file, cell_words = Path(path), words or AnswerWords()
    labels: dict[str, Value] = {}
    for line, cells in rows_of(file):
        if unanswered(cells):
            continue
        try:
            value, record = label_in(cells, cell_words, multilabel), name_in(cells, "record")
        except NotReadable as why:
            raise refused(file, f"line {line}: {why}") from None
        if record in labels:
            raise refused(file, f"line {line}: its record stands there twice")
        if value is not None:
            labels[record] = value
    return labels


@dataclass(frozen=True, kw_only=True)
class PrivateLabels:
    """Labels of private records by record, and how many rows could not be read. Audience: owner."""

    values: dict[str, Value] = field(repr=False)
    records: frozenset[str] = field(repr=False)
    """Ids that stand in the file, with a label or without."""
    unreadable: int = field(repr=False)


def read_private_labels(
    path: Path | str, *, multilabel: bool = False, words: AnswerWords | None = None
) -> PrivateLabels:
    """As `read_labels`, but a cell that cannot be read only makes its record one without a
    label: an error would be a function of private cells. What is refused depends on the header and on ids alone.
    """
    file, cell_words = Path(path), words or AnswerWords()
    labels: dict[str, Value] = {}
    seen: set[str] = set()
    lines: list[int] = []
    for line, cells in rows_of(file, passed=lines.append):
        try:
            record = name_in(cells, "record")
            if record in seen:
                raise refused(file, f"line {line}: its record stands there twice")
            seen.add(record)
            value = None if unanswered(cells) else label_in(cells, cell_words, multilabel)
        except NotReadable:
            lines.append(line)
            continue
        if value is not None:
            labels[record] = value
    return PrivateLabels(values=labels, records=frozenset(seen), unreadable=len(lines))
