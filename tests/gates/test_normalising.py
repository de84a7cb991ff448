"""Texts before they are counted: the fast ways agree with the plain one, and nothing of a text is echoed."""

import itertools
import sys
import types

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.gates.values import Normaliser, offsets_of, raw_bytes

PLAIN = Normaliser()


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Play  the\tNEXT song ", "play the next song"),
        ("\x1cplay\x1f", "play"),
        ("\uff30\uff2c\uff21\uff39 \ufb01ne", "play fine"),
        ("STRASSE straße", "strasse strasse"),
        ("Å Å", "å å"),
        ("a\u00a0\u2003b", "a b"),
        (" \n ", None),
        ("", None),
    ],
)
def test_forms(text, form):
    assert PLAIN.one(text) == form


texts = st.lists(
    st.one_of(st.text(max_size=12), st.text("aB \t\x1c.", max_size=8), st.text("xyz ", max_size=20)), max_size=30
)
SETTINGS = ["nfkc,case,whitespace", "none", "case", "whitespace", "nfkc", "whitespace,case"]


@settings(deadline=None, max_examples=200)
@given(texts, st.sampled_from(SETTINGS), st.sampled_from([pa.string(), pa.large_string()]), st.integers(0, 3))
def test_many_at_once_are_one_by_one(given_texts, steps, kind, skipped):
    normaliser = Normaliser(steps)
    array = pa.array(given_texts, kind)[skipped:]
    found = normaliser.texts(array)
    assert found.to_pylist() == [normaliser.one(text) for text in given_texts[skipped:]]
    found.validate(full=True)


@given(st.lists(st.text(max_size=5)), st.integers(0, 3))
def test_buffers(given_texts, skipped):
    array = pa.array(given_texts, pa.string())[skipped:]
    data, ends = raw_bytes(array), offsets_of(array)
    assert [data[a:b].decode() for a, b in itertools.pairwise(ends)] == given_texts[skipped:]


def test_a_form_is_its_own_form():
    for number in range(0, 0x110000, 7):
        form = PLAIN.one(chr(number)) if not 0xD800 <= number < 0xE000 else None
        assert form is None or PLAIN.one(form) == form


def test_names():
    assert PLAIN.name == "nfkc,case,whitespace"
    assert Normaliser("whitespace,nfkc").name == "nfkc,whitespace"
    assert Normaliser("none").name == "none"


@pytest.fixture
def own(monkeypatch):
    made = types.ModuleType("own_texts")
    made.number = 7
    made.first = lambda text: text.split()[0] if text else None
    made.raises = lambda text: {}[text]
    made.wrong = lambda text: 7
    made.picky = lambda text: (
        {}[text] if text == "fails" else {"number": 7, "bytes": b"x", "half": "\ud800", "empty": ""}.get(text, text)
    )
    monkeypatch.setitem(sys.modules, "own_texts", made)


def test_a_function_of_one_s_own_comes_last(own):
    normaliser = Normaliser("case,whitespace,own_texts:first")
    assert normaliser.name == "case,whitespace,own_texts:first"
    assert normaliser.texts(pa.array(["Play it", "", "STOP", "Play That"])).to_pylist() == [
        "play",
        None,
        "stop",
        "play",
    ]


def test_a_text_on_which_a_function_fails_is_not_counted_and_ends_nothing(own):
    """An error would tell everybody that somebody wrote such a text."""
    normaliser = Normaliser("own_texts:picky")
    texts = ["a", "fails", "number", "bytes", "half", "empty", "b"]
    assert normaliser.texts(pa.array(texts)).to_pylist() == ["a", None, None, None, None, None, "b"]


@pytest.mark.parametrize("name", ["raises", "wrong"])
def test_what_a_function_says_of_a_text_is_not_passed_on(own, name):
    with pytest.raises(BadInput) as refused:
        Normaliser(f"own_texts:{name}").texts(pa.array(["secret"]))
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    "steps",
    ["magic", "", "nfkc,nfkc", "own_texts:number", "own_texts:gone", "gone:f", "own_texts:first,own_texts:wrong"],
)
def test_unknown_steps_are_refused(own, steps):
    with pytest.raises(BadInput):
        Normaliser(steps)
