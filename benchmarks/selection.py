"""Speed of private selection from many scores, as ratios to `numpy.argpartition` in interleaved runs.

The peer finds the k largest scores, without any privacy. Contenders take the same array and give places: charged
before, so that a ledger's fsync is in nobody's time. All run in one process, one after the other in every round.

    python benchmarks/selection.py             # writes benchmarks/results/selection.md; some ten minutes, 4 GB
    python benchmarks/selection.py 10000000    # prints the tables of this many scores alone
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import OperatingSystem, gaussian_top, laplace_top
from discreet.privacy.events import Event, Gaussian, Laplace
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.selectors import ThresholdSelector
from discreet.selectors.selection_inputs import charge_selection
from discreet.testing.neighbours import AMPLE
from timing import hardware, seconds

RESULT = Path(__file__).parent / "results" / "selection.md"
SIZES = {10**7: 15, 10**8: 5}
"""Scores, and rounds that count."""
SHARES = (1e-4, 1e-3, 1e-2, 4e-2)
PEER = "`numpy.argpartition`"
Scores = NDArray[Any]
Contender = tuple[Callable[[], Any], Callable[[Any], Any]]
"""What pays, and what is timed."""


def evenly(size: int) -> Scores:
    """Scores of 64 bits, all over their range."""
    return np.random.default_rng(0).random(size)


def mostly_low(size: int) -> Scores:
    """Scores of 32 bits, few of which are high, as those of a trained model are."""
    scores = np.random.default_rng(0).random(size, dtype=np.float32)
    return np.power(scores, np.float32(6), out=scores)


def contenders(scores: Scores, k: int, ledger: Ledger) -> dict[str, Contender]:
    def noisy(top: Callable[..., Any], event: Event) -> Contender:
        return (
            lambda: ledger.charge(event=event, who="pool", why="benchmark"),
            lambda paid: top(scores, k, sensitivity=1.0, receipt=paid),
        )

    selector = ThresholdSelector(asked=2)

    def pay() -> Any:
        return charge_selection(ledger, selector, k=k, pool_size=scores.size, who="pool", why="benchmark")

    return {
        PEER: (lambda: None, lambda paid: np.argpartition(scores, scores.size - k)),
        "threshold response, asked=2": (pay, lambda paid: selector.respond(scores, k, paid)),
        "`laplace_top`, epsilon=1": noisy(laplace_top, Laplace(epsilon=1)),
        "`laplace_top`, epsilon=20": noisy(laplace_top, Laplace(epsilon=20)),
        "`gaussian_top`, noise multiplier 2": noisy(gaussian_top, Gaussian(noise_multiplier=2.0)),
    }


def timed(contender: Contender) -> float:
    pay, act = contender
    paid = pay()
    return seconds(lambda: act(paid))


def rows(scores: Scores, name: str, k: int, rounds: int) -> list[str]:
    """Medians over rounds of seconds and of the ratio to the peer in the same round; and the ratios' range."""
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=OperatingSystem())
    all_ = contenders(scores, k, ledger)
    times = [{one: timed(contender) for one, contender in all_.items()} for _ in range(1 + rounds)][1:]
    found = []
    for one in all_:
        ratios = [each[one] / each[PEER] for each in times]
        median = statistics.median(each[one] for each in times)
        found.append(
            f"| {scores.size:,} | {name} | {k:,} | {one} | {median * 1e3:,.0f} | "
            f"{statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
        )
    return found


def tables(sizes: dict[int, int]) -> list[str]:
    found = ["| scores | kind | k | | ms | ratio, median | ratio, range |", "|---|---|---|---|---|---|---|"]
    for size, rounds in sizes.items():
        for make, name in ((evenly, "even, float64"), (mostly_low, "mostly low, float32")):
            scores = make(size)
            for share in SHARES:
                found += rows(scores, name, int(size * share), rounds)
                print(*found[-5:], sep="\n", flush=True)
    return found


def main() -> None:
    if len(sys.argv) > 1:
        tables({int(size): SIZES.get(int(size), 7) for size in sys.argv[1:]})
        return
    text = "\n".join(
        [
            "# Private selection: speed",
            "",
            "Made by `make bench` (benchmarks/selection.py): contenders interleaved in one process. Medians of rounds,",
            f"and of the ratio to {PEER} within a round; {' and '.join(map(str, SIZES.values()))} rounds. Low is fast.",
            "The demand: threshold response at most 0.5 times, noisy top-k at most 2 times.",
            f"{hardware(numpy=np.__version__)} Load when it began: {os.getloadavg()[0]:.1f}.",
            "",
            *tables(SIZES),
            "",
        ]
    )
    RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
