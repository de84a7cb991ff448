"""What test_release_kills.py runs, `DIRECTORY PLANTED`, in a process that has everything imported.

Forked children make one release and are killed before the n-th write, for every n. Then the same command goes on: on
the same log, or on one that has grown. However it ends, nobody sees the coins of one key on two batches.
"""

import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: F401

from discreet.errors import BudgetExceeded, LedgerUnavailable
from discreet.gates import CrowdGate, open_log
from discreet.gates import gate as gate_room
from discreet.gates.release_files import ReleaseFile, release_to_file
from discreet.noise import OperatingSystem
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import FileSink, Ledger, Line, committed

WRITERS = ("fdatasync", "fsync", "pwrite", "link", "mkdir", "replace", "unlink", "ftruncate", "write", "rmdir")
GATE = CrowdGate(k=20, beta=0.3, counts=True)
BUDGET = Budget(epsilon=3, delta="1e-4", unit="person")


def log_in(place, rows=3000):
    chance = np.random.default_rng(0)
    texts = [f"w{number}" for number in (40 * chance.random(rows) ** 2).astype(int)]
    pq.write_table(pa.table({"q": texts, "p": [f"p{number}" for number in range(rows)]}), place / "log.parquet")


def run(place):
    where = ReleaseFile(out=place / "out.csv", text="q")
    log = open_log(place / "log.parquet", text="q", person="p")
    release_to_file(GATE, log, where, budget=BUDGET, source=OperatingSystem())


def in_child(work):
    """Whether the child was killed; its error, by the class's name."""
    read, write = os.pipe()
    real, child = os.write, os.fork()
    if child == 0:
        try:
            work()
        except (BudgetExceeded, LedgerUnavailable) as error:
            real(write, type(error).__name__.encode())
        except BaseException:  # noqa: BLE001 - a child must not become a second parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "a child failed by itself"
    return os.WIFSIGNALED(status), said


def kill_before(kill_at):
    seen = [0]

    def watched(write):
        def watching(*args, **options):
            seen[0] += 1
            if seen[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(*args, **options)

        return watching

    for kind in WRITERS:
        setattr(os, kind, watched(getattr(os, kind)))


def seen_in(place):
    """What the first life may have shown: the file, or the one that was about to be named."""
    for path in (place / "out.csv", place / "out.csv.unfinished/part.csv"):
        if path.exists() and path.stat().st_size:
            return path.read_text()
    return None


def check_end(place, before, said, *, grown):
    after = (place / "out.csv").read_text() if (place / "out.csv").exists() else None
    with Ledger.open(FileSink(place / "out.csv.ledger", must_exist=True)) as ledger:
        charged = [entry for entry in ledger.entries if entry.charges]
        assert len(charged) <= 1
        assert after is None or len(charged) == len(ledger.releases) == 1, "shown, and not charged or not named"
    if said == "":
        assert after is not None
        assert not (place / "out.csv.unfinished").exists()
    if before is not None:
        assert after in (None, before), "the coins of one key were seen on two batches" if grown else "drawn again"


def a_case(place, kill_at, *, grown):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    in_child(lambda: log_in(place))  # the parent starts no threads: a child would wait for them

    def first():
        kill_before(kill_at)
        run(place)

    killed, _ = in_child(first)
    before = seen_in(place)
    if (place / "out.csv").exists():
        return killed
    if grown:
        in_child(lambda: log_in(place, 3300))
    again, said = in_child(lambda: run(place))
    assert not again
    check_end(place, before, said, grown=grown)
    return killed


def main(directory, planted):
    if planted == "unbound":
        gate_room.same_inputs = lambda *_: None
    committed(BUDGET, [Line(who="queries", event=GATE.price())]).check_claim()  # children begin with everything warm,
    import discreet.gates.local_engine  # noqa: F401

    pa.array(np.arange(2)).is_valid().to_numpy(zero_copy_only=False)  # and with what Arrow imports when it is asked
    kills = 0
    for grown in (False, True):
        kill_at = 1
        while a_case(Path(directory) / "case", kill_at, grown=grown):
            kills, kill_at = kills + 1, kill_at + 1
    print(kills)


if __name__ == "__main__":
    main(*sys.argv[1:])
