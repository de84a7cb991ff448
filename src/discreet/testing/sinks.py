"""The contract of a sink: what every place that keeps a ledger's lines must do.

    def test_my_sink(tmp_path):
        check_sink(lambda: MySink(tmp_path / "lines"))

``open_sink`` opens the *same* place each time it is called; the first time there is nothing in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from discreet.errors import DiscreetError
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import Ledger, Sink, adaptive


def check_sink(open_sink: Callable[[], Sink], *, outlives_process: bool = True) -> None:
    """Raise AssertionError with the first line of the contract that ``open_sink`` does not keep.

    ``outlives_process``: lines survive a process that dies right after `append` returned (not so in memory).
    """
    sink = open_sink()
    _holds(isinstance(sink, Sink), "it has read, append and close")
    _holds(sink.read() == [], "a new sink is empty")
    sink.append(0, [b"one\n"])
    sink.append(1, [b"two\n", b"three\n"])
    _holds(sink.read() == [b"one\n", b"two\n", b"three\n"], "lines are kept in order, byte for byte")
    for wrong in (0, 2, 4):
        _refused(partial(sink.append, wrong, [b"lost\n"]), "lines for another position than the end are refused")
    _holds(len(sink.read()) == 3, "a refused append keeps nothing")
    sink.append(3, [])
    _holds(len(sink.read()) == 3, "an append of no lines adds nothing")
    wide = b"x" * 300_000 + b"\n"
    sink.append(3, [wide])
    sink.close()
    _refused(partial(sink.append, 4, [b"late\n"]), "a closed sink takes nothing")
    again = open_sink()
    _holds(again.read() == [b"one\n", b"two\n", b"three\n", wide], "lines outlive the sink that took them")
    lines = [b"line %d\n" % number for number in range(300)]
    for number, line in enumerate(lines):
        again.append(4 + number, [line])
    _holds(again.read()[4:] == lines, "hundreds of lines are kept, the oldest too")
    again.close()
    if outlives_process and hasattr(os, "fork"):
        _dies_after_append(open_sink, 304)
    _two_writers(open_sink(), open_sink, second_first=False)
    _two_writers(open_sink(), open_sink, second_first=True)


def _dies_after_append(open_sink: Callable[[], Sink], count: int) -> None:
    child = os.fork()
    if child == 0:
        try:
            open_sink().append(count, [b"last words\n"])
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    sink = open_sink()
    _holds(
        sink.read()[count:] == [b"last words\n"], "a line is durable when append returns, not when the sink is closed"
    )
    sink.close()


def _two_writers(first: Sink, open_sink: Callable[[], Sink], *, second_first: bool) -> None:
    """A second writer is refused when it opens or when it appends, or it wins and the first is; never do both win."""
    count = len(first.read())
    try:
        second = open_sink()
    except DiscreetError:
        first.append(count, [b"four\n"])
        first.close()
        return
    won = 0
    for writer in (second, first) if second_first else (first, second):
        try:
            writer.append(count, [b"four\n"])
            won += 1
        except DiscreetError:
            continue
    _holds(won == 1, "of two writers exactly one wins a position")
    first.close()
    second.close()


def check_ledger_in(open_sink: Callable[[], Sink]) -> None:
    """A ledger created in the sink, charged, closed and opened again is the same ledger."""
    terms = adaptive(Budget(epsilon=1, delta="1e-6"))
    with Ledger.create(open_sink(), terms) as ledger:
        for number in range(5):
            ledger.charge(event=Laplace(epsilon="0.1"), who="pool", why=f"count {number}")
        head, total = ledger.head, ledger.total("everyone")
    with Ledger.open(open_sink()) as again:
        _holds(again.head == head and again.total("everyone") == total, "a ledger opened again stands where it stood")
        _holds(len(again) == 5, "no entry is lost or doubled")


def _holds(true: bool, line: str) -> None:
    if not true:
        raise AssertionError(f"the sink's contract is broken: {line}")


def _refused(act: Callable[[], object], line: str) -> None:
    try:
        act()
    except DiscreetError:
        return
    raise AssertionError(f"the sink's contract is broken: {line}")
