"""The durable loop: what a line does, once, whatever the batches; what is refused; what a restart finds."""

import json
import math
import shutil
from contextlib import ExitStack, closing

import numpy as np
import pytest
from small_streams import EVERYTHING, SEEDED, TEXT, config_in, label, record, written

from discreet.errors import InvalidConfig, InvalidStore, LedgerUnavailable, NotNow, StoreUnavailable
from discreet.privacy.ledger import FileSink, Ledger
from discreet.storage.stream_store import Changes, StreamStore
from discreet.stream import StreamLearner
from discreet.stream.declaring import preparation_of, settings_of
from discreet.stream.outlets import FileOutlet, PipeOutlet
from discreet.stream.reading import GrowingFile, LineReader
from discreet.stream.running import run_lines
from discreet.stream.service import StreamService


def lines_of(service, forms):
    return [service.form.read(json.dumps(form).encode()) for form in forms]


def taken(service, forms, *, batch=None):
    """All decisions for these lines, in batches of ``batch``."""
    lines = lines_of(service, forms)
    size = batch or max(1, len(lines))
    return [one for start in range(0, len(lines), size) for one in service.take(lines[start : start + size]).answers]


def mixed(count):
    """Records, with labels before, with, after and long after them."""
    forms = []
    for number in range(count):
        if number % 7 == 3:
            forms.append(label(number))
        forms.append(record(number, **({"label": label(number)["label"]} if number % 7 == 5 else {})))
        if number % 7 == 1:
            forms.append(label(number))
        if number >= 20 and number % 3 == 0:
            forms.append(label(number - 20))
    return forms


def state_of(service):
    body, arrays = service._state()
    body["table"]["learner"]["table"].pop("ledger")
    return json.dumps(body, sort_keys=True), arrays, service.store.open_questions()


@pytest.mark.parametrize("text", [SEEDED, EVERYTHING], ids=["one-sided", "everything"])
def test_batches_change_nothing(tmp_path, text):
    ends = []
    for batch in (1, 7, 1000):
        with StreamService(config_in(tmp_path / str(batch), text)) as service:
            decisions = taken(service, mixed(150), batch=batch)
            ends.append((decisions, *state_of(service), service.counts()))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][-1]["labelled"] > 10
    assert ends[0][-1]["version"] > 3


def test_it_decides_as_the_learner_itself_does(tmp_path):
    config = config_in(tmp_path)
    preparation = preparation_of(config)
    learner = StreamLearner.simulated(settings_of(config, preparation), seed=7)
    expected = []
    for number in range(120):
        x = preparation.one(record(number))
        expected.append(learner.ask(x))
        if expected[-1]:
            learner.learn_one(x, label(number)["label"])
    with StreamService(config) as service:
        forms = [record(number, label=label(number)["label"]) for number in range(120)]
        assert [bool(one[2]) for one in taken(service, forms)] == expected
        assert (service.learner.model().weights == learner.model().weights).all()


def test_a_restart_goes_on_with_the_same_state(tmp_path):
    with StreamService(config_in(tmp_path / "whole")) as service:
        whole = taken(service, mixed(100))
        end = state_of(service)
    found = []
    for start in range(0, len(mixed(100)), 31):
        with StreamService(config_in(tmp_path / "parts")) as service:
            found += taken(service, mixed(100)[start : start + 31])
    with StreamService(config_in(tmp_path / "parts")) as service:
        assert (found, state_of(service)) == (whole, end)
        assert service.learner.arrived == 100


def test_a_restart_with_the_same_lines_repeats_the_decisions_and_changes_nothing(tmp_path):
    with StreamService(config_in(tmp_path)) as service:
        first = taken(service, mixed(60))
        end = state_of(service)
    with StreamService(config_in(tmp_path)) as service:
        assert taken(service, mixed(60)) == first
        assert state_of(service) == end
        assert service.without_effect > 0


