"""Record a run, replay it on a neighbour: does anything but paid-for noise depend on one record?

The run on D is recorded: every charge, every release with its parameters, pre-noise inputs and output. Then the same
code runs on D' (one record replaced by its null) with the outputs frozen to the recorded ones. If the code is private,

- the charges are the same,
- the same mechanisms are called in the same order with the same parameters,
- the inputs of each differ by at most the sensitivity that was declared,
- and what the code returns is *identical*, because it is computed from frozen outputs alone.

Randomness that does not come from `discreet.noise` is reported: global generators, the operating system, new unseeded
generators. Not seen: what the code writes to files, sends away or keeps in globals; noise from a generator made before
the run whose effect does not reach the result; `secrets`, and a bit generator made by hand.

Then it is done the other way round, D' recorded and D replayed. The kit proves nothing (it sees the neighbours it was
given, and the outputs that were drawn); it finds the bugs that proofs on paper do not: docs/howto/test-a-mechanism.md.
"""

from __future__ import annotations

import copy
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise.sources import Call, RecordingSource, ReplayingSource, Seeded, Source
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink, Terms, adaptive
from discreet.testing.comparison import excess, same

Mechanism = Callable[[Any, Ledger], Any]
AMPLE = Budget(epsilon=10**9, delta="1e-9")
"""The kit checks behaviour, not budgets."""


@dataclass(frozen=True, kw_only=True)
class NeighbourFinding:
    """One thing that depends on a record and should not. ``kind`` is one of the words below; no data is in it.

    draw-without-charge, unpaid-randomness, charge, control-flow, parameter, sensitivity, output
    """

    kind: str
    neighbour: int
    detail: str


@dataclass(frozen=True, kw_only=True)
class NeighbourReport:
    """What was checked: pairs of neighbours (each both ways), and the charges and releases of one run."""

    pairs: int
    charges: int
    releases: int


class NotPrivate(AssertionError):
    """The kit found something; ``findings`` lists it."""

    def __init__(self, findings: Sequence[NeighbourFinding]) -> None:
        self.findings = tuple(findings)
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        shown = "\n".join(f"  {f.kind} (neighbour {f.neighbour}): {f.detail}" for f in findings[:10])
        super().__init__(f"{kinds}\n{shown}")


def check_neighbours(
    mechanism: Mechanism,
    data: Any,
    *,
    null: Any = None,
    neighbours: Sequence[Any] | None = None,
    terms: Terms | None = None,
    seed: int = 0,
    most: int = 16,
) -> NeighbourReport:
    """Run ``mechanism(data, ledger)`` on ``data`` and on its neighbours; raise `NotPrivate` where they differ unpaid.

    ``null`` replaces one record at a time (``data`` is then a sequence or an array of records; up to ``most`` of them
    are tried). ``neighbours`` gives the other datasets outright. ``terms`` are the ledger's, by default ample.
    """
    others = list(neighbours) if neighbours is not None else _zeroed(data, null, most)
    if not others:
        raise BadInput("checking neighbours", "there are none", "Give records and a null, or neighbours")
    findings: list[NeighbourFinding] = []
    for number, other in enumerate(others):
        for backward in (False, True):
            left, right = (other, data) if backward else (data, other)
            run = (left, right, terms or adaptive(AMPLE), seed)
            report = _compare(mechanism, *run, number, findings, backward=backward)
    if findings:
        raise NotPrivate(findings)
    if not report.releases:
        raise BadInput(
            "checking neighbours", "the code released nothing through discreet.noise", "Check that it does its work"
        )
    return NeighbourReport(pairs=len(others), charges=report.charges, releases=report.releases)


def _zeroed(data: Any, null: Any, limit: int) -> list[Any]:
    if null is None:
        raise BadInput("checking neighbours", "there is no null to put in a record's place", "Give null or neighbours")
    size = len(data)
    chosen = range(size) if size <= limit else np.unique(np.linspace(0, size - 1, limit).astype(int))
    others = []
    for index in chosen:
        other = data.copy() if isinstance(data, np.ndarray) else list(data)
        other[index] = null
        others.append(other if isinstance(data, np.ndarray) else type(data)(other))
    return others


@dataclass(frozen=True)
class _Run:
    output: Any
    ledger: Ledger
    stray: bool
    error: Exception | None


