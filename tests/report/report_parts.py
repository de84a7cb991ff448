"""A small campaign to report on: 60 records with ids and values that cannot be mistaken, two phases, a linear model."""

import csv

import numpy as np

from discreet.cli.app import run

SIZE, ASKED = 60, 12
CLASSES = ("healthy", "ill")
TOML = """format = "discreet.campaign/1"
name = "visits"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 60
[task]
kind = "multiclass"
classes = ["healthy", "ill"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 20
queries = [12]
batch = 10
epochs = 2
selection_epsilon = "2"
accountant = "rdp"
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.5"
bins = 16
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
engine = "reference"
"""


def names():
    return [f"patient-{number:03d}-zq" for number in range(SIZE)]


def rows(seed=1):
    return np.random.default_rng(seed).normal(size=(SIZE, 3)).astype(np.float32) + 7.123


def write(place, *, x=None, toml=TOML):
    np.savez(place / "pool.npz", id=np.array(names()), x=rows() if x is None else x)
    (place / "visits.toml").write_text(toml)
    return str(place / "visits.toml")


def answer(place, questions, *, skip=()):
    with (place / questions).open() as file:
        asked = list(csv.DictReader(file))
    with (place / "answers.csv").open("w") as file:
        file.write("question_id,label,annotator\n")
        for number, row in enumerate(asked):
            label = "SKIP" if number in skip else CLASSES[number % 2]
            file.write(f"{row['question_id']},{label},ida-lovelace\n")
    return len(asked)


def play(place, *options, skip=(), toml=TOML):
    """Phase 0 trained, phase 1 asked, with three answers of it."""
    file = write(place, toml=toml)
    assert run(["init", file, *options]) == 0
    assert run(["ask", file, "--out", str(place / "q0.csv"), *options]) == 0
    answer(place, "q0.csv", skip=skip)
    assert run(["tell", file, str(place / "answers.csv")]) == 0
    assert run(["train", file, *options]) == 0
    assert run(["ask", file, "--out", str(place / "q1.csv"), *options]) == 0
    return file