def test_in_production_a_restart_repeats_the_draws_of_the_same_key(tmp_path):
    """A batch that was lost before it was durable is decided again by the same coins."""
    commit = StreamStore.commit
    made = []

    def failing(self, changes, body, arrays):
        made.append(list(changes.decided))
        raise StoreUnavailable("writing", "the disk is full", "Make room")

    with StreamService(config_in(tmp_path, TEXT)) as service:
        before = taken(service, mixed(80))
        StreamStore.commit = failing
        try:
            with pytest.raises(StoreUnavailable, match="disk is full"):
                taken(service, [record(number) for number in range(80, 160)])
        finally:
            StreamStore.commit = commit
        with pytest.raises(StoreUnavailable, match="in doubt"):
            taken(service, [record(160)])
    with StreamService(config_in(tmp_path, TEXT)) as service:
        assert service.lost == 80
        assert taken(service, mixed(80)) == before
        again = taken(service, [record(number) for number in range(80, 160)], batch=13)
        assert again == made[0]
        assert service.lost == 0


def test_other_records_than_those_that_were_lost_are_refused(tmp_path, monkeypatch):
    with StreamService(config_in(tmp_path, TEXT)) as service:
        taken(service, [record(0)])
        monkeypatch.setattr(StreamStore, "commit", lambda *_: (_ for _ in ()).throw(StoreUnavailable("a", "b")))
        with pytest.raises(StoreUnavailable):
            taken(service, [record(number) for number in range(1, 9)])
        monkeypatch.undo()
    changed = [record(1), record(2, amount=55.5)]
    for forms in (changed, [record(30)], [record(2)]):
        with StreamService(config_in(tmp_path, TEXT)) as service:
            with pytest.raises(LedgerUnavailable, match="8 records were decided, and others come now") as refused:
                taken(service, forms)
            assert "55.5" not in str(refused.value)
            assert service.store.last_place() == 1
    with StreamService(config_in(tmp_path, TEXT)) as service:  # some of them, then others
        taken(service, [record(1), record(2), record(3)], batch=2)
        with pytest.raises(LedgerUnavailable, match="5 records"):
            taken(service, [record(30)])
    with StreamService(config_in(tmp_path, TEXT), forget_lost=True) as service:
        assert [one[0] for one in taken(service, [record(30)])] == [5]


def test_an_id_is_decided_once(tmp_path):
    with StreamService(config_in(tmp_path)) as service:
        found = taken(service, [record(1), record(2), record(1), record(1, amount=-5)])
        assert found[0] == found[2] == found[3]
        assert service.learner.arrived == 2
        assert taken(service, [record(2, amount=7)]) == [found[1]]
        with pytest.raises(InvalidStore):
            service.store.commit(Changes(decided=[(3, "p1", 1)]), {}, b"")


def test_labels_in_every_order(tmp_path):
    with StreamService(config_in(tmp_path, EVERYTHING)) as service:
        taken(service, [label(0), label(0), {"id": "p0", "label": "fraud"}])
        assert service.counts()["early"] == 1
        taken(service, [record(0), record(1)])
        assert service.counts() | {"wrong": 0} == {
            "arrived": 2, "asked": 2, "labelled": 1, "waiting": 1, "version": 0, "wrong": 0, "skipped": 0, "early": 0,
        }  # fmt: skip
        taken(service, [{"id": "p1", "label": None}, label(1)])
        assert (service.counts()["skipped"], service.counts()["labelled"]) == (1, 1)
        assert service.without_effect == 3


def test_a_label_of_a_record_that_was_not_asked_teaches_nothing(tmp_path):
    with StreamService(config_in(tmp_path)) as service:
        decisions = taken(service, [record(number) for number in range(40)])
        missed = [one[1] for one in decisions if not one[2]]
        end = state_of(service)
        taken(service, [{"id": one, "label": "fraud"} for one in missed])
        assert state_of(service) == end
        assert service.without_effect == len(missed) > 0


def test_questions_are_forgotten_after_the_declared_patience(tmp_path):
    config = config_in(tmp_path, EVERYTHING, ("patience = 100000", "patience = 10"))
    with StreamService(config) as service:
        taken(service, [record(number) for number in range(50)], batch=4)
        assert 10 <= len(service.learner.waiting) <= 11
        assert len(service.store.open_questions()) <= 11
    with StreamService(config) as service:
        taken(service, [label(0), label(49)])
        assert (service.counts()["labelled"], service.without_effect) == (1, 1)


