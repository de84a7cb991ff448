"""Lines of a stream: their form, the readers they come from, and the outlets that take decisions.

A record is ``{"id": ..., features ...}``, the label of one ``{"id": ..., "label": ...}``. A line with the label's name
and no declared feature is a label; a record may bring its label along, which then counts only if the record is asked
(for tries on data that is labelled already). ``null`` as a label: nobody can say.

Guarantee: what a record holds decides nothing here. A feature that is missing, of the wrong type or not finite makes no
error: the preparation turns it into zeros. Errors are about lines that are no JSON object, ids or persons that are no
text, and labels that are none of the declared classes; they say the line's number and nothing that stands in it.

Lines come from standard input, a file, or a file that grows: as many as fit a batch, or as few as came, in bounded
memory. While a batch is made durable and its decisions are written, nothing is read; a sender that is faster waits in
its pipe.

Decisions go out when they are durable. Audience: annotator; the ask bits themselves are paid for, and public. An
outlet that knows how far it got (a file, a stream in Redis) has every decision once, in the order of places: what a
killed process did not write any more is taken from the journal. Standard output does not know; there a record that
comes again gets the decision it had.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, Self

from discreet.errors import BadInput
from discreet.privacy.files import sync_directory
from discreet.storage.disk import disk_refusals
from discreet.storage.stream_store import Decided, storable

MOST_LINE = 1 << 20
"""Bytes of a line: what is longer is no record, and memory is bounded."""
NO_LABEL: Any = object()
"""A record that brought none."""


class Malformed(Exception):
    """A line that cannot be taken; ``fact`` says why, without what stands in it."""

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(fact)
        self.fact, self.remedy = fact, remedy


@dataclass(slots=True)
class Arrival:
    """A record as it came. ``fields``: None, if it has no declared feature at all: a null. ``label``: what it brought
    along; None: nobody can say. ``person``: whose it is, where persons are protected.
    """

    id: str
    fields: dict[str, Any] | None
    label: Any = NO_LABEL
    person: str | None = None


@dataclass(slots=True)
class LabelOf:
    """A label that came. None: nobody can say."""

    id: str
    label: str | None


Line = Arrival | LabelOf


_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]
"""What `json.loads` calls in the end; the way there takes twice as long as it does."""


def _whole_number(digits: str) -> float:
    """Thousands of digits, which `int` refuses, are infinite: not finite, and so a null, as they are elsewhere."""
    return int(digits) if len(digits) < 4000 else float(digits)


def _parsed(line: bytes) -> Any:
    if len(line) > MOST_LINE:
        raise Malformed(f"it is longer than {MOST_LINE} bytes", "Write shorter lines")
    try:
        text = line.strip().decode()
        form, end = _scan(text, 0)
        if end == len(text):
            return form
    except (ValueError, StopIteration, RecursionError):
        pass
    try:
        return json.loads(line, parse_int=_whole_number)  # which knows marks of the byte order
    except (ValueError, RecursionError):
        raise Malformed("it is not JSON", 'Write objects, one a line, like {"id": "a1", "amount": 3.5}') from None


class LineForm:
    """How lines of one stream are read and written."""

    def __init__(
        self,
        *,
        id: str,  # noqa: A002
        label: str,
        features: Collection[str],
        classes: Collection[str],
        person: str | None = None,
    ) -> None:
        self._id, self._label, self._person = id, label, person
        self._features, self._classes = frozenset(features), frozenset(classes)

    def read(self, line: bytes) -> Line:
        """One line, without its end."""
        form = _parsed(line)
        if type(form) is not dict:
            raise Malformed("it is not an object", 'Write it like {"id": "a1", "amount": 3.5}')
        identifier = _name_in(form, self._id, "id", 'Give your own ids, up to 1000 bytes: "{}": "a1"')
        readable = not self._features.isdisjoint(form)
        if self._label not in form:
            return Arrival(identifier, form if readable else None, person=self._whose(form))
        label = form[self._label]
        if label is not None and (type(label) is not str or label not in self._classes):
            raise Malformed("its label is none of the declared classes", "Use one of [task] classes, or null for none")
        return Arrival(identifier, form, label, self._whose(form)) if readable else LabelOf(identifier, label)

    def _whose(self, form: dict[str, Any]) -> str | None:
        """The person of a record. Persons are public, as ids are: a record without one is no line of ours."""
        if self._person is None:
            return None
        return _name_in(form, self._person, "person", 'Say whose it is, in up to 1000 bytes: "{}": "c7"')


def _name_in(form: dict[str, Any], key: str, what: str, remedy: str) -> str:
    name = form.get(key)
    if type(name) is not str or not storable(name):
        raise Malformed(f"its {what} is missing, or no short printable text", remedy.format(key))
    return name


def decision_line(decided: Decided) -> str:
    """A decision as it is shown: id, whether it is asked, and its place among all records, from 1."""
    position, identifier, asked = decided
    answer = "true" if asked else "false"
    return f'{{"id": {encode_basestring_ascii(identifier)}, "asked": {answer}, "place": {position}}}'


_PIECE = 1 << 18
_MOST_BYTES = 1 << 24
"""Of one batch."""


def _poll(handle: int, events: int, wait: float | None) -> bool:
    """Whether the descriptor is ready within ``wait`` seconds (None: for ever)."""
    poll = select.poll()
    poll.register(handle, events)
    return bool(poll.poll(None if wait is None else 1000 * wait))


class LineReader:
    """Lines of a file descriptor. ``number``: of the last line that was handed over."""

    def __init__(self, handle: int, name: str, *, close: bool = False) -> None:
        self.name, self.number = name, 0
        self._handle, self._close = handle, close
        self._lines: list[bytes] = []
        self._tail, self._held = b"", 0
        self._ended = False

    @classmethod
    def of(cls, path: Path) -> Self:
        """The lines of a file."""
        if path.is_dir() or not path.exists():
            raise BadInput(f"reading {path.name or path}", "there is no such file", "Check the path")
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path.name, close=True)

    def take(self, limit: int, *, wait: float | None) -> list[bytes] | None:
        """At most ``limit`` lines: those that are there, or the first that come within ``wait`` seconds (None: for
        ever). None at the end.
        """
        while len(self._lines) < limit and self._held < _MOST_BYTES and not self._ended:
            if not _poll(self._handle, select.POLLIN | select.POLLHUP, 0.0 if self._lines else wait):
                break
            self._read()
        taken, self._lines = self._lines[:limit], self._lines[limit:]
        self._held = sum(map(len, self._lines))
        self.number += len(taken)
        return taken if taken or not self._ended else None

    def _read(self) -> None:
        piece = os.read(self._handle, _PIECE)
        self._ended = not piece
        *lines, tail = (self._tail + piece).split(b"\n")
        if self._ended and tail:
            lines, tail = [*lines, tail], b""
        if len(tail) > MOST_LINE:
            where = self.number + len(self._lines) + len(lines) + 1
            raise BadInput(f"{self.name}, line {where}", f"it is longer than {MOST_LINE} bytes", "Write shorter lines")
        self._tail = tail
        self._held += len(piece)
        self._lines += lines

    def close(self) -> None:
        """Let go of the file."""
        if self._close:
            os.close(self._handle)


class GrowingFile:
    """Lines that are appended to a file by somebody else; a line counts when its end is written."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BadInput(f"reading labels from {path.name or path}", "there is no such file", "Make an empty one")
        self.path, self.name, self.number = path, path.name, 0
        self._file, self._place = path.open("rb"), 0

    def take(self, limit: int) -> list[bytes]:
        """At most ``limit`` new lines, if there are some."""
        if self._replaced():
            self._file.close()
            self._file = self.path.open("rb")
            self._place = self.number = 0
        lines: list[bytes] = []
        self._file.seek(self._place)
        while len(lines) < limit and (line := self._file.readline(MOST_LINE + 2)).endswith(b"\n"):
            self._place += len(line)
            lines.append(line[:-1])
        self.number += len(lines)
        if not lines and len(line) > MOST_LINE:
            fact = f"it is longer than {MOST_LINE} bytes"
            raise BadInput(f"{self.name}, line {self.number + 1}", fact, "Write shorter lines")
        return lines

    def _replaced(self) -> bool:
        """Whether another file has its name now, or it was cut: then it is read from its start, which ids allow."""
        ours = os.fstat(self._file.fileno())
        try:
            named = self.path.stat()
        except FileNotFoundError:  # it is being replaced
            return False
        return not os.path.samestat(ours, named) or named.st_size < self._place

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


