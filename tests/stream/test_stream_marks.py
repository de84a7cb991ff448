"""Marks of records that are being decided: keyed, so that they confirm no guess."""

import hashlib
import re

import numpy as np
import pytest
from small_streams import TEXT, config_in, record, taken

from discreet.errors import StoreUnavailable
from discreet.storage.stream_store import StreamStore
from discreet.stream.declaration import preparation_of
from discreet.stream.journal import JournalKey
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
    return [
        hashlib.blake2b(f"p{number}\0".encode() + preparation.one(record(number)).tobytes(), digest_size=8).digest()
        for number in numbers
    ]


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
    assert re.fullmatch(r"SecretKey\(\.\.\.\)", repr(one))


def test_the_end_of_a_stream_ends_its_marks_and_both_keys(tmp_path):
    with StreamService(config_in(tmp_path, TEXT)) as service:
        taken(service, [record(0)])
        assert len(list((tmp_path / "payments.stream" / "keys").glob("*.key"))) == 3
        service.end()
    (left,) = (tmp_path / "payments.stream" / "keys").iterdir()  # that of the journal's codes, for `verify`
    assert left.name.startswith("mac-")
    assert not (tmp_path / "payments.stream" / "marks").exists()
