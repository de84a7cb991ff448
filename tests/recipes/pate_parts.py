"""A tiny campaign of teachers: made-up private records with a rule in them, public ones, and records to measure on."""

import csv

import numpy as np

CLASSES = ("low", "high")
PRIVATE, PUBLIC, HELD = 900, 160, 200
RULE = np.array([2.0, -1.0, 0.5, 0.0])


def drawn(size, seed):
    x = np.random.default_rng(seed).normal(size=(size, 4)).astype(np.float32)
    return x, (x @ RULE > 0.2).astype(int)


def write_labels(path, ids, codes):
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["record", "label"])
        out.writerows([name, CLASSES[code]] for name, code in zip(ids, codes, strict=True))


def write_data(place, *, private=PRIVATE, persons=300):
    for name, size, seed in (("private", private, 1), ("public", PUBLIC, 2), ("held", HELD, 3)):
        x, codes = drawn(size, seed)
        ids = np.array([f"{name}-{number}" for number in range(size)])
        more = (
            {"person": np.array([f"person-{number % persons}" for number in range(size)])} if name == "private" else {}
        )
        np.savez(place / f"{name}.npz", id=ids, x=x, **more)
        if name != "public":
            write_labels(place / f"{name}.csv", ids, codes)


def toml(*, simulation=True, **other):
    tables = {
        "pool": {"path": "'public.npz'", "kind": "'npz'", "id": "'id'", "array": "'x'", "size": PUBLIC},
        "private": {"path": "'private.npz'", "size": PRIVATE, "labels": "'private.csv'"},
        "task": {"kind": "'binary'", "classes": "['low', 'high']"},
        "budget": {"epsilon": "'4'", "delta": "'1e-5'"},
        "recipe": {"name": "'pate'"},
        "teachers": {"count": 45},
        "plan": {"queries": "[20, 15, 15]"},
        "evaluation": {"kind": "'public'", "path": "'held.npz'", "labels": "'held.csv'"},
    }
    tables |= {"simulation": {"seed": 5}} if simulation else {}
    for name, keys in other.items():
        tables[name] = tables.get(name, {}) | keys
    lines = ["format = 'discreet.campaign/1'", "name = 'wage'"]
    for name, keys in tables.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def make(place, **options):
    """A folder with a campaign's file and all it names."""
    write_data(place)
    file = place / "wage.toml"
    file.write_text(toml(**options))
    return file


def own_tree(**options):
    """An estimator of one's own."""
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=3, **options)
