"""What belongs to a stream and to it alone: file, preparation, ledger, key, journal, models; what is refused."""

import json
import shutil

import numpy as np
import pytest
from small_streams import EVERYTHING, SEEDED, TEXT, config_in, mixed, record, taken

from discreet.errors import InvalidConfig, InvalidLedger, InvalidStore, LedgerUnavailable, NotNow, StoreUnavailable
from discreet.privacy.ledger import FileSink, Ledger
from discreet.stream import declaration
from discreet.stream.columns import NumberColumn, RecordSchema
from discreet.stream.declaration import preparation_of
from discreet.stream.preparation import Preparation, components_of
from discreet.stream.publishing import load_published
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream


def stored(place, preparation):
    (place / "prepared.json").write_text(json.dumps(preparation.to_json()))
    lines = ['preparation = "prepared.json"' if line.startswith("columns") else line for line in LINES]
    return "\n".join(line for line in lines if not line.startswith(("center", "scale", "choices", "radius")))


LINES = SEEDED.splitlines()


def test_a_stored_preparation_takes_the_place_of_columns(tmp_path):
    declared = preparation_of(config_in(tmp_path))
    rows = np.array([declared.one(record(number)) for number in range(50)])
    made = declared.with_components(components_of(rows, 3), origin="public")
    config = config_in(tmp_path, stored(tmp_path, made))
    with StreamService(config) as service:
        assert service.learner.settings.features == 3
        assert len(taken(service, [record(number) for number in range(30)])) == 30
        assert load_published(config.models / "latest.json").preparation.digest == made.digest


def test_a_preparation_that_does_not_fit_is_refused_at_its_line(tmp_path):
    declared = preparation_of(config_in(tmp_path))
    paid = declared.with_components(np.eye(5)[:2], origin="paid")
    error = refused(tmp_path, InvalidConfig, "paid for in a ledger of its own", stored(tmp_path, paid))
    assert "[records] preparation" in error.asked
    text = stored(tmp_path, declared)
    for content, match in (("{}", "not a discreet.preparation/1"), ("[", "not JSON")):
        (tmp_path / "prepared.json").write_text(content)
        refused(tmp_path, InvalidConfig, match, text)
    (tmp_path / "prepared.json").unlink()
    refused(tmp_path, InvalidConfig, "cannot be read", text)
    refused(tmp_path, InvalidConfig, "no declared columns", stored(tmp_path, Preparation(inputs=5)))
    named = Preparation(schema=RecordSchema(columns=(NumberColumn(name="label"),)))
    refused(tmp_path, InvalidConfig, "name of the id, the label or the person", stored(tmp_path, named))


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
    other = tmp_path / "other" / "payments.stream"
    shutil.copy(other / "ledger", place / "ledger")
    refused(tmp_path, InvalidLedger, "it is another ledger")
    shutil.copy(place / "ledger.mark", place / "elsewhere.mark")
    shutil.copy(other / "ledger.mark", place / "ledger.mark")
    refused(tmp_path, LedgerUnavailable, "another one than its journal names")
    (place / "elsewhere").replace(place / "ledger")
    (place / "elsewhere.mark").replace(place / "ledger.mark")
    StreamService(config_in(tmp_path, TEXT)).close()


def test_a_ledger_that_lost_its_charge_or_its_mark_is_refused(tmp_path):
    place = begun(tmp_path)
    whole = (place / "ledger").read_bytes()
    (place / "ledger").write_bytes(whole.splitlines(keepends=True)[0])
    refused(tmp_path, InvalidLedger, "charges are missing")
    assert next(one.name for one in verify_stream(config_in(tmp_path, TEXT)).checks if not one.ok) == "mark"
    (place / "ledger").write_bytes(whole)
    (place / "ledger.mark").rename(tmp_path / "mark")
    refused(tmp_path, InvalidLedger, "ledger.mark, which says how many lines it had, is missing")
    assert [one.name for one in verify_stream(config_in(tmp_path, TEXT)).checks if not one.ok] == ["mark"]
    (tmp_path / "mark").rename(place / "ledger.mark")
    assert verify_stream(config_in(tmp_path, TEXT)).ok


def test_a_lost_key_or_journal_is_refused(tmp_path):
    place = begun(tmp_path)
    for path in (place / "keys").glob("phase-*"):
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
    (key,) = (place / "keys").glob("phase-*.key")
    (place / "keys" / ".a.part").write_text("half a key")
    (place / "keys" / ".b.part").hardlink_to(key)
    StreamService(config_in(tmp_path, TEXT)).close()
    assert not list((place / "keys").glob(".*"))
    assert key.read_bytes().strip(b"\0")


@pytest.mark.parametrize("text", [TEXT, SEEDED], ids=["production", "simulation"])
def test_a_stream_that_has_ended_takes_no_more_and_its_key_is_gone(tmp_path, text):
    from discreet.stream.stream_directory import verify_stream

    place = begun(tmp_path, text)
    with StreamService(config_in(tmp_path, text)) as service:
        service.end()
        with pytest.raises(StoreUnavailable):
            taken(service, [record(99)])
    assert [path.name[:4] for path in (place / "keys").iterdir()] == ["mac-"]
    refused(tmp_path, NotNow, "it has ended", text)
    assert verify_stream(config_in(tmp_path, text)).ok


def test_a_kill_between_ending_and_destroying_the_key_leaves_none(tmp_path):
    place = begun(tmp_path)
    with StreamService(config_in(tmp_path, TEXT)) as service:
        service.store.end()
    assert len(list((place / "keys").iterdir())) > 1
    refused(tmp_path, NotNow, "it has ended")
    assert [path.name[:4] for path in (place / "keys").iterdir()] == ["mac-"]


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


def test_gaussian_noise_is_found_for_the_budget_once(tmp_path, monkeypatch):
    from discreet.stream.stream_directory import verify_stream

    config = config_in(tmp_path, TEXT, ('name = "gamma"', 'name = "gaussian"'), ('delta = "0"', 'delta = "1e-6"'))
    with StreamService(config) as service:
        first = taken(service, mixed(20))
        assert 2 < service.learner.settings.noise.noise_multiplier < 8
    monkeypatch.setattr(declaration, "gaussian_noise_for", None)  # another version would find another one
    with StreamService(config) as service:
        assert taken(service, mixed(20)) == first
    assert verify_stream(config).ok


def test_a_lost_or_strange_key_of_the_journal_is_refused(tmp_path):
    place = begun(tmp_path)
    (key,) = (place / "keys").glob("journal-*.key")
    assert key.stat().st_mode & 0o077 == 0
    key.rename(tmp_path / "kept")
    refused(tmp_path, LedgerUnavailable, "key of its journal is missing")
    begun(tmp_path / "other")
    (other,) = (tmp_path / "other" / "payments.stream" / "keys").glob("journal-*.key")
    shutil.copy(other, key)
    refused(tmp_path, LedgerUnavailable, "that of another one")
    (tmp_path / "kept").replace(key)
    StreamService(config_in(tmp_path, TEXT)).close()