_BEGINS = b'{"id": "'


class PipeOutlet:
    """Takes decisions, as lines into a file descriptor such as standard output.

    ``last``: the place of the last decision it has; None: it does not know.
    """

    last: int | None = None

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def ends_with(self, decided: Decided) -> bool:
        """Whether its last decision is this one: what it has may be another stream's. A pipe does not know."""
        return True

    def emit(self, decisions: Sequence[Decided]) -> None:
        """Write whole lines; waits until they are taken."""
        view = memoryview("".join([f"{decision_line(decided)}\n" for decided in decisions]).encode("ascii"))
        while view:
            try:
                view = view[os.write(self.handle, view) :]
            except BlockingIOError:  # somebody made the pipe non-blocking
                _poll(self.handle, select.POLLOUT, None)

    def close(self) -> None:
        """No more will come. A pipe is not ours to close."""


class FileOutlet(PipeOutlet):
    """Lines at the end of a file, each decision once."""

    def __init__(self, path: Path) -> None:
        self._asked = self.check(path)
        self._line = b""
        with disk_refusals(self._asked):
            new = not path.exists()
            super().__init__(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
            if new:
                sync_directory(path.absolute().parent)
        try:
            self.last = self._mended()
        except BaseException:
            os.close(self.handle)
            raise

    @staticmethod
    def check(path: Path) -> str:
        """Refuse what cannot be written to, before anything else is done; what writing there is called."""
        asked = f"writing decisions to {path.name or path}"
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise BadInput(asked, "it is no file in a directory that exists", "Check the path")
        return asked

    def ends_with(self, decided: Decided) -> bool:
        """By the line itself."""
        return not self._line or self._line == decision_line(decided).encode("ascii")

    def _mended(self) -> int:
        """The last whole decision; what was torn after it is cut off. A file of something else is left alone."""
        size = os.fstat(self.handle).st_size
        start = max(0, size - 4 * MOST_LINE)
        data = os.pread(self.handle, size - start, start)
        *lines, torn = data.split(b"\n")
        ours = not start and (torn.startswith(_BEGINS) or _BEGINS.startswith(torn))
        self._line = lines[-1] if lines else b""
        position = _place_in(self._line) if lines else (0 if ours else -1)
        if position < 0:
            raise BadInput(self._asked, "it ends with something that is no decision", "Choose another file")
        if torn:
            os.ftruncate(self.handle, size - len(torn))
        return position

    def emit(self, decisions: Sequence[Decided]) -> None:
        """Append whole lines."""
        with disk_refusals(self._asked, kept="what was decided is safe, and the same command goes on"):
            super().emit(decisions)
        self.last, self._line = decisions[-1][0] if decisions else self.last, b""

    def close(self) -> None:
        """Hand it to the disk: the journal would bring it back, and it is good to know that it need not."""
        with disk_refusals(self._asked):
            os.fsync(self.handle)
            os.close(self.handle)


def _place_in(line: bytes) -> int:
    try:
        position = json.loads(line)["place"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return position if type(position) is int and position > 0 else -1
