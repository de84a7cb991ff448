"""Do feature maps help outside of a private pool? Streams, teachers (PATE) and public data, with and without them.

    stream     Adult: 20,000 records arrive, labels of those that are asked; epsilon 2, delta 1e-6
    teachers   Adult: 250 teachers of 29,561 records, epsilon 1, 100 answers about 3,000 public ones, delta 1e-5
    pictures   MNIST: 150 teachers of 25,000 records, epsilon 2, 100 answers about 4,000 public ones, delta 1e-5
    public     MNIST: a checkpoint of 20,000 private records at epsilon 1, then labels of 5,000 public records

Everything is a simulation on public sets. Edges of bins are fitted to 3,000 public rows. Settings (step sizes and
windows of streams, C of teachers) are chosen with seed 0 on one half of the test set, and scored with other seeds on
the other half. Those of pictures are the defaults of the recipe or the map, were not compared, and have one seed.

    python benchmarks/features_of_recipes.py --data DIR PART ...   # results/features_of_recipes.md
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from discreet.campaign.loop import InternalOracle, run
from discreet.config import read_campaign
from discreet.exports import export_model
from discreet.features import build_feature_map
from discreet.privacy.budget import Budget
from discreet.recipes.opening import create
from discreet.stream import MiniBatch, OneSidedAsking, StreamLearner, StreamSettings
from discreet.stream.columns import ChoiceColumn, NumberColumn, RecordSchema
from discreet.stream.optimizer import step_from_json
from discreet.stream.preparation import Preparation
from discreet.stream.terms import gaussian_noise_for
from missing_cells import CATEGORIES, NUMBERS, read, schema
from timing import hardware

RESULTS = Path(__file__).parent / "results"
RESULT, ROWS = RESULTS / "features_of_recipes.md", RESULTS / "features_of_recipes.jsonl"
PUBLIC, ARRIVING = 3_000, 20_000
Row = dict[str, Any]


def adult(data: Path) -> Any:
    """Records and labels of the two files; 1 is an income above 50K."""
    return [
        (table, (classes == ">50K").astype(int))
        for table, classes in (read(data / "adult" / f"adult.{name}.gz") for name in ("data", "test"))
    ]


def mnist(data: Path) -> Any:
    """Pictures and digits of the two files."""

    def array(name: str, offset: int) -> Any:
        with gzip.open(data / "mnist" / f"{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), dtype=np.uint8, offset=offset)

    return [
        (array(f"{name}-images-idx3", 16).reshape(-1, 28, 28), array(f"{name}-labels-idx1", 8))
        for name in ("train", "t10k")
    ]


# -- a stream


def streams(data: Path, seeds: int) -> Iterator[Row]:
    """AUC of the last model, by how records become vectors."""
    (table, y), (test, test_y) = adult(data)
    preparations = {"columns": _columns()}
    for name in ("bins", "standardise", "one-hot"):
        feature_map = build_feature_map(name, schema=schema(), public=table.iloc[:PUBLIC])
        preparations[name] = Preparation(features=feature_map, radius=feature_map.norm_bound or 1.0)
    arriving, truth = table.iloc[PUBLIC : PUBLIC + ARRIVING].to_dict("records"), y[PUBLIC : PUBLIC + ARRIVING]
    half = np.arange(len(test_y)) % 2 == 0
    for name, preparation in preparations.items():
        x, x_test = preparation.many(arriving), preparation.many(test.to_dict("records"))

        def auc(
            settings: tuple[int, float],
            seed: int,
            part: Any,
            x: Any = x,
            x_test: Any = x_test,
            preparation: Any = preparation,
        ) -> tuple[float, int]:
            weights, asked = _streamed(preparation, x, truth, settings, seed)
            return float(roc_auc_score(test_y[part], x_test[part] @ weights)), asked

        best = max(product((100, 300, 1000), (3.0, 10.0, 30.0, 100.0)), key=lambda pair: auc(pair, 0, half)[0])
        for seed in range(1, seeds + 1):
            value, asked = auc(best, seed, ~half)
            settings = f"{preparation.width} numbers, window {best[0]}, step size {best[1]:g}, about {asked} asked"
            yield {"part": "stream on Adult", "features": name, "settings": settings, "measure": "AUC", "value": value}


def _columns() -> Preparation:
    """Without features: declared constants bring numbers to [-1, 1], categories are one-hot."""
    numbers = [
        NumberColumn(name=name, center=(low + high) / 2, scale=(high - low) / 2)
        for name, (low, high) in NUMBERS.items()
    ]
    choices = [ChoiceColumn(name=name, values=tuple(words.split())) for name, words in CATEGORIES.items()]
    return Preparation(schema=RecordSchema(columns=(*numbers, *choices)), radius=1.0)


def _streamed(preparation: Preparation, x: Any, y: Any, settings: tuple[int, float], seed: int) -> tuple[Any, int]:
    asking = OneSidedAsking(asked=1, low=0.1, missed=None)
    learner = StreamLearner.simulated(
        StreamSettings(
            features=preparation.width,
            classes=("no", "yes"),
            asking=asking,
            noise=gaussian_noise_for(Budget(epsilon=2, delta="1e-6"), asking=asking),
            window=MiniBatch(settings[0]),
            loss="logistic",
            step=step_from_json({"step": "square-root", "size": settings[1]}),
            radius=preparation.radius,
            ball=10.0,
        ),
        seed=seed,
    )
    asked = 0
    for row, label in zip(x, y, strict=True):
        if learner.ask(row):
            asked += 1
            learner.learn_one(row, ("no", "yes")[label])
    return np.ravel(learner.model().weights)[: preparation.width], asked


# -- campaigns of files


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """A campaign's file; JSON writes a value as TOML has it."""
    lines = ['format = "discreet.campaign/1"', 'name = "measured"']
    for name, keys in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_word(value)}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_word(part)}" for key, part in value.items()) + " }"
    return json.dumps(value)


