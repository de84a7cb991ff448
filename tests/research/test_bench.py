"""The bench: a case is what its settings say, a run goes on where it was cut, tables are made of results alone."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.errors import BadInput
from discreet.simulation.results import Store
from discreet.simulation.runner import run_cases
from discreet_research.bench import EXPERIMENTS, Method, Problem, experiment_named
from discreet_research.bench.cases import Case
from discreet_research.bench.plans import priced, strict_caps
from discreet_research.bench.problems import pool_of

pytestmark = pytest.mark.thorough

TINY = Problem(
    name="tiny",
    data="digits",
    rare=5,
    initial=150,
    queries=(40,),
    epsilon="8",
    batch=100,
    epochs=3,
    features=50,
    accountant="rdp",
)
RANDOM, EXACT = Method(name="random", mechanism="random"), Method(name="exact (not private)", mechanism="exact")
RESPONSE = Method(
    name="response", mechanism="threshold-response", selection_epsilon="2", threshold_epsilon="0.1", strict=True
)


def quiet(done, of):
    pass


def fake(case, data, plans=None):
    """A case that takes no time; the runner is tried, not the campaign."""
    gain = {"random": 0.0, "exact (not private)": 0.1, "response": 0.06}[case.method.name]
    return [{"phase": 0, "test_accuracy": 0.5}, {"phase": 1, "test_accuracy": 0.6 + gain + 0.001 * case.seed}]


@pytest.fixture
def faked(monkeypatch):
    ran = []

    def once(case, data, plans=None):
        ran.append(case)
        return fake(case, data)

    monkeypatch.setattr("discreet_research.bench.campaigns.run_case", once)
    return ran


def cases(count=3):
    return [Case(problem=TINY, method=method, seed=seed) for seed in range(count) for method in (RANDOM, EXACT)]


def test_a_run_goes_on_where_it_was(tmp_path, faked):
    store = Store(tmp_path, "trial")
    store.pieces.mkdir()
    (store.pieces / ".half.parquet.123").write_bytes(b"what a killed run was writing")
    run_cases(store, cases(1), data=None, processes=1, progress=quiet)
    assert store.whole.exists()
    assert not store.pieces.exists()
    run_cases(store, cases(3), data=None, processes=1, progress=quiet)
    assert len(faked) == 6  # each once
    assert len(store.rows(cases(3))) == 12
    assert store.seeds() == 3
    run_cases(store, cases(1), data=None, processes=1, progress=quiet)  # fewer seeds: nothing is lost
    assert store.seeds() == 3
    assert len(store.rows(cases(3))) == 12


def test_every_column_of_every_row_comes_back(tmp_path):
    store, case = Store(tmp_path, "trial"), cases(1)[0]
    store.keep(case, [{"phase": 0, "test_accuracy": 0.5}, {"phase": 1, "gain_kept": 0.25, "pool_counts": [1, 2]}])
    first, second = store.rows([case])
    assert first["test_accuracy"] == 0.5
    assert first["gain_kept"] is None
    assert second["gain_kept"] == 0.25
    assert second["pool_counts"] == [1, 2]
    store.gather()
    assert store.rows([case]) == [first, second]


def test_another_setting_is_another_case(tmp_path, faked):
    store = Store(tmp_path, "trial")
    run_cases(store, cases(1), data=None, processes=1, progress=quiet)
    changed = [replace(case, problem=replace(TINY, epochs=4)) for case in cases(1)]
    assert store.rows(changed) == []
    run_cases(store, changed, data=None, processes=1, progress=quiet)
    assert len(faked) == 4
    assert len(store.rows(cases(1))) == len(store.rows(changed)) == 4  # the old ones stay, aside


def test_a_failing_case_is_told_and_the_others_are_kept(tmp_path, monkeypatch):
    def sometimes(case, data, plans=None):
        if case.method is EXACT:
            raise BadInput("this case", "it cannot be", "Leave it")
        return fake(case, data)

    monkeypatch.setattr("discreet_research.bench.campaigns.run_case", sometimes)
    store = Store(tmp_path, "trial")
    failures = run_cases(store, cases(2), data=None, processes=1, progress=quiet)
    assert len(failures) == 2
    assert "cannot be" in failures[0].why
    assert len(store.done()) == 2
    assert not store.whole.exists()  # not complete


def test_files_that_are_no_results_are_refused(tmp_path):
    store = Store(tmp_path, "trial")
    store.whole.write_bytes(b"nonsense")
    with pytest.raises(BadInput, match="cannot be read"):
        store.done()


SLOW = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
import discreet_research.bench.campaigns
import test_bench

def slowly(case, data, plans=None):
    time.sleep(0.2)
    return test_bench.fake(case, data)

discreet_research.bench.campaigns.run_case = slowly
store = test_bench.Store(Path({place!r}), "trial")
test_bench.run_cases(store, test_bench.cases(20), data=None, processes=1, progress=test_bench.quiet)
"""


