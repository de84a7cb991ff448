"""Speed of the online learner against River, on the same stream in the same run.

The peer is `river.active.EntropySampler(river.linear_model.LogisticRegression())`, as it comes: it scores a record,
tosses a coin by the entropy, and learns if the label is asked for. It learns from more records than we ask for, so a
second one does the same work for each record but asks as seldom as we do. River takes dicts, and gets them ready made;
ours take numpy vectors, but for two contenders. Everybody decides every record and learns from those whose label it
asked for, with labels at once; ours hide every update with Gaussian noise. Contenders run one after the other in every
round, in one process; times are those of the processor, which depend less on what else the machine does.

    OMP_NUM_THREADS=1 python benchmarks/streams.py         # made-up records; writes benchmarks/results/streams.md
    OMP_NUM_THREADS=1 python benchmarks/streams.py DATA    # and KDD Cup 99, which is in DATA/kddcup99
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import __version__ as river_version
from river import active, linear_model

from discreet.stream import (
    BernoulliAsking,
    GaussianNoise,
    Immediate,
    MiniBatch,
    OneSidedAsking,
    SlidingWindow,
    StreamLearner,
    StreamSettings,
)
from timing import hardware

RESULT = Path(__file__).parent / "results" / "streams.md"
RECORDS, ROUNDS = 20_000, 7
SELDOM, OFTEN = OneSidedAsking(asked=1, low=0.05), BernoulliAsking(epsilon=1)
PEER, AS_SELDOM = "River: logistic regression, entropy sampler", "the same, asking as seldom as the default"
MANY = "ours, arrays: the default"
Run = Callable[[], tuple[int, float]]
"""How many labels it asked for, and the time it took."""


class Stream:
    """The same records for everybody, in the form that each takes."""

    def __init__(self, name: str, x: NDArray[np.float64], y: NDArray[np.int64]) -> None:
        self.name, self.x, self.y = name, x, y
        self.names = [f"f{place}" for place in range(x.shape[1])]
        self.rows = list(x)
        self.dicts = [dict(zip(self.names, row.tolist(), strict=True)) for row in x]
        self.labels: list[int] = y.tolist()


def made_up(features: int) -> Stream:
    """Records in the unit ball, on two sides of a plane."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(RECORDS, features))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    return Stream(f"made up, {features} features", x, (x @ rng.normal(size=features) > 0).astype(np.int64))


def kdd(place: Path) -> Stream:
    """KDD Cup 99, prepared as the paper did: 120 features in the unit ball."""
    from discreet_research.bench.stream_sets import stream_set

    x, y = stream_set("kdd99", place, public=1_000, components=0).stream(0, RECORDS)
    return Stream(f"KDD Cup 99, {x.shape[1]} features", np.ascontiguousarray(x), y)


class AsSeldom(active.EntropySampler):  # type: ignore[misc]
    """All that the sampler does for a record, but a coin of its own."""

    share = 1.0

    def _ask_for_label(self, x: Any, y_pred: Any) -> bool:
        self._p(y_pred)
        return bool(self._rng.random() < self.share)


def river(stream: Stream, sampler: Any) -> tuple[int, float]:
    asked, labels = 0, [bool(label) for label in stream.labels]
    start = time.process_time()
    for x, y in zip(stream.dicts, labels, strict=True):
        _, ask = sampler.predict_one(x)
        if ask:
            sampler.learn_one(x, y)
            asked += 1
    return asked, time.process_time() - start


def learner(stream: Stream, **parts: Any) -> StreamLearner:
    start: dict[str, Any] = {"features": stream.names, "asking": SELDOM, "noise": GaussianNoise(noise_multiplier=4.0)}
    return StreamLearner.simulated(StreamSettings(**(start | parts)), seed=1)


def arrays(stream: Stream, **parts: Any) -> tuple[int, float]:
    made = learner(stream, **parts)
    start = time.process_time()
    made.ask_and_learn_many(stream.x, stream.y)
    return made.asked, time.process_time() - start


def one_by_one(stream: Stream, records: Sequence[Any], **parts: Any) -> tuple[int, float]:
    made = learner(stream, **parts)
    start = time.process_time()
    for x, y in zip(records, stream.labels, strict=True):
        if made.ask(x):
            made.learn_one(x, y)
    return made.asked, time.process_time() - start


