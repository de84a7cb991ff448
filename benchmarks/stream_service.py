"""`discreet stream` from lines to a file of decisions, each durable before it is shown: records a second, and memory.

Beside it, in every round, the same lines are only parsed (`json.loads`): what nobody can do without. Times of the
processor are told, too: they depend less on what else the machine does. Memory is that of processes of their own, with
100,000 and with 1,000,000 records.

    python benchmarks/stream_service.py       # writes benchmarks/results/stream_service.md; a few minutes
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from timing import hardware

RESULT = Path(__file__).parent / "results" / "stream_service.md"
RECORDS, ROUNDS, MEGA = 100_000, 5, 1e6
MEMORY = (100_000, 1_000_000)
CASES = {
    "5 features, no labels": (5, "none"),
    "5 features, a label in each record": (5, "inside"),
    "5 features, a line for each label": (5, "beside"),
    "40 features, no labels": (40, "none"),
}


def text_of(features: int) -> str:
    """The stream's file."""
    columns = json.dumps([f"c{number}" for number in range(features)])
    return f"""format = "discreet.stream/1"
name = "speed"
[records]
columns = {columns}
radius = {2.0 * features**0.5}
[task]
classes = ["no", "yes"]
[budget]
epsilon = "2"
[asking]
low = 0.02
"""


def lines(records: int, features: int, labels: str) -> Iterator[str]:
    """Made up: two clouds."""
    rng = np.random.default_rng(0)
    for start in range(0, records, 10_000):
        yes = rng.random(10_000) < 0.3
        rows = rng.normal(size=(10_000, features)).round(4) + yes[:, None]
        for number, (row, label) in enumerate(zip(rows.tolist(), yes.tolist(), strict=True), start):
            truth = {"label": "yes" if label else "no"}
            form: dict[str, Any] = {"id": f"r{number}"} | {f"c{place}": value for place, value in enumerate(row)}
            yield json.dumps(form | truth if labels == "inside" else form)
            if labels == "beside":
                yield json.dumps({"id": f"r{number}"} | truth)


def run(folder: Path, path: Path, features: int) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    from discreet.config import StreamConfig
    from discreet.stream.lines import FileOutlet, LineReader
    from discreet.stream.runner import run_lines
    from discreet.stream.service import StreamService

    with StreamService(StreamConfig.from_text(text_of(features), directory=folder)) as service:
        outlet, reader = FileOutlet(folder / "decisions.jsonl"), LineReader.of(path)
        began, spent = time.perf_counter(), time.process_time()
        run_lines(service, reader, outlet)
        outlet.close()
        reader.close()
        return time.perf_counter() - began, time.process_time() - spent


def parsed(path: Path) -> float:
    """Seconds of the processor for `json.loads` of every line."""
    spent = time.process_time()
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
    return time.process_time() - spent


def rows(place: Path) -> list[str]:
    """A line of the table for each case: medians over rounds, interleaved."""
    times: dict[str, list[tuple[float, float, float]]] = {case: [] for case in CASES}
    for features, labels in CASES.values():
        path = place / f"{features}-{labels}.jsonl"
        path.write_text("\n".join(lines(RECORDS, features, labels)) + "\n")
    for number in range(ROUNDS + 1):
        for case, (features, labels) in CASES.items():
            path, folder = place / f"{features}-{labels}.jsonl", place / f"{features}-{labels}-{number}"
            folder.mkdir()
            times[case].append((*run(folder, path, features), parsed(path)))
    found = []
    for case, each in times.items():
        clock, processor, parsing = (statistics.median(one[part] for one in each[1:]) for part in range(3))
        fastest = RECORDS / min(one[0] for one in each[1:])
        whole, part = 1e6 * processor / RECORDS, 1e6 * parsing / RECORDS
        ratio = statistics.median(one[1] / one[2] for one in each[1:])
        found.append(f"| {case} | {RECORDS / clock:,.0f} | {fastest:,.0f} | {whole:.1f} | {part:.1f} | {ratio:.1f} |")
    return found


def alone(place: Path, records: int) -> None:
    """A process of its own: prints its peak memory in MB."""
    run(place, place / f"{records}.jsonl", 5)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGA)


def peak(place: Path, records: int) -> float:
    """Megabytes."""
    folder = place / f"memory-{records}"
    folder.mkdir()
    with (folder / f"{records}.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in lines(records, 5, "none"))
    command = [sys.executable, __file__, "--alone", str(folder), str(records)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        alone(Path(sys.argv[2]), int(sys.argv[3]))
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        table = rows(Path(folder))
        memory = [peak(Path(folder), records) for records in MEMORY]
    text = "\n".join(
        [
            "# Streams: from lines to durable decisions",
            "",
            f"Made by `make bench` (benchmarks/stream_service.py): {RECORDS:,} records; medians of {ROUNDS} rounds.",
            "One process, batches of up to 4096 lines, each synced to the disk before its decisions are written.",
            f"{hardware(numpy=np.__version__)} Load when it began: {load:.1f}.",
            "",
            "| lines | records a second | fastest round | processor: microseconds a record | `json.loads` | ratio |",
            "|---|---|---|---|---|---|",
            *table,
            "",
            f"Peak memory: {memory[0]:.0f} MB with {MEMORY[0]:,} records, {memory[1]:.0f} MB with {MEMORY[1]:,}.",
            "",
        ]
    )
    RESULT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
