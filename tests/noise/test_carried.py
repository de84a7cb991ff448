"""A key that is sent on purpose arrives; nothing that is printed of it shows it."""

import pickle

import pytest

from discreet.noise import SecretKey
from discreet.noise.keys import CarriedKey

KEY = SecretKey(bytes(range(32)))


def test_it_arrives_as_it_was_sent():
    arrived = pickle.loads(pickle.dumps(CarriedKey(KEY))).key()
    assert arrived.fingerprint == KEY.fingerprint


def test_it_is_not_shown_and_the_key_itself_is_not_pickled():
    assert repr(CarriedKey(KEY)) == "CarriedKey(...)"
    with pytest.raises(TypeError):
        pickle.dumps(KEY)
