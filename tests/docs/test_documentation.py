"""What the documentation says is run: every `$ discreet` command, every python block, every option's name.

Blocks stand for themselves, but for `STORIES`: their blocks run one after the other in one directory, TOML blocks are
written to the file that their first line names, and what a command prints is compared with the block below it.
"""

import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest
from documented import BLOCK, PAGES, ROOT, STORIES, all_blocks, blocks_of, commands, lines, same_output, shown_after

from discreet.cli.app import add_installed_commands, app, run

pytestmark = pytest.mark.thorough


def blocks(kind):
    return [pytest.param(one, id=one.name) for one in all_blocks() if one.kind == kind and one.page not in STORIES]


CONSOLE = [block for block in blocks("console") if any(commands(block.values[0].text))]


def by_rdp(arguments):
    """A preset's plan by PLD takes 3 to 15 seconds, by RDP one: the rest of the command is the same."""
    return [*arguments, "--accountant", "rdp"] if presets(arguments) else arguments


def presets(arguments):
    return "--preset" in arguments and "--accountant" not in arguments


@pytest.mark.parametrize("block", CONSOLE)
def test_commands_run(block, tmp_path, monkeypatch, capsys):
    """As they are written, but for `by_rdp`, and print what the page shows."""
    monkeypatch.chdir(tmp_path)
    for arguments in commands(block.text):
        assert run(by_rdp(arguments)) == 0, capsys.readouterr().err
    shown = shown_after(block)
    if shown is not None:
        printed = capsys.readouterr().out
        assert same_output(printed, shown), printed


@pytest.mark.long
@pytest.mark.parametrize("block", [block for block in CONSOLE if any(map(presets, commands(block.values[0].text)))])
def test_commands_of_presets_run_as_they_are_written(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments in commands(block.text):
        assert run(arguments) == 0, capsys.readouterr().err


@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as printed:
        warnings.simplefilter("error")
        exec(compile(block.text, "documentation", "exec"), {"__name__": "documentation"})
    shown = shown_after(block)
    if shown is not None:
        assert same_output(printed.getvalue(), shown), printed.getvalue()


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in STORIES])
def test_stories_run_from_their_beginning_to_their_end(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope, printed, compared = {"__name__": "documentation"}, "", 0
    for block in blocks_of(page):
        text = block.text
        capsys.readouterr()
        if block.kind == "toml" and text.startswith("# "):
            Path(text.splitlines()[0][2:]).write_text(text, encoding="utf-8")
        elif block.kind == "python":
            exec(compile(text, "documentation", "exec"), scope)
            printed = capsys.readouterr().out
        elif block.kind == "console":
            for arguments in commands(text):
                assert run(arguments) == 0, (arguments, capsys.readouterr().err)
            printed = "".join(capsys.readouterr())
        elif block.is_output:
            assert lines(printed) == lines(text)
            compared += 1
    assert compared


def verbs_of(command, name="discreet"):
    """Every verb with its full name, also those below another."""
    for part, verb in getattr(command, "commands", {}).items():
        yield f"{name} {part}", verb
        yield from verbs_of(verb, f"{name} {part}")


def test_every_verb_and_option_is_documented_and_has_an_example():
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    import typer

    add_installed_commands()
    verbs = dict(verbs_of(typer.main.get_command(app)))
    assert {"discreet plan", "discreet verify", "discreet ledger export"} <= set(verbs)
    for name, verb in verbs.items():
        assert name in page
        if not hasattr(verb, "commands"):
            assert f"Example: {name}" in verb.help
            assert any("--json" in option.opts for option in verb.params)
        for option in verb.params:
            for form in option.opts:
                if form.startswith("--"):
                    assert f"`{form}`" in page, form


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT / "docs")) in nav


def test_pages_name_no_machine_paths_or_hosts_of_a_registry():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(^|[^\w.])/(root|opt|work|home)/", text), page
        assert "pypi.org" not in text


def test_modules_that_the_flows_of_the_architecture_name_exist():
    flows = [line for line in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines() if line[:4] == "    "]
    named = [(line, re.findall(r"[\w/]+\.py|\b[a-z]+(?:/\w+)*/(?=,|$)", line)) for line in flows]
    assert sum(len(paths) for _, paths in named) > 60
    for line, paths in named:
        folder = Path()
        for path in paths:  # a file without a folder is in the folder of the one before it
            folder = Path(path).parent if "/" in path else folder
            assert (ROOT / "src/discreet" / folder / Path(path).name).exists(), line


def test_tests_and_files_that_pages_cite_exist():
    for page in PAGES:
        for path in re.findall(
            r"`((?:tests|src|research|benchmarks|docs)/[\w/.-]+\.(?:py|md))`", page.read_text(encoding="utf-8")
        ):
            assert (ROOT / path).exists(), (page, path)


