"""The decision guide says what the committed tables say: every figure is looked up in its table, row and column."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results"
TEXT, SOURCES = (ROOT / "docs/should-i.md").read_text(encoding="utf-8").split("## Where the figures come from")
SAID_ELSEWHERE = {
    "80.8": "crowd-gate: below Fig. 2",  # in a sentence, not in a table
}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text):
    """(part, header, rows) of every table, the part being the heading above it."""
    part, header, rows = "", None, []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            found = cells(line)
            header, rows = (found, []) if header is None else (header, [*rows, found])
        elif header is not None:
            yield part, header, rows[1:]  # the first is the rule
            header = None
        if line.startswith("### "):
            part = line[4:].strip()


FIGURES = [tuple(row) for _, _, rows in tables(SOURCES) for row in rows]


def looked_up(table, part, row, column):
    """Cells of this row and column; a row is named by its first cells, joined by a slash where one is not enough."""
    for where, header, rows in tables((RESULTS / f"{table}.md").read_text(encoding="utf-8")):
        if part in ("", where) and column in header:
            names = row.split(" / ")
            yield from (one[header.index(column)] for one in rows if one[: len(names)] == names)


@pytest.mark.parametrize(("figure", "table", "part", "row", "column"), FIGURES)
def test_a_figure_is_in_its_table(figure, table, part, row, column):
    found = list(looked_up(table, part, row, column))
    assert len(found) == 1, (part, row, column)
    number = re.match(r"\+?(-?[\d.]+)", found[0])[1]
    digits = len(figure.partition(".")[2])
    assert f"{float(number):.{digits}f}" == figure


@pytest.mark.parametrize(("figure", "table", "part", "row", "column"), FIGURES)
def test_what_is_bold_is_shown(figure, table, part, row, column):
    verdicts = list(looked_up(table, part, row, "beats random"))
    private = list(looked_up(table, part, row, "selection"))[:1] in (["private"], ["hidden"])
    if table in ("table-1", "table-2") and private:
        said = {"yes": f"| **{figure}** |", "not shown": f"| {figure} |", "worse": f"{figure}, *worse*"}
        if verdicts != ["worse"] or figure != "67.67":  # that one is named in a sentence, as below random
            assert said[verdicts[0]] in TEXT


def test_every_figure_of_the_page_is_in_the_list():
    listed = {figure for figure, *_ in FIGURES} | set(SAID_ELSEWHERE)
    said = set(re.findall(r"(?<![\w.,:])\d+\.\d+(?![\d.]*,?\d*e-)", re.sub(r"\(#?[\w/.#-]+\)|`[^`]*`", "", TEXT)))
    assert said - listed == {"2.5"} - listed  # million rows
    assert not {figure for figure in listed if "." in figure} - said  # nothing is listed that is not said


def test_what_is_said_below_a_table_is_there():
    assert "The bootstrap labels alone give 80.8" in (RESULTS / "crowd-gate.md").read_text(encoding="utf-8")