def test_records_that_cannot_be_read_arrive_like_others(tmp_path):
    broken = [{"id": "a"}, {"id": "b", "amount": None}, {"id": "c", "amount": "x", "hour": [1], "country": 7}]
    broken += [{"id": "d", "amount": math.nan, "hour": math.inf}, {"id": "e", "amount": 10**400, "country": "xx"}]
    broken += [{"id": "f", "amount": {"a": 1}, "hour": True}, {"id": "g", "amount": [1, 2], "hour": "3"}]
    with StreamService(config_in(tmp_path, EVERYTHING)) as service:
        assert [one[2] for one in taken(service, broken)] == [1] * 7
        taken(service, [{"id": one["id"], "label": "ok"} for one in broken])
        taken(service, [record(number) for number in range(20)])
        assert np.isfinite(service.learner.model().weights).all()
        assert service.counts()["labelled"] == 7


def test_columns_of_numbers_are_prepared_as_one_by_one(tmp_path):
    from discreet.stream.service import vectors_of

    preparation = preparation_of(config_in(tmp_path))
    records = [record(number) for number in range(9)] + [
        {"amount": "3", "hour": None},
        {"amount": True, "hour": [1]},
        {},
    ]
    records += [{"amount": 2**70, "hour": math.nan, "country": "it"}]
    for chosen in (records, records[:9], records[9:10], records[10:], records[:10]):
        one_by_one = np.array([preparation.one(each) for each in chosen])
        assert (vectors_of(preparation, chosen) == one_by_one).all()


# -- what belongs together


def test_the_charge_is_durable_before_the_first_decision_and_stays_one(tmp_path):
    for _ in range(3):
        with StreamService(config_in(tmp_path, TEXT)) as service:
            taken(service, mixed(10))
    ledger = Ledger.open(FileSink(tmp_path / "payments.stream" / "ledger"))
    assert len(ledger) == 1
    ledger.close()
    assert (tmp_path / "payments.stream" / "journal.db").stat().st_mode & 0o077 == 0
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "payments.stream" / "keys").iterdir()} == {0}


def begun(place, text=TEXT):
    with StreamService(config_in(place, text)) as service:
        taken(service, mixed(20))
    return place / "payments.stream"


def refused(place, kind, match, text=TEXT, *changes):
    with pytest.raises(kind, match=match) as caught:
        StreamService(config_in(place, text, *changes))
    assert "p1" not in str(caught.value)
    return caught.value


def test_a_moved_ledger_is_refused(tmp_path):
    place = begun(tmp_path)
    (place / "ledger").rename(place / "elsewhere")
    refused(tmp_path, LedgerUnavailable, "ledger is missing")
    begun(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "payments.stream" / "ledger", place / "ledger")
    refused(tmp_path, LedgerUnavailable, "another one than its journal names")
    (place / "elsewhere").replace(place / "ledger")
    StreamService(config_in(tmp_path, TEXT)).close()


def test_a_lost_key_or_journal_is_refused(tmp_path):
    place = begun(tmp_path)
    for path in (place / "keys").iterdir():
        path.rename(tmp_path / path.name)
    refused(tmp_path, LedgerUnavailable, "key of its coins and noise is missing")
    for path in tmp_path.glob("phase-*"):
        path.rename(place / "keys" / path.name)
    (place / "journal.db").unlink()
    refused(tmp_path, InvalidStore, "its journal is missing")


def test_an_old_copy_of_the_journal_is_refused(tmp_path):
    place = begun(tmp_path, EVERYTHING)
    shutil.copy(place / "journal.db", tmp_path / "old.db")
    with StreamService(config_in(tmp_path, EVERYTHING)) as service:
        taken(service, [record(number) for number in range(20, 80)])
    shutil.copy(tmp_path / "old.db", place / "journal.db")
    error = refused(tmp_path, InvalidStore, "old copy", EVERYTHING)
    assert "journal" in error.fact


