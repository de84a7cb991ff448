"""Wherever an accuracy is shown, the majority baseline stands beside it: one campaign, paid evaluation, every place."""

import ast
import csv
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from web_parts import House, written

import discreet
from discreet.cli.app import run
from discreet.config import read_campaign
from discreet.exports.writing import export_model
from discreet.recipes.opening import load

SOURCE = Path(discreet.__file__).parent
EVALUATION = """
[evaluation]
kind = "paid"
path = "held.npz"
labels = "held.csv"
epsilon = "1"
table = "scores"
"""
READERS = {
    "trainers/accuracy.py": "where it is computed",
    "campaign/stopping_rules.py": "a rule by accuracy, in words of its own: gains, not levels",
    "report/markup.py": "the figure, which draws the baseline",
    "selectors/quality.py": "of a selection, not of a model",
}
"""Modules that may read the accuracy of an `Evaluation`, and why. Others use `trainers.metric_words`."""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A campaign of two classes, seven to one, with both phases trained."""
    place = tmp_path_factory.mktemp("surfaces")
    rng = np.random.default_rng(5)
    for name, prefix, size in (("pool.npz", "record", 200), ("held.npz", "held", 400)):
        y = rng.random(size) < 1 / 8
        x = rng.normal(size=(size, 3)).astype(np.float32) + 1.5 * y[:, None]
        ids = [f"{prefix}-{number}" for number in range(size)]
        np.savez(place / name, id=np.array(ids), x=x.astype(np.float32), label=np.where(y, "yes", "no"))
        with (place / name.replace("npz", "csv")).open("w", newline="") as file:
            csv.writer(file).writerows([("record", "label"), *zip(ids, np.where(y, "yes", "no"), strict=True)])
    pool = '[pool]\npath = "pool.npz"\nkind = "npz"\nid = "id"\narray = "x"'
    file = written(place, pool=pool, size=200, initial=40, kind="binary", classes=("no", "yes"))
    file.write_text(file.read_text() + EVALUATION)
    house = House(file)
    with (place / "pool.csv").open() as rows:
        truth = {row["record"]: row["label"] for row in csv.DictReader(rows)}
    for phase in (0, 1):
        asked = place / f"q{phase}.csv"
        assert run(["ask", str(file), "--out", str(asked)]) == 0
        with asked.open() as rows:
            answers = [(row["question_id"], truth[row["record"]]) for row in csv.DictReader(rows)]
        with (place / "answers.csv").open("w", newline="") as out:
            csv.writer(out).writerows([("question_id", "label"), *answers])
        assert run(["tell", str(file), str(place / "answers.csv"), "--annotator", "ada"]) == 0
        assert run(["train", str(file), "--log-json", str(place / "log.jsonl")]) == 0
    return house


@pytest.fixture
def place(house):
    return house.path.parent


def said(capsys, *words):
    capsys.readouterr()
    assert run([*map(str, words)]) == 0
    return capsys.readouterr().out


def evaluations(form):
    """Every evaluation in a JSON form."""
    if isinstance(form, dict):
        if form.get("format") == "discreet.evaluation/1":
            yield form
        form = list(form.values())
    if isinstance(form, list):
        for part in form:
            yield from evaluations(part)


def check_words(text, least=1):
    """Each line with an accuracy has the baseline, too."""
    lines = [line for line in text.splitlines() if re.search(r"(?<!balanced )accuracy -?\d", line)]
    assert len(lines) >= least, text
    assert all(re.search(r"majority \d\d\.\d%", line) and "paid, epsilon 1" in line for line in lines)
    assert all(re.search(r"AUC [01]\.\d{3}, balanced accuracy \d+\.\d%", line) for line in lines)


@pytest.mark.parametrize("verb", ["train", "run", "status"])
def test_the_command_line(place, capsys, verb):
    check_words(said(capsys, verb, place / "small.toml"), least=1 if verb == "train" else 2)
    forms = list(evaluations(json.loads(said(capsys, verb, place / "small.toml", "--json"))))
    assert len(forms) == (1 if verb == "train" else 2)
    for form in forms:
        assert 0.7 < form["metrics"]["accuracy"]["baseline"] < 1
        assert {"auc", "log-loss", "calibration-error"} < set(form["metrics"])
        assert (len(form["per_class"]), len(form["confusion"])) == (2, 2)
        assert len(form["table"]["cells"]) == np.prod(form["table"]["shapes"][0]), "all that was paid for is kept"


def test_the_report(place, capsys):
    said(capsys, "report", place / "small.toml", "--out", place / "r.html")
    page = unescape((place / "r.html").read_text())
    for text in ("Metrics after phase 1", "By class", "Confusion matrix", "constant answer", "epsilon 1 for all"):
        assert text in page
    assert re.search(r"majority \d\d\.\d%</text>", page), "a line in the figure"
    assert re.search(r"accuracy, [\d.]+% to [\d.]+%; majority \d\d\.\d% \(paid, epsilon 1\)", page), "a tile"
    rows = re.findall(r"<tr><th[^>]*>accuracy</th>.*?</tr>", page)
    assert rows
    assert all("(majority)" in row for row in rows)


def test_the_pages_of_the_owner(house):
    house.serve()
    page = house.browser("olga").get("/owner").text
    head, row = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", part) for part in re.findall(
        r"<tr><th scope=\"col\">phase.*?</tr>|<tr><th scope=\"row\">1<.*?</tr>", page)[:2])  # fmt: skip
    cells = dict(zip(head, row, strict=True))
    assert all(re.fullmatch(r"\d+\.\d%", cells[name]) for name in ("accuracy", "majority", "balanced accuracy"))
    assert re.fullmatch(r"[01]\.\d{3}", cells["AUC"])


def test_an_export(place):
    export_model(load(read_campaign(place / "small.toml")), place / "export", onnx=False)
    form = json.loads((place / "export" / "model.json").read_text())
    assert form["evaluation"]["metrics"]["accuracy"]["baseline"] > 0.7
    card = (place / "export" / "README.md").read_text()
    assert "- balanced-accuracy" in card.split("---")[1]
    assert re.search(r"\| accuracy \| [\d.]+% \| [\d.]+% to [\d.]+% \| [\d.]+% \(majority\) \|", card)
    assert "epsilon 1 was paid" in card


def test_the_log(place):
    lines = [json.loads(line) for line in (place / "log.jsonl").read_text().splitlines()]
    trained = [line for line in lines if line["event"] == "trained"]
    assert len(trained) == 2
    assert all({"accuracy", "majority", "auc", "balanced_accuracy", "price"} < set(line) for line in trained)


def test_no_other_module_reads_an_accuracy():
    """A new place that shows one must take it from `trainers.metric_words`, or be listed here with a reason."""
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        tree = ast.parse(path.read_text())
        reads = [
            node
            for node in ast.walk(tree)
            if (isinstance(node, ast.Attribute) and node.attr == "accuracy" and "evaluation" in ast.unparse(node.value))
            or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
                and node.slice.value == "accuracy" and "metrics" not in ast.unparse(node.value))
        ]  # fmt: skip
        assert not reads or name in READERS, (name, [ast.unparse(node) for node in reads])
    for path in SOURCE.rglob("*.html"):
        for line in path.read_text().splitlines():
            assert ">accuracy<" not in line or ">majority<" in line, path.name
