"""A campaign of forty records whose first questions are asked, and the files that a killed process leaves of it."""

import sqlite3

import numpy as np

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


def asked(place):
    """``place`` with the campaign in c.toml and tiny.db. Its last step is in the log that `killed` puts back."""
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


def killed(place):
    """As after a kill: the questions are in the log, and not in the database."""
    (place / "tiny.db").write_bytes((place / "before").read_bytes())
    (place / "tiny.db-wal").write_bytes((place / "log").read_bytes())
