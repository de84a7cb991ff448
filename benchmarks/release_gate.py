"""Speed and memory of the release gate beside a plain group-by of polars and of DuckDB, on the same file, interleaved.

The log: words as often as people say them (SUBTLEX-US, DATA/word-counts), by repetition, in random order, with a person
each (a twentieth as many persons as rows, some write much more than others). Parquet as pyarrow writes it, zstd.

    rows       ours: coins, count, texts of what passes        peers: count(*) by text
    persons    ours: one text a person, coins, count, texts    peers: count(distinct person) by text
    distinct   rows of which most are seen once, fixed memory  peers: count(*) by text

Each contender runs in a process of its own, one after the other in every round: times are wall time inside it, without
starting Python; memory is the process's peak. Ours has fixed threads as the peers have: as many as there are cores.

    python benchmarks/release_gate.py DATA SCRATCH             # 10^7 rows
    python benchmarks/release_gate.py DATA SCRATCH 1e8 3       # 10^8 rows, 3 rounds; needs about 2 GB in SCRATCH

Writes benchmarks/results/release_gate.md.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

RESULT = Path(__file__).parent / "results" / "release_gate.md"
CASES, CONTENDERS = ("rows", "persons", "distinct"), ("ours", "DuckDB", "polars")
K, BETA = 100, 0.3
FIXED = 256 << 20
BLOCK = 1 << 20


def make_log(path: Path, rows: int, data: Path, *, distinct: bool) -> None:
    if path.exists():
        return
    with gzip.open(data / "word-counts" / "subtlex_us.csv.gz", "rt") as file:
        found = [(row["word"], int(row["count"])) for row in csv.DictReader(file)]
    words, ends = pa.array([word for word, _ in found]), np.cumsum([count for _, count in found])
    chance, writer = np.random.default_rng(1), None
    for start in range(0, rows, BLOCK):
        size = min(BLOCK, rows - start)
        texts = words.take(np.searchsorted(ends, ends[-1] * chance.random(size), "right"))
        if distinct:  # two words and a number that is hardly seen again
            numbers = pa.array(chance.integers(0, 10 * rows, size)).cast(pa.string())
            rare = compute.binary_join_element_wise(texts, texts.take(chance.permutation(size)), numbers, " ")
            texts = compute.if_else(pa.array(chance.random(size) < 0.8), rare, texts)
        persons = pa.array((rows // 20 * chance.random(size) ** 2).astype(np.int64)).cast(pa.string())
        users = compute.binary_join_element_wise("u", compute.utf8_lpad(persons, 9, "0"), "")
        table = pa.table({"query": texts, "user": users})
        writer = writer or parquet.ParquetWriter(path.with_suffix(".part"), table.schema, compression="zstd")
        writer.write_table(table)
    assert writer is not None
    writer.close()
    path.with_suffix(".part").rename(path)


def work(case: str, contender: str, path: str) -> Callable[[], int]:
    """What is timed; returns how many values came out."""
    if contender == "ours":
        return _ours(case, path)
    if contender == "DuckDB":
        import duckdb

        count = "count(distinct user)" if case == "persons" else "count(*)"
        connection = duckdb.connect()
        return lambda: len(connection.sql(f"select query, {count} from '{path}' group by query").to_arrow_table())
    import polars

    counted = polars.col("user").n_unique() if case == "persons" else polars.len()
    return lambda: len(polars.scan_parquet(path).group_by("query").agg(counted).collect(engine="streaming"))


def _ours(case: str, path: str) -> Callable[[], int]:
    from discreet.gates import CrowdGate, open_log
    from discreet.gates.local_engine import release_locally
    from discreet.gates.query_log import unwatched
    from discreet.noise import SecretKey

    persons = case == "persons"
    gate = CrowdGate(k=K, beta=BETA, counts=True, persons=persons)
    key, memory = SecretKey.fresh(), FIXED if case == "distinct" else None

    # what a first call imports is not what is measured; the peers are imported, too
    release_locally(gate.price(), warm_log(persons), coin=gate.coin, key=key, memory=memory, progress=unwatched)

    def run() -> int:
        log = open_log(path, text="query", person="user" if persons else None)
        scratch = Path(path).parent
        return len(
            release_locally(
                gate.price(), log, coin=gate.coin, key=key, memory=memory, progress=unwatched, scratch=scratch
            )[0]
        )

    return run


def warm_log(persons: bool) -> Any:
    from discreet.gates import text_log

    return text_log(["a", "b"], ["x", "y"] if persons else None)


def one(case: str, contender: str, path: str) -> None:
    """In a process of its own."""
    run = work(case, contender, path)
    wall, cpu = time.perf_counter(), time.process_time()
    values = run()
    form = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "values": values}
    print(json.dumps(form | {"memory": peak()}))


def peak() -> int:
    """Bytes: of this process alone (getrusage remembers its parent's, too)."""
    with Path("/proc/self/status").open(encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def measured(case: str, contender: str, path: Path) -> dict[str, Any] | None:
    """None where it failed, as by running out of memory."""
    command = [sys.executable, __file__, "--one", case, contender, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{case} {contender} failed", file=sys.stderr)
        return None
    form: dict[str, Any] = json.loads(done.stdout)
    print(f"{case:9s} {contender:7s} {form['wall']:8.2f} s  {form['memory'] >> 20:6d} MB", file=sys.stderr)
    return form


def main(data: Path, scratch: Path, rows: int, rounds: int) -> None:
    logs = {}
    for case in CASES:
        logs[case] = scratch / f"{'distinct' if case == 'distinct' else 'log'}-{rows}.parquet"
        make_log(logs[case], rows, data, distinct=case == "distinct")
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for case in CASES:
            for contender in CONTENDERS:
                form = measured(case, contender, logs[case])
                if form is not None:
                    found.setdefault((case, contender), []).append(form)
    RESULT.write_text(report(found, rows, rounds), encoding="utf-8")
    print(RESULT.read_text(encoding="utf-8"))


def report(found: dict[tuple[str, str], list[dict[str, Any]]], rows: int, rounds: int) -> str:
    lines = [
        "# The release gate beside a plain group-by",
        "",
        f"`benchmarks/release_gate.py`, {rows:.0e} rows, {rounds} rounds, interleaved, a process each. "
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {_versions()}.",
        "Ours releases at k=100, beta=0.3; peers count everything. Medians; the ratio is of each round's wall time, "
        "the faster peer's to ours: above 1 we are faster. 10^9 rows are projected by the rate.",
        "",
        "| case | contender | seconds | rows per second | processor seconds | peak memory | 10^9 rows |",
        "|---|---|---|---|---|---|---|",
    ]
    for (case, contender), runs in found.items():
        wall, cpu = (statistics.median(run[part] for run in runs) for part in ("wall", "cpu"))
        memory = max(run["memory"] for run in runs) / 1e9
        rate = rows / wall
        lines.append(
            f"| {case} | {contender} | {wall:.2f} | {rate / 1e6:.1f} million | {cpu:.2f} | {memory:.2f} GB "
            f"| {1e9 / rate / 60:.1f} min |"
        )
    lines.append("")
    for case in CASES:
        peers = [found[case, name] for name in CONTENDERS[1:] if len(found.get((case, name), [])) == rounds]
        mine = found.get((case, "ours"), [])
        if not peers or len(mine) != rounds:
            continue
        best = [min(peer[place]["wall"] for peer in peers) for place in range(rounds)]
        ratio = statistics.median(fast / run["wall"] for fast, run in zip(best, mine, strict=True))
        least = min(max(run["memory"] for run in peer) for peer in peers) / max(run["memory"] for run in mine)
        lines.append(
            f"- {case}: {ratio:.2f} times the speed of the faster peer; "
            f"the smaller peer has {least:.1f} times our peak memory."
        )
    return "\n".join(lines) + "\n"


def _versions() -> str:
    import duckdb
    import polars

    return f"pyarrow {pa.__version__}, numpy {np.__version__}, DuckDB {duckdb.__version__}, polars {polars.__version__}"


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(*sys.argv[2:])
    else:
        given = sys.argv[3:]
        main(
            Path(sys.argv[1]),
            Path(sys.argv[2]),
            int(float(given[0])) if given else 10**7,
            int(given[1]) if given[1:] else 3,
        )
