"""Where the keys of a TOML text stand. The standard library reads TOML and forgets the lines; people need them.

`line_index` takes text that `tomllib` has accepted, and so need not look for mistakes. It gives the line of every
table, key and element of a list, by its path: ("plan", "queries", 2) is the third number of ``queries`` in ``[plan]``,
wherever and however that was written (headers, dotted keys, inline tables, lists over several lines, lists of tables).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field

Path = tuple[str | int, ...]
Index = dict[Path, int]

_TOKEN = re.compile(
    r'''
      (?P<text> """(?:\\.|[^\\])*?"""(?:"{0,2}) | \'\'\'.*?\'\'\'(?:'{0,2}) | "(?:\\.|[^"\\\n])*" | '[^'\n]*' )
    | (?P<skip> \#[^\n]* | [ \t]+ )
    | (?P<mark> [\n\[\]{}.,=] )
    | (?P<bare> [^\s\[\]{}.,=\#"']+ | . )
    ''',
    re.VERBOSE | re.DOTALL,
)


def line_index(text: str) -> Index:
    """The line, from 1, of every path in ``text``, which is valid TOML."""
    scan = _Scan()
    for token, kind, line in _tokens(text.replace("\r\n", "\n")):
        scan.take(token, kind, line)
    return scan.lines


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    line = 1
    for match in _TOKEN.finditer(text):
        token, kind = match[0], str(match.lastgroup)
        if kind != "skip":
            yield token, kind, line
        line += token.count("\n")


@dataclass
class _Scan:
    """What has been read so far. ``open``: lists (with the place reached) and inline tables (None) not yet closed."""

    lines: Index = field(default_factory=dict)
    table: Path = ()
    header: int = 0
    parts: list[str] = field(default_factory=list)
    value: Path | None = None
    open: list[tuple[Path, int | None]] = field(default_factory=list)
    tables_in: dict[Path, int] = field(default_factory=dict)

    def take(self, token: str, kind: str, line: int) -> None:
        """The next token. Brackets open a list where a value is due, a header where a key is."""
        if token == "\n":
            self._end_of_line()
        elif self.value is None:
            self._in_key(token, kind, line)
        else:
            self._in_value(token, kind, line)

    def _end_of_line(self) -> None:
        if not self.open:  # lists and long strings go on; a statement ends
            self.value, self.parts, self.header = None, [], 0

    def _in_key(self, token: str, kind: str, line: int) -> None:
        if kind in ("text", "bare"):
            self.parts.append(_unquoted(token))
        elif token == "[":
            self.header += 1
        elif token == "]" and self.parts:
            self._open_table(line)
        elif token == "=":
            self.value = (*(self.open[-1][0] if self.open else self.table), *self.parts)
            self._note(self.value, line, len(self.parts))
            self.parts = []
        elif token == "}":
            self._close()

    def _open_table(self, line: int) -> None:
        path: Path = ()
        for part in self.parts[:-1]:
            path = self._inside((*path, part))
        path = (*path, self.parts[-1])
        self._note(path, line, len(self.parts))
        if self.header > 1:  # [[ ]]: one more table of a list
            self.tables_in[path] = self.tables_in.get(path, 0) + 1
        self.table, self.parts = self._inside(path), []
        self.lines[self.table] = line

    def _inside(self, path: Path) -> Path:
        """A list of tables stands for its last one."""
        return (*path, self.tables_in[path] - 1) if path in self.tables_in else path

    def _note(self, path: Path, line: int, parts: int) -> None:
        for length in range(len(path) - parts + 1, len(path)):
            self.lines.setdefault(path[:length], line)
        self.lines[path] = line if path not in self.tables_in else self.lines[path]

    def _in_value(self, token: str, kind: str, line: int) -> None:
        assert self.value is not None
        if token in ("]", "}"):
            self._close()
        elif token == ",":
            self._next()
        else:
            self.lines.setdefault(self.value, line)
            if token == "[":
                self.open.append((self.value, 0))
                self.value = (*self.value, 0)
            elif token == "{":
                self.open.append((self.value, None))
                self.value = None

    def _next(self) -> None:
        """After a comma: the next element of a list, or the next key of an inline table."""
        path, position = self.open[-1]
        if position is None:
            self.value = None
        else:
            self.open[-1] = (path, position + 1)
            self.value = (*path, position + 1)

    def _close(self) -> None:
        self.value = self.open.pop()[0]
        self.parts = []


def _unquoted(token: str) -> str:
    if token[0] == '"':
        return str(tomllib.loads(f"key = {token}")["key"])
    return token[1:-1] if token[0] == "'" else token
