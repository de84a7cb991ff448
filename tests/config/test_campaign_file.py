"""A campaign's file read, stored, written and read again; its errors at their lines."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from discreet.config import CampaignConfig, example
from discreet.errors import BadInput, BudgetExceeded, InvalidConfig

EXAMPLE = example()
LINES = EXAMPLE.splitlines()


def line_with(words, text=EXAMPLE):
    """The number of the only line that begins so."""
    (found,) = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(words)]
    return found


def changed(*changes, text=EXAMPLE):
    """The example with lines, found by their beginnings, replaced."""
    lines = text.splitlines()
    for words, line in changes:
        lines[line_with(words, text) - 1] = line
    return "\n".join(lines)


def refused(text):
    with pytest.raises(InvalidConfig) as caught:
        CampaignConfig.from_text(text, name="scan.toml")
    return caught.value


def test_the_example_is_valid_and_explains_every_key():
    config = CampaignConfig.from_text(EXAMPLE)
    assert config.name == "scans"
    assert config.plan.queries == (500,) * 4
    assert config.budget.budget().epsilon == 8
    for line in LINES:
        if " = " in line and not line.startswith("#"):
            assert "  # " in line or "] # " in line or "} # " in line, line
    assert max(map(len, LINES)) <= 120


def test_commented_parts_of_the_example_are_valid_too():
    text = EXAMPLE.replace("# [", "[").replace("# path", "path").replace("# chosen", "chosen")
    text = text.replace("# seed", "seed").replace("# init", "init")
    text = text.replace("# edges", "edges")
    config = CampaignConfig.from_text(text)
    assert (config.features.name, config.features.edges) == ("bins", 16)
    assert (config.initial.chosen, config.simulation.seed, config.model.init) == ("uniformly", 0, "weights.safetensors")


def test_an_example_of_another_name_is_refused():
    with pytest.raises(BadInput, match="The nearest is private-pool"):
        example("private_pool")


@pytest.mark.parametrize("written", ["1e-6", "'1e-6'", "0.000001", '"0.0000010"'])
def test_decimals_are_taken_as_written(written):
    config = CampaignConfig.from_text(changed(("delta = ", f"delta = {written}")))
    assert config.budget.delta == Decimal("0.000001")
    assert config == CampaignConfig.from_text(EXAMPLE)
    assert config.to_json() == CampaignConfig.from_text(EXAMPLE).to_json()


def test_a_decimal_that_no_float_holds_is_kept():
    config = CampaignConfig.from_text(changed(("epsilon = ", "epsilon = 7.10000000000000000000001")))
    assert str(config.budget.epsilon) == "7.10000000000000000000001"
    assert CampaignConfig.from_json(json.loads(json.dumps(config.to_json()))).budget.epsilon == config.budget.epsilon


FULL = changed(
    ("queries = ", "queries = [500, 300]\nmissed = ['0.2', 0.30]\nindividual_rates = true\nhigh_share = 0.4"),
    ("phases = ", ""),
    ("options = ", "options = { hidden = [64, 32], inner = { a = 1.5, b = 'x\"y', c = [true, {d = 1}] } }"),
    ("# ema = ", "augment = [{ name = 'shift', pixels = 2, fill = 0.5 }, { name = 'mycode:flip' }]\nviews = 2"),
    ("micro_batch = ", "class_weights = [1, 2.5, 3]\noptimizer_options = { momentum = 0.9 }"),
    ("kind = \"none\"", "kind = 'paid'\npath = 'held.parquet'\nlabels = 'held.csv'\nepsilon = 0.1\nevery = 2"),
    ("# [simulation]", "[simulation]\nseed = 9223372036854775807"),
    ("# [initial]", "[initial]\npath = 'old.csv'\nchosen = 'by-public-rule'"),
    ("[features]", ""),  # views are of records
    ("name = \"bins\"", ""),
)  # fmt: skip


@pytest.mark.parametrize("text", [EXAMPLE, FULL], ids=["example", "full"])
def test_stored_and_written_forms_read_back_equal(text):
    config = CampaignConfig.from_text(text)
    stored = json.dumps(config.to_json())
    assert CampaignConfig.from_json(json.loads(stored)) == config
    assert json.dumps(CampaignConfig.from_json(json.loads(stored)).to_json()) == stored
    assert CampaignConfig.from_text(config.to_toml()) == config
    assert config.to_json()["format"] == "discreet.campaign/1"


def test_a_stored_form_holds_defaults_and_no_machine_paths(tmp_path):
    (tmp_path / "scan.toml").write_text(EXAMPLE)
    form = CampaignConfig.read(tmp_path / "scan.toml").to_json()
    assert form["trainer"]["checkpoint_every"] == 50
    assert str(tmp_path) not in json.dumps(form)


@pytest.mark.parametrize("form", [None, [], 5, {1: 2}, {"format": "discreet.campaign/2"}, {"format": None}])
def test_a_form_that_is_none_of_ours_is_refused(form):
    with pytest.raises(InvalidConfig):
        CampaignConfig.from_json(form)


def test_paths_are_seen_from_the_folder_of_the_file(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "scan.toml").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    config = CampaignConfig.read("deep/scan.toml")
    assert config.resolve(config.pool.path) == tmp_path / "deep" / "pool.parquet"
    assert config.resolve("/data/x.npy") == Path("/data/x.npy")
    assert config.storage_url() == f"sqlite:///{tmp_path / 'deep' / 'scans.db'}"
    again = CampaignConfig.from_json(config.to_json(), directory=tmp_path / "deep")
    assert again.storage_url() == config.storage_url()


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("", "sqlite:////d/scans.db"),
        ("url = 'mine.db'", "sqlite:////d/mine.db"),
        ("url = 'sqlite:////x/y.db'", "sqlite:////x/y.db"),
        ("url = 'sqlite:///:memory:'", "sqlite:///:memory:"),
        ("url = 'postgresql://me@host/scans'", "postgresql://me@host/scans"),
    ],
)
def test_the_address_of_the_store(written, url):
    config = CampaignConfig.from_text(changed(("url = ", written)), directory=Path("/d"))
    assert config.storage_url() == url


def test_the_directory_of_a_database():
    def directory(written):
        return CampaignConfig.from_text(changed(("url = ", written)), directory=Path("/d")).storage_directory()

    assert directory("url = 'mine.db'") is None
    assert directory("url = 'postgresql://me@host/scans'") == Path("/d/scans.files")
    assert directory("url = 'postgresql://me@host/scans'\ndirectory = 'keys'") == Path("/d/keys")


def test_other_rooms_point_at_a_line():
    config = CampaignConfig.from_text(EXAMPLE, name="scan.toml")
    line = line_with('name = "entropy"')
    error = config.error("scorer.name", "there is no such score", "Choose margin")
    assert (error.line, error.fact, error.remedy) == (line, "there is no such score", "Choose margin")
    assert str(error) == f"scan.toml, line {line}: [scorer] name: there is no such score. Choose margin."
    assert config.error("scorer", "x").asked == f"scan.toml, line {line_with('[scorer]')}: [scorer]"
    assert config.error("scorer.clip", "x").line == line_with("[scorer]")  # left out: its table
    assert config.error("pool.columns.1", "x").asked.endswith("[pool] columns[1]")
    assert config.error("simulation.seed", "x").line is None
    assert config.error("name", "x").line == line_with('name = "scans"')
    stored = CampaignConfig.from_json(config.to_json())
    assert str(stored.error("plan.batch", "it is odd")) == "the stored campaign: [plan] batch: it is odd."


def test_errors_of_other_rooms_are_pointed_at_a_line():
    config = CampaignConfig.from_text(EXAMPLE, name="scan.toml")
    with (
        pytest.raises(
            InvalidConfig, match=r"\[model\] name: the model 'x': there is no such model. Give another."
        ) as e,
        config.pointing("model.name"),
    ):
        raise BadInput("the model 'x'", "there is no such model", "Give another")
    assert e.value.line == line_with('name = "linear"')
    with pytest.raises(BudgetExceeded), config.pointing("budget"):
        raise BudgetExceeded("a phase", requested=Decimal(2), remaining=Decimal(1), total=Decimal(8))


def test_syntax_errors_keep_their_line():
    error = refused(changed(("epsilon = ", "epsilon = 8 8")))
    line = line_with("epsilon = ")
    assert error.line == line
    assert str(error).startswith(f"scan.toml, line {line}: expected newline")
    assert refused("format = 'x'\n\n[pool\nsize = 3").line == 3
    assert refused('a = 1\nb = """\nc').line == 3  # the end of the file
    assert refused("[pool]\nsize = 1\nsize = 2").line == 3


