"""What test_stream_kills.py runs, `SCENARIO DIRECTORY KILLS BATCH PLANTED KIND`, in a process that imported all.

Forked children run a small stream over the same lines and are killed: before the n-th write for every n, or at a random
moment. Another child goes on. Whatever was shown must be what is in the journal; nothing is decided twice or otherwise,
in no life, shown or not; the ledger has its one entry. A simulation must end as if nothing had happened, to the bit.
"""

import gc
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

from sqlalchemy import Engine, event

from discreet.config import StreamConfig, example
from discreet.noise.keys import read_secret
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.privacy.ledger.sinks import read_lines
from discreet.storage.sqlite import WRITES
from discreet.storage.stream_store import StreamStore
from discreet.stream.journal import JournalKey
from discreet.stream.lines import FileOutlet, LineReader, PipeOutlet
from discreet.stream.runner import run_lines
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream

RECORDS, CHAIN = 150, 6
BATCH = [80]
KIND = ["plain"]
"""Or with a paid preparation, or for persons."""
WRITERS = ("fdatasync", "fsync", "link", "mkdir", "replace", "unlink", "pwrite", "ftruncate", "write")


def lines_in(place):
    """Records, each with its label some lines later, or before it, or never; one record and one label come twice."""
    chance = random.Random(9)
    lines, later = [], []
    for number in range(RECORDS):
        fraud = chance.random() < 0.4
        record = {"id": f"p{number}", "amount": chance.gauss(150 if fraud else 10, 40), "hour": 12, "country": "de"}
        record["customer"] = f"c{number % 40}"
        label = {"id": f"p{number}", "label": "fraud" if fraud else "ok"}
        if number % 29 == 7:
            lines.append(json.dumps(label))
        lines.append(json.dumps(record | ({"label": None} if number % 31 == 3 else {})))
        if number % 5:
            later.append(json.dumps(label))
        while later and chance.random() < 0.6:
            lines.append(later.pop(0))
    lines += [lines[0], lines[-1], *later]
    place.mkdir(parents=True)
    month = [{"id": f"m{number}", "amount": chance.gauss(60, 60), "hour": 3 + number % 9} for number in range(50)]
    (place / "last-month.jsonl").write_text("".join(json.dumps(line) + "\n" for line in month))
    (place / "lines.jsonl").write_text("\n".join(lines) + "\n")


def config_in(place, seed):
    text = example("stream").replace("low = 0.02", "low = 0.3").replace("asked = 10 ", "asked = 3 ")
    if KIND[0] == "prepared":
        table = '[preparation]\npath = "../last-month.jsonl"\ncomponents = 3\nnoise_multiplier = 4.0\n\n[task]'
        text = text.replace("[task]", table).replace('delta = "0"', 'delta = "1e-6"')
    elif KIND[0] == "persons":
        text = text.replace("[budget]   ", '[budget]\nunit = "person"\nrecords = 2 ').replace(
            'asked = "1"', 'asked = "0.5"'
        )
        text = text.replace("[records]   ", '[records]\nperson = "customer" ')
    text = text.replace("[service]", f"[service]\nbatch = {BATCH[0]}")
    if seed is not None:
        text = text.replace("# [simulation]", "[simulation]").replace("# seed = 0", f"seed = {seed}")
    return StreamConfig.from_text(text, directory=place)


def run(place, seed, outlet):
    with StreamService(config_in(place, seed)) as service:
        reader = LineReader.of(place.parent / "lines.jsonl")
        run_lines(service, reader, outlet)
        reader.close()
        outlet.close()


def state_of(place, seed):
    """What a stream came to. In production, without what is drawn anew in each run."""
    config = config_in(place, seed)
    ledger = Ledger.open(MemorySink(read_lines(config.directory / "ledger")))
    store = StreamStore(config.directory / "journal.db")
    decisions = store.decisions_after(0, most=10 * RECORDS)
    state = {
        "charged": [entry.public for entry in ledger.entries],
        "ids": [one[1] for one in decisions],
        "verified": [one.name for one in verify_stream(config).checks if not one.ok],
        "litter": sorted(path.name for path in config.directory.rglob(".*")),
        "output": [json.loads(line)["place"] for line in written(place)],
    }
    if seed is not None:
        body, arrays = store.state()
        body["table"]["learner"]["table"].pop("ledger")  # another one in every directory
        state |= {
            "decisions": decisions,
            "questions": store.open_questions(),
            "persons": persons_in(store, config),
            "preparation": store.note("preparation"),
            "early": list(store.labels_before([f"p{number}" for number in range(RECORDS)])),
            "state": hashlib.sha256(json.dumps(body, sort_keys=True).encode() + arrays).hexdigest(),
            "model": json.loads((config.models / "latest.json").read_text())["model"]["weights"],
            "lines": written(place),
        }
    store.close()
    return state


def persons_in(store, config):
    (key,) = (config.directory / "keys").glob("journal-*.key")
    known = JournalKey(read_secret(key, "journal")["key"])
    counts = store.persons(known.person(f"c{number}") for number in range(40))
    return [counts.get(known.person(f"c{number}")) for number in range(40)]


def written(place):
    path = place / "decisions.jsonl"
    return path.read_text().splitlines() if path.exists() else []


# -- children


