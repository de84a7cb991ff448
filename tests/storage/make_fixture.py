"""Writes `fixtures/<last migration>.sqlite` and its files: a small store with made-up content, of this version.

Run it once for each schema, before a release that has a new one; what is committed is never written again.

    python tests/storage/make_fixture.py
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import Ledger, adaptive
from discreet.records import HANDED_OUT, Answer, Question, Shown
from discreet.storage import open_storage
from discreet.storage.tables import MIGRATIONS

FIXTURES = Path(__file__).parent / "fixtures"
EARLY, LATE = datetime(2026, 1, 31, 9, 30, tzinfo=UTC), datetime(2026, 2, 1, 8, 0, tzinfo=UTC)
QUESTIONS = [Question(id=f"q{place}", record=f"shell-{9 - place}", phase=0, place=place) for place in range(4)]


def fill(storage):
    store = storage.create("shells", config={"name": "shells", "classes": ["whelk", "limpet"]}, simulation=True)
    store.add_records(((f"shell-{number}", bytes([number]) * 16) for number in range(10)), {"kind": "npz"})
    store.add_records([("shell-10", b"\xff" * 16)])
    store.record("charged", phase=0, facts={"entry": 1})
    cohorts = {one.record: "high" if one.place < 2 else "low" for one in QUESTIONS}
    store.publish(0, QUESTIONS, above={"shell-9", "shell-8"}, cohorts=cohorts)
    store.tell([Answer(question_id="q1", value="whelk", annotator="ann", at=EARLY)], at=EARLY)
    store.tell(
        [Answer(question_id="q1", value="limpet", annotator="ann"), Answer(question_id="q0", value=None)], at=LATE
    )
    store.show([Shown(question_id="q1", audience="ann"), Shown(question_id="q0", audience="ann")], at=EARLY)
    store.show([Shown(question_id="q1", audience="questions-0001.csv", kind=HANDED_OUT)], at=LATE)
    store.users.add("ann", "annotator")
    store.keep_file("model", phase=0, data=b"made-up weights")
    with Ledger.create(store.sink(), adaptive(Budget(epsilon=1, delta="1e-6"))) as ledger:
        ledger.charge(event=Laplace(epsilon="0.5"), who="pool", why="count")


if __name__ == "__main__":
    place = FIXTURES / f"{MIGRATIONS[-1].__name__}.sqlite"
    if place.exists():
        sys.exit(f"{place.name} is there already; a released schema does not change")
    FIXTURES.mkdir(exist_ok=True)
    with open_storage(place) as storage:
        fill(storage)