def _compare(
    mechanism: Mechanism,
    left: Any,
    right: Any,
    terms: Terms,
    seed: int,
    number: int,
    findings: list[NeighbourFinding],
    *,
    backward: bool,
) -> NeighbourReport:
    def found(kind: str, detail: str) -> None:
        findings.append(NeighbourFinding(kind=kind, neighbour=number, detail=detail))

    recording = RecordingSource(Seeded(seed))
    first = _run(mechanism, left, terms, recording)
    calls = [call for call, _ in recording.tape.calls]
    report = NeighbourReport(pairs=1, charges=len(first.ledger), releases=len(calls))
    if isinstance(first.error, ReceiptRefused):
        found("draw-without-charge", str(first.error))
        return report
    if first.error is not None and backward:
        found("control-flow", f"on the neighbour alone it ends with {type(first.error).__name__}")
        return report
    if first.error is not None:
        raise first.error
    again = _run(mechanism, left, terms, ReplayingSource(recording.tape))
    if first.stray or again.stray or again.error or not same(first.output, again.output):
        found("unpaid-randomness", "the same data and the same releases gave another result: noise from elsewhere")
        return report
    replaying = ReplayingSource(recording.tape)
    second = _run(mechanism, right, terms, replaying)
    _compare_charges(first, second, found)
    _compare_calls(calls, replaying.calls, found)
    if second.error is not None:
        found("control-flow", f"on the neighbour it ends with {type(second.error).__name__}")
    elif not same(first.output, second.output):
        found("output", "the result changed though every release was frozen: something left that was not released")
    return report


def _compare_charges(first: _Run, second: _Run, report: Callable[[str, str], None]) -> None:
    ours, theirs = ([entry.public for entry in run.ledger.entries] for run in (first, second))
    if len(ours) != len(theirs):
        report("charge", f"{len(ours)} charges, on the neighbour {len(theirs)}")
    for number, (left, right) in enumerate(zip(ours, theirs, strict=False), start=1):
        if left != right:
            report("charge", f"charge {number} is another one on the neighbour")
            return


def _compare_calls(ours: list[Call], theirs: list[Call], report: Callable[[str, str], None]) -> None:
    if len(ours) != len(theirs):
        report("control-flow", f"{len(ours)} releases, on the neighbour {len(theirs)}")
    for number, (left, right) in enumerate(zip(ours, theirs, strict=False), start=1):
        where = f"release {number} ({left.mechanism})"
        if (left.mechanism, _draw(left)) != (right.mechanism, _draw(right)):
            report("control-flow", f"{where} is another one on the neighbour")
            return
        if not same(dict(left.parameters), dict(right.parameters)):
            report("parameter", f"{where} has other parameters on the neighbour")
            continue
        problem = excess(left, right)
        if problem:
            report("sensitivity", f"{where}: {problem}")


def _draw(call: Call) -> tuple[Any, ...]:
    ticket = call.ticket
    return ticket.entry.sequence, ticket.slot, ticket.who, ticket.index


def _run(mechanism: Mechanism, data: Any, terms: Terms, source: Source) -> _Run:
    ledger = Ledger.create(MemorySink(), terms, source=source)
    output: Any = None
    error: Exception | None = None
    with watching() as stray:
        try:
            output = mechanism(copy.deepcopy(data), ledger)
        except Exception as failed:  # noqa: BLE001 - whatever it is, that it depends on the record is the finding
            error = failed
    return _Run(_snapshot(output), ledger, stray(), error)


def _snapshot(output: Any) -> Any:
    """A copy, so that one object both runs write to is not compared with itself."""
    try:
        return copy.deepcopy(output)
    except Exception:  # noqa: BLE001 - anything may go wrong in a stranger's copying
        raise BadInput(
            f"comparing results of type {type(output).__name__}",
            "they cannot be copied",
            "Return arrays, numbers, text or dataclasses",
        ) from None


_IMPORTING = "<frozen importlib"


@contextmanager
def watching() -> Iterator[Callable[[], bool]]:
    """Whether randomness was drawn from a global generator or the operating system, or an unseeded one made, meanwhile.

    What a library draws while it is imported for the first time, such as names for itself, is not counted: it would be
    there in the first run and in no other.
    """
    draws: list[int] = []
    ordinary, entropy = np.random.default_rng, os.urandom
    outside = sys._getframe(2)  # of whoever wrote `with watching()`; between us is contextlib

    def noticed(*arguments: Any, **options: Any) -> Any:
        if not arguments and not options and not _importing(outside):  # a fixed seed draws the same in every run
            draws.append(1)
        return ordinary(*arguments, **options)

    def drawn(size: int) -> bytes:
        if not _importing(outside):
            draws.append(1)
        return entropy(size)

    before = _global_states()
    changed: list[bool] = []
    np.random.default_rng, os.urandom = noticed, drawn
    try:
        yield lambda: bool(draws) or changed[0]
    finally:
        np.random.default_rng, os.urandom = ordinary, entropy
        after = _global_states()[: len(before)]  # torch may have come meanwhile
        changed.append(not same(before, after))


def _importing(outside: FrameType) -> bool:
    """Whether the caller's caller is a module that is being imported, below ``outside``."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame is not outside:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False


def _global_states() -> list[Any]:
    states: list[Any] = [random.getstate(), np.random.get_state()]
    torch = sys.modules.get("torch")
    if torch is not None:
        states.append(np.asarray(torch.get_rng_state()))
    return states
