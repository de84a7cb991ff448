"""Several labels a record: scores, answers as sets, files with a separator, evaluation, predictions."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli.app import app
from discreet.config import CampaignConfig
from discreet.errors import InvalidConfig
from discreet.recipes.opening import load

pytestmark = pytest.mark.thorough

LABELS = ("round", "red", "old")
TOML = """format = "discreet.campaign/1"
name = "several"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 300
[task]
kind = "multilabel"
classes = ["round", "red", "old"]
[budget]
epsilon = "8"
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 80
queries = [40]
batch = 40
epochs = 4
accountant = "rdp"
selection_epsilon = "2"
[selector]
name = "threshold-response"
threshold_epsilon = "0.3"
[scorer]
name = "{score}"
[oracle]
name = "files"
separator = "+"
[model]
name = "linear"
[trainer]
learning_rate = 1.0
engine = "reference"
[evaluation]
kind = "{evaluation}"
path = "test.npz"
labels = "test.csv"
{price}
[simulation]
seed = 1
"""


def labelled(size, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 4)).astype(np.float32)
    return x, x[:, :3] > 0.2


def cell(row):
    return "+".join(name for name, is_so in zip(LABELS, row, strict=True) if is_so) or "none"


def write(folder, *, score="entropy", evaluation="public"):
    (x, y), (test_x, test_y) = labelled(300, 0), labelled(100, 1)
    ids, test_ids = [f"r{n}" for n in range(300)], [f"t{n}" for n in range(100)]
    np.savez(folder / "pool.npz", x=x, id=np.array(ids))
    np.savez(folder / "test.npz", x=test_x, id=np.array(test_ids))
    rows = "".join(f"{one},{cell(row)}\n" for one, row in zip(test_ids, test_y, strict=True))
    (folder / "test.csv").write_text("record,label\n" + rows)
    price = 'epsilon = "2"' if evaluation == "paid" else ""
    (folder / "c.toml").write_text(TOML.format(score=score, evaluation=evaluation, price=price))
    return folder / "c.toml", dict(zip(ids, map(cell, y), strict=True)), (test_x, test_y)


def run(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found.output


def answer(path, truth):
    """Fill in the questions file as people do."""
    with path.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    for row in rows:
        row["label"] = truth[row["record"]]
    with path.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("evaluation", ["public", pytest.param("paid", marks=pytest.mark.long)])
def test_a_task_of_several_labels_from_the_shell(evaluation, tmp_path):
    file, truth, (test_x, test_y) = write(tmp_path, evaluation=evaluation)
    run("init", file)
    for phase in range(2):
        questions = tmp_path / f"questions-{phase}.csv"
        run("ask", file, "--out", questions)
        answer(questions, truth)
        run("tell", file, questions)
        run("train", file)
    campaign = load(CampaignConfig.read(file))
    given = campaign.labels()
    assert len(given) > 80
    assert all(set(value) == set(truth[one].split("+")) - {"none"} for one, value in given.items())
    assert () in given.values()  # looked at, and none of the labels holds
    found = campaign.predict(test_x)
    right = np.mean([[name in guess for name in LABELS] for guess in found] == test_y)
    assert right > 0.8
    status = json.loads(run("status", file, "--json"))
    measured = status["evaluations"]["1"]
    assert len(measured["per_class"]) == len(LABELS)
    assert abs(measured["accuracy"] - right) < (0.001 if evaluation == "public" else 0.2)
    assert campaign.recipe.terms().groups >= ({"held-out"} if evaluation == "paid" else set())


@pytest.mark.parametrize(
    ("score", "word"),
    [("margin", "no form for several labels"), ("bald", "no dropout"), ("nonsense", "there is no 'nonsense'")],
)
def test_scores_that_cannot_be_are_refused(score, word, tmp_path):
    file, _, _ = write(tmp_path, score=score)
    found = CliRunner().invoke(app, ["init", str(file)])
    assert isinstance(found.exception, InvalidConfig)
    assert found.exception.line in (27, 28)
    assert word in str(found.exception)


def test_a_score_of_the_least_certain_label(tmp_path):
    file, _, _ = write(tmp_path, score="least-confidence")
    run("init", file)
    assert load(CampaignConfig.read(file)).state.step == "ask"
