"""A stream's file read, stored, written and read again; its errors at their lines; every key on its page."""

import json
import random
import re
from decimal import Decimal
from pathlib import Path

import pytest

from discreet.config import CampaignConfig, StreamConfig, example
from discreet.config.schema import format_of
from discreet.config.stream import STREAM
from discreet.errors import InvalidConfig

EXAMPLE = example("stream")
LINES = EXAMPLE.splitlines()


def changed(*changes):
    lines = EXAMPLE.splitlines()
    for words, line in changes:
        (place,) = [number for number, found in enumerate(lines) if found.startswith(words)]
        lines[place] = line
    return "\n".join(lines)


def refused(text):
    with pytest.raises(InvalidConfig) as caught:
        StreamConfig.from_text(text, name="pay.toml")
    return caught.value


def line_with(words, text):
    (found,) = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(words)]
    return found


def test_the_example_is_valid_and_explains_every_key():
    config = StreamConfig.from_text(EXAMPLE)
    assert (config.name, config.task.classes, config.budget.epsilon) == ("payments", ("ok", "fraud"), Decimal(2))
    assert config.window.asked == 10
    for line in LINES:
        if " = " in line and not line.startswith("#"):
            assert "  # " in line or "} # " in line, line
    assert max(map(len, LINES)) <= 120


def test_commented_parts_of_the_example_are_valid_too():
    text = re.sub(r"(?m)^# (\[|epsilon|window|records|seed|path|components|noise_multiplier)", r"\1", EXAMPLE)
    config = StreamConfig.from_text(text.replace('delta = "0"', 'delta = "1e-6"'))
    assert (config.preparation.components, config.preparation.records) == (2, "held-out")
    assert (config.drift.window, config.redis.records, config.simulation.seed) == (200, "payments", 0)


FULL = """
format = "discreet.stream/1"
name = "all"
[records]
columns = ["a", "b"]
center = [0, 1.5]
scale = 2
choices = { c = ["x", "y"], d = ["1", "2", "3"] }
radius = 2.0
id = "key"
label = "truth"
[preparation]
path = "month.jsonl"
records = "arriving"
components = 4
norm = 2.0
noise_multiplier = 8.0
delta = "4e-8"
[task]
classes = ["a", "b", "c"]
[budget]
epsilon = 1.25
delta = "1e-7"
[asking]
name = "exponential"
epsilon = "0.5"
form = "ours"
missed = "0.7"
[slab]
name = "balanced"
width = 0.3
shares = [0.9, 0.09, 0.01]
strength = 0.7
[window]
name = "sliding"
arrivals = 50
[learning]
loss = "softmax"
step = "constant"
step_size = 0.1
regularization = 0
ball = 3.0
patience = 1000
[noise]
name = "gaussian"
noise_multiplier = 4.5
[drift]
epsilon = "0.1"
window = 100
most = 0.3
[publish]
directory = "out"
every = 10
keep = 3
file = "safetensors"
[service]
directory = "here"
batch = 100
skip_malformed = true
[redis]
records = "r"
labels = "l"
decisions = "d"
group = "g"
most_waiting = 5
[simulation]
seed = 3
"""


_DECLARED = FULL[FULL.index("columns = ") : FULL.index("radius")]
ON_TABLES = FULL.replace(_DECLARED, 'schema = { a = { type = "number", low = 0, high = 9 } }\n')
ON_TABLES += '[features]\nname = "random-fourier"\nsize = 8\nbase = "bins"\npublic = "rows.csv"\n'
ON_TEXTS = FULL.replace(_DECLARED, 'text = "said"\n') + '[features]\nname = "hashed-text"\n'
PERSONS = EXAMPLE.replace("[records]   ", '[records]\nperson = "customer" ')
PERSONS = PERSONS.replace("[budget]   ", '[budget]\nunit = "person"\nrecords = 5 ')


@pytest.mark.parametrize(
    "text", [EXAMPLE, FULL, PERSONS, ON_TABLES, ON_TEXTS], ids=["example", "full", "persons", "tables", "texts"]
)
def test_stored_and_written_forms_read_back_equal(text):
    config = StreamConfig.from_text(text)
    stored = json.dumps(config.to_json())
    assert StreamConfig.from_json(json.loads(stored)) == config
    assert json.dumps(StreamConfig.from_json(json.loads(stored)).to_json()) == stored
    assert StreamConfig.from_text(config.to_toml()) == config
    assert config.to_json()["format"] == "discreet.stream/1"


def keys_of(table):
    """Options of feature maps are on the page of campaigns."""
    return ["name", "public", "base"] if table == "features" else STREAM.keys_of(table)


def test_the_full_file_has_every_key_of_the_schema():
    form = StreamConfig.from_text(FULL).to_json()
    optional = {("asking", "asked"), ("asking", "low"), ("slab", "power"), ("slab", "least"), ("window", "asked")}
    optional |= {("noise", "epsilon"), ("records", "preparation")}
    persons = StreamConfig.from_text(PERSONS).to_json()  # who are not prepared for
    assert (persons["records"]["person"], persons["budget"]["records"]) == ("customer", 5)
    optional |= {("records", "person"), ("budget", "records")}
    features = StreamConfig.from_text(ON_TABLES).to_json()
    assert StreamConfig.from_text(ON_TEXTS).records.text == "said"
    assert features["records"]["schema"]["columns"][0]["name"] == "a"
    optional |= {("records", "schema"), ("records", "text")}
    form["features"] = features["features"]
    for table in STREAM.tables:
        for key in keys_of(table):
            assert key in form[table] or (table, key) in optional, (table, key)