def write_labels(path: Path, ids: Any, labels: Any) -> None:
    """As a campaign reads them."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["record", "label"], *zip(ids, map(str, labels), strict=True)])


def accuracies(campaign: Any) -> list[float]:
    """Of every phase."""
    steps = [step for step in campaign.store.transitions() if step.kind == "trained"]
    return [100 * step.facts["evaluation"]["accuracy"] for step in steps]


def write_table(place: Path, name: str, table: Any, y: Any) -> None:
    """Records with ids, and their labels."""
    ids = [f"{name}-{number}" for number in range(len(table))]
    table.assign(id=ids).to_csv(place / f"{name}.csv", index=False)
    write_labels(place / f"{name}-labels.csv", ids, y)


def write_pictures(place: Path, name: str, x: Any, y: Any) -> None:
    """The same of pictures."""
    ids = [f"{name}-{number}" for number in range(len(x))]
    np.savez(place / f"{name}.npz", id=np.array(ids), x=x)
    write_labels(place / f"{name}-labels.csv", ids, y)


TUNING = (0.1,)
PICTURES = {"kind": "npz", "id": "id", "array": "x", "scale": 255.0}
DIGITS = {"kind": "multiclass", "classes": [str(digit) for digit in range(10)]}


# -- teachers


def teachers(data: Path, seeds: int) -> Iterator[Row]:
    """Accuracy of the last student."""
    (table, y), (test, test_y) = adult(data)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        order = np.random.default_rng(0).permutation(len(y))
        write_table(place, "public", table.iloc[order[:PUBLIC]], y[order[:PUBLIC]])
        write_table(place, "private", table.iloc[order[PUBLIC:]], y[order[PUBLIC:]])
        for number, name in enumerate(("choosing", "scoring")):
            write_table(place, name, test.iloc[number::2], test_y[number::2])
        (place / "schema.toml").write_text(_schema_file())
        pool = {"path": "public.csv", "kind": "csv", "id": "id", "size": PUBLIC, "schema": "schema.toml"}
        task = {"kind": "binary", "classes": ["0", "1"]}
        base = {"pool": pool, "task": task, "private": {"path": "private.csv", "size": len(y) - PUBLIC}}
        base |= {"plan": {"queries": [34, 33, 33]}, "budget": {"epsilon": "1", "delta": "1e-5"}}
        maps = {"none": {}, "bins": {"features": {"name": "bins", "public": "public.csv"}}}
        for name, extra in maps.items():
            yield from _taught("teachers on Adult", place, base | extra, name, 250, "csv", seeds)


def pictures(data: Path, _seeds: int) -> Iterator[Row]:
    """The same of pictures, with the defaults of teachers and students."""
    (x, y), (test_x, test_y) = mnist(data)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_pictures(place, "public", x[:4000], y[:4000])
        write_pictures(place, "private", x[4000:29_000], y[4000:29_000])
        write_pictures(place, "scoring", test_x[::2], test_y[::2])
        base = {"pool": PICTURES | {"path": "public.npz", "size": 4000}, "task": DIGITS}
        base |= {"private": {"path": "private.npz", "size": 25_000}}
        base |= {"plan": {"queries": [34, 33, 33]}, "budget": {"epsilon": "2", "delta": "1e-5"}}
        for name, extra in {"none": {}, "scattering": {"features": {"name": "scattering"}}}.items():
            yield from _taught("teachers on MNIST", place, base | extra, name, 150, "npz", 1, (1.0,))


def _schema_file() -> str:
    tables = {name: keys for name, keys in schema().items() if name != "missing_values"}
    lines = ['missing_values = ["?"]']
    for name, keys in tables.items():
        lines += [f'["{name}"]', *(f"{key} = {_word(value)}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def _taught(
    part: str,
    place: Path,
    base: Mapping[str, Any],
    name: str,
    count: int,
    kind: str,
    seeds: int,
    strengths: tuple[float, ...] = (1.0, 10.0),
) -> Iterator[Row]:
    def last(strength: float, seed: int, file: str) -> float:
        tables = dict(base) | {"recipe": {"name": "pate"}, "storage": {"url": f"sqlite:///{place}/{time.time_ns()}.db"}}
        tables["private"] = dict(base["private"]) | {"labels": "private-labels.csv"}
        options = {"C": strength, "max_iter": 100}
        tables |= {"teachers": {"count": count, "options": options}, "simulation": {"seed": seed}}
        tables |= {"student": {"seed": seed, "options": options | {"C": strength / 10}}}
        tables |= {"evaluation": {"kind": "public", "path": f"{file}.{kind}", "labels": f"{file}-labels.csv"}}
        (place / "measured.toml").write_text(toml(tables))
        campaign = create(read_campaign(place / "measured.toml"))
        run(campaign, InternalOracle(campaign))
        return accuracies(campaign)[-1]

    best = strengths[0]
    if len(strengths) > 1:
        best = max(strengths, key=lambda strength: last(strength, 0, "choosing"))
    for seed in range(1, seeds + 1):
        settings = f"{count} teachers, C = {best:g}"
        value = last(best, seed, "scoring")
        yield {"part": part, "features": name, "settings": settings, "measure": "accuracy, %", "value": value}


# -- public data


def public_data(data: Path, _seeds: int) -> Iterator[Row]:
    """Accuracy of the checkpoint, and after each round of public labels; one linear layer."""
    (x, y), (test_x, test_y) = mnist(data)
    cases: dict[str, dict[str, Any]] = {
        "none": {"trainer": {"clip": 1.0, "learning_rate": 1.0}},
        "scattering": {"trainer": {"clip": 0.1, "learning_rate": 8.0}},
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, first, last in (("private", 0, 20_000), ("public", 20_000, 25_000)):
            write_pictures(place, name, x[first:last], y[first:last])
        write_pictures(place, "test", test_x[::2], test_y[::2])
        for name, case in cases.items():
            for settings, value in _improved(place, name, case, 1):
                row = {"part": "public data on MNIST", "features": name, "settings": settings}
                yield row | {"measure": "accuracy, %", "value": value}


def _improved(place: Path, name: str, case: Mapping[str, Any], seed: int) -> Iterator[tuple[str, float]]:
    features = {} if name == "none" else {"features": {"name": name}}
    common = {
        "task": DIGITS,
        "scorer": {"name": "random"},
        "selector": {"name": "random"},
        "model": {"name": "linear"},
        "simulation": {"seed": seed},
        "evaluation": {"kind": "public", "path": "test.npz", "labels": "test-labels.csv"},
        **features,
    }
    trainer = {"optimizer_options": {"momentum": 0.9}} | case["trainer"]
    private = common | {
        "pool": PICTURES | {"path": "private.npz", "size": 20_000},
        "recipe": {"name": "private-pool"},
        "budget": {"epsilon": "1", "delta": "1e-5"},
        "plan": {"initial": 20_000, "queries": [], "batch": 2000, "epochs": 20},
        "oracle": {"name": "simulated", "path": "private-labels.csv"},
        "trainer": trainer,
        "storage": {"url": f"sqlite:///{place}/{time.time_ns()}.db"},
    }
    campaign = _run(place, private)
    yield "checkpoint at epsilon 1", accuracies(campaign)[-1]
    export = place / f"{name}-{seed}"
    export_model(campaign, export, onnx=False)
    for rate in TUNING:
        for labels, value in zip((300, 1000), _fine_tuned(place, common, export, rate), strict=True):
            yield f"and {labels} public labels, fine-tuned at learning rate {rate}", value


def _fine_tuned(place: Path, common: Mapping[str, Any], export: Path, rate: float) -> list[float]:
    public = dict(common) | {
        "pool": PICTURES | {"path": "public.npz", "size": 5_000},
        "recipe": {"name": "public-data"},
        "checkpoint": {"path": f"{export}/weights.safetensors", "certificate": f"{export}/certificate.json"},
        "budget": {"epsilon": "1.01", "delta": "2e-5"},
        "plan": {"initial": 0, "queries": [300, 700], "batch": 64, "epochs": 20},
        "scorer": {"name": "entropy"},
        "selector": {"name": "diverse-public"},
        "oracle": {"name": "simulated", "path": "public-labels.csv"},
        "trainer": {"learning_rate": rate},
        "storage": {"url": f"sqlite:///{place}/{time.time_ns()}.db"},
    }
    return accuracies(_run(place, public))[1:]


def _run(place: Path, tables: Mapping[str, Any]) -> Any:
    (place / "measured.toml").write_text(toml(tables))
    campaign = create(read_campaign(place / "measured.toml"))
    with (place / tables["oracle"]["path"]).open(newline="", encoding="utf-8") as file:
        labels = {row["record"]: row["label"] for row in csv.DictReader(file)}
    while not campaign.done:
        if questions := campaign.ask():
            campaign.tell({question.id: labels[question.record] for question in questions})
        campaign.train()
    return campaign


# -- results

PARTS = {"stream": streams, "teachers": teachers, "pictures": pictures, "public": public_data}


def main() -> None:
    """Measure the parts that are named, keep their rows, and write the table of all."""
    words = argparse.ArgumentParser()
    words.add_argument("parts", nargs="+", choices=PARTS)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--seeds", type=int, default=5)
    asked = words.parse_args()
    for part in asked.parts:
        began, rows = time.process_time(), []
        for row in PARTS[part](asked.data, asked.seeds):
            rows.append({"of": part, **row})
            print(rows[-1], f"{time.process_time() - began:.0f} s", flush=True)
        known = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
        kept = [row for row in known if row["of"] != part] + rows
        ROWS.write_text("".join(json.dumps(row) + "\n" for row in kept))
        RESULT.write_text(_text(kept))


def _text(rows: list[Row]) -> str:
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        parts = row["settings"].split(", about")[0]
        groups.setdefault((row["part"], row["features"], parts, row["measure"]), []).append(row["value"])
    lines = [
        "# Do feature maps help outside of a private pool?",
        "",
        "Made by benchmarks/features_of_recipes.py, which says what is measured.",
        "Means and standard deviations over seeds.",
        "The majority class has 76.4% of Adult's test records and 11.4% of MNIST's.",
        hardware(),
        "",
        "| | features | settings | measure | mean | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for (part, features, settings, measure), values in groups.items():
        digits = 4 if measure == "AUC" else 1
        spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
        mean = f"{np.mean(values):.{digits}f}{spread}"
        lines.append(f"| {part} | {features} | {settings} | {measure} | {mean} | {len(values)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
