"""Does a dry run foretell the campaign? On records that nothing here was tuned on.

UCI Adult has two files from one survey: `adult.data` plays the public records, `adult.test` the private ones. The dry
run sees the first alone and says where one campaign ends (19 of 20 do). Then real campaigns, with the operating
system's noise, run on the second; how many end within? Categories and scales are declared (they are printed in the data
set's description), nothing is fitted.

    python benchmarks/simulation.py --data DIR   # a directory with adult/; writes benchmarks/results/simulation.md
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parent / "results" / "simulation.md"
POOL, CAMPAIGNS, SEEDS = 10_000, 20, 8
SCALES = {0: 90.0, 4: 16.0, 10: 20_000.0, 11: 4_000.0, 12: 99.0}
WORDS = {
    1: "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    5: "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    6: "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    7: "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    9: "Female Male",
}
METHODS = {
    "own": 'selection_epsilon = "2"\n',
    "random": "",
}
TOML = """format = "discreet.campaign/1"
name = "adult"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 10000
[task]
kind = "binary"
classes = ["<=50K", ">50K"]
[budget]
epsilon = 4
delta = "1e-6"
[recipe]
name = "private-pool"
[plan]
initial = 500
queries = [250, 250, 250]
batch = 250
epochs = 10
{price}[scorer]
name = "{score}"
[selector]
name = "{selector}"
{threshold}[oracle]
name = "files"
[model]
name = "linear"
[trainer]
learning_rate = 2.0
"""


def toml(method: str) -> str:
    """The campaign's file."""
    chosen = method == "own"
    return TOML.format(
        price=METHODS[method],
        score="entropy" if chosen else "random",
        selector="threshold-response" if chosen else "random",
        threshold='threshold_epsilon = "0.1"\n' if chosen else "",
    )


def read(path: Path) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Rows of declared features, and classes."""
    rows, labels = [], []
    with gzip.open(path, "rt") as file:
        for cells in csv.reader(file, skipinitialspace=True):
            if len(cells) != 15:
                continue
            numbers = [min(float(cells[place]) / scale, 2.0) for place, scale in SCALES.items()]
            words = [float(cells[place] == word) for place, known in WORDS.items() for word in known.split()]
            rows.append([1.0, *numbers, *words])
            labels.append(cells[14].rstrip("."))
    return np.array(rows, dtype=np.float32), labels


def write(folder: Path, name: str, x: Any, labels: list[str], first: int = 0) -> None:
    """A file of records, with ids of their own."""
    ids = np.array([f"{name}{number}" for number in range(first, first + len(labels))])
    np.savez(folder / f"{name}.npz", id=ids, x=x, label=np.array(labels))


def foretold(folder: Path, test: float) -> dict[str, Any]:
    """What the command says."""
    (folder / "own.toml").write_text(toml("own"))
    words = ["simulate", "own.toml", "--data", "public.npz", "--methods", "own", "--test", str(test), "--json"]
    words += ["--seeds", str(SEEDS), "--epsilons", "4", "--queries", "250x3"]
    done = subprocess.run(
        [sys.executable, "-m", "discreet", *words], cwd=folder, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return {one["method"]: one for one in found["outcomes"]}


def real(folder: Path, method: str, number: int, held: Any, truth: list[str]) -> float:
    """A campaign with the operating system's noise; its last model on records that it never saw."""
    from discreet.config import CampaignConfig
    from discreet.recipes.opening import create

    text = toml(method).replace('name = "adult"', f'name = "{method}-{number}"', 1)
    campaign = create(CampaignConfig.from_text(text, name="real", directory=folder))
    with np.load(folder / "pool.npz") as pool:
        known = dict(zip(pool["id"].tolist(), pool["label"].tolist(), strict=True))
    while not campaign.done:
        campaign.tell({one.id: known[one.record] for one in campaign.ask()})
        campaign.train()
    assert not campaign.simulation
    return float(np.mean([guess == one for guess, one in zip(campaign.predict(held), truth, strict=True)]))


def page(lines: list[str], public: int, held: int) -> str:
    """The committed page."""
    return f"""# Does a dry run foretell the campaign?

Made by benchmarks/simulation.py. UCI Adult, which nothing here was tuned on: `discreet simulate` saw `adult.data`
({public:,} records, {SEEDS} seeds), then {CAMPAIGNS} real campaigns of each kind, with the system's own noise, ran
on `adult.test` (a pool of {POOL:,}; measured on {held:,} others). Epsilon 4, 500 + 3 x 250 labels, a linear model.
{os.cpu_count()} cores, Python {platform.python_version()}.

| asked by | foretold, mean | one campaign ends at | real campaigns, mean | lowest, highest | within |
|---|---|---|---|---|---|
{chr(10).join(lines)}
"""


def main() -> None:
    """Foretell, run, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        x, labels = read(given.data / "adult" / "adult.data.gz")
        write(folder, "public", x, labels)
        private, truth = read(given.data / "adult" / "adult.test.gz")
        order = np.random.default_rng(0).permutation(len(truth))
        pool, held = order[:POOL], order[POOL:]
        write(folder, "pool", private[pool], [truth[one] for one in pool.tolist()])
        told = foretold(folder, round(len(held) / len(labels), 3))
        lines = []
        for method in METHODS:
            one = told[method]
            low, high = one["one_campaign"]["low"], one["one_campaign"]["high"]
            answers = [truth[place] for place in held.tolist()]
            found = [real(folder, method, number, private[held], answers) for number in range(CAMPAIGNS)]
            within = sum(low <= value <= high for value in found)
            lines.append(
                f"| {method} | {100 * one['mean']['value']:.2f}% | {100 * low:.2f}% to {100 * high:.2f}% | "
                f"{100 * np.mean(found):.2f}% | {100 * min(found):.2f}%, {100 * max(found):.2f}% | "
                f"{within} of {CAMPAIGNS} |"
            )
            print(lines[-1], flush=True)
        RESULT.write_text(page(lines, len(labels), len(held)))


if __name__ == "__main__":
    main()
