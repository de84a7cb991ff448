"""Sketches: what a release decided by count-mean-min alone would get wrong, and speed against `datasketches`.

python benchmarks/sketches.py DATA     # words and their counts in DATA/word-counts; writes results/sketches.md
"""

from __future__ import annotations

import gzip
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from discreet.gates.sketches import CountMin, Counts, HyperLogLog
from discreet.noise import SecretKey
from discreet_research.bench.count_mean_min import false_releases
from timing import hardware, seconds

RESULT = Path(__file__).parent / "results" / "sketches.md"
KEY = SecretKey(bytes(range(32)))
WIDTHS = (1 << 12, 1 << 14, 1 << 16, 1 << 18)
KS = (20, 100, 500)
DEPTH, BETA = 4, 0.3
CODES = 1_000_000
ROUNDS = 5


def kept(data: Path) -> Counts:
    """How often each word of the subtitles is kept: an occurrence with probability BETA."""
    with gzip.open(data / "word-counts" / "subtlex_us.csv.gz", "rt", encoding="utf-8") as file:
        next(file)
        counts = np.array([int(line.rsplit(",", 1)[1]) for line in file], dtype=np.int64)
    return np.random.default_rng(0).binomial(counts, BETA)


def wrong(counts: Counts) -> str:
    """The table of false releases."""
    rows = [
        "| k | reach k | width | counters per value | false, conservative | missed | false, plain | missed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for k in KS:
        for width in WIDTHS:
            careful, plain = (false_releases(counts, k, width, DEPTH, conservative=way) for way in (True, False))
            cells = (k, careful.reach, width, f"{width / counts.size:.2f}", careful.false, careful.missed, plain.false)
            rows.append(
                "| " + " | ".join(f"{c:,}" if isinstance(c, int) else c for c in cells) + f" | {plain.missed:,} |"
            )
    return "\n".join(rows)


def contenders() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Ours, and theirs."""
    import datasketches  # type: ignore[import-not-found, import-untyped, unused-ignore]

    codes = np.random.default_rng(0).integers(0, 2**64, (CODES, 2), dtype=np.uint64)
    numbers = codes[:, 0].astype(np.int64).tolist()
    ours, theirs = CountMin(1 << 20, DEPTH, KEY), datasketches.count_min_sketch(DEPTH, 1 << 20)
    distinct, other = HyperLogLog(14), datasketches.hll_sketch(14, datasketches.tgt_hll_type.HLL_8)

    def each(function: Callable[[int], object]) -> Callable[[], object]:
        return lambda: [function(number) for number in numbers]

    return {
        "count-min, adding": (lambda: ours.add(codes), each(theirs.update)),
        "count-min, asking": (lambda: ours.upper(codes), each(theirs.get_estimate)),
        "HyperLogLog, adding": (lambda: distinct.add(codes), each(other.update)),
    }


def speed() -> str:
    """Millions of codes a second, interleaved."""
    rows = ["| | here, millions a second | `datasketches` | ratio, median |", "|---|---|---|---|"]
    for name, both in contenders().items():
        times = [[seconds(one) for one in both] for _ in range(ROUNDS)]
        ours, theirs = (statistics.median(CODES / taken[side] / 1e6 for taken in times) for side in (0, 1))
        ratio = statistics.median(taken[1] / taken[0] for taken in times)
        rows.append(f"| {name} | {ours:.1f} | {theirs:.1f} | {ratio:.1f} |")
    return "\n".join(rows)


def main() -> None:
    counts = kept(Path(sys.argv[1]))
    load = os.getloadavg()[0]
    RESULT.write_text(
        f"""# Sketches: false releases, and speed

Made by `make bench` (benchmarks/sketches.py).

## What count-mean-min alone would have released

The {counts.size:,} words of SUBTLEX-US, {int(counts.sum()):,} occurrences kept (each with probability {BETA}),
in random order; count-mean-min of {DEPTH} rows. *False*: values below k that the estimate puts at k or more, each a
broken promise. *Missed*: the reverse. The gate releases neither: it counts exactly.

{wrong(counts)}

## Speed

{CODES:,} codes, {DEPTH} rows of 2^20 counters, or 2^14 registers; medians of {ROUNDS} interleaved rounds.
The Python binding of `datasketches` takes one item a call.
{hardware(numpy=np.__version__)} Load when it began: {load:.1f}.

{speed()}
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
