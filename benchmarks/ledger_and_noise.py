"""Speed of the ledger and of the noise, as ratios in interleaved runs.

Noise: peers are numpy's ordinary generators (no receipt, no lattice, not cryptographic) and Opacus's secure mode as it
is usually emulated on a CPU (four normals a draw, Holohan and Braghin 2021); the physical limit is the operating
system's own entropy, word for word. Ledger: the peer is the same line written and fsynced with nothing else done.

    python benchmarks/ledger_and_noise.py    # writes benchmarks/results/ledger_and_noise.md
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from discreet.noise import OperatingSystem, discrete_laplace, gaussian, laplace, poisson_mask
from discreet.noise.stream import Stream
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace, Event, Gaussian, Laplace, PoissonSampledGaussian
from discreet.privacy.ledger import ChargeReason, FileSink, Ledger, MemorySink, Receipt, Request, adaptive
from discreet.privacy.ledger.charges import Charge
from timing import hardware, interleaved, medians, seconds

RESULT = Path(__file__).parent / "results" / "ledger_and_noise.md"
DRAWS = 1 << 20
ROUNDS = 9
AMPLE = adaptive(Budget(epsilon=10**9, delta="1e-6"), orders=[8.0])
STEP = PoissonSampledGaussian(sampling_rate=0.1, noise_multiplier=2.0)


def noise_contenders() -> dict[str, Callable[[], Any]]:
    ledger = Ledger.create(MemorySink(), AMPLE, source=OperatingSystem())
    zeros, counts = np.zeros(DRAWS), np.zeros(DRAWS >> 4, dtype=np.int64)
    ordinary = np.random.default_rng()
    counter_based = np.random.Generator(np.random.Philox())
    stream = Stream(os.urandom(32), b"benchmark")

    def paid(event: Event) -> Receipt:
        return ledger.charge(event=event, who="bench", why="bench")

    def masks() -> Any:
        return poisson_mask(DRAWS, receipt=paid(STEP))

    return {
        "operating system, words": lambda: os.urandom(8 * DRAWS),
        "our stream, words": lambda: stream.words(DRAWS),
        "our stream, normals": lambda: stream.normals(DRAWS),
        "numpy PCG64, normals": lambda: ordinary.standard_normal(DRAWS),
        "numpy Philox, normals": lambda: counter_based.standard_normal(DRAWS),
        "four normals a draw": lambda: sum(counter_based.standard_normal(DRAWS) for _ in range(4)) / 2,
        "gaussian()": lambda: gaussian(zeros, sensitivity=1.0, receipt=paid(Gaussian(noise_multiplier=2.0))),
        "laplace()": lambda: laplace(zeros[: DRAWS >> 4], sensitivity=1.0, receipt=paid(Laplace(epsilon=1))),
        "discrete_laplace()": lambda: discrete_laplace(counts, receipt=paid(DiscreteLaplace(epsilon=1))),
        "poisson_mask()": masks,
    }


FEWER = {"laplace()": DRAWS >> 4, "discrete_laplace()": DRAWS >> 4}


def charged(ledger: Ledger, count: int) -> list[float]:
    return [seconds(lambda: ledger.charge(event=STEP, who="pool", why="train")) for _ in range(count)]


def ledger_rows() -> list[str]:
    ledger = Ledger.create(MemorySink(), AMPLE)
    early = charged(ledger, 10_000)
    query = [seconds(lambda: ledger.total("everyone")) for _ in range(200)]
    listed = [seconds(lambda: ledger.entries_of("everyone")) for _ in range(200)]
    charged(ledger, 85_000)
    late = charged(ledger, 5_000)
    totals_late = [seconds(lambda: ledger.total("everyone")) for _ in range(200)]
    return [
        f"| a charge, the first 10,000 entries (memory) | {shown(early)} |",
        f"| a charge, entries 95,001 to 100,000 | {shown(late)} |",
        f"| the total of a path of 10,000 entries | {shown(query)} |",
        f"| the total of a path of 100,000 entries | {shown(totals_late)} |",
        f"| the list of its 10,000 entries | {shown(listed)} |",
    ]


def shown(times: list[float]) -> str:
    ranked = sorted(times)
    return f"{statistics.median(ranked) * 1e6:.0f} us | {ranked[int(len(ranked) * 0.99)] * 1e6:.0f} us"


def file_rows() -> list[str]:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as place:
        ledger = Ledger.create(FileSink(Path(place) / "a"), AMPLE)
        ledger.charge(event=STEP, who="pool", why="train")
        line = (Path(place) / "a").read_bytes().splitlines(keepends=True)[-1]
        bare = os.open(Path(place) / "b", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        one = Request(charges=(Charge(who="pool", event=STEP),), why=ChargeReason(purpose="train"))

        def write() -> None:
            os.write(bare, line)
            os.fsync(bare)

        found = {"bare": [], "one": [], "batch": []}  # type: dict[str, list[float]]
        for _ in range(200):
            found["bare"].append(seconds(write))
            found["one"].append(seconds(lambda: ledger.charge_all([one])))
            found["batch"].append(seconds(lambda: ledger.charge_all([one] * 100)) / 100)
        os.close(bare)
        ledger.close()
    base = statistics.median(found["bare"])
    names = {"bare": "the same line, write and fsync alone", "one": "a charge", "batch": "a charge in a batch of 100"}
    return [
        f"| {names[key]} | {shown(times)} | {statistics.median(times) / base:.2f} |" for key, times in found.items()
    ]


def main() -> None:
    times = medians(interleaved(noise_contenders(), ROUNDS))
    rates = {name: FEWER.get(name, DRAWS) / seconds / 1e6 for name, seconds in times.items()}
    peer = rates["numpy Philox, normals"]
    rows = [f"| {name} | {rate:.1f} | {rate / peer:.2f} |" for name, rate in rates.items()]
    text = "\n".join(
        [
            "# Ledger and noise: speed",
            "",
            "Made by `make bench` (benchmarks/ledger_and_noise.py): contenders interleaved in one process, medians of",
            f"{ROUNDS} rounds, one thread. {hardware(numpy=np.__version__)}",
            "",
            "| draws | million a second | ratio to numpy's Philox normals |",
            "|---|---|---|",
            *rows,
            "",
            "| ledger in memory | median | 99th percentile |",
            "|---|---|---|",
            *ledger_rows(),
            "",
            "| ledger in a file | median | 99th percentile | ratio |",
            "|---|---|---|---|",
            *file_rows(),
            "",
        ]
    )
    RESULT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
