"""No block of the documentation is left alone: it is run, compared with what was printed, checked, or says why not.

`not_run.toml` is the one place for the last. Commands that a page only shows are parsed; those about a campaign that
its reader has are run on one; what a page shows of a refusal is compared with the refusal.
"""

import json
import re
import shutil
import tomllib

import numpy as np
import pyarrow as pa
import pytest
import tomli_w
from documented import BLOCKS_NOT_RUN, ROOT, RUN, STORIES, VERBS_NOT_RUN, all_blocks, commands, is_named, lines
from pyarrow import parquet

from discreet.cli.app import add_installed_commands, app, run
from discreet.config import EXAMPLES, CampaignConfig, PateConfig, StreamConfig, example
from discreet.errors import DiscreetError
from discreet.parts import RECIPES

pytestmark = pytest.mark.thorough

BLOCKS = list(all_blocks())
ON_A_CAMPAIGN = {  # pages whose readers have a campaign: what they show is run on the one below
    "docs/howto/export-a-model.md",
    "docs/howto/keep-a-log.md",
    "docs/howto/report-on-a-campaign.md",
    "docs/howto/run-a-campaign.md",
    "docs/howto/withdraw-records.md",
}
PARTS = ("file", "commands", "cost", "released", "audit", "stop")
FILE = """
format = "discreet.campaign/1"
name = "{name}"
[pool]
path = "{name}.{kind}"
kind = "{kind}"
id = "scan"
{columns}
size = 60
[task]
kind = "binary"
classes = ["healthy", "ill"]
[budget]
epsilon = 8
delta = "1e-3"
[recipe]
name = "private-pool"
[plan]
initial = 16
queries = [8]
batch = 8
epochs = 2
accountant = "rdp"
[oracle]
name = "simulated"
path = "labels.csv"
[model]
name = "linear"
[simulation]
seed = 1
"""


def shown_commands(block):
    """Commands that are shown and not run: after `$`, or alone in a block of a shell."""
    if block.kind in ("sh", "bash"):
        return list(commands("".join(f"$ {line}\n" for line in block.text.replace("\\\n", " ").splitlines())))
    return list(commands(block.text)) if block.kind == "text" else []


def is_refusal(block):
    """A command, and below it what it says."""
    found = block.text.strip().splitlines()
    return block.kind == "text" and found[0].startswith("$ discreet") and not any(f[0] == "$" for f in found[1:] or "$")


def is_on_a_campaign(block):
    here = block.key[0] in ON_A_CAMPAIGN and block.reason is None and not is_refusal(block)
    return here and (block.kind == "py" or (block.kind == "text" and bool(shown_commands(block))))


def is_of_verbs(block):
    found = shown_commands(block)
    return bool(found) and all(words[0] in VERBS_NOT_RUN for words in found)


def is_a_file_of_a_story(block):
    return block.page in STORIES and block.kind == "toml" and block.text.startswith("# ")


def kind_of(block):
    checks = {
        "run": block.kind in RUN or is_a_file_of_a_story(block),
        "compared": block.is_output,
        "not run, on purpose": block.reason is not None,
        "a verb that is not run": is_of_verbs(block),
        "a refusal": is_refusal(block),
        "on a campaign": is_on_a_campaign(block),
        "a part of a file": block.kind == "toml",
        "a stored form": block.kind == "json",
        "the tree of errors": block.text.startswith("DiscreetError\n"),
    }
    return next((name for name, holds in checks.items() if holds), None)


def those(kind):
    return [pytest.param(block, id=block.name) for block in BLOCKS if kind_of(block) == kind]


def test_every_block_is_classified():
    assert [block.name for block in BLOCKS if kind_of(block) is None] == []
    assert {kind_of(block) for block in BLOCKS} >= {"run", "compared", "a refusal", "on a campaign", "a part of a file"}


def test_what_is_not_run_is_there_and_says_why():
    keys = {block.key for block in BLOCKS}
    for one in BLOCKS_NOT_RUN:
        assert sum(is_named(one, *key) for key in keys) == 1, one
        assert one["reason"]
    for verb, reason in VERBS_NOT_RUN.items():
        assert verb in verbs().commands
        assert reason


def verbs():
    import typer

    add_installed_commands()
    return typer.main.get_command(app)


def parsed(words):
    """Whether the command line takes these words; nothing is run."""
    command = verbs()
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    return command.make_context(name, list(words)) is not None


@pytest.mark.parametrize("block", [pytest.param(b, id=b.name) for b in BLOCKS if shown_commands(b)])
def test_commands_that_are_shown_would_be_taken(block):
    for words in shown_commands(block):
        if not is_refusal(block):
            assert parsed(words)


def test_a_command_that_is_gone_is_found():
    with pytest.raises(Exception, match="nonsense"):
        parsed(["status", "scans.toml", "--nonsense"])
    with pytest.raises(KeyError):
        parsed(["guess", "scans.toml"])


