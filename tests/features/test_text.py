"""Hashed texts: what they are, and the contract."""

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.features import HashedText, build_feature_map, feature_map_from_json
from discreet.testing import check_feature_map

TEXTS = ["how do I reset my card", "reset my card please", "weather in Lima", "", "Grüße aus Köln", "a"]


def test_it_keeps_the_contract():
    for options in ({"size": 256}, {"size": 64, "letters": 0}, {"size": 64, "words": 0, "letters": 5}):
        check_feature_map(lambda options=options: HashedText(**options), TEXTS, nulls=[None, 7])


def test_texts_of_the_same_words_are_near():
    values = HashedText(size=4096).transform(TEXTS)
    nearness = values @ values.T
    assert nearness[0, 1] > 0.4
    assert nearness[0, 2] < 0.1
    assert np.linalg.norm(values[0]) == pytest.approx(1, abs=1e-6)
    assert not values[3].any()


def test_known_places():
    """A change of the hash would make stored models wrong."""
    values = HashedText(size=16, words=1, letters=0).transform(["card reset"])
    assert {int(place): round(float(value), 3) for place, value in enumerate(values[0]) if value} == KNOWN


KNOWN = {12: -0.707, 15: -0.707}


def test_it_reads_back():
    made = build_feature_map("hashed-text", size=128, letters=0)
    assert feature_map_from_json(made.identity()) == made


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": 1}, "whole number"),
        ({"size": 33}, "not even"),
        ({"words": 0, "letters": 0}, "neither"),
        ({"letters": 2}, "from 3"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(BadInput, match=says):
        HashedText(**options)


def test_one_text_is_no_list_of_texts():
    with pytest.raises(BadInput, match="list") as refused:
        HashedText().transform("secret")
    assert "secret" not in str(refused.value)
