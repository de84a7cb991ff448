"""Choosing public records at scale: 2,000 of a million, against 100,000 private ones, in 512 dimensions.

Beside the selectors runs, in every round, what everybody would write first: one exact nearest-neighbour pass in numpy,
each private record against all public ones, block by block in single precision. Embeddings lie in npy files and are
read through memory maps, as a pool that does not fit into memory would be; memory is what a selector holds beside them.

    python benchmarks/public_data.py              # writes benchmarks/results/public_data.md
    python benchmarks/public_data.py --scale 10   # a tenth of the records: a minute
    python benchmarks/public_data.py --rounds 1 --part 10   # the pass over a tenth of the private records, times ten

The pass takes over an hour of one core. It does the same for every block of private records, so `--part N` lets it
take every Nth block, and counts its seconds for the whole of them; the page says so. Selectors always run whole.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from timing import hardware

RESULT = Path(__file__).parent / "results" / "public_data.md"
PUBLIC, PRIVATE, ASKED, WIDTH, GROUPS = 1_000_000, 100_000, 2_000, 512, 200
ROUNDS, BLOCK, POINTS = 3, 1024, 8192


def write(folder: Path, name: str, rows: int, seed: int) -> Any:
    """Embeddings as networks make them: groups, a falling spectrum, lengths that differ."""
    chance = np.random.default_rng(7)
    spectrum = (1 / np.sqrt(1 + np.arange(WIDTH))).astype(np.float32)
    centres = chance.normal(size=(GROUPS, WIDTH)).astype(np.float32) * spectrum * 2
    own = np.random.default_rng(seed)
    made = np.lib.format.open_memmap(folder / name, mode="w+", dtype=np.float32, shape=(rows, WIDTH))
    for start in range(0, rows, 20_000):
        size = min(20_000, rows - start)
        made[start : start + size] = centres[own.integers(0, GROUPS, size)] + spectrum * own.standard_normal(
            (size, WIDTH), dtype=np.float32
        )
    made.flush()
    return np.load(folder / name, mmap_mode="r")


class Scene:
    """The records of a run, and a ledger to charge."""

    def __init__(self, folder: Path, scale: int, part: int = 1) -> None:
        from discreet import Budget
        from discreet.noise import Seeded
        from discreet.privacy.ledger import Ledger, MemorySink, adaptive

        self.asked, self.part = ASKED // scale, part
        self.public = write(folder, "public.npy", PUBLIC // scale, 0)
        self.private = write(folder, "private.npy", PRIVATE // scale, 1)
        chance = np.random.default_rng(2)
        self.scores, self.own = chance.random(len(self.public)), chance.random(len(self.private))
        self.ids = [f"p{number}" for number in range(len(self.public))]
        budget = Budget(epsilon=10**9, delta="1e-6")
        self.ledger = Ledger.create(MemorySink(), adaptive(budget), source=Seeded(0))

    def near_private(self, uncertain: int | None) -> int:
        """The whole selection, charges and draws in it; every private record counts."""
        from discreet.selectors import NearPrivate, charge_selection

        selector = NearPrivate(support_epsilon="0.5", noise_multiplier=10.0, uncertain=uncertain)
        paid = charge_selection(
            self.ledger, selector, k=self.asked, pool_size=len(self.ids), who="private", why="selection"
        )
        own = np.ones(len(self.own))
        found = selector.select(
            ids=self.ids,
            scores=self.scores,
            k=self.asked,
            receipt=paid,
            embeddings=self.public,
            private_scores=own,
            private_embeddings=self.private,
        )
        return len(found)

    def free(self, selector: Any) -> int:
        """A selection that costs nothing."""
        return len(selector.select(ids=self.ids, scores=self.scores, k=self.asked, embeddings=self.public))

    def plain_pass(self) -> int:
        """Exact nearest neighbours of all private records (or of a part) among all public ones, in numpy."""
        found = np.zeros(len(self.private), dtype=np.int64)
        lengths = np.concatenate(
            [
                np.einsum("ij,ij->i", part, part)
                for part in (self.public[s : s + 65_536] for s in range(0, len(self.public), 65_536))
            ]
        )
        best = np.full(len(self.private), np.inf, dtype=np.float32)
        for first in range(0, len(self.public), POINTS):
            part = np.ascontiguousarray(self.public[first : first + POINTS]).T
            for start in range(0, len(self.private), BLOCK * self.part):
                apart = lengths[first : first + POINTS] - 2 * (self.private[start : start + BLOCK] @ part)
                place = apart.argmin(axis=1)
                least = apart[np.arange(len(place)), place]
                closer = least < best[start : start + BLOCK]
                best[start : start + BLOCK][closer] = least[closer]
                found[start : start + BLOCK][closer] = place[closer] + first
        return len(found)

    def passed(self) -> float:
        """The share of the private records that a pass looks at."""
        return sum(
            min(BLOCK, len(self.private) - start) for start in range(0, len(self.private), BLOCK * self.part)
        ) / len(self.private)


def contenders(scene: Scene, everybody: bool) -> dict[str, Callable[[], int]]:
    """What runs in a round, in this order."""
    from discreet.selectors import DiversePublic, GreedyKCentre, k_means_public

    widest = {"near-private, every public record a candidate": lambda: scene.near_private(len(scene.ids))}
    return {
        "one nearest-neighbour pass in numpy": scene.plain_pass,
        "near-private": lambda: scene.near_private(None),
        **(widest if everybody else {}),
        "diverse-public": lambda: scene.free(DiversePublic()),
        "k-means of all": lambda: scene.free(k_means_public()),
        "greedy k-centre of all": lambda: scene.free(GreedyKCentre()),
    }


class Memory:
    """The most memory of its own that a process held while this was open, above what it had before; in MB."""

    def __enter__(self) -> Memory:
        self.before, self.most, self._open = _anonymous(), 0.0, True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while self._open:
            self.most = max(self.most, _anonymous() - self.before)
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()


def _anonymous() -> float:
    """Megabytes that are not pages of a file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1000
    return 0.0