def test_every_table_and_key_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs/reference/stream-file.md").read_text(encoding="utf-8")
    for table in STREAM.tables:
        part = re.search(rf"^## `\[{table}\]`\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
        assert part, table
        for key in keys_of(table):
            assert re.search(rf"^\|[^|]*`{key}`", part[1], re.MULTILINE), (table, key)


MISTAKES = [
    (("name = \"payments\"", "nme = 'x'"), "name", "missing"),
    (("columns = ", "columns = []"), "[records] columns", "1 to"),
    (("columns = ", "columns = ['amount', 'amount']"), "[records] columns[1]", "twice"),
    (("columns = ", "columns = ['id', 'hour']"), "[records] id", "a feature has this name"),
    (("columns = ", "columns = ['amount', 'country']"), "[records] choices", "declared twice"),
    (("center = ", "center = [1.0]"), "[records] center", "1 numbers for 2 columns"),
    (("scale = ", "scale = [1.0, 0.0]"), "[records] scale", "not above 0"),
    (("scale = ", "scale = 'auto'"), "[records] scale", "number"),
    (("choices = ", "choices = { country = 'de' }"), "[records] choices.country", "not a list"),
    (("classes = ", "classes = ['fraud']"), "[task] classes", "2 to"),
    (("classes = ", "classes = 'auto'"), "[task] classes", "tell which ones occur"),
    (("epsilon = ", "epsilon = 0"), "[budget] epsilon", "above 0"),
    (("delta = ", "delta = 1"), "[budget] delta", "below 1"),
    (('name = "one-sided"', "name = 'exponential'"), "[asking] epsilon", "missing"),
    (('name = "one-sided"', "name = 'onesided'"), "[asking] name", "no 'onesided'"),
    (("low = ", "low = 1.5"), "[asking] low", "between 0 and 1"),
    (("width = ", "least = 0.1\nwidth = 0.2"), "[slab] least", "fixed has no such option"),
    (("asked = 10", "asked = 0"), "[window] asked", "whole number"),
    (("asked = 10", "# nothing"), "[window] asked", "missing"),
    (("loss = ", "loss = 'squared'"), "[learning] loss", "no 'squared'"),
    (("step_size = ", "step_size = -1"), "[learning] step_size", "number"),
    (('name = "gamma"', "name = 'gaussian'"), "[budget] delta", "no guarantee at delta 0"),
    (('name = "gamma"', "name = 'gamma'\nnoise_multiplier = 2"), "[noise] noise_multiplier", "no such option"),
    (("every = ", "each = 2"), "[publish] each", "no such key"),
    (("directory = ", "batch = 100000"), "[service] batch", "whole number"),
    (("[slab]", "[slabs]"), "[slabs]", "no such table"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "where", "what"), MISTAKES, ids=[f"{one[1]}: {one[2]}" for one in MISTAKES])
def test_every_mistake_points_at_its_line(change, where, what):
    text = changed(change)
    error = refused(text)
    found = next(one for one in (error, *error.others) if f": {where}" in one.asked)
    assert what in found.fact + found.remedy
    key = where.rpartition(" ")[2].split(".")[0].split("[")[0]
    keys = [line for line in change[1].split("\n") if line.startswith(f"{key} =")]
    if keys:
        assert found.line == line_with(keys[-1], text)
        assert f"pay.toml, line {found.line}" in found.asked


def test_all_mistakes_are_told_at_once_in_the_order_of_lines():
    error = refused(changed(("scale = ", "scale = 0"), ("classes = ", "classes = 3"), ("width = ", "width = 'wide'")))
    lines = [one.line for one in (error, *error.others)]
    assert len(lines) == 3
    assert lines == sorted(lines)


def test_files_of_campaigns_and_streams_are_told_apart(tmp_path):
    with pytest.raises(InvalidConfig, match="discreet stream"):
        CampaignConfig.from_text(EXAMPLE)
    assert "a campaign's file" in refused(example()).fact
    (tmp_path / "pay.toml").write_text(EXAMPLE)
    (tmp_path / "none.toml").write_text("format = ")
    assert format_of(tmp_path / "pay.toml") == "discreet.stream/1"
    assert format_of(tmp_path / "none.toml") is format_of(tmp_path / "missing.toml") is None


def test_paths_are_seen_from_the_folder_of_the_file(tmp_path):
    config = StreamConfig.from_text(EXAMPLE, directory=tmp_path)
    assert config.directory == tmp_path / "payments.stream"
    assert config.models == tmp_path / "payments.stream" / "models"
    assert StreamConfig.from_text(FULL, directory=tmp_path).models == tmp_path / "out"
    short = changed(("directory = ", "# none"))
    assert StreamConfig.from_text(short, directory=tmp_path).directory == tmp_path / "payments.stream"


def test_whatever_is_read_is_a_configuration_or_invalid_config():
    chance, read = random.Random(4), 0
    values = [
        "0",
        "-1",
        "nan",
        "'x'",
        "[]",
        "{}",
        "true",
        "1e400",
        "[1, 2]",
        "{ a = ['b'] }",
        "1979-05-27",
        "'\\ud800'",
    ]
    for _ in range(600):
        lines = EXAMPLE.splitlines()
        for _ in range(chance.choice([1, 1, 3])):
            place = chance.randrange(len(lines))
            match chance.randrange(3):
                case 0:
                    del lines[place]
                case 1:
                    lines[place] = lines[place][: chance.randrange(len(lines[place]) + 1)]
                case _ if " = " in lines[place]:
                    lines[place] = f"{lines[place].partition(' = ')[0]} = {chance.choice(values)}"
        try:
            config = StreamConfig.from_text("\n".join(lines))
        except InvalidConfig as error:
            assert error.fact
        else:
            assert isinstance(config, StreamConfig)
            assert StreamConfig.from_text(config.to_toml()) == config
            read += 1
    assert read > 20
