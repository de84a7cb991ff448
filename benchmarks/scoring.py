"""Speed of scoring a pool, as ratios in interleaved runs.

The peer is torch by default: the small CNN in stock layers, as written in the tutorials, contiguous NCHW, in eval mode
without gradients. All contenders share one process, threads and allocator, run one after the other in every round, and
must give the peer's probabilities to 1e-5 in the same run.

    python benchmarks/scoring.py             # writes benchmarks/results/scoring.md; some ten minutes, two of compiling
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from discreet.models import build_model
from discreet.trainers.torch_predictor import TorchPredictor, keep_freed_memory, laid_out
from timing import hardware, seconds

RESULT = Path(__file__).parent / "results" / "scoring.md"
RECORDS, FEWER, ROUNDS, DRAWS, BATCH = 20_000, 1_024, 21, 20, 1024
MOST_ROUNDS, QUIET = 100, 0.9
COUNTS: list[tuple[int, int]] = []
Contenders = dict[str, Callable[[], Any]]


class Stock(nn.Module):
    """The small CNN in torch's own layers, activation before pooling; its weights have our model's names."""

    def __init__(self) -> None:
        super().__init__()
        first = (nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.Tanh(), nn.MaxPool2d(2, stride=1))
        self.first = nn.Sequential(nn.Identity(), *first)
        self.second = nn.Sequential(nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, stride=1))
        self.dense, self.activation = nn.Linear(512, 32), nn.Tanh()
        self.head = nn.ModuleDict({"dropout": nn.Dropout(0.25), "linear": nn.Linear(32, 10)})

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        hidden = self.activation(self.dense(torch.flatten(self.second(self.first(x)), 1)))
        logits: Tensor = self.head["linear"](self.head["dropout"](hidden))
        return logits


def in_batches(run: Callable[[Tensor], Tensor], x: NDArray[np.float32], batch: int) -> NDArray[np.float32]:
    """As one would write it."""
    rows = torch.from_numpy(x)
    with torch.no_grad():
        parts = [run(rows[start : start + batch]).softmax(-1) for start in range(0, len(rows), batch)]
    found: NDArray[np.float32] = torch.cat(parts).numpy()
    return found


def interleaved(contenders: Contenders) -> dict[str, list[float]]:
    """Seconds of every round that counts, one contender after the other, after a first round that warms up.

    A round counts if this process had its threads' worth of processor for nearly all of it: others' work slows
    short parallel pieces more than long ones. The rule looks at nobody's time.
    """
    rounds: list[tuple[float, dict[str, float]]] = []
    for _ in range(1 + MOST_ROUNDS):
        before, begun = time.process_time(), time.perf_counter()
        times = {name: seconds(act) for name, act in contenders.items()}
        share = (time.process_time() - before) / (time.perf_counter() - begun) / torch.get_num_threads()
        rounds.append((share, times))
        if sum(one >= QUIET for one, _ in rounds[1:]) >= ROUNDS:
            break
    counted = [times for share, times in rounds[1:] if share >= QUIET]
    if len(counted) < ROUNDS:
        raise SystemExit(f"the machine is not quiet: {len(counted)} of {MOST_ROUNDS} rounds count")
    COUNTS.append((len(counted), len(rounds) - 1))
    return {name: [times[name] for times in counted] for name in contenders}


def table(heading: str, contenders: Contenders, peer: str, *, exact: set[str]) -> list[str]:
    """Medians, and the median over rounds of the ratio to the peer in the same round."""
    expected = contenders[peer]()
    worst = {name: float(np.abs(contenders[name]() - expected).max()) for name in exact}
    if wrong := [name for name, difference in worst.items() if not difference <= 1e-5]:
        raise SystemExit(f"not the numbers of {peer}: {', '.join(wrong)}")
    times = interleaved(contenders)
    rows = [f"| {heading} | ms | times faster | largest difference |", "|---|---|---|---|"]
    for name, taken in times.items():
        ratio = statistics.median(base / own for base, own in zip(times[peer], taken, strict=True))
        difference = f"{worst[name]:.0e}" if name in worst else ""
        rows.append(f"| {name} | {statistics.median(taken) * 1e3:.0f} | {ratio:.2f} | {difference} |")
    return [*rows, ""]


def small_cnn_rows() -> list[str]:
    model = build_model("small_cnn", inputs=(1, 28, 28), classes=10, dropout=0.25).eval()
    stock = Stock()
    stock.load_state_dict(model.state_dict())
    stock.eval()
    last = laid_out(stock, "channels_last")
    x = np.random.default_rng(0).random((RECORDS, 1, 28, 28), dtype=np.float32)
    predictor, compiled = TorchPredictor(model, device="cpu"), TorchPredictor(model, device="cpu", compile=True)
    compiled_stock = torch.compile(stock, dynamic=False)
    full = x[: RECORDS // BATCH * BATCH]  # a compiled model is compiled again for a shorter last batch

    def padded(run: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
        return np.concatenate([in_batches(run, full, BATCH), in_batches(stock, x[len(full) :], BATCH)])

    peer = f"torch by default, NCHW, batches of {BATCH}"
    plain: Contenders = {
        peer: lambda: in_batches(stock, x, BATCH),
        "torch by default, NCHW, batches of 512": lambda: in_batches(stock, x, 512),
        "torch by default, channels-last": lambda: in_batches(last, x, BATCH),
        "torch by default, compiled": lambda: padded(compiled_stock),
        "our module called plainly, NCHW": lambda: in_batches(model, x, BATCH),
        "our module called plainly, channels-last": lambda: in_batches(laid_out(model, "channels_last"), x, BATCH),
        "`predict_proba`": lambda: predictor.predict_proba(x),
        "`predict_proba`, `compile=True`": lambda: compiled.predict_proba(x),
    }
    rows = table("small CNN", plain, peer, exact=set(plain))
    pieces: Contenders = {peer: plain[peer]}
    for count in (128, 256, 512, 1024, 2048):
        each = TorchPredictor(model, device="cpu", rows=count)
        pieces[f"`predict_proba`, `rows={count}`"] = lambda each=each: each.predict_proba(x)  # type: ignore[misc]
    rows += table("small CNN, rows of a piece", pieces, peer, exact=set(pieces))
    base = "`predict_proba`"
    draws: Contenders = {
        base: plain[base],
        f"`sample_proba`, {DRAWS} draws": lambda: predictor.sample_proba(x, DRAWS),
        f"`sample_proba`, {5 * DRAWS} draws": lambda: predictor.sample_proba(x, 5 * DRAWS),
        "`embed`": lambda: predictor.embed(x),
    }
    return rows + cost_table("small CNN, Bayesian draws", draws, base)


def cost_table(heading: str, contenders: Contenders, base: str) -> list[str]:
    times = interleaved(contenders)
    rows = [f"| {heading} | ms | cost in passes |", "|---|---|---|"]
    for name, taken in times.items():
        ratio = statistics.median(own / one for one, own in zip(times[base], taken, strict=True))
        rows.append(f"| {name} | {statistics.median(taken) * 1e3:.0f} | {ratio:.2f} |")
    return [*rows, ""]


def resnet_rows() -> list[str]:
    model = build_model("resnet9", inputs=(3, 32, 32), classes=10, width=16, dropout=0.25).eval()
    x = np.random.default_rng(0).normal(size=(FEWER, 3, 32, 32)).astype(np.float32)
    predictor, compiled = TorchPredictor(model, device="cpu"), TorchPredictor(model, device="cpu", compile=True)
    peer = "torch by default, NCHW, batches of 256"
    contenders: Contenders = {
        peer: lambda: in_batches(model, x, 256),
        "`predict_proba`": lambda: predictor.predict_proba(x),
        "`predict_proba`, `compile=True`": lambda: compiled.predict_proba(x),
    }
    return table("ResNet-9, width 16, 3 x 32 x 32, 1,024 records", contenders, peer, exact=set(contenders))


def main() -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    keep_freed_memory()  # for the peer, too, which is slower without
    tables = [*small_cnn_rows(), *resnet_rows()]
    counted = ", ".join(f"{some} of {all_}" for some, all_ in COUNTS)
    text = "\n".join(
        [
            "# Scoring a pool: speed",
            "",
            "Made by `make bench` (benchmarks/scoring.py): contenders interleaved in one process, the same threads",
            f"({torch.get_num_threads()}) and allocator for all. Medians of rounds, and of the ratio within a round.",
            f"Rounds count in which this process had {QUIET:.0%} of the processors: {counted}. Compiling is not in it.",
            f"The small CNN scores {RECORDS:,} records of 1 x 28 x 28 end to end: numpy in, softmax, numpy out.",
            f"{hardware(torch=str(torch.__version__))} {torch.backends.cpu.get_cpu_capability()}.",
            "",
            *tables,
        ]
    )
    RESULT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
