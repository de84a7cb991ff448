"""20 annotators and 2 trainers on one campaign: no answer lost or doubled, no deadlock, a ledger that is right."""

import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from shared_load import PER_QUESTION, opened

from discreet.campaign.state import ledger_of
from discreet.privacy.certificate.verification import verify_ledger
from discreet.storage import open_storage

pytestmark = pytest.mark.integration

LOAD = Path(__file__).with_name("shared_load.py")
HOSTS = [("annotators", f"desk{number}") for number in range(4)] + [("trainer", "one"), ("trainer", "two")]


def started(url, directory, seconds):
    return [
        subprocess.Popen(
            [sys.executable, str(LOAD), role, name, url, str(directory), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role, name in HOSTS
    ]


def worked(server, url, directory, seconds, *, restart):
    """What all of them did; with the server stopped as by a power failure half way, and started again."""
    with open_storage(url, directory=directory) as storage:
        opened(storage).due(1)  # the first query
    children = started(url, directory, seconds)
    try:
        assert [child.stdout.readline() for child in children] == ["ready\n"] * len(children)
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        if restart:
            time.sleep(seconds / 2)
            server.restart("immediate")
        said = [child.communicate(timeout=seconds + 240) for child in children]  # no deadlock: everybody ends
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert [(child.returncode, error) for child, (_, error) in zip(children, said, strict=True)] == [(0, "")] * 6
    return [json.loads(out) for out, _ in said]


def check_answers(store, did):
    """What was taken is there once, in its order; what was refused with nothing stored is not."""
    given = defaultdict(list)
    for question, name, value, taken in (one for part in did for one in part["answers"]):
        given[question, name].append((value, taken))
    lost = doubled = doubtful = 0
    for question in {question for question, _ in given}:
        past = defaultdict(list)
        for answer, _ in store.history(question):
            past[answer.annotator].append(answer.value)
        for name in {name for one, name in given if one == question}:
            found = past.pop(name, [])
            for value, taken in given[question, name]:
                if found[:1] == [value]:
                    found.pop(0)
                    doubled += taken is not True and "nothing of this was stored" in taken
                elif taken is True:
                    lost += 1
            doubled += len(found)
            doubtful += sum("cannot tell" in str(taken) for _, taken in given[question, name])
        assert not past, "answers of nobody"
    assert (lost, doubled) == (0, 0)
    return sum(map(len, given.values())), doubtful


def check_ledger(store, did):
    """Its lines follow from one another, each step was charged once, and what it paid for was drawn once."""
    assert verify_ledger(b"".join(store.sink().read())).ok
    with ledger_of(store) as ledger:
        charged = Counter((entry.why.phase, entry.why.purpose) for entry in ledger.entries)
    steps = store.transitions()
    assert [one.number for one in steps] == list(range(len(steps)))
    taken = Counter((one.kind, one.phase) for one in steps)
    assert set(taken.values()) == {1}
    assert set(charged.values()) == {1}, "a redo on the host of its key finds its charge again"
    for kind, purpose in (("published", "choosing"), ("trained", "training")):
        assert {(phase, purpose) for one, phase in taken if one == kind} <= set(charged)
    draws = defaultdict(set)
    for purpose, phase, noisy in (one for part in did for one in part["drawn"]):
        draws[purpose, phase].add(json.dumps(noisy))
    assert all(len(found) == 1 for found in draws.values()), "a redo repeats the same draw"
    for phase in {phase for kind, phase in taken if kind == "trained"}:
        assert store.file("model", phase).read_bytes().decode() in draws["training", phase]
    return len({phase for kind, phase in taken if kind == "trained"})


def check_shown(store):
    """Nobody answered what they were not shown, and no question was shown to more people than answer it."""
    shown = defaultdict(set)
    for one in store.exposures():
        if one.kind == "annotator":
            shown[one.question_id].add(one.audience)
    assert max(map(len, shown.values())) <= PER_QUESTION
    assert all(people <= shown[question] for question, people in store.voices().items())


def together(server, url, tmp_path, seconds, *, restart):
    did = worked(server, url, tmp_path / "host", seconds, restart=restart)
    assert [part["failed"] for part in did] == [[]] * 6
    with open_storage(url, directory=tmp_path / "host", patience=60.0) as storage:
        store = storage.load("shared")
        answers, doubtful = check_answers(store, did)
        phases = check_ledger(store, did)
        check_shown(store)
    assert "deadlock detected" not in (server.data / "log").read_text(errors="replace")
    refused = Counter(word for part in did for word in part["refused"])
    print(f"{seconds} s, restart {restart}: {answers} answers ({doubtful} in doubt), {phases} phases, {dict(refused)}")
    assert answers > seconds, "too few to show anything"
    assert phases >= 1 + seconds // 60
    assert sum(bool(part["trained"]) for part in did) >= 1
    if restart:
        lost = sum("turn was lost" in word or "connection" in word for part in did for word in part["refused"])
        print(f"turns lost: {lost}")


@pytest.mark.parametrize("restart", [False, True])
def test_twenty_annotators_and_two_trainers_for_twenty_seconds(server, url, tmp_path, restart):
    together(server, url, tmp_path, 20, restart=restart)


@pytest.mark.long
@pytest.mark.parametrize("restart", [False, True])
def test_twenty_annotators_and_two_trainers_for_two_minutes(server, url, tmp_path, restart):
    together(server, url, tmp_path, 120, restart=restart)