def test_a_key_half_written_by_a_killed_process_is_removed_and_the_key_itself_stays(tmp_path):
    place = begun(tmp_path)
    (key,) = (place / "keys").glob("*.key")
    (place / "keys" / ".a.part").write_text("half a key")
    (place / "keys" / ".b.part").hardlink_to(key)
    StreamService(config_in(tmp_path, TEXT)).close()
    assert not list((place / "keys").glob(".*"))
    assert key.read_bytes().strip(b"\0")


@pytest.mark.parametrize("text", [TEXT, SEEDED], ids=["production", "simulation"])
def test_a_stream_that_has_ended_takes_no_more_and_its_key_is_gone(tmp_path, text):
    from discreet.stream.verifying import verify_stream

    place = begun(tmp_path, text)
    with StreamService(config_in(tmp_path, text)) as service:
        service.end()
        with pytest.raises(StoreUnavailable):
            taken(service, [record(99)])
    assert not list((place / "keys").iterdir())
    refused(tmp_path, NotNow, "it has ended", text)
    assert verify_stream(config_in(tmp_path, text)).ok


def test_a_kill_between_ending_and_destroying_the_key_leaves_none(tmp_path):
    place = begun(tmp_path)
    with StreamService(config_in(tmp_path, TEXT)) as service:
        service.store.end()
    assert list((place / "keys").iterdir())
    refused(tmp_path, NotNow, "it has ended")
    assert not list((place / "keys").iterdir())


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("low = 0.3", "low = 0.2"), "[asking]"),
        (("width = 0.2", "width = 0.3"), "[slab]"),
        (("asked = 10 ", "asked = 11 "), "[window]"),
        (("step_size = 1.0", "step_size = 2.0"), "[learning]"),
        (("scale = [100.0, 12.0]", "scale = [100.0, 13.0]"), "[records]"),
        (('classes = ["ok", "fraud"]', 'classes = ["ok", "bad"]'), "[task]"),
        (('epsilon = "2"', 'epsilon = "3"'), "[budget]"),
        (('"de", "fr", "it"', '"de", "fr"'), "[records]"),
    ],
)
def test_what_was_fixed_cannot_be_changed(tmp_path, change, line):
    begun(tmp_path)
    assert line in refused(tmp_path, InvalidConfig, "nothing of this can change", TEXT, change).asked


def test_a_simulation_does_not_become_a_stream_of_people(tmp_path):
    begun(tmp_path, SEEDED)
    with pytest.raises(ValueError, match="simulation"):
        StreamService(config_in(tmp_path, TEXT))
    refused(tmp_path, InvalidConfig, "nothing of this can change", SEEDED, ("seed = 7", "seed = 8"))


def test_what_is_not_fixed_can_be_changed(tmp_path):
    begun(tmp_path)
    changes = [("every = 1 ", "every = 5 "), ("[service]", "[service]\nbatch = 3"), ("# [redis]", "[redis]")]
    StreamService(config_in(tmp_path, TEXT, *changes)).close()


def test_one_process_at_a_time(tmp_path):
    with StreamService(config_in(tmp_path)), pytest.raises(StoreUnavailable, match="running this stream"):
        StreamService(config_in(tmp_path))
    StreamService(config_in(tmp_path)).close()


def test_a_budget_that_the_file_does_not_keep_is_refused_before_anything_is_made(tmp_path):
    from discreet.errors import BudgetExceeded

    with pytest.raises(BudgetExceeded):
        StreamService(config_in(tmp_path, TEXT, ('name = "gamma"', 'name = "gamma"\nepsilon = "1.5"')))
    changes = [('asked = "1"', 'asked = "2"'), ("low = 0.3", "low = 0.01")]
    error = refused(tmp_path, InvalidConfig, "nothing is left for the update", TEXT, *changes)
    assert "[budget] epsilon" in error.asked


def test_gaussian_noise_is_found_for_the_budget(tmp_path):
    changes = [('name = "gamma"', 'name = "gaussian"'), ('delta = "0"', 'delta = "1e-6"')]
    settings = settings_of(config_in(tmp_path, TEXT, *changes), preparation_of(config_in(tmp_path)))
    assert 2 < settings.noise.noise_multiplier < 8