def certificates():
    """One of each kind: committed to a plan, priced by PLD alone, a prepared stream, adaptive and signed."""
    from discreet import Budget, plan
    from discreet.privacy.certificate import certify
    from discreet.privacy.events import Laplace, PmfFamily
    from discreet.privacy.ledger import Ledger, Line, MemorySink, adaptive, committed, terms_of

    shape = {"epsilon": 4, "delta": "1e-5", "initial": 1000, "queries": [200], "batch": 100, "epochs": 3}
    made = plan(**shape, selection_epsilon=1, individual_rates=True, accountant="rdp")
    yield certify(Ledger.create(MemorySink(), terms_of(made)))
    rare = PmfFamily(present=((1 - 1e-6, 1e-6),), absent=((1.0, 0.0),))
    terms = committed(Budget(epsilon=1, delta="1e-5"), [Line(who="pool", event=rare)])
    yield certify(Ledger.create(MemorySink(), terms))
    yield certify(Ledger.create(MemorySink(), prepared_stream()))
    yield certify(replanned_ledger(made))
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=1, delta=0)))
    ledger.charge(event=Laplace(epsilon="0.1"), who="pool", why="count")
    signature = {"algorithm": "ed25519", "public_key": "00" * 32, "value": "00" * 64}
    yield certify(ledger) | {"signature": signature}


def prepared_stream():
    """A stream whose paid preparation is a block before the branch."""
    from discreet import Budget
    from discreet.privacy.events import Gaussian
    from discreet.stream import BernoulliAsking, GaussianNoise, stream_terms

    return stream_terms(
        Budget(epsilon=8, delta="1e-5"),
        asking=BernoulliAsking(epsilon=1),
        noise=GaussianNoise(noise_multiplier=2.0),
        preparation=[Gaussian(noise_multiplier=4.0)],
        preparation_delta="1e-6",
    )


def replanned_ledger(made):
    """Committed to a plan, and left after its first phase because of what was released."""
    from discreet.planning.replanning import Rest, continued_plan
    from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, terms_of
    from discreet.privacy.ledger.admission import filter_order
    from discreet.privacy.ledger.terms import Continued, continued_budget

    ledger = Ledger.create(MemorySink(), terms_of(made))
    line = ledger.terms.lines[0]
    ledger.charge(event=line.event, count=line.count, who=line.who, why=ChargeReason(purpose="training"))
    budget, kept = continued_budget(made.budget, made.budget.epsilon, "released", first=True)
    rest = Rest(
        plan=made,
        done=1,
        queries=(),
        budget=budget,
        orders=(filter_order(ledger.terms, budget.epsilon),),
        continued=Continued(because="released", kept=kept),
        entries=ledger.entries,
    )
    ledger.amend(continued_plan(rest)[1], phase=1)
    return ledger


def test_the_schema_of_certificates_is_the_one_on_the_page_and_fits_what_we_write():
    import json

    import jsonschema

    text = (ROOT / "docs/reference/certificate.schema.json").read_text(encoding="utf-8")
    page = (ROOT / "docs/reference/certificate-format.md").read_text(encoding="utf-8")
    shown = [json.loads(found[3]) for found in BLOCK.finditer(page) if found[2] == "json"]
    assert json.loads(text) in shown
    checker = jsonschema.Draft202012Validator(json.loads(text))
    checker.check_schema(json.loads(text))
    for form in certificates():
        checker.validate(form)
        for name in ("claim", "budget", "trajectories", "ledger", "digest"):
            assert not checker.is_valid({key: value for key, value in form.items() if key != name})
        assert not checker.is_valid(form | {"extra": 1})


NO_MODEL = ("docs/howto/stop-a-campaign.md", "docs/reference/selection.md", "docs/reference/cli.md")
"""Their figures are those of rules, selections and plans."""


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in [*PAGES, *sorted((ROOT / "benchmarks/results").glob("*.md"))]
        if not str(page.relative_to(ROOT)).startswith((*NO_MODEL, "docs/decisions", "docs/proofs"))
    ],
    ids=lambda page: page.stem,
)
def test_accuracies_stand_beside_the_majority_baseline(page):
    """79% looks good beside a constant answer that has 78%."""
    text = page.read_text(encoding="utf-8")
    figures = re.search(r"^\|.*\d\d\.\d|\d\.\d%|accuracy \d|accuracy above", text, re.MULTILINE)
    if figures and re.search(r"\baccurac(y|ies)\b", text, re.IGNORECASE):
        assert re.search(r"majority|largest class|constant answer", text, re.IGNORECASE)
