"""Kept rows: what is read is what was computed from that record, or is not there."""

import subprocess
import sys

import numpy as np
import pytest

from discreet.noise import SecretKey
from discreet.storage.cached_rows import CachedRows, erase_rows, remove_rows

SIZE, WIDTH = 300, 37
KEY = SecretKey(b"k" * 32)
PLACES = np.arange(SIZE)


def rows_of(seed=0):
    chance = np.random.default_rng(seed)
    codes = chance.integers(1, 256, (SIZE, 16), dtype=np.uint8)
    return codes, chance.choice(np.float32([-0.25, 0.25]), (SIZE, WIDTH)), chance.random(SIZE) < 0.9


@pytest.fixture
def kept(tmp_path):
    codes, rows, fine = rows_of()
    rows[~fine] = 0
    cached = CachedRows(tmp_path, KEY, width=WIDTH)
    cached.write(PLACES, codes, rows, fine)
    return cached, codes, rows, fine


def test_rows_come_back_for_their_own_records(kept, tmp_path):
    cached, codes, rows, fine = kept
    assert cached.path.stat().st_mode & 0o777 == 0o600
    assert cached.path.parent.stat().st_mode & 0o777 == 0o700
    for places in (PLACES, PLACES[::-1], np.array([7]), np.array([250, 3, 4, 5, 299]), PLACES[:0]):
        read, features, there = cached.read(places, codes[places])
        assert there.all()
        assert np.array_equal(read, rows[places])
        assert np.array_equal(features, fine[places])
    changed = codes.copy()
    changed[17, 3] ^= 1
    changed[18] = 0
    assert np.flatnonzero(~cached.read(PLACES, changed)[2]).tolist() == [17, 18]
    assert not cached.read(PLACES, np.roll(codes, 1, axis=0))[2].any()
    assert not cached.read(PLACES + SIZE, codes)[2].any()
    other = CachedRows(tmp_path, SecretKey(b"o" * 32), width=WIDTH)
    assert other.path != cached.path
    cached.path.rename(other.path)
    assert not other.read(PLACES, codes)[2].any(), "of another map, or another campaign"


def damaged(content, slot, how, chance):
    """Every slot damaged; the codes of records stay, so that checksums alone can tell."""
    slots = np.frombuffer(content, dtype=np.uint8).reshape(SIZE, slot).copy()
    body = slots[:, 40:]
    if how == "a bit":
        bits = chance.integers(0, 8 * body.shape[1], SIZE)
        body[np.arange(SIZE), bits // 8] ^= (1 << (bits % 8)).astype(np.uint8)
    elif how == "the flag":
        slots[:, 16] ^= 3
    elif how == "signs":  # two of them, each the uppermost bit of a word
        for place, words in enumerate(np.array([chance.permutation(18)[:2] for _ in range(SIZE)])):
            body[place, words * 8 + 7] ^= 128
    elif how == "half a row of another record":
        half = body.shape[1] // 2
        body[:, half:] = np.roll(body[:, half:], 1, axis=0)
    elif how == "zeros":
        body[:] = 0
    elif how == "all zeros":
        slots[:] = 0
    return slots.tobytes()


@pytest.mark.parametrize(
    "how", ["a bit", "the flag", "signs", "half a row of another record", "zeros", "all zeros", "none"]
)
def test_what_is_damaged_is_not_there(how, kept):
    cached, codes, _, fine = kept
    content = cached.path.read_bytes()
    cached.path.write_bytes(damaged(content, cached.slot, how, np.random.default_rng(1)))
    read, _, there = cached.read(PLACES, codes)
    null = ~fine & (how in ("zeros", "half a row of another record"))  # of nulls the row was zeros before
    assert there[~null].all() if how == "none" else not there[~null].any()
    assert not read[~there].any()


def test_a_file_that_was_cut_short_is_read_up_to_there(kept):
    cached, codes, _, _ = kept
    with cached.path.open("r+b") as file:
        file.truncate(cached.slot * 100 + 13)
    assert np.flatnonzero(cached.read(PLACES, codes)[2]).tolist() == list(range(100))


def test_erased_rows_are_gone_and_the_others_stay(kept, tmp_path):
    cached, codes, _, _ = kept
    gone = [3, 4, 250, 5000]
    erase_rows(tmp_path, gone)
    assert np.flatnonzero(~cached.read(PLACES, codes)[2]).tolist() == gone[:3]
    content = cached.path.read_bytes()
    assert all(not any(content[place * cached.slot : (place + 1) * cached.slot]) for place in gone[:3])
    remove_rows(tmp_path)
    assert not cached.path.parent.exists()
    assert not cached.read(PLACES, codes)[2].any()


WORKER = """
import sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
from test_cached_rows import KEY, PLACES, WIDTH, rows_of
from discreet.storage.cached_rows import CachedRows
cached, contents = CachedRows(Path(sys.argv[2]), KEY, width=WIDTH), [rows_of(seed) for seed in range(2)]
seen, chance = 0, np.random.default_rng(int(sys.argv[3]))
for turn in range(150):
    codes, rows, fine = contents[chance.integers(2)]
    places = chance.permutation(PLACES)[:80]
    cached.write(places, codes[places], rows[places], fine[places])
    for codes, rows, fine in contents:
        read, features, there = cached.read(PLACES, codes)
        kept = there & features
        assert np.array_equal(read[kept], rows[kept]), "a row of another record, or half a row"
        seen += int(there.sum())
print(seen)
"""


def test_processes_that_write_at_once_read_whole_rows_of_the_right_records(tmp_path, request):
    """Two contents for each place, as of a record that changed: a slot is one, or the other, or nobody's."""
    command = [sys.executable, "-c", WORKER, str(request.path.parent), str(tmp_path)]
    running = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True) for seed in range(2)]
    told = [process.communicate(timeout=120)[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    assert all(int(seen) > 1000 for seen in told)