def kill_before(kill_at):
    """Kill this process before its write number ``kill_at``: a file written, synced, named or removed, or a commit."""
    seen = [0]

    def hit():
        seen[0] += 1
        if seen[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(write):
        def watching(*args, **options):
            hit()
            return write(*args, **options)

        return watching

    for kind in WRITERS:
        setattr(os, kind, watched(getattr(os, kind)))

    @event.listens_for(Engine, "commit")
    def _(connection):
        if connection.get_execution_options().get(WRITES):
            hit()


def telling_decisions(say):
    """Every decision that was made, into the pipe, before it is durable."""
    commit = StreamStore.commit

    def committing(self, changes, body, arrays):
        say("made", changes.decided)
        commit(self, changes, body, arrays)
        say("kept", len(changes.decided))

    StreamStore.commit = committing


class Shown(PipeOutlet):
    """Decisions that somebody has seen."""

    def __init__(self, say):
        super().__init__(os.open(os.devnull, os.O_WRONLY))
        self._say = say

    def emit(self, decisions):
        self._say("shown", decisions)


def in_child(work, *, delay=None):
    """What a forked child said, and whether it was killed: from outside after ``delay`` seconds, if that is given."""
    read, write = os.pipe()
    real, child = os.write, os.fork()
    if child == 0:
        code = 1
        try:
            work(lambda *words: real(write, json.dumps(words).encode() + b"\n"))
            code = 0
        except BaseException:  # noqa: BLE001 - a child must not become a second parent
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(read) as file:
        said = [json.loads(line) for line in file if line.endswith("\n")]
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "a child failed by itself"
    return said, os.WIFSIGNALED(status)


def a_life(place, seed, *, kill_at=None, delay=None, shown=False):
    def work(say):
        telling_decisions(say)
        kill_before(kill_at)
        run(place, seed, Shown(say) if shown else FileOutlet(place / "decisions.jsonl"))

    return in_child(work, delay=delay)


def check(place, seed, wanted, said, *, shown=False):
    """The end is the wanted one, and every decision that was ever made, or shown, is the one in the journal."""
    found = state_of(place, seed)
    for part, value in wanted.items():
        if not (shown and part in ("output", "lines")):
            assert found[part] == value, f"{part} differs"
    store = StreamStore(config_in(place, seed).directory / "journal.db")
    kept = {one[0]: list(one) for one in store.decisions_after(0, most=10 * RECORDS)}
    store.close()
    assert len(found["ids"]) == len(set(found["ids"])) == RECORDS
    for words in said:
        for one in words[1] if words[0] in ("made", "shown") else []:
            assert kept[one[0]] == one, "it was decided otherwise in another life"
    made = [one[0] for words in said if words[0] == "made" for one in words[1]]
    return len(made) - len(set(made))


# -- scenarios


def before_writes(data, seed):
    """Killed before each of its writes, then let run."""
    reference = data / f"whole-{seed}"
    reference.mkdir()
    run(reference, seed, FileOutlet(reference / "decisions.jsonl"))
    wanted, kills, again, killed = state_of(reference, seed), 0, 0, True
    while killed:
        place = data / f"killed-{seed}"
        place.mkdir()
        said, killed = a_life(place, seed, kill_at=kills + 1)
        rest, _ = a_life(place, seed)
        again += check(place, seed, wanted, said + rest)
        kills += killed
        shutil.rmtree(place)
    assert again > 0, "no batch was ever lost and decided again"
    return kills


def at_random_moments(data, seed, most):
    """Killed several times anywhere, then let run; what is shown is shown to somebody."""
    chance, kills, again = random.Random(31), 0, 0
    reference = data / f"random-{seed}"
    reference.mkdir()
    began = time.monotonic()
    run(reference, seed, FileOutlet(reference / "decisions.jsonl"))
    whole, wanted = time.monotonic() - began, state_of(reference, seed)
    while kills < most:
        place, said = data / f"chain-{seed}", []
        place.mkdir()
        for _ in range(min(CHAIN, most - kills)):
            new, killed = a_life(place, seed, delay=whole * 1.2 * chance.random(), shown=True)
            said += new
            kills += killed
        rest, _ = a_life(place, seed, shown=True)
        again += check(place, seed, wanted, said + rest, shown=True)
        assert {one[1] for words in said + rest if words[0] == "shown" for one in words[1]} == set(wanted["ids"])
        shutil.rmtree(place)
    return kills


def plant(mistake):
    """A mistake that only kills can find: state in a transaction of its own, or a journal that lags a batch behind."""
    commit, close, behind = StreamStore.commit, StreamStore.close, []

    def state_later(self, changes, body, arrays):
        old = self.state() or (body, arrays)
        commit(self, changes, *old)
        commit(self, type(changes)(), body, arrays)

    def write_behind(self, changes, body, arrays):
        behind.append((changes, body, arrays))
        if len(behind) > 1:
            commit(self, *behind.pop(0))

    def written_at_last(self):
        while behind:
            commit(self, *behind.pop(0))
        close(self)

    StreamStore.close = written_at_last
    if mistake != "nothing":
        StreamStore.commit = {"state-later": state_later, "write-behind": write_behind}[mistake]


def main(scenario, directory, kills, batch, planted, kind):
    data = directory / "data"
    BATCH[0], KIND[0] = batch, kind
    plant(planted)
    lines_in(data)
    (data / "warm").mkdir()
    run(data / "warm", 1, FileOutlet(data / "warm" / "decisions.jsonl"))  # everything is imported
    gc.freeze()
    done = 0
    for seed in (11, None):
        done += before_writes(data, seed) if scenario == "writes" else at_random_moments(data, seed, kills // 2)
    print(f"{done} kills")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6])
