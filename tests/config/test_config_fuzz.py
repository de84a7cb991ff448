"""Whatever is read: a configuration or InvalidConfig, never anything else. Whatever can be written: on the page."""

import copy
import random
import re
from pathlib import Path

from discreet.config import CampaignConfig, example
from discreet.config.campaign import SCHEMA
from discreet.errors import BadInput, InvalidConfig

EXAMPLE = example()


def test_every_table_and_key_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs/reference/campaign-file.md").read_text(encoding="utf-8")
    for table in SCHEMA:
        part = re.search(rf"^## `\[{table}\]`\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
        assert part, table
        for key in CampaignConfig.SCHEMA.keys_of(table):
            assert re.search(rf"^\|[^|]*`{key}`", part[1], re.MULTILINE), (table, key)


PIECES = ["", "\0", "\n", '"', "'", *"[]{},=.#-9e\\é", "nan", "true", "'''"]
DEEP = "{a = {b = {c = {d = {e = {f = {g = {h = {i = 1}}}}}}}}}"
NUMBERS = ["0", "-1", "1e400", "1e-400", "nan", "inf", "9" * 30, "0x" + "f" * 40]
VALUES = [*NUMBERS, DEEP, "true", "''", "'auto'", "[]", "{}", "[[]]", "[{}]", "1979-05-27", "'\\ud800'", '"\\u0000"']
FORMS = [None, True, 0, -1, 10**40, 1e308, float("nan"), "", "x", "\ud800", "1e999", [], {}, [[]], {"a": []}, {"": 1}]


def mutated(text, chance):
    for _ in range(chance.choice([1, 1, 2, 5])):
        place = chance.randrange(len(text) + 1)
        match chance.randrange(5):
            case 0:
                text = text[:place] + chance.choice(PIECES) + text[place:]
            case 1:
                text = text[:place] + text[place + chance.choice([1, 2, 40]) :]
            case 2:
                other = chance.randrange(len(text) + 1)
                text = text[:place] + text[other : other + chance.choice([5, 60])] + text[place:]
            case _:  # another value for a key
                keys = list(re.finditer(r"(?m)^(\w+) = [^#\n]*", text))
                if keys:
                    found = chance.choice(keys)
                    text = f"{text[: found.start()]}{found[1]} = {chance.choice(VALUES)} {text[found.end() :]}"
    return text


def test_mutated_files_give_a_configuration_or_invalid_config():
    chance, read = random.Random(20), 0
    for _ in range(1000):
        text = mutated(EXAMPLE, chance)
        try:
            config = CampaignConfig.from_text(text)
        except InvalidConfig as error:
            assert error.fact
            assert all(line.isprintable() for line in str(error).split("\n"))
            assert error.line is None or 1 <= error.line <= text.count("\n") + 1
        else:
            read += 1
            assert CampaignConfig.from_json(config.to_json()) == config
    assert 100 < read < 900  # both kinds were met


def test_salted_forms_give_a_configuration_or_invalid_config():
    chance, form, refusals = random.Random(21), CampaignConfig.from_text(EXAMPLE).to_json(), 0
    for _ in range(1000):
        salted = copy.deepcopy(form)
        part = salted
        while isinstance(part, dict) and chance.random() < 0.8:
            key = chance.choice(list(part)) if part else "x"
            if isinstance(part.get(key), dict):
                part = part[key]
                continue
            part[key] = chance.choice(FORMS)
            break
        else:
            if isinstance(part, dict) and part:
                part[chance.choice([*part, "extra"])] = chance.choice(FORMS)
        try:
            CampaignConfig.from_json(salted)
        except BadInput as error:
            assert isinstance(error, InvalidConfig)
            refusals += 1
    assert refusals > 300
