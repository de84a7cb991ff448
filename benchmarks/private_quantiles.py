"""What private quantiles are worth: AUC of campaigns on `bins` whose edges come from four places.

Each campaign labels 20,000 records at epsilon 1, drawn uniformly at random from a pool of these records alone, and
trains one linear layer with the settings of `features-tables`. Private quantiles are paid for out of that epsilon.
Public ones are of 3,000 other rows. Then the same with bounds of numbers that are declared ten times as high: the owner
did not know them. Everything is a simulation on a public set.

    pip install 'discreet-research[bench]'
    python benchmarks/private_quantiles.py DATA   # writes benchmarks/results/private-quantiles.md; five minutes
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from discreet import create_campaign
from discreet.recipes import private_pool
from discreet_research.bench.feature_table_sets import TableParts, table_parts

RESULT = Path(__file__).parent / "results" / "private-quantiles.md"
SEEDS = (0, 1, 2)
LABELS, BUDGET = 20_000, {"epsilon": "1", "delta": "1e-6"}
PRICES, BINS = ("0.05", "0.1"), (64, 256)


def main() -> None:
    lines = ["# Private quantiles: AUC of `bins`", "", f"Made by benchmarks/private_quantiles.py, seeds {SEEDS}.", ""]
    lines += ["| bounds | edges | AUC by seed | mean | noise multiplier |", "|---|---|---|---|---|"]
    parts = [table_parts("adult", Path(sys.argv[1]), seed) for seed in SEEDS]
    for bounds, times in (("declared", 1), ("ten times as high", 10)):
        for label, features in choices().items():
            runs = [measured(part, features, seed, times) for part, seed in zip(parts, SEEDS, strict=True)]
            areas = [area for area, _ in runs]
            shown = ", ".join(f"{area:.4f}" for area in areas)
            lines.append(f"| {bounds} | {label} | {shown} | {statistics.mean(areas):.4f} | {runs[0][1]:.3f} |")
            print(lines[-1], flush=True)
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def choices() -> dict[str, dict[str, Any]]:
    """Tables [features], by what the edges are."""
    private = {
        f"private quantiles for {price}, {bins} bins": {"quantiles_epsilon": price, "quantile_bins": bins}
        for bins in BINS
        for price in PRICES
    }
    return {"evenly spaced": {}, "public quantiles": {"public": "public.csv"}} | private


def measured(parts: TableParts, features: dict[str, Any], seed: int, times: int) -> tuple[float, float]:
    """The AUC on the test part, and the noise multiplier of the training."""
    with tempfile.TemporaryDirectory() as folder:
        parts.public.to_csv(Path(folder) / "public.csv", index=False)
        if "public" in features:
            features = features | {"public": str(Path(folder) / "public.csv")}
        records = parts.table.assign(record=[f"r{number}" for number in range(LABELS)])
        campaign = create_campaign(
            "quantiles",
            storage=Path(folder) / "c.db",
            pool=records,
            id="record",
            schema=higher(parts.schema.to_json(), times),
            budget=BUDGET,
            recipe=private_pool(
                classes=["no", "yes"],
                initial=LABELS,
                batch=1_000,
                epochs=20,
                trainer={
                    "learning_rate": 2.0,
                    "clip": 1.0,
                    "optimizer_options": {"momentum": 0.9},
                    "micro_batch": 1_024,
                },
                features={"name": "bins"} | features,
                simulation={"seed": seed},
            ),
        )
        truth = dict(zip(records["record"], np.where(parts.y == 1, "yes", "no").tolist(), strict=True))
        campaign.tell({question.id: truth[question.record] for question in campaign.ask()})
        campaign.train()
        scores = campaign.predict_proba(parts.test)[:, 1]
        recipe: Any = campaign.recipe
        return float(roc_auc_score(parts.test_y, scores)), recipe.plan.noise_multiplier


def higher(schema: dict[str, Any], times: int) -> dict[str, Any]:
    """A schema's form with every upper bound so many times as high."""
    columns = [
        column | {"high": column["high"] * times} if "high" in column else column for column in schema["columns"]
    ]
    return schema | {"columns": columns}


if __name__ == "__main__":
    main()
