"""`discreet plan` as a user meets it: through the installed entry point's code, in this process."""

import json

import pytest

from discreet.cli.app import run
from discreet.privacy.plan_files import read_plan

SIZES = ["--initial", "10000", "--queries", "3750,3750,3750,3750", "--batch", "4096", "--epochs", "30"]
EXAMPLE = ["plan", "--epsilon", "8", "--delta", "4e-5", *SIZES]


def call(capsys, *arguments):
    code = run([*map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_known_answer_through_the_command(capsys):
    code, out, _ = call(capsys, *EXAMPLE, "--schedule", "naive", "--accountant", "rdp", "--whole-batches", "--json")
    assert code == 0
    made = json.loads(out)
    assert made["noise_multiplier"] == pytest.approx(4.08, abs=1e-3)
    assert made["trajectories"][0]["epsilon_pld"] is None


def test_the_issues_example(capsys):
    arguments = [*EXAMPLE, "--schedule", "step-amplification", "--selection-epsilon", "2", "--json"]
    code, out, err = call(capsys, *arguments)
    assert code == 0
    made = json.loads(out)
    assert all(0 < path["epsilon_pld"] <= 8 for path in made["trajectories"])
    assert max(path["epsilon_pld"] for path in made["trajectories"]) >= 8 * 0.995
    assert made["warnings"]
    assert "1/(10 x 25000 records)" in err


def test_the_table_names_claim_relation_and_audience(capsys):
    code, out, _ = call(capsys, *EXAMPLE, "--accountant", "rdp", "--selection-epsilon", "2", "--individual-rates")
    assert code == 0
    for words in ("zero-out", "committed", "Audience: public", "never-asked", "phase-4/low", "per record"):
        assert words in out


def test_a_hidden_selection_says_that_asked_sets_are_not_released(capsys):
    hidden = ["--accountant", "rdp", "--selection", "hidden", "--threshold-epsilon", "0.05"]
    code, out, _ = call(capsys, *EXAMPLE, *hidden)
    assert code == 0
    assert "committed mode; asked sets are not" in out
    assert "Assumed: asked sets are not released, nor how many" in out
    assert "slots" in out
    code, out, _ = call(capsys, "plan", "--preset", "dpal-cifar10", *hidden, "--json")
    assert code == 0
    assert json.loads(out)["selection"]["hidden"]["bins"] == 64
    code, _, err = call(capsys, *EXAMPLE, *hidden, "--selection-epsilon", "1")
    assert code == 2
    assert "choose one-sided" in err


@pytest.mark.parametrize("name", ["cifar10", "bloodcell", "retinaloct", "chexpert", "snli"])
def test_presets(capsys, name):
    code, out, _ = call(capsys, "plan", "--preset", f"dpal-{name}", "--accountant", "rdp", "--json")
    assert code == 0
    assert json.loads(out)["selection"]["epsilon"] == 2
    assert len(json.loads(out)["phases"]) == 5


def test_an_option_overrides_a_preset(capsys):
    _, out, _ = call(capsys, "plan", "--preset", "dpal-snli", "--epsilon", "3", "--accountant", "rdp", "--json")
    assert json.loads(out)["budget"]["epsilon"] == 3


def test_compare_shows_all_schedules_and_prices(capsys):
    code, out, _ = call(capsys, *EXAMPLE, "--accountant", "rdp", "--compare", "--selection-epsilon", "2", "--json")
    assert code == 0
    form = json.loads(out)
    assert form["format"] == "discreet.plan-comparison/1"
    rows = {row["label"]: row for row in form["schedules"]}
    assert list(rows) == ["naive", "step-amplification", "noise-reduction", "continual", "scout"]
    assert rows["step-amplification"]["mean_participations"] > rows["naive"]["mean_participations"]
    prices = {row["label"]: row for row in form["prices"]}
    assert prices["1,000 more labels"]["labels"] == 26000
    assert prices["half of epsilon"]["noise_multiplier"] > prices["as asked"]["noise_multiplier"]
    code, out, _ = call(capsys, *EXAMPLE, "--accountant", "rdp", "--compare")
    assert code == 0
    assert "Price list" in out
    assert "one more phase" in out


def test_an_infeasible_row_of_a_comparison_says_why(capsys):
    arguments = [*EXAMPLE, "--accountant", "rdp", "--compare", "--pool-size", "25000"]
    code, out, _ = call(capsys, *arguments)
    assert code == 0
    assert "not feasible" in out
    assert "pool of 25000" in out


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_out_stores_the_plan_that_was_shown(capsys, tmp_path, suffix):
    path = tmp_path / f"plan{suffix}"
    code, out, _ = call(capsys, *EXAMPLE, "--accountant", "rdp", "--json", "--out", path)
    assert code == 0
    assert read_plan(path).to_json() | {"warnings": json.loads(out)["warnings"]} == json.loads(out)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_plot_draws_a_file(capsys, tmp_path, suffix):
    path = tmp_path / f"plan{suffix}"
    code, _, _ = call(capsys, *EXAMPLE, "--accountant", "rdp", "--selection-epsilon", "2", "--plot", path)
    assert code == 0
    assert path.stat().st_size > 5000


def test_one_phase(capsys):
    arguments = (
        "plan --epsilon 1 --delta 1e-7 --initial 500 --queries none --batch 50 --epochs 4 --accountant rdp --json"
    )
    code, out, _ = call(capsys, *arguments.split())
    assert code == 0
    assert [path["name"] for path in json.loads(out)["trajectories"]] == ["initial", "never-asked"]


BAD = [
    "--epsilon eight",
    "--epsilon 0",
    "--epsilon nan",
    "--delta 2",
    "--batch 20000",
    "--batch 0",
    "--initial -3",
    "--queries 1,,2",
    "--queries 3750x",
    "--queries 200x0",
    "--queries=",
    "--selection-epsilon=",
    "--epsilon 1_0",
    "--epsilon \u0668",
    "--queries \u0663",
    "--delta 0.5",
    "--threshold-epsilon 0.1",
    "--high-share 0.5 --selection-epsilon 1",
    "--queries 1e3",
    "--schedule clever",
    "--accountant gdp",
    "--selection-epsilon 9",
    "--selection none",
    "--shards even --selection paper",
    "--shards 0.5,0.6 --selection-epsilon 1",
    "--missed 1,2 --selection-epsilon 1",
    "--missed a,b,c,d --selection-epsilon 1",
    "--preset dpal-imagenet",
    "--plot plan.gif",
    "--plot nowhere/plan.png",
    "--out plan.yaml",
    "--compare --plot x.png",
    "--unit household",
    "--no-such-option",
    "--epochs many",
    "--individual-rates",
    "--whole-batches",
    "--pool-size 10",
    "--reads-training-data --selection-epsilon 1",
    "--mechanism none --selection paper --selection-epsilon 1",
    "--mechanism gaussian --selection paper --selection-epsilon 1",
    "--mechanism laplace --selection separate-budget --selection-epsilon 1",
    "--subsample 0.5 --selection-epsilon 1",
]


@pytest.mark.parametrize("words", BAD)
def test_nonsense_exits_with_2_and_no_traceback(capsys, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *EXAMPLE, "--accountant", "rdp", *words.split())
    assert code == 2
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["--epsilon", "--delta", "--initial", "--batch", "--epochs"])
def test_a_missing_number_is_asked_for(capsys, missing):
    spot = EXAMPLE.index(missing)
    code, _, err = call(capsys, *EXAMPLE[:spot], *EXAMPLE[spot + 2 :])
    assert code == 2
    assert missing in err


def test_a_file_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "plan.json").mkdir()
    code, _, err = call(capsys, *EXAMPLE, "--accountant", "rdp", "--out", tmp_path / "plan.json")
    assert code == 2
    assert "file" in err