def write_pool(place, name, kind):
    x, ids = np.random.default_rng(0).normal(size=(60, 2)), [f"scan-{number:04}" for number in range(60)]
    if kind == "npz":
        np.savez(place / f"{name}.npz", scan=np.array(ids), x=x)
    else:
        table = {"scan": ids, "person": [f"p-{number // 3 + 195}" for number in range(60)], "a": x[:, 0], "b": x[:, 1]}
        parquet.write_table(pa.table(table), place / f"{name}.parquet")
    labels = "".join(f"{one},{'ill' if row[0] > 0 else 'healthy'}\n" for one, row in zip(ids, x, strict=True))
    (place / "labels.csv").write_text("record,label\n" + labels, encoding="utf-8")
    return x


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """What readers of those pages have: `scans`, `digits` and `people`, trained to their end, and their other files."""
    place = tmp_path_factory.mktemp("campaigns")
    for name, kind in (("scans", "parquet"), ("digits", "npz"), ("people", "parquet")):
        x = write_pool(place, name, kind)
        columns = 'columns = ["a", "b"]' if kind == "parquet" else 'array = "x"'
        text = FILE.format(name=name, kind=kind, columns=columns)
        if name == "people":
            text = text.replace("size = 60", 'size = 60\nperson = "person"\npersons = 20')
            text = text.replace('delta = "1e-3"', 'delta = "1e-3"\nunit = "person"\nrecords_per_person = 3')
            text = text.replace("initial = 16", "initial = 10")
            text = text.replace("queries = [8]", "queries = [5]").replace("batch = 8", "batch = 5")
        (place / f"{name}.toml").write_text(text, encoding="utf-8")
        assert run(["init", str(place / f"{name}.toml")]) == 0
        assert run(["run", str(place / f"{name}.toml")]) == 0
    np.savez(place / "new.npz", scan=np.array([f"new-{number}" for number in range(5)]), x=x[:5])
    table = {"scan": ["march-1", "march-2"], "person": ["p-1", "p-2"], "a": [0.1, 0.2], "b": [0.3, 0.4]}
    parquet.write_table(pa.table(table), place / "march.parquet")
    (place / "requests.txt").write_text("scan-0003\nscan-0004\n", encoding="utf-8")
    assert run(["ledger", "keygen", str(place / "signing.pem")]) == 0
    return place


@pytest.mark.thorough
@pytest.mark.parametrize("block", those("on a campaign"))
def test_what_is_shown_runs_on_a_campaign(block, campaigns, tmp_path, monkeypatch, capsys):
    here = shutil.copytree(campaigns, tmp_path / "here")
    monkeypatch.chdir(here)
    if block.kind == "py":
        exec(compile(block.text, block.name, "exec"), {"__name__": "documentation"})
    for words in shown_commands(block):
        code, said = run(words), capsys.readouterr().err
        assert code == 0 or "Nothing is left to do" in said, (words, said)  # the campaign is at its end


@pytest.mark.parametrize("block", those("a refusal"))
def test_refusals_say_what_is_shown(block, tmp_path, monkeypatch, capsys):
    from discreet import create_ledger
    from discreet.privacy.certificate import certify, write_certificate

    monkeypatch.chdir(tmp_path)
    with create_ledger("a.ledger", epsilon=1, delta=0, seed=0) as ledger:
        form = certify(ledger)
    write_certificate(form, tmp_path / "edited.json")
    text = (tmp_path / "edited.json").read_text()
    (tmp_path / "edited.json").write_text(text.replace('"simulation": true', '"simulation": false'))
    (words,) = commands(block.text)
    assert run(words) in (1, 2)
    printed = "".join(capsys.readouterr())
    assert lines(printed) == lines(block.text)[1:]


@pytest.mark.parametrize("block", those("a part of a file"))
def test_parts_of_files_have_keys_that_exist(block, tmp_path):
    part = tomllib.loads(block.text)
    fits = []
    files = {"private-pool": CampaignConfig, "stream": StreamConfig, "pate": PateConfig}
    for name, kind in files.items():
        whole = tomllib.loads(example(name))
        for table, values in part.items():
            whole[table] = whole.get(table, {}) | values
        try:
            kind.from_text(tomli_w.dumps(whole), directory=tmp_path)
        except DiscreetError as problem:
            fits.append("there is no such" not in str(problem))
        else:
            fits.append(True)
    assert any(fits)


@pytest.mark.parametrize("block", those("a stored form"))
def test_stored_forms_are_json(block):
    assert isinstance(json.loads(block.text), dict)


@pytest.mark.parametrize("block", those("the tree of errors"))
def test_the_tree_of_errors_is_the_tree(block):
    from discreet import errors

    def below(kind):
        return {kind.__name__}.union(*(below(one) for one in kind.__subclasses__()))

    public = {name for name in below(errors.DiscreetError) if hasattr(errors, name)}
    words = {line.strip("│├└─ ").split()[0] for line in block.text.strip().splitlines()}
    assert words == public


@pytest.mark.parametrize("recipe", EXAMPLES)
def test_every_recipe_has_a_page_that_says_all(recipe):
    """File, commands, cost, what is released to whom, how to audit, how to stop: one table a recipe."""
    page = (ROOT / "docs/howto" / RECIPES[recipe].guide).read_text(encoding="utf-8")
    table = page.split("## In one table")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\w+) \|", table, flags=re.MULTILINE) == list(PARTS)
    assert f"--example {recipe}`" in table
