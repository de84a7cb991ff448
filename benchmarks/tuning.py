"""What a private search is worth: digits, a linear model, with defaults, with a search that is paid for, with luck.

Every figure is the accuracy on records that nobody trained or scored on, over seeds; each seed splits the records anew.
Everybody has the same 1,400 private records and the same epsilon at delta 1e-5:

- *defaults*: `DPClassifier` as it comes, on all of them, certified by PLD;
- *search*: `discreet.tune` over the grid; 300 of the records are kept apart to score on, and are not trained on;
- *known best*: one run with the setting that was best over all seeds, as if an oracle had told it for nothing;
- *worst*: one run with the setting that was worst.

Run: python benchmarks/tuning.py [SEEDS]   (simulations: the noise is seeded). Writes benchmarks/results/tuning.md.
"""

import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from discreet import DPClassifier, tune
from discreet.trainers.dp_sgd import Settings
from discreet.tuning import TuningPrice

GRID = {"learning_rate": [0.1, 0.5, 2.0, 8.0], "clip": [0.1, 1.0]}
PRIVATE, HELD_OUT, EPOCHS, BATCH = 1400, 300, 8, 256
EPSILONS = (1, 8)
SEARCHES = (("0", 10), ("1", 10))


def made(epsilon: int, seed: int, **options: Any) -> DPClassifier:
    return DPClassifier(
        epsilon=epsilon,
        delta="1e-5",
        classes=range(10),
        scale=16,
        batch=BATCH,
        epochs=EPOCHS,
        simulation_seed=seed,
        **{"settings": None, **options},
    )


def split(seed: int) -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    return x[order], y[order]


def single(epsilon: int, seed: int, **setting: float) -> float:
    x, y = split(seed)
    options = {"settings": Settings(**setting)} if setting else {}  # type: ignore[arg-type]
    return float(made(epsilon, seed, **options).fit(x[:PRIVATE], y[:PRIVATE]).score(x[PRIVATE:], y[PRIVATE:]))


def searched(epsilon: int, seed: int, eta: str, runs: int) -> tuple[float, TuningPrice]:
    x, y = split(seed)
    train = PRIVATE - HELD_OUT
    found = tune(
        made(epsilon, seed),
        GRID,
        x[:train],
        y[:train],
        held_out=(x[train:PRIVATE], y[train:PRIVATE]),
        eta=eta,
        runs=runs,
    )
    return found.classifier.score(x[PRIVATE:], y[PRIVATE:]), found.price


def shown(values: list[Any]) -> str:
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"


def main(seeds: int) -> None:
    rows, begun = [], time.time()
    for epsilon in EPSILONS:
        defaults = [single(epsilon, seed) for seed in range(seeds)]
        each = {
            (rate, clip): [single(epsilon, seed, learning_rate=rate, clip=clip) for seed in range(seeds)]
            for rate, clip in product(*GRID.values())
        }
        best, worst = (choose(each, key=lambda one: np.mean(each[one])) for choose in (max, min))
        mean = [np.mean([each[one][seed] for one in each]) for seed in range(seeds)]
        row = [f"{epsilon}", shown(defaults), f"{shown(each[best])} (rate {best[0]}, clip {best[1]})", shown(mean)]
        row.append(f"{shown(each[worst])} (rate {worst[0]}, clip {worst[1]})")
        for eta, runs in SEARCHES:
            found = [searched(epsilon, seed, eta, runs) for seed in range(seeds)]
            price = found[0][1]
            row.append(f"{shown([score for score, _ in found])} (one run: {price.one_run:.2f})")
        rows.append(row)
        print(" | ".join(row), f"{time.time() - begun:.0f} s", flush=True)
    names = [f"search, eta {eta}, {runs} runs" for eta, runs in SEARCHES]
    header = ["epsilon", "defaults", "known best", "a setting at random", "worst", *names]
    lines = [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]]
    tests = [split(seed)[1][PRIVATE:] for seed in range(seeds)]
    largest = np.mean([np.bincount(labels).max() / len(labels) for labels in tests])
    place = Path(__file__).parent / "results" / "tuning.md"
    place.write_text(
        f"# What a private search is worth\n\nAccuracy in %, mean and standard error over {seeds} seeds; "
        f"`python benchmarks/tuning.py {seeds}`. In brackets: what one run of it costs alone. "
        f"Always answering the largest class (majority) has {largest:.1%}.\n\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
