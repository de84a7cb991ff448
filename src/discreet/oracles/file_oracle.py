"""People who answer in files: a folder with questions in it, and in time their answers.

    questions-0001.csv     written here; people may fill in the columns label and annotator, or
    answers*.csv, .jsonl   put files of their own beside it

Every ask writes its new questions into a new file; no file is ever written again. What was handed out is read from the
folder, so that a restart hands out nothing twice. A file that cannot be read, or has a label outside the classes, is
refused whole with the line: nothing is given out until it is mended, and nothing is lost.

`remove_rows` takes rows about withdrawn records out of these files. Guarantee: a file is replaced whole or not at all;
lines that stay keep their bytes. A file that cannot be read is refused by its name: what is in it could be anybody's.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.oracles.answer_files import read_answer_rows, refused, rows_of
from discreet.oracles.answers import check_answers, checked_classes
from discreet.oracles.question_files import CSV, JSONL, AnswerWords, write_questions
from discreet.privacy.files import write_whole
from discreet.records import HANDED_OUT, Answer, Question, Shown

_NUMBER = re.compile(r"questions-([0-9]{1,9})\.")
Columns = Mapping[str, Mapping[str, str]]
Said = dict[tuple[str, str], Answer]
"""The last word of each annotator on each question."""


class FileOracle:
    """Writes questions into ``folder``, collects answers from it. An answer that is changed later comes again.

    kind     "csv" or "jsonl": what questions are written as; answers are read as either
    words    for a skip, for no label, and between several
    extra    more columns for annotators, each a text by record id; or what makes them of questions
    """

    simulation = False

    def __init__(
        self,
        folder: Path | str,
        *,
        classes: Sequence[str],
        multilabel: bool = False,
        kind: str = "csv",
        words: AnswerWords | None = None,
        extra: Columns | Callable[[Sequence[Question]], Columns] | None = None,
        delimiter: str = ",",
        bom: bool = False,
    ) -> None:
        if kind not in ("csv", "jsonl"):
            raise BadInput(f"files of the kind {kind}", "there is no such kind", "Give csv or jsonl")
        self.folder, self._kind = Path(folder), kind
        self._classes = checked_classes(classes, multilabel=multilabel)
        self._words, self._multilabel, self._extra = words or AnswerWords(), multilabel, extra
        self._words.check_classes(self._classes, multilabel=multilabel)
        self._delimiter, self._bom = delimiter, bom
        self._asked: dict[str, Question] = {}
        self._given: Said = {}
        self.unknown = 0

    def check(self) -> None:
        """Refuse a folder that cannot be written to, and files of questions in it that cannot be read."""
        for path in self._question_files():
            for _ in rows_of(path):
                pass
        if self.folder.exists() and not os.access(self.folder, os.W_OK | os.X_OK):
            raise BadInput(
                f"writing to {self.folder.name}", "it is no folder of yours to write to", "See to its rights"
            )

    def ask(self, questions: Sequence[Question]) -> None:
        """Write the questions that stand in no file yet into a new one."""
        new, fresh, written = self._new(questions)
        if fresh:
            self._write(fresh, self._next(written))
        self._asked.update(new)

    def shown_to(self, questions: Sequence[Question]) -> list[Shown]:
        """The file that those will stand in which stand in none yet: who opens it is not known here."""
        _, fresh, written = self._new(questions)
        return [
            Shown(question_id=question.id, audience=self._next(written).name, kind=HANDED_OUT) for question in fresh
        ]

    def _new(self, questions: Sequence[Question]) -> tuple[dict[str, Question], list[Question], list[Path]]:
        """Those that are new to this process; of these, those that stand in no file; and the files."""
        new = {question.id: question for question in questions if question.id not in self._asked}
        written = self._question_files()
        handed = {cells.get("question_id") for path in written for _, cells in rows_of(path)} if new else set()
        return new, [question for question in new.values() if question.id not in handed], written

    def _next(self, written: list[Path]) -> Path:
        numbers = [int(match[1]) for path in written if (match := _NUMBER.match(path.name))]
        return self.folder / f"questions-{max(numbers, default=0) + 1:04d}.{self._kind}"

    def collect(self) -> list[Answer]:
        """Answers that are new or changed since the last time. ``unknown`` counts those to nothing that was asked."""
        latest: Said = {}
        self.unknown = 0
        for path in _files(self.folder, PATTERNS):
            self._read(path, latest)
        before = self._given  # a new time alone is no new answer
        changed = [
            answer for voice, answer in latest.items() if voice not in before or before[voice].value != answer.value
        ]
        self._given |= latest
        return changed

    def _read(self, path: Path, latest: Said) -> None:
        rows = read_answer_rows(path, multilabel=self._multilabel, words=self._words, questions=self._asked.values())
        known = [row for row in rows if row.answer.question_id in self._asked]
        self.unknown += len(rows) - len(known)
        try:
            checked = check_answers(
                [row.answer for row in known],
                questions=self._asked.values(),
                classes=self._classes,
                multilabel=self._multilabel,
                lines=[row.line for row in known],
            )
        except BadInput as problem:
            raise refused(path, problem.fact) from None
        for row, answer in zip(known, checked.valid, strict=True):
            voice = (answer.question_id, answer.annotator)
            if not answer.annotator and voice in latest and latest[voice].value != answer.value:
                raise refused(
                    path, f"line {row.line}: another file answers this question otherwise, and none names its annotator"
                )
            latest[voice] = answer

    def _write(self, fresh: list[Question], path: Path) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise BadInput(
                f"the folder {self.folder.name}",
                f"it cannot be made ({problem.strerror})",
                "See to the disk and the rights, or name another",
            ) from None
        extra = self._extra(fresh) if callable(self._extra) else self._extra
        write_questions(path, fresh, extra=extra, delimiter=self._delimiter, bom=self._bom)

    def _question_files(self) -> list[Path]:
        return _files(self.folder, PATTERNS[:1])

    def __repr__(self) -> str:
        """Counts, never answers."""
        return f"FileOracle(asked={len(self._asked)}, answers={len(self._given)})"


PATTERNS = ("questions-*", "answers*")


def remove_rows(folder: Path, *, questions: Collection[str], withdrew: Callable[[str], bool]) -> int:
    """Remove rows about ``questions``, or of a record that ``withdrew``, from all files of a file oracle's folder.

    How many. What a process that died left half written is removed, too.
    """
    removed = sum(_remove(path, questions, withdrew) for path in _files(folder, PATTERNS))
    for pattern in PATTERNS:
        for part in folder.glob(f".{pattern}.part"):
            part.unlink(missing_ok=True)
    return removed


def about(cells: Mapping[str, Any], questions: Collection[str], withdrew: Callable[[str], bool]) -> bool:
    """Whether a row is about a withdrawn record."""
    record = cells.get("record")
    return cells.get("question_id") in questions or (record is not None and withdrew(str(record)))


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Pattern by pattern, each by name."""
    files = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    return [path for path in files if path.suffix.lower() in (*CSV, *JSONL)]


def _lines(path: Path, text: str) -> list[str]:
    """As `rows_of` counts them."""
    if path.suffix.lower() in CSV:
        return io.StringIO(text, newline="").readlines()
    *complete, last = text.split("\n")
    return [*(f"{line}\n" for line in complete), last]


def _remove(path: Path, questions: Collection[str], withdrew: Callable[[str], bool]) -> int:
    content = path.read_bytes()
    if not content.strip():
        return 0
    rows = list(rows_of(path))  # it refuses what is not UTF-8
    lines = _lines(path, content.decode("utf-8"))
    ends = [*(line for line, _ in rows[1:]), len(lines) + 1]
    gone = [
        range(first, end) for (first, cells), end in zip(rows, ends, strict=False) if about(cells, questions, withdrew)
    ]
    if not gone:
        return 0
    dropped = {line for span in gone for line in span}
    left = "".join(text for number, text in enumerate(lines, 1) if number not in dropped)
    try:
        write_whole(path, left.encode("utf-8"), private=True)
    except OSError as problem:
        raise BadInput(
            f"removing rows from {path.name}", f"it cannot be written ({problem.strerror})", "See to the rights"
        ) from None
    return len(gone)
