"""A campaign on a large pool: what `ask` costs beside the forward pass it needs, the size of the store, and memory.

The pool: 100,000 pictures of 28 x 28, bytes in an npy file. `ask` is the whole verb of an open campaign: it checks that
it is its turn, reads and scales the pool, scores it, charges, draws, checks the asked records, and publishes. Beside
it, in every round, runs the forward pass of the same model: over the same file, and over floats in memory.
Memory is that of a process of its own, which creates the campaign, asks twice and trains twice.

Then the same of features that are kept: 60,000 of these pictures, scattering, a linear layer. Beside `ask` run what it
cannot do without: reading the kept features and comparing every record with its code; and reading as many numbers from
a plain file, which checks nothing.

    python benchmarks/campaign.py             # writes benchmarks/results/campaign.md; some minutes
    python benchmarks/campaign.py --features  # the part on kept features alone, into the same page
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from timing import hardware

RESULT = Path(__file__).parent / "results" / "campaign.md"
RECORDS, INITIAL, QUERY, ROUNDS, TRAINED = 100_000, 2000, 500, 5, 2
MEGA = 1e6
PICTURES, FEATURES_ASKED = 60_000, 100
FEATURES = "\n## Kept features\n"


def tables(queries: Sequence[int], model: str, **further: Any) -> dict[str, dict[str, Any]]:
    """Of the campaign."""
    from discreet.recipes import private_pool

    return private_pool(
        classes=[str(number) for number in range(10)],
        initial=INITIAL,
        queries=queries,
        batch=500,
        epochs=1,
        selection_epsilon="2",
        threshold_epsilon="0.05",
        model=model,
        plan={"accountant": "rdp"},
        simulation={"seed": 0},
        **further,
    )


def opened(folder: Path, queries: int) -> Any:
    """The campaign in ``folder``, made if it is not there."""
    from discreet import create_campaign

    pool = {"path": str(folder / "pool.npy"), "kind": "npy", "id": "position", "size": RECORDS}
    pool |= {"shape": [1, 28, 28], "scale": 255.0}
    budget = {"epsilon": "8", "delta": "1e-7"}
    return create_campaign(
        "large", storage=folder / "large.db", pool=pool, budget=budget, recipe=tables([QUERY] * queries, "small_cnn")
    )


def write_pool(folder: Path, records: int = RECORDS) -> None:
    """Pictures that are nobody's: blots at random places."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 60, size=(records, 28, 28), dtype=np.uint8)
    for place, (row, column) in enumerate(rng.integers(4, 18, size=(records, 2)).tolist()):
        x[place, row : row + 6, column : column + 6] = 200
    np.save(folder / "pool.npy", x)


def answer(campaign: Any) -> None:
    """Say something to every open question."""
    campaign.tell({one.id: str(int(one.record) % 10) for one in campaign.open()})


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def rounds(folder: Path) -> list[dict[str, float]]:
    """Interleaved: both forward passes and one query a round. The first round warms up and is dropped."""
    campaign = opened(folder, ROUNDS + 1)
    campaign.ask()
    answer(campaign)
    campaign.train()
    in_memory = np.asarray(campaign.pool.x, dtype=np.float32)
    found = []
    for _ in range(ROUNDS + 1):
        model = campaign.predictor()
        from_file, _ = timed(
            lambda model=model: [  # type: ignore[misc]
                model.predict_proba(campaign.pool.x[start : start + 4096]) for start in range(0, RECORDS, 4096)
            ]
        )
        plain, _ = timed(lambda model=model: model.predict_proba(in_memory))  # type: ignore[misc]
        asking, questions = timed(campaign.ask)
        repeated, again = timed(campaign.ask)
        assert questions == again
        found.append({"plain": plain, "file": from_file, "ask": asking, "again": repeated})
        answer(campaign)
        campaign.train()
    return found[1:]


def size_of(folder: Path) -> dict[str, float]:
    """Megabytes of the database, and of the campaign's directory."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "pool.npy"]
    database = sum(path.stat().st_size for path in files if path.name.startswith("large.db") and path.parent == folder)
    return {"database": database / MEGA, "all": sum(path.stat().st_size for path in files) / MEGA}


def alone(folder: Path) -> None:
    """A process of its own: create, ask, train, ask, train; prints its peak memory."""
    campaign = opened(folder, TRAINED)
    for _ in range(TRAINED):
        campaign.ask()
        answer(campaign)
        campaign.train()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGA)


def peak() -> float:
    """Megabytes."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_pool(folder)
        done = subprocess.run(
            [sys.executable, __file__, "--alone", place], capture_output=True, text=True, check=True, env=os.environ
        )
        return float(done.stdout.split()[-1])


def table(found: list[dict[str, float]], sizes: dict[str, float], memory: float) -> str:
    """The committed page."""
    import torch

    middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
    ratios = {name: statistics.median(one["ask"] / one[name] for one in found) for name in ("plain", "file")}
    return f"""# A campaign on 100,000 pictures

Made by `make bench` (benchmarks/campaign.py): {len(found)} rounds, interleaved in one process with
{torch.get_num_threads()} threads, medians. {hardware(torch=str(torch.__version__))}
Pool: {RECORDS:,} x 28 x 28 bytes in an npy file; model `small_cnn`; {QUERY} asked in a query by threshold response.

| | seconds | `ask` / it | wanted |
|---|---|---|---|
| forward pass, floats in memory | {middle["plain"]:.2f} | {ratios["plain"]:.2f} | |
| forward pass, bytes of the file | {middle["file"]:.2f} | {ratios["file"]:.2f} | at most 1.2 |
| `ask`: the whole query | {middle["ask"]:.2f} | | |
| `ask` again: the same open questions | {middle["again"]:.3f} | | |

| | MB | wanted |
|---|---|---|
| store after {ROUNDS + 1} queries: database | {sizes["database"]:.1f} | |
| store: with models and labels | {sizes["all"]:.1f} | under 100 |
| peak memory of a process that creates, asks and trains | {memory:.0f} | under 1000 |
"""


