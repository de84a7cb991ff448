"""The schema of [pool]: in the campaign's file or beside it, every mistake at its line."""

import json
from pathlib import Path

import pytest

from discreet.config import CampaignConfig, example
from discreet.errors import InvalidConfig
from discreet.pools import Schema

AGE = 'type = "number"\nlow = 17\nhigh = 90\n'
POOL = '[pool]\npath = "people.csv"\nkind = "csv"\nsize = 20000\nid = "id"\n'


def campaign(pool: str) -> str:
    text = example()
    start = text.index("[pool]")
    stop = text.index("\n[", start)
    return text[:start] + pool + text[stop:]


def test_a_schema_stands_in_the_file_or_beside_it(tmp_path: Path) -> None:
    inside = CampaignConfig.from_text(
        campaign(POOL + f"[pool.schema.job]\ntype = 'category'\nvalues = ['b', 'a']\n[pool.schema.age]\n{AGE}")
    )
    (tmp_path / "schema.toml").write_text(f"[job]\ntype = 'category'\nvalues = ['b', 'a']\n[age]\n{AGE}")
    beside = CampaignConfig.from_text(campaign(POOL + 'schema = "schema.toml"\n'), directory=tmp_path)
    assert inside == beside
    assert inside.pool.schema.names == ("job", "age")
    stored = json.loads(json.dumps(beside.to_json(), sort_keys=True))
    assert CampaignConfig.from_json(stored) == inside
    assert CampaignConfig.from_text(inside.to_toml()) == inside


def test_every_mistake_of_both_files_is_told_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text('[age]\ntype = "number"\nlow = 9\nhigh = 1\n[job]\ntype = "word"\n')
    text = campaign(POOL.replace("20000", "0") + 'schema = "schema.toml"\n')
    with pytest.raises(InvalidConfig) as refused:
        CampaignConfig.from_text(text, name="c.toml", directory=tmp_path)
    line = text.split("\n").index('schema = "schema.toml"') + 1
    told = str(refused.value).split("\n")
    assert len(told) == 3
    assert told[1].startswith(
        f"c.toml, line {line}: [pool] schema: schema.toml, line 3: [age] low: low = 9.0 is not below"
    )
    assert "schema.toml, line 6: [job] type: there is no 'word'" in told[2]


def test_mistakes_in_the_file_are_told_at_their_lines() -> None:
    text = campaign(
        POOL + '[pool.schema.age]\ntype = "number"\nlow = 9\nhigh = "a"\n[pool.schema.job]\ntype = "word"\n'
    )
    with pytest.raises(InvalidConfig) as refused:
        CampaignConfig.from_text(text, name="c.toml")
    lines = [text.split("\n").index(line) + 1 for line in ('high = "a"', 'type = "word"')]
    assert [told.split(": ")[0] for told in str(refused.value).split("\n")] == [
        f"c.toml, line {line}" for line in lines
    ]


def test_a_schema_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="no such file"):
        CampaignConfig.from_text(campaign(POOL + 'schema = "other.toml"\n'), directory=tmp_path)
    with pytest.raises(InvalidConfig, match="not a table of columns"):
        CampaignConfig.from_text(campaign(POOL + "schema = 3\n"), directory=tmp_path)


@pytest.mark.parametrize("spare", ["columns = ['age']", "text = 'age'", "center = 2", "scale = [2.0]", "shape = [1]"])
def test_what_the_schema_declares_is_declared_once(spare: str) -> None:
    with pytest.raises(InvalidConfig, match="the schema declares"):
        CampaignConfig.from_text(campaign(f"{POOL}{spare}\n[pool.schema.age]\n{AGE}"))


def test_a_pool_of_arrays_in_a_file_has_no_schema() -> None:
    text = POOL.replace("csv", "npz") + "array = 'x'\n"
    with pytest.raises(InvalidConfig, match="a pool of kind npz has none"):
        CampaignConfig.from_text(campaign(f"{text}[pool.schema.age]\n{AGE}"))


def test_the_schema_of_a_config_is_a_schema() -> None:
    config = CampaignConfig.from_text(campaign(f"{POOL}[pool.schema.age]\n{AGE}"))
    assert config.pool.schema == Schema.of({"age": {"type": "number", "low": 17, "high": 90}})