def measured(scene: Scene, rounds: int, everybody: bool) -> dict[str, list[tuple[float, float]]]:
    """Seconds and megabytes, by contender, interleaved."""
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        for name, work in contenders(scene, everybody).items():
            with Memory() as memory:
                start = time.perf_counter()
                work()
                seconds = (time.perf_counter() - start) / (scene.passed() if work == scene.plain_pass else 1)
            found.setdefault(name, []).append((seconds, memory.most))
            print(f"round {number}: {name}: {seconds:.1f} s, {memory.most:.0f} MB", flush=True)
    return found


def page(scene: Scene, found: dict[str, list[tuple[float, float]]], scale: int) -> str:
    """The committed table."""
    whole = "" if scale == 1 else f" **One {scale}th of the full size.**"
    plain = found["one nearest-neighbour pass in numpy"]
    if scene.part > 1:
        whole += (
            f" **The pass went over {scene.passed():.1%} of the private records; its seconds are for all of them.**"
        )
    rows = []
    for name, times in found.items():
        ratio = statistics.median(one[0] / other[0] for one, other in zip(times, plain, strict=True))
        rows.append(
            f"| {name} | {statistics.median(one[0] for one in times):.1f} | {ratio:.3f} "
            f"| {max(one[1] for one in times):.0f} |"
        )
    return f"""# Choosing public records at scale

Made by `python benchmarks/public_data.py{_asked(scene, scale, len(plain))}`: rounds: {len(plain)},
interleaved in one process with {os.environ.get("OMP_NUM_THREADS", "all")} threads, medians.{whole}
{scene.asked:,} of {len(scene.public):,} public records against {len(scene.private):,} private ones, {WIDTH} dimensions,
read from files. Every private record counts. Wanted: at most 3 times the pass.
{hardware(numpy=np.__version__)}

| | seconds | times the pass | MB beside the files |
|---|---|---|---|
{chr(10).join(rows)}

`near-private` is the whole selection: components of all private records, the nearest of 32-dimensional candidates (five
times as many as are asked, unless it says all) in exact whole numbers, both charges and both draws. The pass is in
single precision, in all {WIDTH} dimensions.
"""


def _asked(scene: Scene, scale: int, rounds: int) -> str:
    """The options of this run."""
    given = {"--scale": (scale, 1), "--rounds": (rounds, ROUNDS), "--part": (scene.part, 1)}
    return "".join(f" {name} {value}" for name, (value, usual) in given.items() if value != usual)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--everybody", action="store_true", help="also with every public record a candidate")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--part", type=int, default=1, help="the pass goes over every so-manieth block")
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        scene = Scene(Path(place), given.scale, given.part)
        made = page(scene, measured(scene, given.rounds, given.everybody), given.scale)
    given.out.write_text(made)
    print(made)


if __name__ == "__main__":
    main()