# -- kept features


def processor(work: Callable[[], Any]) -> float:
    """Seconds of processor time: other programs of the machine do not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def on_features(folder: Path) -> Any:
    """The campaign on scattering in ``folder``, as another process would open it."""
    from discreet import create_campaign

    recipe = tables([FEATURES_ASKED] * (ROUNDS + 2), "linear", features={"name": "scattering"})
    pool = {"path": str(folder / "pool.npy"), "kind": "npy", "id": "position", "size": PICTURES}
    pool |= {"shape": [28, 28], "scale": 255.0}
    budget = {"epsilon": "8", "delta": "1e-7"}
    return create_campaign("kept", storage=folder / "kept.db", pool=pool, budget=budget, recipe=recipe)


def read_all(rows: Any) -> None:
    """Every row, in pieces."""
    for start in range(0, PICTURES, 1024):
        rows[start : start + 1024].copy()


def kept_rows(campaign: Any) -> Any:
    """The file of the campaign's features."""
    from discreet.recipes.pool_records import reader_of

    reader = reader_of(campaign.recipe.config)
    assert reader is not None
    return campaign.recipe.config.cache.file_of(reader.identity, reader.inputs)


def read_kept(kept: Any, campaign: Any) -> None:
    """Every kept row, with its checksum and the code of its record."""
    codes = np.frombuffer(b"".join(code for _, code in campaign.store.macs()), dtype=np.uint8).reshape(-1, 16)
    for start in range(0, PICTURES, 1024):
        kept.read(np.arange(start, min(start + 1024, PICTURES)), codes[start : start + 1024])


def feature_rounds(folder: Path) -> list[dict[str, float]]:
    """The first computes the features, and a second one warms up."""
    from discreet.campaign.withdrawal import manifest_key
    from discreet.pools import VerifiedPool

    campaign = on_features(folder)
    campaign.ask()
    answer(campaign)
    campaign.train()
    width = int(np.prod(campaign.recipe.inputs))
    np.save(folder / "plain.npy", np.ones((PICTURES, width), dtype=np.float32))
    found = []
    for _ in range(ROUNDS + 2):
        campaign = on_features(folder)
        plain = np.load(folder / "plain.npy", mmap_mode="r")
        reading = processor(partial(read_all, plain))
        kept = kept_rows(campaign)
        checked = processor(partial(read_kept, kept, campaign))
        pool = VerifiedPool(campaign.pool, manifest_key(campaign.store), campaign.store.macs)
        checking = processor(partial(pool.check, name="kept"))
        asking = processor(campaign.ask)
        times = {"reading": reading, "checked": checked, "checking": checking, "ask": asking}
        found.append(
            times | {"both": checked + checking, "bare": reading + checking, "bytes": kept.path.stat().st_size}
        )
        answer(campaign)
        campaign.train()
    return found


def feature_table(found: list[dict[str, float]]) -> str:
    """The committed part of the page."""
    first, warm = found[0], found[2:]
    middle = {name: statistics.median(one[name] for one in warm) for name in warm[0]}
    ratio = {name: statistics.median(one["ask"] / one[name] for one in warm) for name in ("both", "bare")}
    return f"""{FEATURES}
`python benchmarks/campaign.py --features`: {len(warm)} rounds, interleaved in one process, one thread, medians of
processor time.
{hardware(numpy=np.__version__)}
Pool: {PICTURES:,} x 28 x 28 bytes in an npy file; `scattering` ({first["bytes"] / MEGA:.0f} MB kept), `linear`,
{FEATURES_ASKED} asked in a query.

| | seconds | `ask` / it | wanted |
|---|---|---|---|
| comparing every record with its code | {middle["checking"]:.2f} | | |
| reading every kept row with its checksum and code | {middle["checked"]:.2f} | | |
| both | {middle["both"]:.2f} | {ratio["both"]:.2f} | at most 1.5 |
| reading as many numbers from a plain file, unchecked | {middle["reading"]:.2f} | | |
| that, and comparing every record with its code | {middle["bare"]:.2f} | {ratio["bare"]:.2f} | |
| `ask` on kept features: the whole query | {middle["ask"]:.2f} | | |
| the first `ask`, which computes and keeps them | {first["ask"]:.1f} | | |
"""


def features() -> None:
    """Measure kept features, and replace their part of the page. One thread: threads that wait burn processor time."""
    import torch

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_pool(folder, PICTURES)
        found = feature_rounds(folder)
        part = feature_table(found)
    RESULT.write_text(RESULT.read_text().partition(FEATURES)[0] + part)
    print(part)


def main() -> None:
    """Measure, and write the page. Memory first: a process counts what the one that started it had."""
    memory = peak()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_pool(folder)
        found = rounds(folder)
        page = table(found, size_of(folder), memory)
    RESULT.write_text(page)
    print(page)
    features()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--alone", place]:
            alone(Path(place))
        case ["--features"]:
            features()
        case _:
            main()
