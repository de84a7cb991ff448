"""What the verbs of a campaign store take, refuse and give back, beyond the contract that every store keeps."""

import os
import secrets
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from discreet.errors import BadInput, InvalidStore
from discreet.records import Answer, Question
from discreet.storage import files, open_storage
from discreet.testing import check_ledger_in


def test_urls_and_paths_lead_to_the_same_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to("scan.db")
    for number, url in enumerate(
        ("sqlite:///scan.db", f"sqlite:///{tmp_path}/scan.db", "scan.db", tmp_path / "scan.db", "link.db")
    ):
        with open_storage(url) as storage:
            store = storage.create(f"{number}", config={}, simulation=True)
            assert store.directory.parent == tmp_path / "scan.db.files"
            assert len(storage.campaigns()) == number + 1
            monkeypatch.chdir("/")  # what is open stays where it is
            assert storage.load("0")
            monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 1001, 7, None])
def test_names_that_cannot_be_stored(storage, store, name):
    question = Question(id="new", record="record-3", phase=1, place=0)
    for act in (
        lambda: storage.create(name, config={}, simulation=True),
        lambda: store.add_records([(name, b"code")]),
        lambda: store.record(name, phase=0),
        lambda: store.publish(1, [question], cohorts={"record-3": name or ""}),
        lambda: store.keep_file(name, phase=0, data=b""),
        lambda: store.tell([Answer(question_id=name, value="a")]),
    ):
        with pytest.raises(BadInput) as caught:
            act()
        assert caught.value.remedy
    assert storage.campaigns() == ["scans"]
    assert len(store.ids()) == 4
    assert len(store.transitions()) == 1


@pytest.mark.parametrize("phase", [-1, 1.0, True, "1", 2**31])
def test_phases_that_cannot_be_stored(store, phase):
    for act in (
        lambda: store.record("drawn", phase=phase),
        lambda: store.publish(phase, []),
        lambda: store.keep_file("model", phase=phase, data=b""),
        lambda: store.questions(phase),
        lambda: store.answers(phase),
    ):
        with pytest.raises(BadInput):
            act()


def test_facts_that_are_no_json(storage, store):
    for facts in ({"a": float("nan")}, {"a": object()}, {"a": {1, 2}}, {1: "a", "b": 2}):
        with pytest.raises(BadInput, match="not plain JSON"):
            store.record("drawn", phase=0, facts=facts)
    with pytest.raises(BadInput, match="not plain JSON"):
        storage.create("new", config={"a": object()}, simulation=True)


def test_facts_differ_as_their_texts_do(store):
    store.record("drawn", phase=0, facts={"a": 1})
    for facts in ({"a": 1.0}, {"a": True}, {"a": "1"}, {}):
        with pytest.raises(InvalidStore, match="other facts"):
            store.record("drawn", phase=0, facts=facts)


def test_a_configuration_cannot_be_changed_by_hand(store):
    store.config["new"] = 1
    assert store.config == {}


def test_the_step_of_publishing_is_taken_with_its_questions_alone(store):
    with pytest.raises(BadInput, match="publish"):
        store.record("published", phase=7)


def test_a_phase_without_questions_is_published_too(store):
    first = store.publish(1, [])
    assert store.publish(1, []) == first
    assert store.questions(1) == []
    with pytest.raises(InvalidStore, match="others were published"):
        store.publish(1, [Question(id="new", record="record-3", phase=1, place=0)])


def question(**changes):
    return Question(**{"id": "new", "record": "record-3", "phase": 1, "place": 0, **changes})


@pytest.mark.parametrize(
    ("asked", "options", "fact"),
    [
        ([question(phase=2)], {}, "another phase"),
        ([question(), question(place=1, record="record-2")], {}, "the same id"),
        ([question(), question(id="other", place=1)], {}, "the same record"),
        ([question(), question(id="other", record="record-2")], {}, "the same place"),
        ([question()], {"cohorts": {"record-2": "all"}}, "not asked"),
        ([question()], {"above": ["record-2"]}, "not asked"),
        ([question(id="q0")], {}, "1 ids of questions"),
        ([question(record="record-9"), question(id="b", place=1)], {}, "1 of 2 records are not enrolled"),
    ],
)
def test_questions_that_are_refused(store, asked, options, fact):
    with pytest.raises(BadInput, match=fact) as caught:
        store.publish(1, asked, **options)
    assert "record-" not in str(caught.value)
    assert store.questions(1) == []
    store.publish(1, [question()])  # nothing of it stands in the way


