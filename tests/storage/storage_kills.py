"""What test_storage_kills.py runs, `DIRECTORY KILLS [URL]`, in a process that holds little: forking it is cheap.

Each child publishes, answers, keeps files, takes steps and charges in a loop, and says through a pipe what it began and
what returned. It is killed at a random moment. Then what returned must be there, and what did not, whole or absent.
"""

import gc
import os
import random
import signal
import sys
import time
from pathlib import Path

from discreet.records import Answer, Question
from discreet.storage import open_storage

EACH = 6
"""Questions in a phase."""


def asked(phase):
    return [
        Question(id=f"q{phase}-{place}", record=f"r{phase % 500}-{place}", phase=phase, place=place)
        for place in range(EACH)
    ]


def weights(phase):
    return f"weights of phase {phase}".encode() * 2000


def answered(phase, value):
    return [Answer(question_id=one.id, value=value, annotator="ann") for one in asked(phase)]


def steps(store, phase):
    """In the order of a campaign."""
    yield "record", lambda: store.record("charged", phase=phase, facts={"phase": phase})
    yield "append", lambda: append(store, phase)
    yield "publish", lambda: store.publish(phase, asked(phase), cohorts={one.record: "all" for one in asked(phase)})
    yield "tell", lambda: store.tell(answered(phase, "a"))
    yield "correct", lambda: store.tell(answered(phase, "b"))
    yield "keep", lambda: store.keep_file("model", phase=phase, data=weights(phase))
    yield "replace", lambda: store.keep_file("latest", phase=0, data=weights(phase), replace=True)


def append(store, phase):
    sink = store.sink()
    lines = sink.read()
    if line(phase) not in lines:
        sink.append(len(lines), [line(phase), line(phase)])


def line(phase):
    return b"entry of phase %d\n" % phase


def endless(place, first, say):
    store = opened(place).load("kills")
    say("ready")
    phase = first
    while True:
        for name, act in steps(store, phase):
            act()
            say(f"{name} {phase}")
        phase += 1


def killed(place, first, after, delay):
    """What a child said before it was killed, ``delay`` seconds after ``after`` steps had returned."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            endless(place, first, lambda said: os.write(write, said.encode() + b"\n"))
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as file:
        assert file.readline() == "ready\n"
        said = [file.readline() for _ in range(after)]
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        said = [one.split() for one in (*said, *file)]
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it failed by itself"
    return {(name, int(phase)) for name, phase in said}


def check(store, said):
    """Each step of each phase: there if it returned, else whole or absent. The last phase reached."""
    taken = {(one.kind, one.phase) for one in store.transitions()}
    assert [one.number for one in store.transitions()] == list(range(len(taken)))
    lines, kept = store.sink().read(), {(one.kind, one.phase): one.sha256 for one in store.files()}
    last = max((phase for _, phase in taken), default=-1)
    for phase in range(max(last - 1, 0), last + 1):  # older ones were looked at before
        there = store.questions(phase)
        values = [one.value for one in store.answers(phase)]
        past = [len(store.history(one.id)) for one in there]
        assert there in ([], asked(phase))
        assert ("published", phase) in taken or not there
        assert bool(there) or ("published", phase) not in taken
        assert values in ([], ["a"] * EACH, ["b"] * EACH)
        assert len(set(past)) <= 1, "some answers were stored and others not"
        assert lines.count(line(phase)) in (0, 2)
        if ("model", phase) in kept:
            assert store.file("model", phase).read_bytes() == weights(phase)
        done = {
            "record": ("charged", phase) in taken,
            "append": line(phase) in lines,
            "publish": bool(there),
            "tell": bool(values),
            "correct": values == ["b"] * EACH,
            "keep": ("model", phase) in kept,
        }
        assert all(done[name] for name, one in said if one == phase and name in done), (phase, done)
    if ("latest", 0) in kept:
        assert store.file("latest", 0).read_bytes() in [weights(phase) for phase in range(last + 1)]
    latest = [phase for name, phase in said if name == "replace"]
    if latest:  # the row names the last one that returned, or one that was on its way
        assert store.file("latest", 0).read_bytes() in [weights(max(latest) + more) for more in (0, 1)]
    return last


def opened(place):
    """``place``: an address, and the directory of a store that is no file."""
    return open_storage(place[0], directory=place[1], patience=60.0)


def run(directory, kills, url=None):
    place, chance = (directory / "scan.db", None) if url is None else (url, directory), random.Random(30)
    with opened(place) as storage:
        store = storage.create("kills", config={}, simulation=True)
        store.add_records((f"r{phase}-{number}", b"code") for phase in range(500) for number in range(EACH))
    last, returned = -1, 0
    for _ in range(kills):
        said = killed(place, max(last, 0) + chance.randrange(2), chance.randrange(9), chance.random() * 0.005)
        returned += len(said)
        with opened(place) as storage:
            last = check(storage.load("kills"), said)
    with opened(place) as storage:
        store = storage.load("kills")
        for _, act in steps(store, last):  # the phase that was cut off goes on
            act()
        check(store, {(name, last) for name, _ in steps(store, last)})
        store.sweep()
        for part in (store.directory / "objects").glob(".*.part"):
            os.utime(part, (0, 0))
        store.sweep()
        there = {path.name for path in (store.directory / "objects").iterdir()}
        assert there == {one.sha256 for one in store.files()}
    assert returned > kills, "too few steps returned to show anything"
    print(f"{kills} kills, {returned} steps returned, {last + 1} phases")


if __name__ == "__main__":
    gc.freeze()  # a child that looks for garbage among what it was born with copies every page of it
    run(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