def contenders(stream: Stream) -> dict[str, Run]:
    share = arrays(stream)[0] / len(stream.y)

    def seldom() -> tuple[int, float]:
        sampler = AsSeldom(linear_model.LogisticRegression(), seed=1)
        sampler.share = share
        return river(stream, sampler)

    return {
        PEER: lambda: river(stream, active.EntropySampler(linear_model.LogisticRegression(), seed=1)),
        AS_SELDOM: seldom,
        MANY: lambda: arrays(stream),
        "ours, arrays: FLMB 10": lambda: arrays(stream, window=MiniBatch(10)),
        "ours, arrays: FLSW 5": lambda: arrays(stream, window=SlidingWindow(5)),
        "ours, arrays: immediate": lambda: arrays(stream, window=Immediate()),
        "ours, arrays: Bernoulli, eps 1": lambda: arrays(stream, asking=OFTEN),
        "ours, arrays: Bernoulli, eps 1, FLMB 200": lambda: arrays(stream, asking=OFTEN, window=MiniBatch(200)),
        "ours, one vector at a time": lambda: one_by_one(stream, stream.rows),
        "ours, one dict at a time": lambda: one_by_one(stream, stream.dicts),
        "ours, one vector at a time: Bernoulli, eps 1": lambda: one_by_one(stream, stream.rows, asking=OFTEN),
        "ours, one dict at a time: Bernoulli, eps 1": lambda: one_by_one(stream, stream.dicts, asking=OFTEN),
    }


def rows_of(stream: Stream) -> list[str]:
    found = contenders(stream)
    times: dict[str, list[float]] = {name: [] for name in found}
    asked: dict[str, int] = {}
    for number in range(ROUNDS + 1):
        for name, run in found.items():
            asked[name], took = run()
            if number:  # the first round warms up
                times[name].append(took)
    lines = []
    for name, own in times.items():
        ratios = [peer / one for peer, one in zip(times[PEER], own, strict=True)]
        even = [peer / one for peer, one in zip(times[AS_SELDOM], own, strict=True)]
        lines.append(
            f"| {stream.name} | {name} | {asked[name] / len(stream.y):.0%} "
            f"| {statistics.median(own) / len(stream.y) * 1e6:.2f} | {statistics.median(ratios):.1f} "
            f"| {min(ratios):.1f} to {max(ratios):.1f} | {statistics.median(even):.1f} |"
        )
        print(lines[-1], flush=True)
    return lines


def noise_time(stream: Stream) -> float:
    """Microseconds that the noise of an update takes, of those that are made at once; the median of rounds."""
    noise = learner(stream).live_state.noise
    took = []
    for number in range(20):
        start = time.process_time()
        noise._made(number, None)
        took.append(time.process_time() - start)
    return statistics.median(took) / noise._rows * 1e6


def main() -> None:
    streams = [made_up(50)]
    if len(sys.argv) > 1:
        streams.append(kdd(Path(sys.argv[1])))
    load, features, noise = os.getloadavg()[0], streams[0].x.shape[1], noise_time(streams[0])
    lines = [line for stream in streams for line in rows_of(stream)]
    RESULT.write_text(
        f"""# Streams: speed against River

Made by benchmarks/streams.py ({RECORDS:,} records, {ROUNDS} rounds, contenders interleaved in one process):
medians of rounds, and of ratios within a round. A ratio of 20 is twenty times as fast as River. Times of the
processor. Ours hide every update with noise; River's are not private.
The default: `OneSidedAsking(asked=1, low=0.05)`, Gaussian noise, an update after 50 were asked.
The demand: arrays at least 20 times as fast as River's linear model with its entropy sampler, single records at least
as fast.
{hardware(numpy=np.__version__, river=river_version)} Load when it began: {load:.1f}.

| stream | | asked | microseconds a record | River over it, median | range | the one that asks as seldom over it |
|---|---|---|---|---|---|---|
"""
        + "\n".join(lines)
        + f"""

An update changes the model that decides the next record, so updates come one after the other, each of some ten calls
for arrays. Its noise, a Gaussian a weight from keyed words, takes {noise:.1f} microseconds of that with {features}
features (made many at once). Small windows (FLSW 5, immediate) are dominated by both, and do not reach the demand; nor
do rules that ask most of the records with an update after every 50 of them.
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
