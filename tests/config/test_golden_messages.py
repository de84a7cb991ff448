"""What the reader of campaign and stream files says about some hundred mistakes: every message with its line number.

`golden_messages.json` stores edits of the example files and the messages they give. After an intended change of a
message, rewrite it with `python tests/config/test_golden_messages.py` and read the diff.
"""

import json
from pathlib import Path

import pytest

from discreet.config import StreamConfig, example, read_campaign
from discreet.errors import InvalidConfig
from discreet.parts import RECIPES

GOLDEN = Path(__file__).with_name("golden_messages.json")
FIRST_RECIPES = "private-pool, public-data, crowd, pate, stream"
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))


def edited(text, edits):
    """The text with lines replaced (None: removed; past the end: appended). Numbers count lines of the original."""
    lines = text.split("\n")
    for line, new in edits:
        lines[line - 1 : line] = [new]
    return "\n".join(line for line in lines if line is not None)


def messages(recipe, edits, directory):
    """Each problem on its own line, after the line number that it points at."""
    path = directory / f"{recipe}.toml"
    path.write_text(edited(example(recipe), edits), encoding="utf-8")
    try:
        (StreamConfig.read if recipe == "stream" else read_campaign)(path)
    except InvalidConfig as error:
        problems = [InvalidConfig(error.asked, error.fact, error.remedy, line=error.line), *error.others]
        listed = (", ".join(RECIPES), FIRST_RECIPES)  # a further recipe changes no stored message
        return [f"{problem.line}: {problem}".replace(str(path), "FILE").replace(*listed) for problem in problems]
    return ["valid"]


@pytest.mark.parametrize("recipe", sorted({case["recipe"] for case in CASES}))
def test_messages_and_lines_are_the_stored_ones(recipe, tmp_path):
    cases = [case for case in CASES if case["recipe"] == recipe]
    assert len(cases) > 90
    for case in cases:
        assert messages(recipe, case["edits"], tmp_path) == case["messages"], (case["kind"], case["edits"])


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            case["messages"] = messages(case["recipe"], case["edits"], Path(folder))
    rows = (json.dumps(case, ensure_ascii=False) for case in CASES)
    GOLDEN.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
