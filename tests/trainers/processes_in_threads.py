"""Several processes in one: threads that take turns, and queues for a network. Real ones: test_gloo_processes.py."""

import json
import queue
import threading

from discreet.errors import ProcessFailed
from discreet.trainers.dp_sgd import Processes

PATIENCE = 60


class Queues:
    """A network between threads. Only the one that holds ``turn`` runs: torch's global generator is its own."""

    def __init__(self, count):
        self.count, self.turn, self.said = count, threading.Lock(), []
        self.lines = {(a, b): queue.Queue() for a in range(count) for b in range(count)}

    def put(self, source, to, thing):
        self.said.append((source, to, thing))
        self.lines[source, to].put(thing)

    def get(self, source, to):
        self.turn.release()
        try:
            thing = self.lines[source, to].get(timeout=PATIENCE)
        finally:
            self.turn.acquire()
        if thing is None:
            self.lines[source, to].put(None)
            raise ProcessFailed("several processes", f"rank {source} ended", rank=source)
        return thing


class Threads(Processes):
    def tell(self, rank, message):
        self.wire.put(self.rank, rank, json.dumps(message))

    def hear(self, rank=0):
        return json.loads(self.wire.get(rank, self.rank))

    def last_words(self, message):
        self.tell_others(message)

    def send(self, rank, tensor):
        self.wire.put(self.rank, rank, tensor.clone())

    def receive(self, rank, like):
        found = self.wire.get(rank, self.rank)
        assert found.shape == like.shape
        assert found.dtype == like.dtype
        return found


def together(count, work, *, said=None):
    """What ``work(processes)`` returns or raises in each of ``count`` processes; rank 0 is this thread."""
    wire, found = Queues(count), [None] * count

    def act(rank):
        with wire.turn:
            try:
                found[rank] = work(Threads(rank=rank, count=count, wire=wire))
            except BaseException as failed:  # noqa: BLE001 - looked at by the test
                found[rank] = failed
            for other in range(count):
                wire.lines[rank, other].put(None)

    others = [threading.Thread(target=act, args=(rank,), daemon=True, name=f"rank {rank}") for rank in range(1, count)]
    for thread in others:
        thread.start()
    act(0)
    for thread in others:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a process was left waiting"
    if said is not None:
        said.extend(wire.said)
    return found


def well(found):
    """``found`` if nobody raised."""
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found
