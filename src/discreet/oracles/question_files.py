"""Questions and answers into files: CSV or JSONL, UTF-8, whole or not at all, and never over what people wrote.

A file of questions has empty columns for the label and the annotator, so that people may fill it in where it is. That
is why an existing file is never replaced by another one unless the caller says so. Writing the same again changes
nothing.

How an answer is written into a cell, and cells that are safe to open in a spreadsheet.

An empty cell is a question that nobody has answered yet; words for a skip and for "none of the labels" are declared.

Formulas: a spreadsheet runs a cell that begins with = + - @ (or their wide forms, also behind blanks), a tab or a line
end. Ids and texts of records are other people's words, so in CSV such a cell gets an apostrophe in front, and reading
takes it away again. A cell that already begins with apostrophes before such a sign gets one more: nothing is ever
ambiguous, and what is written is read back exactly. JSONL is not opened in spreadsheets and has none of this.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.privacy.files import write_whole
from discreet.records import Answer, Question, Value

_SIGN = r"(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])"
_RISKY, _GUARDED = re.compile(rf"'*{_SIGN}"), re.compile(rf"'+{_SIGN}")


def guarded(cell: str) -> str:
    """The cell, with an apostrophe in front if a spreadsheet might run it."""
    return f"'{cell}" if _RISKY.match(cell) else cell


def unguarded(cell: str) -> str:
    """What `guarded` was given. A cell that somebody typed without the apostrophe stays as it is."""
    return cell[1:] if _GUARDED.match(cell) else cell


class NotReadable(Exception):
    """A cell that says nothing; the text says why, without the cell."""


@dataclass(frozen=True, kw_only=True)
class AnswerWords:
    """What people write besides classes.

    separator   between several labels in one cell
    skip        the annotator does not want to answer, or cannot
    none        several-label tasks: looked at, and none of the labels holds
    """

    separator: str = "|"
    skip: str = "SKIP"
    none: str = "none"

    def __post_init__(self) -> None:
        words = (self.separator, self.skip, self.none)
        if not all(isinstance(word, str) and word for word in words) or len(set(words)) < 3:
            raise BadInput("the words of an answers file", "one is empty, or two are the same", "Give three words")
        if any(self.separator in word or word != word.strip() or unguarded(word) != word for word in words[1:]):
            raise BadInput(
                "the words of an answers file", "one has the separator or blanks around it", "Give plainer words"
            )

    def check_classes(self, classes: Sequence[str], *, multilabel: bool) -> None:
        """Refuse classes that a cell could not tell from something else."""
        for name in classes:
            try:
                same = self.value(self.cell((name,) if multilabel else name), multilabel=multilabel)
            except NotReadable as why:
                raise BadInput(
                    f"the class {name!r} in an answers file", str(why), "Declare other words, or name it otherwise"
                ) from None
            if unguarded(name) != name or same != ((name,) if multilabel else name):
                raise BadInput(f"the class {name!r} in an answers file", "it reads as a guarded cell", "Rename it")

    def cell(self, value: Value) -> str:
        """The cell of a value; NotReadable if it would be read back as something else."""
        if value is None:
            return self.skip
        if isinstance(value, str):
            return self._plain(value, reserved=(self.skip,))
        if not value:
            return self.none
        reserved = (self.skip, self.none) if len(value) == 1 else ()
        labels = [self._plain(label, reserved=reserved) for label in value]
        joined = self.separator.join(labels)
        if any(self.separator in label for label in labels) or joined.split(self.separator) != labels:
            raise NotReadable("a label has the separator in it")
        return joined

    def value(self, cell: str, *, multilabel: bool) -> Value:
        """What a cell that is not empty says."""
        if cell == self.skip:
            return None
        if not multilabel:
            return cell
        if cell == self.none:
            return ()
        labels = tuple(label.strip() for label in cell.split(self.separator))
        if not all(labels):
            raise NotReadable("there is nothing between two separators")
        return labels

    def _plain(self, label: str, *, reserved: tuple[str, ...]) -> str:
        if not label or label != label.strip():
            raise NotReadable("a label is empty or has blanks around it")
        if label in reserved:
            raise NotReadable("a label is the word for something else")
        return label


CSV, JSONL = (".csv",), (".jsonl", ".ndjson")
QUESTION_COLUMNS, BLANK_COLUMNS = ("question_id", "record", "phase"), ("label", "annotator")
ANSWER_COLUMNS = ("question_id", "label", "annotator", "at")


def write_questions(
    path: Path | str,
    questions: Iterable[Question],
    *,
    extra: Mapping[str, Mapping[str, str]] | None = None,
    overwrite: bool = False,
    delimiter: str = ",",
    bom: bool = False,
) -> None:
    """Questions in the order in which they are to be shown. Audience: annotator.

    extra       more columns, each a text by record id: a file's path, the text to be labelled. Annotators see it
    overwrite   replace a file that is there, and with it whatever people wrote into it
    delimiter   "," ";" or a tab; ``bom``: begin with a byte order mark. Both for spreadsheets that want it so
    """
    shown, more = sorted(questions, key=lambda question: question.place), dict(extra or {})
    check_extra(more)
    if not all(question.id.strip() for question in shown):
        raise BadInput("writing questions", "one has no id", "Give every question an id of its own")
    columns = [*QUESTION_COLUMNS, *more, *BLANK_COLUMNS]
    rows = [
        [question.id, question.record, question.phase, *(texts.get(question.record, "") for texts in more.values())]
        for question in shown
    ]
    _write(Path(path), columns, [[*row, None, None] for row in rows], overwrite, delimiter, bom)


def check_extra(names: Iterable[str]) -> None:
    """Refuse names of further columns that mean something in a file of questions."""
    ours = (*QUESTION_COLUMNS, *BLANK_COLUMNS, "at")
    clash = sorted(name for name in names if name.strip().casefold() in ours)
    if clash:
        remedy = f"Name them otherwise; {', '.join(ours)} are columns of every file of questions"
        raise BadInput(f"extra columns {', '.join(clash)}", "these names are taken", remedy)


def write_answers(
    path: Path | str,
    answers: Iterable[Answer],
    *,
    words: AnswerWords | None = None,
    overwrite: bool = False,
    delimiter: str = ",",
    bom: bool = False,
) -> None:
    """Answers as `read_answers` reads them. Audience: owner."""
    file, cell_words = Path(path), words or AnswerWords()
    lists, rows = kind_of(file) == "jsonl", []
    for number, answer in enumerate(answers, 1):
        try:
            rows.append(_answer_row(answer, cell_words, lists))
        except NotReadable as why:
            raise BadInput(
                f"writing answer number {number}", f"it would be read as something else: {why}", "Declare other words"
            ) from None
    _write(file, list(ANSWER_COLUMNS), rows, overwrite, delimiter, bom)


def _answer_row(answer: Answer, words: AnswerWords, lists: bool) -> list[Any]:
    if not answer.question_id.strip() or answer.annotator != answer.annotator.strip():
        raise NotReadable("it has no question, or blanks around the annotator's name")
    if answer.at is not None and answer.at.tzinfo is None:
        raise NotReadable("its time has no zone")
    if lists and isinstance(answer.value, tuple):
        if not all(answer.value):
            raise NotReadable("a label is empty")
        label: Any = list(answer.value)
    else:
        label = words.cell(answer.value)
    return [answer.question_id, label, answer.annotator, answer.at and answer.at.isoformat()]


def kind_of(path: Path) -> str:
    """By the end of its name: "csv" or "jsonl"."""
    if path.suffix.lower() in CSV:
        return "csv"
    if path.suffix.lower() in JSONL:
        return "jsonl"
    raise BadInput(f"the file {path.name}", "its name does not say what it is", "End it with .csv or .jsonl")


def _write(path: Path, columns: list[str], rows: list[list[Any]], overwrite: bool, delimiter: str, bom: bool) -> None:
    if delimiter not in (",", ";", "\t"):
        raise BadInput(f"the delimiter {delimiter!r}", "it would not be read back", 'Give "," ";" or a tab')
    if kind_of(path) == "csv":
        text = _csv(columns, rows, delimiter)
    else:
        forms = (dict(zip(columns, row, strict=True)) for row in rows)
        text = "".join(json.dumps(form, ensure_ascii=False) + "\n" for form in forms)
    try:
        content = text.encode("utf-8-sig" if bom else "utf-8")
    except UnicodeEncodeError:
        raise BadInput(f"writing {path.name}", "an id or a text is not Unicode (a lone surrogate)", "Mend it") from None
    try:
        if path.exists() and not overwrite:
            if path.read_bytes() == content:
                return
            raise BadInput(
                f"writing {path.name}",
                "there is another file of that name, and people may have answered in it",
                "Take another name, or overwrite it knowingly",
            )
        write_whole(path, content, private=True)  # who is asked is for annotators, what they say for the owner
    except OSError as problem:
        raise BadInput(
            f"writing {path.name}", f"it cannot be written ({problem.strerror})", "See to the disk and the rights"
        ) from None


def _csv(columns: Sequence[str], rows: list[list[Any]], delimiter: str) -> str:
    """All cells quoted: one with a semicolon in it does not fall apart where semicolons part cells."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow([guarded(name) for name in columns])
    for row in rows:
        cells = ["" if cell is None else guarded(str(cell)) for cell in row]
        if max(map(len, cells)) > csv.field_size_limit():
            raise BadInput(
                "writing CSV", f"a text is longer than the {csv.field_size_limit()} letters of a cell", "Write .jsonl"
            )
        writer.writerow(cells)
    return buffer.getvalue()
