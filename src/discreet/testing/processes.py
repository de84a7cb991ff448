"""The part of a store's contract that takes several processes: what is durable, and whose turn it is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from discreet.errors import LedgerUnavailable, StoreUnavailable
from discreet.records import Answer, Question

if TYPE_CHECKING:
    from discreet.storage import CampaignStore, Storage

Open = Callable[[], "Storage"]


def check_durable(open_storage: Open) -> None:
    """Each verb in a process that is killed when it returned."""
    asked = asked_in(0, 3)
    answers = [Answer(question_id=asked[0].id, value="a", annotator="ann")]
    acts: dict[str, tuple[Callable[[CampaignStore], object], Callable[[CampaignStore], bool]]] = {
        "add_records": (lambda store: enrolled(store, 1, 3), lambda store: len(store.ids()) == 3),
        "record": (lambda store: store.record("drawn", phase=0), lambda store: len(store.transitions()) == 1),
        "publish": (lambda store: store.publish(0, asked), lambda store: store.questions() == asked),
        "tell": (lambda store: store.tell(answers), lambda store: len(store.answers()) == 1),
        "keep_file": (
            lambda store: store.keep_file("model", phase=0, data=b"weights"),
            lambda store: store.file("model", 0).read_bytes() == b"weights",
        ),
        "sink().append": (
            lambda store: store.sink().append(0, [b"a\n"]),
            lambda store: store.sink().read() == [b"a\n"],
        ),
    }
    _killed_after(lambda: open_storage().create("durable", config={}, simulation=True))
    for verb, (act, done) in acts.items():
        _killed_after(partial(_done_in, open_storage, act))
        with open_storage() as storage:
            holds(done(storage.load("durable")), f"{verb} is durable when it returns, not when the store is closed")


def _done_in(open_storage: Open, act: Callable[[CampaignStore], object]) -> None:
    act(open_storage().load("durable"))


def _killed_after(act: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        try:
            act()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    holds(os.WIFSIGNALED(status), "every verb can be used in a forked process")


def check_turns(open_storage: Open, each: int = 15) -> None:
    """Two processes take the same steps, answer the same question and append to the same ledger at once."""
    with open_storage() as storage:
        store = storage.create("turns", config={}, simulation=True)
        (asked,) = enrolled(store, 1, 1)
        store.publish(0, asked)

    def work(who: str) -> None:
        store = open_storage().load("turns")
        for number in range(each):
            store.record(f"step-{number}", phase=0)
            store.tell([Answer(question_id=asked[0].id, value=str(number), annotator=who)])
            _append_somewhere(store, f"{who} {number}\n".encode())

    holds(_both(work) == [0, 0], "two processes can use a store at once")
    with open_storage() as storage:
        store = storage.load("turns")
        steps = store.transitions()
        holds([step.number for step in steps] == list(range(each + 1)), "of two processes one records a step")
        holds(len(store.history(asked[0].id)) == 2 * each, "no answer of two processes is lost")
        lines = store.sink().read()
        holds(len(lines) == len(set(lines)) == 2 * each, "no line of two processes is lost or doubled")


def _append_somewhere(store: CampaignStore, line: bytes) -> None:
    for _ in range(1000):
        sink = store.sink()
        try:
            return sink.append(len(sink.read()), [line])
        except LedgerUnavailable:
            continue  # the other one was faster
    raise AssertionError("the store's contract is broken: of two writers one wins")


def check_alone(open_storage: Open) -> None:
    """Two processes count in a file; only turns make the sum come out right."""
    with open_storage() as storage:
        counter = storage.create("alone", config={}, simulation=True).directory / "count"
        counter.write_text("0")

    def work(who: str) -> None:
        store = open_storage().load("alone")
        for _ in range(10):
            with store.exclusive("counting", wait=30.0):
                count = int(counter.read_text())
                time.sleep(0.002)
                counter.write_text(str(count + 1))

    holds(_both(work) == [0, 0] and counter.read_text() == "20", "a purpose is for one process at a time")
    with open_storage() as storage, storage.load("alone").exclusive("training"):
        store = storage.load("alone")
        holds(_kept_out(open_storage), "a purpose is for one process at a time")
        refused(partial(_enter, store), StoreUnavailable, "a process does not enter twice")
        with store.exclusive("asking"):
            pass
    _killed_after(lambda: open_storage().load("alone").exclusive("training").__enter__())
    with open_storage() as storage:
        _enter(storage.load("alone"))  # the one that was killed has let go


def _kept_out(open_storage: Open) -> bool:
    """Whether another process may not do what this one is doing."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _enter(open_storage().load("alone"))
        except StoreUnavailable:
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _enter(store: CampaignStore) -> None:
    with store.exclusive("training"):
        pass


def _both(work: Callable[[str], None]) -> list[int]:
    """``work`` in two processes that begin together; their exit codes."""
    children = []
    with _starting_line() as wait:
        for who in ("ann", "bea"):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    wait()
                    work(who)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


@contextmanager
def _starting_line() -> Iterator[Callable[[], None]]:
    """What the children call returns when the block is left."""
    read, write = os.pipe()

    def wait() -> None:
        os.close(write)
        os.read(read, 1)

    try:
        yield wait
    finally:
        os.close(write)
        os.close(read)


def asked_in(phase: int, count: int, first: int = 0) -> list[Question]:
    """Records in another order than that of places or ids."""
    return [
        Question(id=f"q{phase}-{(number * 7 + 1) % count}", record=f"r{first + number}", phase=phase, place=number)
        for number in range(count)
    ]


def enrolled(store: CampaignStore, phases: int, count: int) -> list[list[Question]]:
    """Enrol as many records as ``phases`` of ``count`` questions ask about; the questions."""
    store.add_records((f"r{number}", b"code") for number in range(phases * count))
    return [asked_in(phase, count, phase * count) for phase in range(phases)]


def holds(true: bool, line: str) -> None:
    """Or the contract is broken."""
    if not true:
        raise AssertionError(f"the store's contract is broken: {line}")


def refused(act: Callable[[], object], error: type[Exception], line: str) -> None:
    """``act`` raises ``error``, or the contract is broken."""
    try:
        act()
    except error:
        return
    raise AssertionError(f"the store's contract is broken: {line}")
