"""A tiny log of made-up queries, and a crowd campaign on it."""

import csv

import numpy as np
import pyarrow
from pyarrow import parquet

ABOUT = {"lamp": "light", "heating": "heat", "radiator": "heat", "bulb": "light", "oven": "heat", "candle": "light"}
VERBS = ("turn on the", "dim the", "switch off the", "is it time for the", "buy a new", "how old is the", "clean my")
ROOMS = ("kitchen", "hall", "attic", "cellar", "bedroom")
COMMON = [f"{verb} {thing} in the {room}" for verb in VERBS for thing in ABOUT for room in ROOMS]
RARE = [f"{text} for uncle {name}" for text in COMMON[:60] for name in ("ansgar", "bertil")]
"""What one or two people asked: it must stay in the house."""


def label(text):
    return next(kind for thing, kind in ABOUT.items() if thing in text)


def rows_of(common=60, people=40, seed=0):
    """(person, text): each of the first texts is asked by many people, each rare one by one or two."""
    chance = np.random.default_rng(seed)
    rows, number = [], 0
    for place, text in enumerate(COMMON[:common]):
        for _ in range(people + int(chance.integers(20))):
            rows.append((f"person-{number}", text.upper() if place % 3 else f" {text} "))
            number += 1
    for text in RARE:
        for _ in range(1 + int(chance.integers(2))):
            rows.append((f"person-{number}", text))
            number += 1
    return rows


def write_log(path, rows):
    people, texts = zip(*rows, strict=True)
    parquet.write_table(pyarrow.table({"user": list(people), "query": list(texts)}), path)


def write_labelled(path, texts):
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["text", "label"])
        out.writerows([text, label(text)] for text in texts)


def toml(*, simulation=True, oracle=None, queries="[12, 12]", **other):
    tables = {
        "log": {"path": "'log.parquet'", "text": "'query'", "person": "'user'"},
        "gate": {"k": 10, "beta": 0.5},
        "gold": {"path": "'gold.csv'", "public": "true"},
        "task": {"kind": "'binary'", "classes": "['heat', 'light']"},
        "budget": {"epsilon": "'1'", "delta": "'1e-2'", "unit": "'person'"},
        "recipe": {"name": "'crowd'"},
        "plan": {"queries": queries},
        "oracle": oracle or {"name": "'simulated'", "path": "'truth.csv'", "per_question": 3, "annotators": 7},
        "model": {"features": 1024, "epochs": 3},
        "evaluation": {"kind": "'public'", "path": "'held-out.csv'"},
    }
    tables |= {"simulation": {"seed": 5}} if simulation else {}
    for name, keys in other.items():
        tables[name] = tables.get(name, {}) | keys
    lines = ["format = 'discreet.campaign/1'", "name = 'home'"]
    for name, keys in tables.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def make(place, rows=None, **options):
    """A folder with a campaign's file and all it names."""
    write_log(place / "log.parquet", rows_of() if rows is None else rows)
    write_labelled(place / "gold.csv", [*COMMON[180:190], *COMMON[205:210]])
    write_labelled(place / "held-out.csv", COMMON[120:170])
    write_labelled(place / "truth.csv", [*COMMON, *RARE])
    file = place / "home.toml"
    file.write_text(toml(**options))
    return file


def answer(text):
    """A function that answers, for ``callable``."""
    return label(text)
