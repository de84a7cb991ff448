"""Every key that tomllib finds is found, at a line on which it stands, and nothing else is."""

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.toml_lines import line_index

NASTY = ["", "A", "] } = #", "A\nB\n\nC", 'Q"Q', "Q'Q", "\\", "[[X]]", "# A = 1", 'Z"""Z', "Z'''Z", "É\t→", "1.5", 'Q"']
SIGNS = ["", "-", "_", " ", ".", "#", "=", "[", "]", '"', "'", "\\", "é", "{"]
LEAF = st.sampled_from(["number", "text", "empty"])
SHAPE = st.recursive(
    LEAF,
    lambda part: (
        st.lists(part, max_size=3).map(lambda parts: ("list", parts))
        | st.lists(part, max_size=3).map(lambda parts: ("table", parts))
        | st.lists(st.lists(part, max_size=2).map(lambda parts: ("table", parts)), min_size=1, max_size=3).map(
            lambda parts: ("list", parts)
        )
    ),
    max_leaves=12,
)


class Writer:
    """Writes data as TOML in one of its many ways. Keys and numbers are unique, so that a line tells which it has."""

    def __init__(self, chance):
        self.chance, self.count, self.out = chance, 0, []

    def filled(self, shape):
        self.count += 1
        if shape == "number":
            return 9_000_000 + self.count
        if shape == "text":
            return self.chance.choice(NASTY)
        if shape == "empty":
            return self.chance.choice([[], {}])
        kind, parts = shape
        if kind == "list":
            return [self.filled(part) for part in parts]
        made = {}
        for part in parts:
            self.count += 1
            made[f"k{self.count}{self.chance.choice(SIGNS)}z"] = self.filled(part)
        return made

    def key(self, name):
        if name.replace("-", "").isalnum() and name.isascii() and self.chance.random() < 0.7:
            return name
        return f"'{name}'" if "'" not in name and self.chance.random() < 0.5 else json.dumps(name, ensure_ascii=False)

    def text(self, value):
        ways = [json.dumps(value, ensure_ascii=False)]
        if "\n" not in value and "'" not in value and "\t" not in value:
            ways.append(f"'{value}'")
        if "'''" not in value and not value.endswith("'"):
            ways.append(f"'''\n{value}'''")
        ways.append('"""\n' + value.replace("\\", "\\\\").replace('"""', '""\\"') + '"""')
        if value.endswith('"') or value.startswith('"'):
            ways.append('"""' + value.replace("\\", "\\\\") + '"""')
        return self.chance.choice(ways)

    def value(self, value):
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            gap = self.chance.choice([" ", "\n", "\n\n  # ], [ 'x\n", "  "])
            inner = f",{gap}".join(self.value(part) for part in value)
            return f"[{gap}{inner}{',' if value and self.chance.random() < 0.3 else ''}{gap}]"
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{self.key(k)} = {self.value(v)}" for k, v in value.items()) + " }"
        return str(value)

    def table(self, path, data):
        later = []
        for name, value in data.items():
            where = self.chance.random()
            if isinstance(value, dict) and where < 0.4:
                later.append((name, value, "[{}]"))
            elif isinstance(value, list) and value and all(isinstance(v, dict) for v in value) and where < 0.6:
                later.append((name, value, "[[{}]]"))
            elif isinstance(value, dict) and value and where < 0.8:
                self.out += [f"{self.key(name)} . {self.key(k)} = {self.value(v)}" for k, v in value.items()]
            else:
                self.out.append(f"{self.key(name)}={self.value(value)}{self.chance.choice(['', ' # k = [', '   '])}")
        for name, value, form in later:
            for part in value if form == "[[{}]]" else [value]:
                self.out += [self.chance.choice(["", "# [k]"]), form.format(" . ".join(map(self.key, [*path, name])))]
                self.table([*path, name], part)


def paths(data, path=()):
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in items:
        yield (*path, name), value
        yield from paths(value, (*path, name))


def stands(path, value, line):
    """Whether the last part of ``path`` is on ``line``; of an element of a list, its number."""
    if isinstance(path[-1], int):
        return not isinstance(value, int) or str(value) in line
    return path[-1] in line or json.dumps(path[-1], ensure_ascii=False)[1:-1] in line


@settings(max_examples=100, deadline=None)
@given(st.lists(SHAPE, max_size=5), st.randoms(use_true_random=False), st.sampled_from(["\n", "\r\n"]))
def test_every_key_is_found_where_it_stands(parts, chance, newline):
    writer = Writer(chance)
    data = writer.filled(("table", parts))
    writer.table([], data)
    text = "\n".join(writer.out).replace("\n", newline)
    assert tomllib.loads(text) == data  # the writer is right
    index = line_index(text)
    found = dict(paths(data))
    assert set(index) == set(found)
    lines = text.split("\n")
    for path, line in index.items():
        assert stands(path, found[path], lines[line - 1]), (path, line)


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2", ("b",), 2),
        ("[a]\n\n[a.b]\nc = 1", ("a", "b", "c"), 4),
        ("[a.b]\nc = 1\n[a]\nd = 2", ("a",), 3),
        ("a.b.c = 1\na.b.d = 2", ("a", "b"), 1),
        ("a.b.c = 1\na.b.d = 2", ("a", "b", "d"), 2),
        ("[a]\nx = [\n 1,\n # 2\n 3,\n]\ny = 1", ("a", "x", 1), 5),
        ("[a]\nx = [\n 1,\n # 2\n 3,\n]\ny = 1", ("a", "y"), 7),
        ('x = """\n[a]\nb = 1\n"""\nb = 2', ("b",), 5),
        ('x = """a\\"""b""""\nb = 2', ("b",), 2),
        ('x = ["""a"""", "[", 3]\ny = 1', ("y",), 2),
        ("x = '''\n\\'''\nb = 2", ("b",), 3),
        ("[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 3", ("a", 1, "b"), 4),
        ("[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 3", ("a", 1, "c", "d"), 6),
        ("[[a.b]]\n[[a.b.c]]\n[[a.b.c]]\nd = 1", ("a", "b", 0, "c", 1, "d"), 4),
        ("a = {b = {c = [1, {d = 2}]}, e = 1979-05-27 07:32:00.5}\nf = 1", ("a", "b", "c", 1, "d"), 1),
        ("a = {b = {c = [1, {d = 2}]}, e = 1979-05-27 07:32:00.5}\nf = 1", ("f",), 2),
        ("x = 1.5\n'y z' . \"\\u0041\" = 2", ("y z", "A"), 2),
    ],
)
def test_known_places(text, path, line):
    tomllib.loads(text)
    assert line_index(text)[path] == line
