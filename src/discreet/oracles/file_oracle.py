"""People who answer in files: a folder with questions in it, and in time their answers.

    questions-0001.csv     written here; people may fill in the columns label and annotator, or
    answers*.csv, .jsonl   put files of their own beside it

Every ask writes its new questions into a new file; no file is ever written again. What was handed out is read from the
folder, so that a restart hands out nothing twice. A file that cannot be read, or has a label outside the classes, is
refused whole with the line: nothing is given out until it is mended, and nothing is lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from discreet.errors import BadInput
from discreet.oracles.cells import AnswerWords
from discreet.oracles.checking import check_answers
from discreet.oracles.files_in import read_answer_rows, refused, rows_of
from discreet.oracles.files_out import CSV, JSONL, write_questions
from discreet.oracles.values import checked_classes
from discreet.records import HANDED_OUT, Answer, Question, Shown

_NUMBER = re.compile(r"questions-([0-9]{1,9})\.")
Said = dict[tuple[str, str], Answer]
"""The last word of each annotator on each question."""


class FileOracle:
    """Writes questions into ``folder``, collects answers from it. An answer that is changed later comes again.

    kind     "csv" or "jsonl": what questions are written as; answers are read as either
    words    for a skip, for no label, and between several
    extra    more columns for annotators, each a text by record id
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
        extra: Mapping[str, Mapping[str, str]] | None = None,
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
        return [Shown(question_id=one.id, audience=self._next(written).name, kind=HANDED_OUT) for one in fresh]

    def _new(self, questions: Sequence[Question]) -> tuple[dict[str, Question], list[Question], list[Path]]:
        """Those that are new to this process; of these, those that stand in no file; and the files."""
        new = {question.id: question for question in questions if question.id not in self._asked}
        written = self._question_files()
        handed = {cells.get("question_id") for path in written for _, cells in rows_of(path)} if new else set()
        return new, [question for question in new.values() if question.id not in handed], written

    def _next(self, written: list[Path]) -> Path:
        numbers = [int(found[1]) for path in written if (found := _NUMBER.match(path.name))]
        return self.folder / f"questions-{max(numbers, default=0) + 1:04d}.{self._kind}"

    def collect(self) -> list[Answer]:
        """Answers that are new or changed since the last time. ``unknown`` counts those to nothing that was asked."""
        said: Said = {}
        self.unknown = 0
        for path in [*self._question_files(), *self._files("answers*")]:
            self._read(path, said)
        found = [answer for place, answer in said.items() if _changed(self._given.get(place), answer)]
        self._given |= said
        return found

    def _read(self, path: Path, said: Said) -> None:
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
            place = (answer.question_id, answer.annotator)
            if not answer.annotator and place in said and said[place].value != answer.value:
                raise refused(
                    path, f"line {row.line}: another file answers this question otherwise, and none names its annotator"
                )
            said[place] = answer

    def _write(self, fresh: list[Question], path: Path) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise BadInput(
                f"the folder {self.folder.name}",
                f"it cannot be made ({problem.strerror})",
                "See to the disk and the rights, or name another",
            ) from None
        write_questions(path, fresh, extra=self._extra, delimiter=self._delimiter, bom=self._bom)

    def _question_files(self) -> list[Path]:
        return self._files("questions-*")

    def _files(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.folder.glob(pattern) if path.suffix.lower() in (*CSV, *JSONL))

    def __repr__(self) -> str:
        """Counts, never answers."""
        return f"FileOracle(asked={len(self._asked)}, answers={len(self._given)})"


def _changed(before: Answer | None, now: Answer) -> bool:
    """Another value; a new time alone is no new answer."""
    return before is None or before.value != now.value
