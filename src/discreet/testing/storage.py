"""The contracts of a campaign store and of a sink: what every place that keeps campaigns, or a ledger's lines, must do.

    def test_my_store(tmp_path):
        check_storage(lambda: open_storage(tmp_path / "scan.db"))

    def test_my_sink(tmp_path):
        check_sink(lambda: MySink(tmp_path / "lines"))

``open_storage`` and ``open_sink`` open the *same* store each time they are called; the first time there is nothing in
it. Each guarantee is checked in campaigns of its own. Durability and turns are checked with forked processes, where the
system has them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput, CampaignExists, DiscreetError, InvalidStore, NoSuchCampaign, NotNow
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import Ledger, Sink, adaptive
from discreet.records import HANDED_OUT, PERSON, Answer, Question, Shown
from discreet.testing.processes import Open, check_alone, check_durable, check_turns, enrolled, holds, refused

if TYPE_CHECKING:
    from discreet.storage import CampaignStore


def check_storage(open_storage: Open) -> None:
    """Raise AssertionError with the first line of the contract that ``open_storage`` does not keep."""
    _campaigns(open_storage)
    for guarantee in (_pool, _steps, _questions, _answers, _exposures, _files, _withdrawals):
        with open_storage() as storage:
            guarantee(storage.create(guarantee.__name__, config={}, simulation=True))
    with open_storage() as storage:
        check_sink(storage.create("sink", config={}, simulation=True).sink)
        check_ledger_in(storage.create("ledger", config={}, simulation=True).sink)
    if hasattr(os, "fork"):
        check_durable(open_storage)
        check_turns(open_storage)
        check_alone(open_storage)


def _campaigns(open_storage: Open) -> None:
    with open_storage() as storage:
        holds(storage.campaigns() == [], "a new store has no campaigns")
        config = {"name": "b", "classes": ["yes", "no"], "rate": 0.1, "nothing": None}
        first = storage.create("b", config=config, simulation=False)
        storage.create("a", config={}, simulation=True)
        refused(partial(storage.create, "b", config={}, simulation=True), CampaignExists, "a name is taken once")
        refused(partial(storage.load, "c"), NoSuchCampaign, "a name that is not there is refused")
    with open_storage() as storage:
        again = storage.load("b")
        holds(storage.campaigns() == ["a", "b"], "campaigns outlive the store that made them, sorted by name")
        holds(again.config == config and not again.simulation, "a configuration is kept as it was given")
        holds(again.id == first.id and again.created == first.created, "a campaign keeps its id and date")
        only_keys = again.directory.is_dir() and all(path.suffix == ".key" for path in again.directory.iterdir())
        holds(only_keys, "a campaign has a directory of its own, with nothing but keys")
        holds(storage.load("a").simulation, "a simulation stays one")


def _pool(store: CampaignStore) -> None:
    ids = [f"{(number * 7919) % 5003}" for number in range(5003)]  # in no order that a database would choose
    holds(
        store.add_records(((cohort, cohort.encode()) for cohort in ids[:-1]), {"kind": "npz"}) == 0,
        "cohorts count from 0",
    )
    refused(partial(store.add_records, [(ids[-1], b""), (ids[0], b"")]), BadInput, "an id is enrolled once")
    refused(partial(store.add_records, _breaking(ids[-1])), RuntimeError, "errors of the rows are not hidden")
    holds(len(store.ids()) == len(ids) - 1, "a cohort is enrolled whole or not at all")
    holds(store.add_records([(ids[-1], b"last")]) == 1, "cohorts count on")
    holds(store.ids() == ids and store.ids(1) == ids[-1:], "ids keep the order of enrolment")
    codes = dict(store.macs())
    holds(list(codes) == ids and codes[ids[5]] == ids[5].encode(), "every record keeps its code, in the same order")
    sizes = [(cohort.number, cohort.size, dict(cohort.facts)) for cohort in store.pool_cohorts()]
    holds(sizes == [(0, len(ids) - 1, {"kind": "npz"}), (1, 1, {})], "cohorts keep their sizes and facts")


def _breaking(name: str) -> Iterator[tuple[str, bytes]]:
    yield name, b""
    raise RuntimeError("a reader failed")


def _steps(store: CampaignStore) -> None:
    first = store.record("drawn", phase=2, facts={"b": 1, "a": [1.5, None]})
    second = store.record("drawn", phase=1)
    holds(store.record("drawn", phase=2, facts={"a": [1.5, None], "b": 1}) == first, "a step is recorded once")
    refused(partial(store.record, "drawn", phase=2), InvalidStore, "a step is not recorded with other facts")
    holds(store.transitions() == [first, second], "steps keep the order in which they were taken")


def _questions(store: CampaignStore) -> None:
    first, second = enrolled(store, 2, 10)
    high = frozenset({"r12", "r15"})
    parts = {question.record: "high" if question.record in high else "low" for question in second}
    store.publish(1, second[::-1], above=high, cohorts=parts, facts={"k": 10})
    store.publish(0, first)
    holds(store.questions() == first + second, "questions come by phase, in the order of their places")
    holds(store.questions(1) == second, "a phase's questions can be had alone")
    lows = [question.record for question in second if question.record not in high]
    holds(store.cohort_members() == {"low": lows, "high": ["r12", "r15"]}, "records are in the cohorts they entered")
    holds(store.above(1) == high and store.above(0) is None, "it is kept who was asked from above")
    again = store.publish(1, second, above=high, cohorts=parts, facts={"k": 10})
    holds(store.transitions()[0] == again, "publishing again changes nothing")
    for other in (
        partial(store.publish, 1, second[:-1], cohorts={}, facts={"k": 10}),
        partial(store.publish, 1, second, above=high, cohorts=parts, facts={"k": 11}),
        partial(store.publish, 1, second, above={"r12"}, cohorts=parts, facts={"k": 10}),
    ):
        refused(other, InvalidStore, "a phase is published once")
    new = Question(id="new", record="r0", phase=3, place=0)
    unknown = Question(id="unknown", record="nobody", phase=3, place=1)
    refused(partial(store.publish, 3, [new, unknown]), BadInput, "only enrolled records are asked")
    holds(len(store.questions()) == 20 and len(store.transitions()) == 2, "a refused phase leaves nothing")


def _answers(store: CampaignStore) -> None:
    (asked,) = enrolled(store, 1, 4)
    store.publish(0, asked)
    first, second = asked[0].id, asked[1].id
    early, late = datetime(2026, 1, 31, 9, 30, tzinfo=UTC), datetime(2026, 1, 31, 10, 0, 0, 5, tzinfo=UTC)

    def tell(*cells: tuple[str, Any, str], at: datetime = early) -> tuple[int, int, int]:
        counts = store.tell([Answer(question_id=q, value=value, annotator=who) for q, value, who in cells], at=at)
        return counts.new, counts.repeated, counts.corrected

    replies = (second, ("a", "b"), "ann"), (first, None, "ann"), (first, "a", "bea"), (first, (), "cyd")
    holds(tell(*replies) == (4, 0, 0), "new answers are stored")
    holds(tell(*replies, at=late) == (0, 4, 0), "answers told again are not stored again")
    holds(tell((first, "b", "bea"), (first, "c", "ann"), at=late) == (0, 0, 2), "another answer is a correction")
    refused(partial(tell, (second, "z", "ann"), ("q9", "z", "ann")), BadInput, "an unknown question is refused")
    current = [(answer.question_id, answer.value, answer.annotator) for answer in store.answers()]
    holds(
        current == [(first, "c", "ann"), (first, "b", "bea"), (first, (), "cyd"), (second, ("a", "b"), "ann")],
        "the last answer of each annotator is current, in the order of the questions; refused ones leave nothing",
    )
    holds(
        store.voices() == {first: {"ann", "bea", "cyd"}, second: {"ann"}}, "who answered is told without what they said"
    )
    past = [(answer.value, answer.annotator, at) for answer, at in store.history(first)]
    firsts = [(None, "ann", early), ("a", "bea", early), ((), "cyd", early)]
    holds(past == [*firsts, ("b", "bea", late), ("c", "ann", late)], "every change is kept, in the order it was told")
    holds(tell((first, "a", "bea")) == (0, 0, 1), "going back to a former answer is a correction too")
    late_answer = Answer(question_id=second, value="x", annotator="dan", at=early)
    store.tell([late_answer], at=late)
    holds(store.history(second)[-1] == (late_answer, late), "when it was given and when it was told are kept apart")


def _exposures(store: CampaignStore) -> None:
    (asked,) = enrolled(store, 1, 4)
    store.publish(0, asked)
    first, second, third, last = (item.id for item in asked)
    early = datetime(2026, 1, 31, tzinfo=UTC)
    shown = [Shown(question_id=first, audience="ann"), Shown(question_id=first, audience="f.csv", kind=HANDED_OUT)]
    holds(store.show(shown, at=early) == 2, "what is new is stored")
    holds(store.show(shown) == 0, "what was shown is not stored again")
    seen = [(item.record, item.kind, item.audience, item.at) for item in store.exposures()]
    wanted = [("r0", PERSON, "ann", early), ("r0", HANDED_OUT, "f.csv", early)]
    holds(seen == wanted, "who was shown which record is read with the first time")
    unknown = [Shown(question_id=second, audience="ann"), Shown(question_id="none", audience="ann")]
    refused(partial(store.show, unknown), BadInput, "questions that are not published are shown to nobody")
    capped = [Shown(question_id=item, audience="ann") for item in (second, third)]
    refused(partial(store.show, capped, cap=2), NotNow, "nobody is shown more than is allowed")
    holds(len(store.exposures()) == 2, "what is refused is not stored, in no part")
    day, ids = timedelta(days=1), [first, second, third, last]
    assigned = store.assign("bo", ids, places=1, n=2, cap=None, hold=day)
    holds(assigned == [first, second], "a place is free again where somebody was shown it long ago and did not answer")
    holds(store.assign("cy", ids, places=1, n=2, cap=None, hold=day) == [third, last], "others take other places")
    holds(store.assign("bo", ids, places=1, n=None, cap=None, hold=day) == assigned, "what was shown comes again")
    store.tell([Answer(question_id=first, value="x", annotator="bo")])
    holds(store.assign("bo", ids, places=2, n=None, cap=3, hold=day) == [second, third], "up to what is allowed")
    refused(partial(store.assign, "ann", [second], places=2, n=1, cap=1, hold=day), NotNow, "and no further")
    holds(len(store.exposures("bo")) == 3, "an audience has its own list")
    for strange in ("a\0b", "\ud800"):
        looked_up = store.question(strange), store.assigned("bo", strange)
        holds(looked_up == (None, None), "an id that cannot be stored is not there")
        refused(partial(store.was_shown, first, strange), BadInput, "a name that cannot be stored is refused")


def _files(store: CampaignStore) -> None:
    name = store.keep_file("model", phase=0, data=b"weights")
    holds(store.keep_file("model", phase=0, data=b"weights") == name, "a file is kept once")
    refused(partial(store.keep_file, "model", phase=0, data=b"other"), InvalidStore, "a file is not replaced unasked")
    refused(partial(store.file, "model", 1), BadInput, "a file that is not there is refused")
    store.keep_file("model", phase=1, data=store.file("model", 0))
    store.keep_file("model", phase=0, data=b"better", replace=True)
    holds(store.file("model", 0).read_bytes() == b"better", "a file is replaced when asked")
    holds(store.file("model", 1).read_bytes() == b"weights", "a file stays as long as it has a name")
    store.file("model", 1).write_bytes(b"Weights")
    holds(_unchanged(store, b"weights"), "a changed file is noticed")
    (store.directory / "objects" / name).unlink()
    holds(_unchanged(store, b"weights"), "a lost file is noticed")
    holds(store.kinds() == ["model"] and len(store.files()) == 2, "what is kept can be listed")


def _unchanged(store: CampaignStore, content: bytes) -> bool:
    """A file is refused, or brought again from where the store has it; it is never another one."""
    try:
        return store.file("model", 1).read_bytes() == content
    except InvalidStore:
        return True


def _withdrawals(store: CampaignStore) -> None:
    (asked,) = enrolled(store, 1, 4)
    store.publish(0, asked, above={"r0", "r1"}, cohorts={item.record: "all" for item in asked})
    store.tell([Answer(question_id=item.id, value="x", annotator="ann") for item in asked])
    store.show([Shown(question_id=asked[1].id, audience="ann")])
    holds(store.mark_withdrawn(["r1", "r2", "nobody"]) == 2, "records are marked once, unknown ids are passed over")
    holds(store.mark_withdrawn(["r1"]) == 0, "marking again changes nothing")
    holds(store.ids()[1] == "r1" and len(store.answers()) == 4, "what is marked is still there")
    for _ in range(2):
        store.erase({"r1": ("code-1", b"whose")})
        gone = [(item.place, item.id, item.person, item.erased, item.done) for item in store.withdrawn()]
        holds(gone == [(1, "code-1", b"whose", True, False), (2, "r2", b"", False, False)], "marked ones are erased")
    holds(store.ids()[:3] == ["r0", "code-1", "r2"], "an erased record keeps its place, under its code")
    holds("code-1" not in dict(store.macs()) and not store.macs_of(["code-1"]), "its own code is gone")
    questions = [(item.id, item.place, item.record) for item in store.questions()]
    wanted = [(item.id, item.place, "code-1" if item.record == "r1" else item.record) for item in asked]
    holds(questions == wanted, "its question keeps its id and place")
    holds(store.cohort_members() == {"all": [record for _, _, record in wanted]}, "it keeps its place in its cohort")
    holds(store.above(0) == frozenset({"r0"}), "what it was asked for is gone")
    holds(all(item.question_id != asked[1].id for item in store.answers()), "its answers are gone")
    holds(store.history(asked[1].id) == [], "and their history")
    holds([item.record for item in store.exposures("ann")] == ["code-1"], "who was shown it is remembered, by its code")
    store.scrub()
    store.finish_withdrawals()
    holds([item.done for item in store.withdrawn()] == [True, False], "only erased ones are done")


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