def test_several_mistakes_come_together_in_the_order_of_lines():
    text = changed(
        ("delta = ", "delta = 2"), ("size = ", "size = 0"), ("[oracle]", "[orakel]"), ("# clip = ", "clip = 'x'")
    )
    error = refused(text)
    each = str(error).splitlines()
    assert error.line == line_with("size = ")
    assert [part.line for part in error.others[:-1]] == [line_with(w) for w in ("delta = ", "[oracle]", "# clip = ")]
    assert error.others[-1].line is None  # [oracle] is missing: no line to point at
    assert len(each) == 5
    assert "The nearest is oracle" in each[2]
    assert all(line.startswith("scan.toml") and line.endswith(".") for line in each)


def test_at_most_ten_mistakes_are_shown():
    error = refused("\n".join(f"key{number} = 1" for number in range(30)))
    each = str(error).splitlines()
    assert len(each) == 11
    assert each[-1] == "scan.toml: 29 more problems are not shown. Mend these first."  # 30, 2 at the top, 7 tables


def test_missing_tables_and_keys_are_named_with_where_they_belong():
    error = refused("format = 'discreet.campaign/1'\nname = 'a'\n[pool]\npath = 'x'\nkind = 'npy'\nid = 'position'")
    assert "line 3: [pool] size: it is missing. Add a line such as size = 20000" in str(error)
    assert "scan.toml: [budget]: the table is missing. Add [budget] with epsilon, delta." in str(error)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidConfig, match="nothing.toml: the file cannot be read: No such file"):
        CampaignConfig.read(tmp_path / "nothing.toml")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        CampaignConfig.read(tmp_path)
    with pytest.raises(InvalidConfig, match="no path"):
        CampaignConfig.read("a\0b")
    (tmp_path / "latin.toml").write_bytes("# a\n# é".encode("latin-1"))
    with pytest.raises(InvalidConfig, match="line 2: it is not UTF-8") as caught:
        CampaignConfig.read(tmp_path / "latin.toml")
    assert caught.value.line == 2
    (tmp_path / "large.toml").write_bytes(b"# " + b"a" * (1 << 20))
    with pytest.raises(InvalidConfig, match="larger than"):
        CampaignConfig.read(tmp_path / "large.toml")


def test_windows_files_are_read(tmp_path):
    (tmp_path / "windows.toml").write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    config = CampaignConfig.read(tmp_path / "windows.toml")
    assert config == CampaignConfig.from_text(EXAMPLE)
    assert config.error("plan.initial", "x").line == line_with("initial = ")


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "9" * 5000,
        "a = " + "[" * 100_000,
        "a = 0x" + "f" * 5000 + "\nname = 0x" + "f" * 20_000,
        changed(("epsilon = ", "epsilon = 1e99999999999999999999999")),
        changed(("epsilon = ", "epsilon = nan")),
        changed(("# clip = ", "clip = 1e999")),
        changed(("# clip = ", "clip = inf")),
        changed(("size = ", "size = 0x" + "f" * 5000)),
        changed(("delta = ", "delta = 1979-05-27")),
        changed(("name = \"scans\"", "name = '../x'")),
    ],
    ids=range(10),
)  # fmt: skip
def test_absurd_values_are_refused(text):
    assert len(str(refused(text))) < 3000
