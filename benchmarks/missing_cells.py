"""What do gaps in a table cost? Private training on UCI Adult: the whole table, and with 5% of all cells removed.

Bounds and values are declared from the data set's description; nothing is fitted. Each seed draws which records are
trained and which cells are removed, from the training and from the test records alike; the noise is the operating
system's.

    python benchmarks/missing_cells.py --data DIR   # a directory with adult/; writes results/missing_cells.md
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet import DPClassifier
from discreet.pools import open_frame
from discreet.trainers.dp_sgd import Settings
from discreet.trainers.layouts import Layout, measure

RESULT = Path(__file__).parent / "results" / "missing_cells.md"
RECORDS, SEEDS, REMOVED, EPSILON = 20_000, 5, 0.05, "1"
CLASSES = ["<=50K", ">50K"]
NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (0, 500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 20_000),
    "capital-loss": (0, 4_000),
    "hours-per-week": (1, 99),
}
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Mexico Philippines Germany Canada Puerto-Rico El-Salvador India Cuba England",
}
COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
]
"""In the order of the file."""


def schema(missing: str | None = None) -> dict[str, Any]:
    """The declared columns. ``missing``: what a missing cell becomes; None: an input or a category of its own."""
    rule = {} if missing is None else {"missing": missing}
    columns: dict[str, Any] = {"missing_values": ["?"]}
    for name in COLUMNS:
        if name in NUMBERS:
            columns[name] = {"type": "number", "low": NUMBERS[name][0], "high": NUMBERS[name][1]} | rule
        else:
            columns[name] = {"type": "category", "values": CATEGORIES[name].split()} | rule
    return columns


def read(path: Path) -> tuple[pd.DataFrame, Any]:
    """Cells as texts, and classes."""
    with gzip.open(path, "rt") as file:
        table = pd.read_csv(
            file, names=[*COLUMNS, "class"], skipinitialspace=True, dtype=str, keep_default_na=False, comment="|"
        )
    return table[COLUMNS], table["class"].str.rstrip(".").to_numpy()


def with_gaps(table: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """The table without a share of its cells."""
    return table.mask(random.random(table.shape) < REMOVED)


def voided(table: pd.DataFrame, columns: dict[str, Any]) -> int:
    """How many records the table's owner is told of that no model can read."""
    numbered = table.assign(id=np.arange(len(table)).astype(str))
    rows = open_frame(numbered, id="id", schema=columns).x
    assert rows is not None
    return int(rows.counts().nulls)


def trained(table: pd.DataFrame, labels: Any, test: pd.DataFrame, truth: Any, columns: dict[str, Any]) -> list[float]:
    """AUC, balanced accuracy, accuracy and its majority baseline of one private model."""
    model = DPClassifier(
        epsilon=EPSILON,
        delta="1e-6",
        classes=CLASSES,
        schema=columns,
        features=None,
        batch=1_000,
        epochs=20,
        settings=Settings(learning_rate=4.0),
    )
    model.fit(table, labels)
    found = measure(model.predict_proba(test), (truth == CLASSES[1]).astype(int), Layout(classes=2))
    majority = found.metric("accuracy").baseline or 0.0
    return [*(found.metric(name).value or 0.0 for name in ("auc", "balanced-accuracy", "accuracy")), majority]


def page(lines: list[str], test: int, lost: float) -> str:
    """The committed page."""
    verdict = "within" if lost <= 0.01 else "beyond"
    return f"""# What do gaps in a table cost?

Made by benchmarks/missing_cells.py. UCI Adult, 14 declared columns, `DPClassifier(schema=...)` with a linear model,
epsilon {EPSILON}, delta 1e-6, {RECORDS:,} training records, {test:,} test records, the operating system's noise;
means and standard deviations of {SEEDS} seeds. "Voided" is how many of the training records become nulls, as
`counts()` tells the owner. Cells are removed from the training and the test records alike; a test record that is a
null is answered 1/2.
{os.cpu_count()} cores, Python {platform.python_version()}.

| table | missing cells are | voided | AUC | balanced accuracy, % | accuracy, % | majority, % |
|---|---|---|---|---|---|---|
{chr(10).join(lines)}

With gaps and the default declaration the AUC is {lost:.4f} below that of the whole table: {verdict} .01.
"""


def main() -> None:
    """Train, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    table, labels = read(given.data / "adult" / "adult.data.gz")
    test, truth = read(given.data / "adult" / "adult.test.gz")
    cases = {
        ("whole", "an input of their own (default)"): (False, schema()),
        ("5% of cells removed", "an input of their own (default)"): (True, schema()),
        ("whole", '`missing = "null"`'): (False, schema("null")),
        ("5% of cells removed", '`missing = "null"`'): (True, schema("null")),
    }
    results: dict[tuple[str, str], list[list[float]]] = {case: [] for case in cases}
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        rows = random.permutation(len(table))[:RECORDS]
        whole, known = table.iloc[rows].reset_index(drop=True), labels[rows]
        gaps, test_gaps = with_gaps(whole, random), with_gaps(test, random)
        for case, (removed, columns) in cases.items():
            private, public = (gaps, test_gaps) if removed else (whole, test)
            result = [voided(private, columns), *trained(private, known, public, truth, columns)]
            results[case].append(result)
            print(seed, case, [round(value, 4) for value in result], flush=True)
    lines, auc = [], []
    for (which, rule), values in results.items():
        mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
        auc.append(float(mean[1]))
        shares = " | ".join(f"{100 * mean[place]:.2f} ± {100 * spread[place]:.2f}" for place in (2, 3))
        cells = f"{mean[0]:,.0f} | {mean[1]:.4f} ± {spread[1]:.4f} | {shares} | {100 * mean[4]:.2f}"
        lines.append(f"| {which} | {rule} | {cells} |")
    RESULT.write_text(page(lines, len(test), auc[0] - auc[1]))


if __name__ == "__main__":
    main()
