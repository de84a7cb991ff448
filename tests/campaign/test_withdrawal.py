"""After a withdrawal no byte of the record is in the store or its files, and the campaign goes on without it."""

import json
import shutil

import numpy as np
import pytest
from withdrawal_parts import Marked, read

from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.recipes.opening import load
from discreet.storage import open_storage

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Phase 0 asked, answered, corrected, trained; phase 1 asked."""
    marked = Marked(tmp_path_factory.mktemp("played"))
    marked.verb("init")
    marked.verb("run")
    marked.answer_files(0)
    marked.verb("run")
    campaign = load(CampaignConfig.read(marked.file))
    assert (campaign.state.phase, campaign.state.step) == (1, "answer")
    corrected = {one.id: ("b",) for one in campaign.store.questions(0)}
    for one in campaign.store.questions(0):
        campaign.tell({one.id: corrected[one.id]}, annotator=marked.annotator(one.record, "ida"))
    return marked


@pytest.fixture
def marked(played, tmp_path):
    """A copy to be spoilt."""
    place = tmp_path / "copy"
    shutil.copytree(played.place, place)
    copy = Marked.__new__(Marked)
    copy.__dict__.update(played.__dict__, place=place)
    return copy


def asked_in(marked, phase):
    with open_storage(marked.place / "marked.db") as storage:
        return [one.record for one in storage.load("marked").questions(phase)]


def manifest_code(marked, record):
    with open_storage(marked.place / "marked.db") as storage:
        return storage.load("marked").macs_of([record])[record]


def test_no_byte_is_left_of_a_record_that_was_asked_answered_and_corrected(marked, capsys):
    record = asked_in(marked, 0)[3]
    code = manifest_code(marked, record)
    before = marked.found(record, code=code, people=True)
    assert {("id", ".db"), ("annotator", ".db"), ("code", ".db"), ("id", ".csv"), ("another", ".csv")} <= before
    assert ("id", "") in before, "labels that phase 0 was trained on, in a file named by its hash"
    assert ("text", ".csv") in before
    numbers = marked.x[marked.ids.index(record)]
    assert all(number.tobytes() in (marked.place / "pool.parquet").read_bytes() for number in numbers)
    capsys.readouterr()
    marked.verb("withdraw", record, "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["withdrawn"], said["withdrawn_before"], said["waiting"]) == (1, 0, 0)
    assert record not in json.dumps(said)
    assert marked.found(record, code=code) == set()
    assert marked.found(record, code=code, people=True) <= {("annotator", ".db"), ("another", ".db")}
    with open_storage(marked.place / "marked.db") as storage:
        seen = {one.record for one in storage.load("marked").exposures(marked.annotator(record, "ida"))}
    assert len(seen) == 1
    assert seen.pop().startswith("withdrawn-"), "who saw it is known, and nothing names it"
    with open_storage(marked.place / "marked.db") as storage:
        lines = b"".join(storage.load("marked").sink().read())
    assert not any(one.encode() in lines for one in marked.ids), "the ledger names no record"
    others = [one for one in asked_in(marked, 0) if not one.startswith("withdrawn-")]
    assert len(others) == 29
    assert ("id", ".db") in marked.found(others[0]), "only the one that was withdrawn"
    assert ("annotator", ".csv") in marked.found(others[0])


def test_a_record_of_the_open_questions_is_asked_no_more_and_the_campaign_ends(marked, capsys):
    open_one, *others = asked_in(marked, 1)
    marked.verb("withdraw", open_one)
    assert marked.found(open_one) == set()
    capsys.readouterr()
    marked.verb("ask", "--json")
    shown = json.loads(capsys.readouterr().out)["questions"]
    assert {one["record"] for one in shown} == set(others)
    marked.answer_files(1)
    marked.verb("run")
    assert run(["verify", marked.file]) == 0
    assert run(["pool", "check", marked.file]) == 0
    capsys.readouterr()
    marked.verb("status", "--audience", "owner", "--json")
    status = json.loads(capsys.readouterr().out)
    assert (status["step"], status["answers"]["withdrawn"], status["answers"]["open"]) == ("done", 1, 0)
    assert marked.found(open_one) == set(), "later phases do not bring it back"


def test_the_world_sees_nothing_of_it(marked, capsys):
    def world():
        capsys.readouterr()
        marked.verb("status", "--json")
        return capsys.readouterr().out

    before = world()
    marked.verb("withdraw", *asked_in(marked, 0)[:2])
    assert world() == before


def test_again_is_the_same_and_an_unknown_id_changes_nothing(marked, capsys):
    record, other = asked_in(marked, 0)[:2]
    assert run(["withdraw", marked.file, other, "nobody"]) == 2
    assert "nobody" not in capsys.readouterr().err
    assert marked.found(other) != set()
    marked.verb("withdraw", record)
    capsys.readouterr()
    marked.verb("withdraw", record, "--json")
    again = json.loads(capsys.readouterr().out)
    assert (again["withdrawn"], again["withdrawn_before"], again["waiting"]) == (0, 1, 0)


def test_the_owner_may_remove_it_from_the_pool_before_or_after(marked):
    first, second = asked_in(marked, 0)[:2]
    left = [place for place, name in enumerate(marked.ids) if name != first]
    marked.write_pool(left)
    assert run(["status", marked.file]) == 2, "a record is missing that nobody withdrew"
    marked.verb("withdraw", first)
    marked.verb("withdraw", second)
    marked.write_pool([place for place in left if marked.ids[place] != second])
    assert run(["pool", "check", marked.file]) == 0
    assert marked.found(first) == marked.found(second) == set()
    marked.answer_files(1)
    marked.verb("run")
    still = [place for place in left if marked.ids[place] != second]
    marked.write_pool(still[:-1])
    assert run(["status", marked.file]) == 2, "another one is missing"


def test_answers_that_come_late_are_passed_over(marked, capsys):
    late = marked.place / "late.csv"
    shutil.copy(marked.place / "marked.questions" / "answers-0-ida.csv", late)
    record = asked_in(marked, 0)[0]
    marked.verb("withdraw", record)
    capsys.readouterr()
    marked.verb("tell", str(late), "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["withdrawn"], told["new"]) == (1, 0)
    late.unlink()
    assert marked.found(record) == set()


def test_the_files_of_the_oracle_lose_its_rows_and_nothing_else(marked):
    folder = marked.place / "marked.questions"
    record = asked_in(marked, 0)[5]
    before = {path.name: read(path) for path in folder.iterdir()}
    marked.verb("withdraw", record)
    for name, rows in before.items():
        assert read(folder / name) == [row for row in rows if row["record"] != record]
    assert sum(len(rows) for rows in before.values()) - sum(len(read(path)) for path in folder.iterdir()) == 3


def test_a_null_trains_nothing_and_keeps_its_place(marked):
    campaign = load(CampaignConfig.read(marked.file))
    record = campaign.store.questions(0)[0].record
    members = campaign.store.cohort_members()
    place = campaign.pool.ids.index(record)
    campaign.withdraw([record])
    assert {label: len(ids) for label, ids in campaign.store.cohort_members().items()} == {
        label: len(ids) for label, ids in members.items()
    }
    code = campaign.pool.ids[place]
    assert code.startswith("withdrawn-")
    assert campaign.pool.broken([place]).all()
    assert not campaign.pool.x[place].any()
    from discreet.recipes.learning import cohort_of

    cohort = cohort_of(campaign.recipe.config, campaign.pool, [code], {code: ("a",)})
    assert np.isnan(cohort.y).all(), "no label, whatever is said"
    assert load(CampaignConfig.read(marked.file)).pool.ids == campaign.pool.ids


def test_another_process_that_has_it_open_goes_on(marked):
    old = load(CampaignConfig.read(marked.file))
    record = old.open()[0].record
    question = old.open()[0].id
    marked.verb("withdraw", record)
    assert record not in {one.record for one in old.ask()}
    assert old.tell({question: ("a",), record: ("b",)}).new == 0
    assert old.pool.withdrew(record)


def test_it_does_not_come_back_by_another_file(marked):
    import pyarrow
    from pyarrow import parquet

    record = asked_in(marked, 0)[0]
    marked.verb("withdraw", record)
    columns = {name: [0.5, 0.5] for name in "uvw"} | {"words": ["x", "y"]}
    parquet.write_table(pyarrow.table({"id": ["new", record], **columns}), marked.place / "more.parquet")
    assert run(["pool", "extend", marked.file, str(marked.place / "more.parquet")]) == 2
    parquet.write_table(pyarrow.table({"id": ["new", "newer"], **columns}), marked.place / "more.parquet")
    assert run(["pool", "extend", marked.file, str(marked.place / "more.parquet")]) == 0
    marked.verb("withdraw", "new")
    assert run(["pool", "extend", marked.file, str(marked.place / "more.parquet")]) == 0, "the same file again"
    assert len(load(CampaignConfig.read(marked.file)).pool) == 42


def test_nonsense_is_refused_in_one_line(marked, capsys):
    (marked.place / "empty.txt").write_text("\n")
    (marked.place / "noise.txt").write_bytes(b"\xff\xfe\x00")
    for options in ([], ["--person", "ida"], ["--ids", "empty.txt"], ["--ids", "noise.txt"], ["--ids", "no.txt"], [""]):
        given = [str(marked.place / one) if one.endswith(".txt") else one for one in options]
        assert run(["withdraw", marked.file, *given]) == 2
        assert capsys.readouterr().err.count("\n") == 1