def test_a_record_can_be_asked_again_in_another_phase(store):
    store.publish(1, [question(record="record-0")])
    assert [one.record for one in store.questions()].count("record-0") == 2


def test_nobody_above_is_not_the_same_as_no_threshold(store):
    store.publish(1, [question()], above=[])
    assert store.above(1) == frozenset()
    with pytest.raises(InvalidStore):
        store.publish(1, [question()], above=None)


@pytest.mark.parametrize("value", [1, True, ["a", 1], {"a": 1}, b"a", object()])
def test_values_that_are_no_answers(store, value):
    with pytest.raises(BadInput, match="no class") as caught:
        store.tell([Answer(question_id="q1", value="fine"), Answer(question_id="q0", value=value)])
    assert repr(value) not in str(caught.value)
    assert store.answers() == []


def test_values_come_back_as_they_were(store):
    for value in ("a", "", "é\ud800\0", (), ("a",), ("b", "a"), None):
        store.tell([Answer(question_id="q0", value=value)])
        assert store.answers()[0].value == value
    assert len(store.history("q0")) == 7


def test_times_keep_their_moment_and_need_a_zone(store):
    there = datetime(2026, 7, 1, 12, 0, 0, 7, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    store.tell([Answer(question_id="q0", value="a", at=there)], at=there + timedelta(days=1))
    ((answer, told),) = store.history("q0")
    assert answer.at == there
    assert told == there + timedelta(days=1)
    before = datetime.now(UTC)
    store.tell([Answer(question_id="q1", value="a")])
    (_, told), *_ = store.history("q1")
    assert before <= told <= datetime.now(UTC)
    assert store.history("q1")[0][0].at == told
    for options in ({"at": datetime(2026, 7, 1)}, {"at": "now"}):
        with pytest.raises(BadInput, match="time zone"):
            store.tell([Answer(question_id="q2", value="a")], **options)


def test_answers_in_one_telling_are_taken_in_their_order(store):
    said = [Answer(question_id="q0", value=value, annotator="ann") for value in "aabab"]
    told = store.tell(said)
    assert (told.new, told.repeated, told.corrected) == (1, 1, 3)
    assert [answer.value for answer, _ in store.history("q0")] == ["a", "b", "a", "b"]


def test_unknown_questions_are_counted_and_not_named(store):
    with pytest.raises(BadInput, match="2 of 3 question ids") as caught:
        store.tell([Answer(question_id=one, value="a") for one in ("q0", "q8", "q9", "q9")])
    assert "q8" not in str(caught.value)
    with pytest.raises(BadInput, match="no such question"):
        store.history("q9")


def test_campaigns_do_not_see_each_other(storage, store):
    other = storage.create("other", config={}, simulation=False)
    assert (other.ids(), other.questions(), other.transitions(), other.files()) == ([], [], [], [])
    other.add_records([("record-0", b"")])
    other.publish(0, [question(id="q0", record="record-0", phase=0)])
    other.tell([Answer(question_id="q0", value="mine")])
    other.sink().append(0, [b"mine\n"])
    assert store.answers() == []
    assert store.sink().read() == []
    with pytest.raises(BadInput, match="unknown"):
        other.tell([Answer(question_id="q1", value="theirs")])


def test_duplicate_ids_are_not_named(store):
    with pytest.raises(BadInput, match="occurs twice") as caught:
        store.add_records([("record-8", b""), ("record-8", b"")])
    assert "record-8" not in str(caught.value)
    for rows, fact in (([], "there are none"), ([("record-8", "text")], "not bytes")):
        with pytest.raises(BadInput, match=fact):
            store.add_records(rows)
    with pytest.raises(BadInput, match="there is none"):
        store.ids(1)


def test_codes_are_read_page_by_page_up_to_where_the_pool_ended(store):
    pages = store.macs()
    assert next(pages) == ("record-0", b"code")
    store.add_records([("record-8", b"late")])
    assert len(list(pages)) == 3
    assert len(list(store.macs())) == 5


def test_files_are_copied_and_healed(store, tmp_path):
    source = tmp_path / "model"
    source.write_bytes(secrets.token_bytes(3_000_000))
    store.keep_file("model", phase=0, data=source)
    whole = source.read_bytes()
    source.unlink()
    assert store.file("model", 0).read_bytes() == whole
    store.file("model", 0).write_bytes(b"damaged")
    with pytest.raises(InvalidStore, match="changed or is damaged"):
        store.file("model", 0)
    store.keep_file("model", phase=0, data=whole)  # the step is done again
    assert store.file("model", 0).read_bytes() == whole
    for data in (tmp_path / "nothing", tmp_path, None):
        with pytest.raises(BadInput, match="cannot be opened"):
            store.keep_file("other", phase=0, data=data)
    assert store.kinds() == ["model"]


def test_what_nothing_names_is_swept(store):
    store.keep_file("checkpoint", phase=0, data=b"first")
    store.keep_file("model", phase=0, data=b"first")
    for data in (b"second", b"third"):
        store.keep_file("checkpoint", phase=0, data=data, replace=True)
    objects = store.directory / "objects"
    assert {path.read_bytes() for path in objects.iterdir()} == {b"first", b"third"}
    for name, age in ((".old.part", 1000), (".new.part", 0)):
        (objects / name).write_bytes(b"half")
        os.utime(objects / name, (0, (objects / name).stat().st_mtime - age))
    (objects / ("0" * 64)).write_bytes(b"never named")
    assert store.sweep() == 2
    assert {path.name for path in objects.iterdir()} - {one.sha256 for one in store.files()} == {".new.part"}


def test_a_file_is_on_the_disk_before_a_row_names_it(store, monkeypatch):
    real, written = files.write_object, []

    def watched(directory, data, *, asked):
        assert store.files() == []
        written.append(real(directory, data, asked=asked))
        assert store.files() == []
        return written[-1]

    monkeypatch.setattr(files, "write_object", watched)
    sha256 = store.keep_file("model", phase=0, data=b"weights")
    assert [name for name, _ in written] == [one.sha256 for one in store.files()] == [sha256]


def test_a_file_that_is_swept_before_it_is_named_is_written_again(store, monkeypatch):
    real = files.write_object

    def slow(directory, data, *, asked):
        made = real(directory, data, asked=asked)
        monkeypatch.setattr(files, "write_object", real)
        assert store.sweep() == 1  # another process, in that moment
        return made

    monkeypatch.setattr(files, "write_object", slow)
    store.keep_file("model", phase=0, data=b"weights")
    assert store.file("model", 0).read_bytes() == b"weights"


def test_a_ledger_lives_in_the_store(store):
    check_ledger_in(store.sink)
    assert len(store.sink().read()) == 6


def test_nothing_shows_what_is_stored(storage, store):
    store.tell([Answer(question_id="q0", value="secret", annotator="ann")])
    store.record("drawn", phase=0, facts={"k": "secret"})
    shown = repr((storage, store, store.sink(), store.answers(), store.transitions(), store.pool_cohorts()))
    assert "secret" not in shown
    assert "record-" not in shown


def fill(store, records, questions):
    """Ids of 13 characters, codes of 16 bytes, five phases of questions that are all answered."""
    store.add_records((f"record-{number:06d}", secrets.token_bytes(16)) for number in range(records))
    each = questions // 5
    for phase in range(5):
        asked = [
            Question(id=secrets.token_hex(8), record=f"record-{phase * each + place:06d}", phase=phase, place=place)
            for place in range(each)
        ]
        store.publish(phase, asked, cohorts={one.record: f"phase-{phase}" for one in asked})
        store.tell([Answer(question_id=one.id, value="benign", annotator="ann") for one in asked])


def test_a_pool_takes_few_bytes_for_each_record(tmp_path):
    with open_storage(tmp_path / "scan.db") as storage:
        fill(storage.create("scans", config={}, simulation=True), 10_000, 500)
    assert (tmp_path / "scan.db").stat().st_size < 1_000_000


@pytest.mark.long
def test_a_pool_of_a_hundred_thousand_is_small_and_quickly_enrolled(tmp_path):
    with open_storage(tmp_path / "scan.db") as storage:
        began = time.process_time()
        fill(storage.create("scans", config={}, simulation=True), 100_000, 5_000)
        assert time.process_time() - began < 5.0
        files = [path for path in tmp_path.glob("scan.db*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 20_000_000  # the log beside it counts too
    assert (tmp_path / "scan.db").stat().st_size < 10_000_000
