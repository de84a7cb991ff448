"""Marks of records that are being decided: keyed, so that they confirm no guess; those of older streams are known."""

import json
import re

import numpy as np
import pytest
from small_streams import TEXT, config_in, record, taken

from discreet.errors import LedgerUnavailable, StoreUnavailable
from discreet.storage.stream_store import StreamStore
from discreet.stream import journal
from discreet.stream.declaring import preparation_of
from discreet.stream.journal import Marks, plain_mark
from discreet.stream.journal_key import JournalKey
from discreet.stream.service import StreamService


def fails(*_):
    raise StoreUnavailable("a", "b")


def killed_while(place, forms, monkeypatch):
    """A stream that loses these records."""
    with StreamService(config_in(place, TEXT)) as service:
        taken(service, [record(0)])
        monkeypatch.setattr(StreamStore, "commit", fails)
        with pytest.raises(StoreUnavailable):
            taken(service, forms)
        monkeypatch.undo()
    return place / "payments.stream"


def everything_in(place):
    return b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file() and "keys" not in path.parts)


def guesses(place, numbers):
    """What somebody who guesses a record would look for."""
    preparation = preparation_of(config_in(place, TEXT))
    return [plain_mark(f"p{number}", preparation.one(record(number))) for number in numbers]


def test_a_guess_at_a_record_is_not_confirmed_by_what_is_stored(tmp_path, monkeypatch):
    place = killed_while(tmp_path, [record(number) for number in range(1, 9)], monkeypatch)
    there = everything_in(place)
    assert not any(guess in there for guess in guesses(tmp_path, range(9)))
    plant = b"".join(guesses(tmp_path, [3]))
    (place / "planted").write_bytes(plant)  # and the search would find one
    assert any(guess in everything_in(place) for guess in guesses(tmp_path, range(9)))


def test_keys_differ_and_so_do_their_codes():
    one, two = JournalKey.fresh(), JournalKey.fresh()
    vector = np.ones(3)
    assert one.mark("a", vector) != two.mark("a", vector)
    assert one.mark("a", vector) == one.mark("a", np.ones(3)) != one.mark("b", vector)
    assert one.person("a") != one.set_apart("a")
    assert re.fullmatch(r"JournalKey\(\.\.\.\)", repr(one))


def as_an_older_version_left_it(place, forms):
    """The marks of records that were lost, plain, and no key of the journal."""
    vectors = preparation_of(config_in(place, TEXT)).many(forms)
    body = b"".join(plain_mark(form["id"], vector) for form, vector in zip(forms, vectors, strict=True))
    head = json.dumps([2, len(body), journal.hashlib.blake2b(body, digest_size=8).hexdigest()]).encode()
    stream = place / "payments.stream"
    (stream / "marks").write_bytes(head.ljust(64) + body)
    for key in (stream / "keys").glob("journal-*"):
        key.unlink()
    store = StreamStore(stream / "journal.db")
    with store._database.writing("making it old") as connection:
        connection.exec_driver_sql("DELETE FROM stream WHERE number = 3")
        for table in ("persons", "set_apart"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    store.close()


def test_an_older_journal_goes_on_and_its_plain_marks_go(tmp_path, monkeypatch):
    forms = [record(number) for number in range(1, 9)]
    stream = killed_while(tmp_path, forms, monkeypatch)
    as_an_older_version_left_it(tmp_path, forms)
    with StreamService(config_in(tmp_path, TEXT)) as service:
        assert service.lost == 8
        with pytest.raises(LedgerUnavailable, match="8 records"):
            taken(service, [record(30)])
        with pytest.raises(LedgerUnavailable, match="8 records"):
            taken(service, [record(1), record(2, amount=1.5)])
        taken(service, forms[:3])
        assert service.lost == 5
    with StreamService(config_in(tmp_path, TEXT)) as service:  # some by now, some plain still
        assert service.lost == 5
        with pytest.raises(LedgerUnavailable, match="5 records"):
            taken(service, [record(4), record(30)])
        taken(service, forms[3:])
        taken(service, [record(9)])
    assert not any(guess in everything_in(stream) for guess in guesses(tmp_path, range(10)))


def test_plain_marks_of_records_that_were_decided_go_when_the_stream_is_opened(tmp_path):
    with StreamService(config_in(tmp_path, TEXT)) as service:
        taken(service, [record(number) for number in range(9)])
    as_an_older_version_left_it(tmp_path, [record(number) for number in range(1, 9)])
    StreamService(config_in(tmp_path, TEXT)).close()
    assert not any(guess in everything_in(tmp_path) for guess in guesses(tmp_path, range(9)))


def test_a_batch_of_both_kinds_survives_a_second_kill(tmp_path):
    key, vectors = JournalKey.fresh(), np.arange(24.0).reshape(8, 3)
    plain = [plain_mark(f"p{place}", row) for place, row in enumerate(vectors)]
    keyed = [key.mark(f"p{place}", row) for place, row in enumerate(vectors)]
    body = b"".join(plain)
    head = json.dumps([1, len(body), journal.hashlib.blake2b(body, digest_size=8).hexdigest()]).encode()
    (tmp_path / "marks").write_bytes(head.ljust(64) + body)
    marks = Marks(tmp_path / "marks", decided=0)
    marks.write(1, keyed[:3], plain[:3])
    marks.close()  # killed before the journal had them
    marks = Marks(tmp_path / "marks", decided=0)
    assert (marks.lost, marks.plain) == (8, True)
    with pytest.raises(LedgerUnavailable):
        marks.write(1, [*keyed[:3], keyed[4]], [*plain[:3], plain[4]])
    marks.write(1, keyed, plain)
    marks.decided(8)
    marks.close()
    marks = Marks(tmp_path / "marks", decided=3)
    assert (marks.lost, marks.plain) == (5, False)
    marks.close()


def test_the_end_of_a_stream_ends_its_marks_and_both_keys(tmp_path):
    with StreamService(config_in(tmp_path, TEXT)) as service:
        taken(service, [record(0)])
        assert len(list((tmp_path / "payments.stream" / "keys").glob("*.key"))) == 2
        service.end()
    assert not list((tmp_path / "payments.stream" / "keys").iterdir())
    assert not (tmp_path / "payments.stream" / "marks").exists()
