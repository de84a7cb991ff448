"""How an answer is written into a cell, and cells that are safe to open in a spreadsheet.

An empty cell is a question that nobody has answered yet; words for a skip and for "none of the labels" are declared.

Formulas: a spreadsheet runs a cell that begins with = + - @ (or their wide forms, also behind blanks), a tab or a line
end. Ids and texts of records are other people's words, so in CSV such a cell gets an apostrophe in front, and reading
takes it away again. A cell that already begins with apostrophes before such a sign gets one more: nothing is ever
ambiguous, and what is written is read back exactly. JSONL is not opened in spreadsheets and has none of this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from discreet.errors import BadInput
from discreet.records import Value

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
        if any(self.separator in label for label in labels) or self._touching(labels):
            raise NotReadable("a label has the separator in it")
        return self.separator.join(labels)

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

    def _touching(self, labels: list[str]) -> bool:
        """Whether a separator of several letters would be found elsewhere than where it was put."""
        return self.separator.join(labels).split(self.separator) != labels