def test_plotting_without_the_extra_is_refused_before_the_work(capsys, monkeypatch, tmp_path):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "matplotlib" else real(name, *a))
    code, _, err = call(capsys, *EXAMPLE, "--plot", tmp_path / "x.png")
    assert code == 2
    assert "discreet[plot]" in err


def test_help_has_an_example(capsys):
    for arguments in (["--help"], ["plan", "--help"], ["plan", "-h"]):
        code, out, _ = call(capsys, *arguments)
        assert code == 0
        assert "discreet" in out
    assert "Example:" in out


def test_version(capsys):
    code, out, _ = call(capsys, "--version")
    assert code == 0
    assert out.startswith("discreet 0.")


def test_interrupting_is_clean(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.planning.make_plan", interrupted)
    code, _, err = call(capsys, *EXAMPLE)
    assert code == 130
    assert "nothing was charged" in err


@pytest.mark.parametrize(
    ("selection", "mechanism", "kind"),
    [
        ("separate-budget", None, "gaussian"),
        ("separate-budget", "subsampled-gaussian", "poisson-sampled-gaussian"),
        ("paper", "exponential", "pure"),
        ("paper", "k-centre", "bounded-range"),
    ],
)
def test_what_a_query_is_may_be_said(capsys, selection, mechanism, kind):
    words = ["--selection", selection, "--selection-epsilon", "2", "--accountant", "rdp", "--json"]
    code, out, _ = call(capsys, *EXAMPLE, *words, *(["--mechanism", mechanism] if mechanism else []))
    assert code == 0
    assert kind in json.dumps(json.loads(out)["selection"])