# -- whole runs


def run(place, forms, *, text=SEEDED, outlet=None, labels=None, changes=()):
    (place / "in.jsonl").write_text(written(forms) if not isinstance(forms, str) else forms)
    with StreamService(config_in(place, text, *changes)) as service, ExitStack() as files:
        reader, sink = LineReader.of(place / "in.jsonl"), outlet or FileOutlet(place / "out.jsonl")
        files.callback(reader.close)
        files.callback(sink.close)
        growing = None if labels is None else files.enter_context(closing(GrowingFile(labels)))
        passed = run_lines(service, reader, sink, labels=growing)
        return passed, service.counts()


def output(place):
    return [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]


def test_a_file_has_every_decision_once_whatever_was_torn(tmp_path):
    passed, _ = run(tmp_path, mixed(50))
    whole = output(tmp_path)
    assert passed.records == len(whole) == 50
    passed, _ = run(tmp_path, mixed(50))
    assert (passed.records, passed.repeated) == (0, 50)
    text = (tmp_path / "out.jsonl").read_text()
    for cut in (len(text) - 1, len(text) // 2, 3, 0):
        (tmp_path / "out.jsonl").write_text(text[:cut])
        run(tmp_path, mixed(50))
        assert output(tmp_path) == whole
    (tmp_path / "out.jsonl").unlink()
    run(tmp_path, [])
    assert output(tmp_path) == whole


@pytest.mark.parametrize("content", ["something else\n", "half of something", '{"id": "a"}\n', '{"place": "x"}\n'])
def test_a_file_of_something_else_is_not_written_to(tmp_path, content):
    from discreet.errors import BadInput

    (tmp_path / "out.jsonl").write_text(content)
    with pytest.raises(BadInput, match="no decision"):
        FileOutlet(tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == content


def test_an_output_ahead_of_the_journal_is_refused(tmp_path):
    (tmp_path / "out.jsonl").write_text('{"id": "a", "asked": true, "place": 9}\n')
    with pytest.raises(InvalidStore, match="journal ends at 0"):
        run(tmp_path, mixed(5))


def test_a_pipe_gets_an_answer_for_each_record_that_comes(tmp_path):
    import os

    for expected in (30, 30):
        read_end, write_end = os.pipe()
        run(tmp_path, [*mixed(28), record(3), record(4)], outlet=PipeOutlet(write_end))
        os.close(write_end)
        with os.fdopen(read_end) as file:
            assert len(file.read().splitlines()) == expected


def test_a_file_of_labels_for_all_records_is_as_good_as_labels_at_once(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "labels.jsonl").write_text(written(label(number) for number in range(100)))
    records = [record(number) for number in range(100)]
    _, one = run(tmp_path / "a", records, labels=tmp_path / "labels.jsonl")
    _, two = run(tmp_path / "b", [record(number, label=label(number)["label"]) for number in range(100)])
    assert output(tmp_path / "a") == output(tmp_path / "b")
    assert one == two | {"early": one["early"]}
    assert one["early"] == 0


def test_a_malformed_line_stops_the_stream_behind_what_came_before_it(tmp_path):
    from discreet.errors import BadInput

    text = written([record(0), record(1)]) + "SECRET\n" + written([record(2)])
    with pytest.raises(BadInput, match=r"in.jsonl, line 3: it is not JSON") as refused:
        run(tmp_path, text)
    assert "SECRET" not in str(refused.value)
    assert [one["id"] for one in output(tmp_path)] == ["p0", "p1"]
    passed, _ = run(tmp_path, text, changes=[("[service]", "[service]\nskip_malformed = true")])
    assert (passed.records, passed.repeated, passed.malformed) == (1, 2, 1)


def test_a_record_in_a_file_of_labels_is_refused(tmp_path):
    from discreet.errors import BadInput

    (tmp_path / "labels.jsonl").write_text(written([label(0), record(1)]))
    with pytest.raises(BadInput, match=r"labels.jsonl, line 2: it is a record"):
        run(tmp_path, [], labels=tmp_path / "labels.jsonl")
