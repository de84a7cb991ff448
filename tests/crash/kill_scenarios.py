"""What test_kill.py runs, `SCENARIO DIRECTORY`, in a process that holds little: forking it is cheap, and threadless.

A forked child charges a file ledger and draws, telling its parent through a pipe what returned. It is killed at a
chosen bytecode instruction inside discreet (the interpreter's tracer counts them), or from outside at a random time.
"""

import gc
import os
import random
import signal
import sys
import time
from pathlib import Path

from discreet.noise import OperatingSystem, SealedPhase, laplace
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import FileSink, Ledger, adaptive
from discreet.privacy.ledger import high_water_mark as mark_module
from discreet.privacy.ledger import sinks as sink_module
from discreet.privacy.ledger.high_water_mark import HighWaterMark
from discreet.privacy.ledger.sinks import read_lines

TERMS = adaptive(Budget(epsilon=10**6, delta="1e-6"))
COUNT = Laplace(epsilon="0.5")
CHARGES = 2


def traced(act, kill_at, only=""):
    """Run ``act`` counting bytecode instructions in discreet's files; kill this process at number ``kill_at``."""
    seen = 0

    def on_event(frame, event, _):
        nonlocal seen
        if "discreet" not in frame.f_code.co_filename or only not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return on_event

    sys.settrace(on_event)
    try:
        act()
    finally:
        sys.settrace(None)
    return seen


def in_child(work):
    """Run ``work(tell)`` in a forked child; what it told before it ended or was killed, and how it ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            work(lambda line: os.write(write, line.encode() + b"\n"))
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    return child, read


def told_by(child, read):
    parts = []
    while part := os.read(read, 65536):
        parts.append(part)
    os.close(read)
    _, status = os.waitpid(child, 0)
    return [line.split() for line in b"".join(parts).decode().splitlines()], status


def charging(place, kill_at, only=""):
    def work(tell):
        ledger = Ledger.open(FileSink(place), source=OperatingSystem())

        def act():
            for number in range(CHARGES):
                receipt = ledger.charge(event=COUNT, who="pool", why=f"count {number}")
                tell(f"returned {receipt.entry.sequence} {receipt.entry.hash}")
                laplace(1.0, sensitivity=1.0, receipt=receipt)
                tell(f"drew {receipt.entry.sequence} {receipt.entry.hash}")

        tell(f"instructions {traced(act, kill_at, only)}")

    return work


def check_recovery(place, told, before):
    """Every entry that returned or was drawn on is there; at most one more is; the ledger goes on."""
    with Ledger.open(FileSink(place)) as ledger:
        kept = {(str(entry.sequence), entry.hash) for entry in ledger.entries}
        returned = [(line[1], line[2]) for line in told if line[0] in ("returned", "drew")]
        assert set(returned) <= kept
        assert len(ledger) - before - len(set(returned)) in (0, 1)
        count = len(ledger)
        assert ledger.total("everyone").entries == count
        ledger.charge(event=COUNT, who="pool", why="after the crash")
    return count + 1


def created(directory):
    Ledger.create(FileSink(directory / "a.ledger"), TERMS).close()
    return directory / "a.ledger"


def count_instructions(place, only=""):
    told, status = told_by(*in_child(charging(place, 0, only)))
    assert status == 0
    assert told[-1][0] == "instructions"
    return int(told[-1][1])


def as_created(place):
    """The ledger and its mark; `put` puts both back, as the tests begin anew."""
    mark = HighWaterMark.beside(place).path
    return [(path, path.read_bytes()) for path in (place, mark)]


def put(files):
    for path, data in files:
        path.write_bytes(data)


def every_instruction_of(module, directory):
    """Exhaustively: each instruction of a module while two entries are appended."""
    place, name = created(directory), module.__name__.rsplit(".", 1)[-1]
    opening = as_created(place)
    total = count_instructions(place, name)
    assert total > 100
    unmarked = 0
    for kill_at in range(1, total + 1):
        put(opening)
        told, status = told_by(*in_child(charging(place, kill_at, name)))
        assert os.WIFSIGNALED(status)
        lines, mark = len(read_lines(place)), HighWaterMark.beside(place).read().lines
        returned = {line[1] for line in told if line[0] == "returned"}
        assert len(returned) < mark <= lines <= mark + 1, "a receipt that the mark does not cover"
        unmarked += lines > mark
        check_recovery(place, told, 0)
    assert unmarked > 5, "no kill between the line and the mark"


def every_instruction_of_the_sinks_append(directory):
    every_instruction_of(sink_module, directory)


def every_instruction_of_the_marks_writing(directory):
    every_instruction_of(mark_module, directory)


def random_instructions_of_charging_and_drawing(directory):
    """500 of them."""
    place = created(directory)
    opening, chance = as_created(place), random.Random(20)
    total = count_instructions(place)
    assert total > 2000
    kills = 0
    while kills < 500:
        put(opening)
        told, status = told_by(*in_child(charging(place, chance.randint(1, total))))
        kills += os.WIFSIGNALED(status)  # samplers reject now and then, so the last instructions are not always there
        check_recovery(place, told, 0)


def from_outside_at_random_times(directory):
    """The same ledger survives 60 writers killed at full speed."""
    place, chance, count = created(directory), random.Random(21), 0

    def endless(tell):
        ledger = Ledger.open(FileSink(place), source=OperatingSystem())
        tell("ready")
        while True:
            receipt = ledger.charge(event=COUNT, who="pool", why="count")
            tell(f"returned {receipt.entry.sequence} {receipt.entry.hash}")

    for _ in range(60):
        child, read = in_child(endless)
        assert os.read(read, 6) == b"ready\n"
        time.sleep(chance.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        told, status = told_by(child, read)
        assert os.WIFSIGNALED(status)
        count = check_recovery(place, told, count)
    assert count > 100


def a_redo_repeats_every_draw_that_was_seen(directory):
    """A phase of three draws killed 80 times anywhere, and done again."""
    place, chance = created(directory), random.Random(22)

    def phase_of(kill_at):
        def work(tell):
            ledger = Ledger.open(FileSink(place), source=OperatingSystem())

            def act():
                with SealedPhase(ledger, phase=1, directory=directory) as phase:
                    for number in range(3):
                        receipt = phase.charge(event=COUNT, who="pool", purpose=f"count {number}")
                        tell(f"drew {number} {laplace(1.0, sensitivity=1.0, receipt=receipt).hex()}")

            tell(f"instructions {traced(act, kill_at)}")

        return work

    def run(kill_at):
        return told_by(*in_child(phase_of(kill_at)))

    opening = as_created(place)
    total = int(run(0)[0][-1][1])
    repeated, kills = 0, 0
    while kills < 80:
        put(opening)
        for key in directory.glob("*.key"):
            key.unlink()
        seen, status = run(chance.randint(1, total))
        kills += os.WIFSIGNALED(status)
        again, status = run(0)
        assert status == 0
        drawn = [line for line in seen if line[0] == "drew"]
        with Ledger.open(FileSink(place)) as ledger:
            if len(ledger) == 3:  # the key outlived the crash: the same phase, the same draws
                assert again[: len(drawn)] == drawn
                repeated += len(drawn)
            else:  # it was killed when the phase had ended and its key was gone: charged again
                assert len(ledger) == 6
                assert len(drawn) == 3
    assert repeated > 30


if __name__ == "__main__":
    gc.freeze()  # a child that looks for garbage among what it was born with copies every page of it
    globals()[sys.argv[1]](Path(sys.argv[2]))
