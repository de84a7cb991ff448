"""Flipped bits and overwritten bytes in a campaign's SQLite file and its log: an exit code, never a traceback.

What is read is either refused in words or as it was; that nothing old is shown is the ledger's mark to say.
"""

import random
import shutil
import sqlite3

import numpy as np
import pytest

from discreet.cli.app import run

FILE = """format = "discreet.campaign/1"
name = "tiny"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 40
[task]
kind = "multiclass"
classes = ["a", "b"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 10
queries = [10]
batch = 5
epochs = 1
selection_epsilon = "2"
accountant = "rdp"
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.5"
[oracle]
name = "files"
[model]
name = "linear"
"""
PAGE = 4096
VERBS = (
    ("status",),
    ("status", "--audience", "owner"),
    ("verify",),
    ("ask",),
    ("report", "--audience", "owner", "--json"),
)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A campaign that asked its first questions; its last steps are in the log beside the database."""
    place = tmp_path_factory.mktemp("begun")
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    np.savez(place / "pool.npz", x=x, id=np.array([f"r{number}" for number in range(40)]))
    (place / "c.toml").write_text(FILE)
    assert run(["init", str(place / "c.toml")]) == 0
    reader = sqlite3.connect(place / "tiny.db")
    reader.execute("SELECT count(*) FROM campaigns").fetchone()  # its log stays as long as somebody is connected
    assert run(["ask", str(place / "c.toml")]) == 0
    (place / "log").write_bytes((place / "tiny.db-wal").read_bytes())
    (place / "before").write_bytes((place / "tiny.db").read_bytes())
    reader.close()
    return place


def damaged(data, chance):
    """``data`` with one to three places changed, most of them where something is stored."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 3])):
        place = chance.randrange(len(data)) if chance.random() < 0.8 else chance.randrange(min(len(data), 2 * PAGE))
        while not data[place] and chance.random() < 0.95:
            place = (place + 1) % len(data)
        match chance.randrange(4):
            case 0:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                data[place] = chance.choice([0, 10, 34, 123, 0x80, 0xC3, 0xFF])
            case 2:
                data[place : place + 16] = chance.randbytes(len(data[place : place + 16]))
            case _:
                data[place : place + 100] = bytes(len(data[place : place + 100]))
    return bytes(data)


@pytest.mark.parametrize("part", ["database", "log"])
def test_no_damage_ends_in_a_traceback(begun, tmp_path, capsys, part):
    chance, codes = random.Random(part), set()
    for number in range(40):
        here = tmp_path / str(number)
        shutil.copytree(begun, here)
        if part == "database":
            (here / "tiny.db").write_bytes(damaged((begun / "tiny.db").read_bytes(), chance))
        else:
            (here / "tiny.db").write_bytes((begun / "before").read_bytes())
            (here / "tiny.db-wal").write_bytes(damaged((begun / "log").read_bytes(), chance))
        verb, *options = VERBS[number % len(VERBS)]
        codes.add(run([verb, str(here / "c.toml"), *options]))
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
    assert codes <= {0, 1, 2}
    assert part == "log" or codes != {0}  # SQLite ends a log at its first wrong checksum, and reads what is before


@pytest.mark.parametrize("offset", [0, 5, 12])
def test_a_damaged_schema_is_refused_in_words(begun, tmp_path, capsys, offset):
    """The driver quotes it in its message, and cannot decode what it quotes."""
    shutil.copytree(begun, tmp_path / "here")
    path = tmp_path / "here" / "tiny.db"
    data = bytearray(path.read_bytes())
    place = data.index(b"CREATE TABLE") + offset
    data[place] = 0x80
    path.write_bytes(data)
    for verb, *options in VERBS:
        assert run([verb, str(tmp_path / "here" / "c.toml"), *options]) == 2
        assert "damaged" in capsys.readouterr().err
