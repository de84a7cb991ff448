"""A million records are not in memory at once; pieces come about as fast as from the plain mapping."""

import time
import tracemalloc

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from discreet.pools import open_pool
from discreet.pools import tables as pool_tables

COUNT, WIDTH = 1_000_000, 64
WHOLE = COUNT * WIDTH


def passed(pool, rows=4096):
    total = 0
    for start in range(0, len(pool), rows):
        total += int(pool.x[start : start + rows][:, 5].sum())
    return total


def test_a_million_rows_of_npy(tmp_path):
    mapping = np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.uint8, shape=(COUNT, WIDTH))
    mapping[::1000, 5] = 1
    del mapping
    pool = open_pool(tmp_path / "a.npy", id="position")
    tracemalloc.start()
    try:
        assert passed(pool) == 1000
        assert pool.x[np.arange(0, COUNT, 1000)].sum() == 1000
        assert tracemalloc.get_traced_memory()[1] < WHOLE / 20
    finally:
        tracemalloc.stop()


def test_a_million_rows_of_parquet_in_one_row_group(tmp_path, monkeypatch):
    """What Arrow holds and what numpy does, each at its highest, while all rows are read and then some at random."""
    monkeypatch.setattr(pool_tables, "CACHE_BYTES", WHOLE // 16)
    names = [f"c{place}" for place in range(16)]  # 16 times four bytes are WIDTH
    marks = (np.arange(COUNT) % 1000 == 0).astype(np.float32)
    table = pa.table({"name": pa.array(np.arange(COUNT)), **dict.fromkeys(names, marks)})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=COUNT)
    del table
    pool = open_pool(tmp_path / "a.parquet", id="name", columns=names)
    memory = pa.default_memory_pool()
    before, highest, total = memory.bytes_allocated(), 0, 0
    tracemalloc.start()
    try:
        for start in range(0, COUNT, 4096):
            total += int(pool.x[start : start + 4096][:, 5].sum())
            highest = max(highest, memory.bytes_allocated() - before)
        assert total == 1000
        assert pool.x[np.arange(0, COUNT, 1000)].all()
        assert 0 < highest < WHOLE / 4
        assert tracemalloc.get_traced_memory()[1] < WHOLE / 4
    finally:
        tracemalloc.stop()


def test_pieces_come_as_fast_as_from_the_mapping(tmp_path):
    """The best of several tries, side by side: 1.1 is measured; 2 leaves room for a busy machine."""
    np.save(tmp_path / "a.npy", np.random.default_rng(0).integers(0, 256, (50_000, 28, 28), dtype=np.uint8))
    pool = open_pool(tmp_path / "a.npy", id="position")
    mapping = np.load(tmp_path / "a.npy", mmap_mode="r")

    def seconds(source):
        begun = time.perf_counter()
        for start in range(0, 50_000, 4096):
            np.array(source[start : start + 4096], copy=source is mapping)
        return time.perf_counter() - begun

    tries = [(seconds(mapping), seconds(pool.x)) for _ in range(20)]
    assert min(own for _, own in tries) < 2 * min(plain for plain, _ in tries)