def test_a_killed_run_keeps_what_was_finished(tmp_path, faked):
    """kill -9 in the middle of a case; the next run does the rest, and no case twice."""
    script = SLOW.format(tests=str(Path(__file__).parent), place=str(tmp_path))
    worker = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    store = Store(tmp_path, "trial")
    deadline = time.monotonic() + 120
    while len(store.done()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    kept = store.done()
    assert 3 <= len(kept) < 40
    run_cases(store, cases(20), data=None, processes=1, progress=quiet)
    assert {case.digest for case in faked} == {case.digest for case in cases(20)} - kept
    assert len(faked) == 40 - len(kept)
    assert len(store.rows(cases(20))) == 80


def test_tables_and_charts_of_results_alone(tmp_path, faked, monkeypatch, capsys):
    experiment = replace(EXPERIMENTS["try-out"], blocks=(((TINY,), (RANDOM, EXACT, RESPONSE)),))
    monkeypatch.setitem(EXPERIMENTS, "try-out", experiment)
    arguments = ["try-out", "--results", str(tmp_path)]
    assert run(["bench", "run", *arguments, "--processes", "1"]) == 0
    capsys.readouterr()
    monkeypatch.setattr("discreet_research.bench.campaigns.run_case", None)  # nothing is computed again
    page, pictures = tmp_path / "page.md", tmp_path / "charts"
    assert run(["bench", "table", *arguments, "--json", "--markdown", str(page), "--charts", str(pictures)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["format"] == "discreet.bench/1"
    rows = told["tables"][0]["rows"]
    assert rows[2][0] == "response"
    assert rows[2][2].startswith("60 (60 to 60")
    assert "share of the gain kept" in page.read_text()
    assert [path.name for path in pictures.iterdir()] == ["accuracy.png"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nothing"], "there is none of that name"),
        (["table", "try-out"], "has no results"),
        (["run", "selection-quality", "--processes", "1"], "nothing says where they are"),
        (["run", "try-out", "--data", "missing"], "no such directory"),
    ],
)
def test_bad_input(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whole = EXPERIMENTS["selection-quality"]
    small = replace(whole, seeds=1, blocks=((whole.blocks[0][0][:1], (RANDOM,)),))
    monkeypatch.setitem(EXPERIMENTS, "selection-quality", small)
    assert run(["bench", *arguments]) in (1, 2)
    assert says in capsys.readouterr().err


def test_experiments_are_listed(capsys):
    assert run(["bench", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in told["experiments"]} == set(EXPERIMENTS)
    assert experiment_named("try-out").cases([0, 1])[0].seed == 0


def test_a_pool_is_imbalanced_and_the_same_for_a_seed():
    first, again = (pool_of(TINY, 1, None) for _ in range(2))
    other = pool_of(TINY, 2, None)
    counts = np.bincount(first.y)
    assert counts[0] > 4 * counts[1]
    assert (first.x == again.x).all()
    assert not np.array_equal(first.y, other.y)
    assert np.allclose(np.linalg.norm(first.x, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "subsampled-gaussian", "exponential"])
def test_every_method_is_charged_what_it_says(mechanism):
    """Selection and training together claim the budget, and no path of the selection passes its own."""
    from discreet_research.bench.campaigns import run_case

    method = Method(name="m", mechanism=mechanism, selection_epsilon="2")
    books = priced(TINY, method, 700, seed=0)
    assert books.claimed <= 8
    assert books.claimed > 7.9
    assert books.selection_claimed == pytest.approx(2)
    rows = run_case(Case(problem=replace(TINY, first_only=True), method=method, seed=0), None)
    assert rows[1]["asked"] == 40


def test_a_hidden_campaign_pads_its_cohorts_and_pays_for_thresholds():
    from discreet_research.bench.campaigns import run_case

    method = Method(name="m", mechanism="hidden-threshold", threshold_epsilon="0.5")
    problem = replace(TINY, queries=(40, 40))
    books = priced(problem, method, 700, seed=0)
    assert books.selection_claimed == 1
    rows = run_case(Case(problem=problem, method=method, seed=0), None)
    assert {row["asked"] for row in rows[1:]} != {40}  # about 40
    assert rows[2]["left"] == rows[1]["left"] - rows[1]["asked"]  # who was asked is not measured again
    assert all(row["share_kept"] > 0.5 for row in rows[1:])
    assert rows[2]["test_accuracy"] > 0.2
    with pytest.raises(BadInput, match="free or paid for"):
        Method(name="m", mechanism="hidden-threshold", selection_epsilon="1")


def test_strict_caps_keep_every_path_within_the_selection_epsilon():
    problem = replace(TINY, queries=(100, 60, 20, 20))
    books = priced(problem, RESPONSE, 700, seed=0)
    worst = max(max(path.forward, path.backward) for path in books.plan.trajectories)
    assert worst <= 2
    assert sum(strict_caps(problem, 700, worst)) <= worst


def test_a_campaign_of_a_simulation_end_to_end():
    from discreet_research.bench.campaigns import run_case

    case = Case(problem=TINY, method=RESPONSE, seed=0)
    rows, again = run_case(case, None), run_case(case, None)
    assert rows == again  # a seed repeats everything
    assert rows[1]["asked"] <= 40
    assert rows[1]["claimed_epsilon"] <= 8
    assert sum(rows[1]["asked_counts"]) == rows[1]["asked"]
    assert rows[1]["test_accuracy"] > 0.2


def test_every_table_of_accuracies_has_the_majority_beside_it():
    from discreet_research.bench.majority import largest_class, majority_tables

    assert largest_class(np.array([0, 1, 1, 1])) == 0.75
    row = {"problem": "mine", "method": "random", "test_accuracy": 0.9, "mean_recall": 0.6, "majority": 0.8}
    told = [row | {"phase": phase} for phase in (0, 1)]
    first, second = majority_tables([*told, {"problem": "mnist, 2", "method": "a", "phase": 0, "test_accuracy": 0.5}])
    assert first.rows == (("mine", "80.0"), ("mnist, 2", "11.3"))
    assert second.rows == (("random", "90.0", "60.0"),)
    assert majority_tables([{"problem": "mnist", "method": "a", "phase": 1, "accuracy": 0.5, "iou": 0.3}]) == []
