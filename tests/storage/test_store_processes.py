"""Locks and forks: who holds what, and what a child may do with what it inherited."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from discreet.errors import BadInput, LedgerUnavailable, StoreUnavailable
from discreet.records import Answer
from discreet.storage import open_storage

HOLDER = """
import sys
from discreet.storage import open_storage
with open_storage(sys.argv[1]).load("scans").exclusive("training"):
    print("holding", flush=True)
    sys.stdin.read()
"""


def enter(store, **options):
    with store.exclusive("training", **options):
        return True


def holding(storage):
    command = [sys.executable, "-c", HOLDER, str(storage.path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"holding\n"
    return holder


def ended(holder, end):
    end()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()


def test_another_process_is_named_by_what_it_does_and_its_end_is_the_locks_end(storage, store):
    holder = holding(storage)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="another process is training"):
        enter(store, wait=0.1)
    assert time.monotonic() - began >= 0.1
    with store.exclusive("asking"):
        ended(holder, holder.kill)
    assert enter(store)


def test_waiting_ends_when_the_other_lets_go(storage, store):
    holder = holding(storage)
    threading.Timer(0.1, holder.stdin.close).start()
    assert enter(store, wait=30.0)
    ended(holder, lambda: None)


def test_the_same_process_is_refused_by_name_and_may_come_again(storage, store):
    with store.exclusive("training"):
        with pytest.raises(StoreUnavailable, match="this process is training already"):
            enter(storage.load("scans"), wait=5.0)
        other = storage.create("other", config={}, simulation=True)
        assert enter(other)
    assert enter(store)
    with pytest.raises(ZeroDivisionError), store.exclusive("training"):
        _ = 1 / 0
    assert enter(store)


def test_a_purpose_is_a_word(store):
    for purpose in ("", "../keys", "Training", "a b"):
        with pytest.raises(BadInput, match="small letters"), store.exclusive(purpose):
            pass


def child_says(work):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(work()).encode())
        except BaseException as error:  # noqa: BLE001
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def test_a_forked_child_does_not_keep_its_parents_lock(store):
    read, write = os.pipe()
    with store.exclusive("training"):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        assert child_says(lambda: enter(store)).startswith("StoreUnavailable: training in campaign 'scans': another")
    assert enter(store)
    os.close(write)
    os.close(read)
    os.waitpid(child, 0)


def test_a_forked_child_has_connections_of_its_own(storage, store):
    store.tell([Answer(question_id="q0", value="a")])
    assert child_says(lambda: store.tell([Answer(question_id="q1", value="b")]).new) == "1"
    store.tell([Answer(question_id="q2", value="c")])
    assert [one.value for one in store.answers()] == ["a", "b", "c"]


def open_databases(name):
    """How many open files of this process are the database."""
    files = Path("/proc/self/fd")
    if not files.is_dir():
        pytest.skip("no list of open files")
    return sum(file.resolve().name == name for file in files.iterdir())


def test_no_connection_is_inherited(storage, store):
    store.ids()
    assert open_databases("scan.db") > 0
    assert child_says(lambda: open_databases("scan.db")) == "0"


def test_a_child_that_was_forked_in_a_transaction_leaves_the_database_alone(storage, store):
    def rows():
        yield "record-8", b"code"
        inside = child_says(store.ids)
        assert inside.startswith("StoreUnavailable"), inside
        assert "forked in the middle of a transaction" in inside
        assert "forked" in child_says(lambda: open_storage(storage.path).campaigns())  # by any other way
        yield "record-9", b"code"

    store.add_records(rows())
    assert len(store.ids()) == 6
    assert child_says(lambda: len(store.ids())) == "6"  # between transactions it may


def test_a_child_neither_commits_nor_undoes_what_its_parent_began(storage, store):
    ends = []

    def rows():
        yield "record-8", b"code"
        read, write = os.pipe()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            os.close(write)
            with os.fdopen(read) as file:
                ends.append(file.read())
        else:
            ends.append(write)  # the child goes on, out of the transaction
        yield "record-9", b"code"

    me = os.getpid()
    try:
        store.add_records(rows())
    except StoreUnavailable as error:
        if os.getpid() != me:
            os.write(ends[0], str(error).encode())
    finally:
        if os.getpid() != me:
            os._exit(0)
    assert "forked" in ends[0]
    assert store.ids()[-2:] == ["record-8", "record-9"]


def test_a_ledgers_sink_stays_with_its_process(store):
    sink = store.sink()
    sink.append(0, [b"one\n"])
    assert child_says(lambda: sink.append(1, [b"two\n"])).startswith(LedgerUnavailable.__name__)
    assert child_says(lambda: store.sink().append(1, [b"two\n"])) == "None"
    with pytest.raises(LedgerUnavailable, match="does not end where"):
        sink.append(1, [b"mine\n"])
    sink.append(2, [b"three\n"])


def test_threads_take_turns(storage):
    storage.close()
    patient = open_storage(storage.path, patience=60.0)
    store, failed = patient.load("scans"), []

    def work(who):
        try:
            for number in range(10):
                store.tell([Answer(question_id="q0", value=str(number), annotator=who)])
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(store.history("q0")) == 30
    patient.close()
