"""Speed of scattering, as ratios of processor time in interleaved rounds on one thread, and of 60,000 pictures in all.

The peer is kymatio's torch backend in the batch that suits it best here. It must give the same numbers to 1e-4 in the
same run. Two limits stand beside: the Fourier transforms back of the filtered fields alone, by torch, and writing the
result once.

    pip install 'discreet-research[bench]'
    python benchmarks/scattering.py             # writes benchmarks/results/scattering.md; two minutes
"""

from __future__ import annotations

import importlib
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from discreet.features import Scattering
from timing import hardware, seconds

RESULT = Path(__file__).parent / "results" / "scattering.md"
PICTURES, ALL, ROUNDS, BATCHES = 1024, 60_000, 9, (64, 256, 1024)
CASES = {
    "28 x 28, J = 2, L = 8, order 2": ((28, 28), 2),
    "3 x 32 x 32, J = 2, L = 8, order 2": ((3, 32, 32), 2),
    "32 x 32, J = 3, L = 8, order 2": ((32, 32), 3),
}
Pictures = NDArray[np.float32]


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    lines = [
        "# Scattering: speed",
        "",
        f"Made by `make bench` (benchmarks/scattering.py): {PICTURES} pictures, {ROUNDS} interleaved rounds, one",
        "thread, medians of processor time and of its ratio within a round. kymatio 0.3.0 imports with scipy 1.17 only",
        "with a stand-in for a function that scipy removed, which scattering of pictures does not call.",
        hardware(numpy=np.__version__, scipy=scipy.__version__, torch=torch.__version__),
        "",
    ]
    for name, (shape, scales) in CASES.items():
        print(name)
        lines += table(name, shape, scales)
    lines += whole()
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def table(name: str, shape: tuple[int, ...], scales: int) -> list[str]:
    pictures = np.random.default_rng(0).random((PICTURES, *shape), dtype=np.float32)
    ours = Scattering(input_shape=shape, scales=scales, groups=0)
    normalised = Scattering(input_shape=shape, scales=scales)
    expected = kymatio(pictures, scales, 256)
    worst = float(np.abs(ours.transform(pictures) - expected.reshape(PICTURES, *ours.output_shape)).max())
    if worst > 1e-4:
        raise SystemExit(f"not the numbers of kymatio: {worst:.1e}")
    peers = {f"kymatio, torch, batches of {batch}": batch for batch in BATCHES}
    contenders: dict[str, Callable[[], Any]] = {
        label: lambda batch=batch: kymatio(pictures, scales, batch)  # type: ignore[misc]
        for label, batch in peers.items()
    }
    contenders["`scattering`"] = lambda: ours.transform(pictures)
    contenders["`scattering`, normalised within the record"] = lambda: normalised.transform(pictures)
    contenders["limit: transforms back of the fields alone, torch"] = lambda: transforms_back(ours)
    contenders["limit: writing the result once"] = expected.copy
    times = interleaved(contenders)
    best = min(peers, key=lambda label: statistics.median(times[label]))
    rows = [f"| {name} | s for 60,000 | times faster than kymatio |", "|---|---|---|"]
    for label, taken in times.items():
        ratio = statistics.median(peer / own for peer, own in zip(times[best], taken, strict=True))
        rows.append(f"| {label} | {statistics.median(taken) / PICTURES * ALL:.1f} | {ratio:.2f} |")
    return [*rows, "", f"Largest difference from kymatio's numbers, of pictures in [0, 1]: {worst:.0e}.", ""]


def kymatio(pictures: Pictures, scales: int, batch: int) -> Pictures:
    key = (pictures.shape[-2:], scales)
    if key not in _PEERS:
        _PEERS[key] = kymatio_class()(J=scales, shape=key[0])
    rows, scattering = torch.from_numpy(pictures), _PEERS[key]
    with torch.no_grad():
        parts = [scattering(rows[start : start + batch]) for start in range(0, len(rows), batch)]
    return np.asarray(torch.cat(parts).numpy())


_PEERS: dict[Any, Any] = {}


def kymatio_class() -> Any:
    special: Any = importlib.import_module("scipy.special")
    if not hasattr(special, "sph_harm"):  # removed in scipy 1.17; of three dimensions alone
        special.sph_harm = None
    return importlib.import_module("kymatio.torch").Scattering2D


def transforms_back(made: Scattering) -> None:
    """As many inverse transforms, of the same sizes, as there are filtered fields, in batches of 256 pictures."""
    channels = made.input_shape[0] if len(made.input_shape) == 3 else 1
    side = (made.output_shape[1] + 2) * 2**made.scales
    for scale in range(made.scales):
        fields = made.angles * channels * (1 + scale * made.angles)  # of the first layer, and of the second
        field = torch.zeros(256, side // 2**scale, side // 2**scale, dtype=torch.complex64)
        for _ in range(PICTURES // 256 * fields):
            torch.fft.ifft2(field)


def interleaved(contenders: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Processor time of each in every round, after one that warms up."""
    rounds = []
    for _ in range(1 + ROUNDS):
        times = {}
        for name, work in contenders.items():
            begun = time.process_time()
            work()
            times[name] = time.process_time() - begun
        rounds.append(times)
    return {name: [times[name] for times in rounds[1:]] for name in contenders}


def whole() -> list[str]:
    """All pictures of a data set of that size, end to end, on all processors."""
    pictures = np.random.default_rng(0).random((ALL, 28, 28), dtype=np.float32)
    made = Scattering(input_shape=(28, 28))
    del os.environ["OMP_NUM_THREADS"]
    begun = time.process_time()
    wall = seconds(lambda: made.transform(pictures))
    processor = time.process_time() - begun
    os.environ["OMP_NUM_THREADS"] = "1"
    alone, several = made.transform(pictures[777:778])[0], made.transform(pictures[770:803])[7]
    if not np.array_equal(alone, several):
        raise SystemExit("a picture alone has other features than among others")
    return [
        f"60,000 pictures of 28 x 28, normalised, float32 in and out, on all processors: {wall:.0f} s, "
        f"{processor:.0f} s of processor time.",
        "A picture alone and among others: the same bits.",
    ]


if __name__ == "__main__":
    main()
