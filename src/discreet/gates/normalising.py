"""What texts are brought to before they are counted, so that people who meant the same are counted together.

Steps, in this order whatever the order they are named in:

    nfkc         Unicode's compatibility form: full-width letters, ligatures and the like become plain ones
    case         case folding (and the compatibility form again, if that is asked for)
    whitespace   runs of white space become one blank, and ends are trimmed
    module:function   your own, last: a text in, a text out, or None for one that is not to be counted

Guarantee: a text's form depends on that text alone, so one unit's rows move no other unit's. It is what is released:
nobody's own spelling leaves. A function of yours must keep to that, and not look at other texts.
A text that becomes empty is not counted. Neither is one on which your function fails: an error would tell that
somebody wrote such a text. It is tried on a text of our own first, before anything is charged.
"""

from __future__ import annotations

import importlib
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.privacy.release_gate import PLAIN

STEPS = ("nfkc", "case", "whitespace")
NONE = "none"
_BLANKS = r"[\t-\r\x1c-\x20]+"
"""The white space of `str.split` that is ASCII."""
_OTHER_BLANKS = bytes(range(9, 14)) + bytes(range(28, 32))
_BLANK = ord(" ")
_TRIED = "discreet"
Function = Callable[[str], str | None]


class Normaliser:
    """The steps of one release. ``name`` is how certificates name them."""

    def __init__(self, steps: str = PLAIN) -> None:
        named = [] if steps == NONE else steps.split(",")
        own = [step for step in named if ":" in step]
        unknown = [step for step in named if ":" not in step and step not in STEPS]
        if unknown or len(own) > 1 or len(set(named)) != len(named):
            raise BadInput(
                f"normalising by {steps}",
                "a step is not known, or given twice",
                f"Choose some of {', '.join(STEPS)} and one module:function, with commas between; or {NONE}",
            )
        self.steps = tuple(step for step in STEPS if step in named)
        self.name = ",".join([*self.steps, *own]) or NONE
        self._own: Function | None = _imported(own[0]) if own else None
        if self._own is not None:
            self._try(self._own)

    def one(self, text: str) -> str | None:
        """The form of ``text``; None if it is not to be counted."""
        if "nfkc" in self.steps:
            text = unicodedata.normalize("NFKC", text)
        if "case" in self.steps:
            text = text.casefold()
            if "nfkc" in self.steps:
                text = unicodedata.normalize("NFKC", text)
        if "whitespace" in self.steps:
            text = " ".join(text.split())
        if self._own is not None:
            return _called(self._own, text)
        return text or None

    def texts(self, texts: Any) -> Any:
        """The forms of an Arrow array of texts, all valid UTF-8 and none missing; missing where not to be counted.

        The same as `one` of each; texts in ASCII take a much faster way.
        """
        if self._own is not None:
            return self._one_by_one(texts)
        if raw_bytes(texts).isascii():
            return self._ascii(texts)
        import pyarrow
        from pyarrow import compute

        plain = compute.string_is_ascii(texts).to_numpy(zero_copy_only=False)
        simple, other = np.flatnonzero(plain), np.flatnonzero(~plain)
        forms = [self._ascii(texts.take(simple)), self._one_by_one(texts.take(other)).cast(texts.type)]
        places = np.empty(len(texts), dtype=np.int64)
        places[simple], places[other] = np.arange(simple.size), simple.size + np.arange(other.size)
        return pyarrow.concat_arrays(forms).take(places)

    def _one_by_one(self, texts: Any) -> Any:
        import pyarrow

        coded = texts.dictionary_encode()
        forms = pyarrow.array([self.one(text) for text in coded.dictionary.to_pylist()], pyarrow.string())
        return forms.take(coded.indices)

    def _ascii(self, texts: Any) -> Any:
        """White space and case by whole buffers: NFKC leaves ASCII as it is."""
        from pyarrow import compute

        if "whitespace" in self.steps and _has_other_blanks(texts):
            texts = compute.utf8_trim(compute.replace_substring_regex(texts, _BLANKS, " "), characters=" ")
        if "case" in self.steps:
            texts = _lowered(texts)
        return _without_empty(texts)

    def _try(self, function: Function) -> None:
        """Refuse one that cannot take even this."""
        asked = f"normalising by {self.name}"
        try:
            found = function(_TRIED)
        except Exception as problem:  # noqa: BLE001 - whatever it is
            kind = type(problem).__name__
            raise BadInput(asked, f"the function raised {kind} on a plain word", "Let it take a text") from None
        if not (found is None or isinstance(found, str)):
            raise BadInput(asked, f"the function returned a {type(found).__name__}", "Return a text, or None")


def _called(function: Function, text: str) -> str | None:
    """Its form; None, in silence, where it fails or gives something else than a text."""
    try:
        found = function(text)
        if not isinstance(found, str):
            return None
        found.encode()  # half a surrogate is no text
    except Exception:  # noqa: BLE001 - that it failed says what somebody wrote, and so does its message
        return None
    return found or None


def _without_empty(texts: Any) -> Any:
    import pyarrow
    from pyarrow import compute

    lengths = np.diff(offsets_of(texts))
    if lengths.size and lengths.min() > 0 and not texts.null_count:
        return texts
    return compute.if_else(compute.equal(texts, ""), pyarrow.scalar(None, texts.type), texts)


def _stored_offsets(texts: Any) -> Any:
    """The part of the offsets' buffer that belongs to this array, as it is stored."""
    import pyarrow

    wide = pyarrow.types.is_large_string(texts.type) or pyarrow.types.is_large_binary(texts.type)
    stored = texts.buffers()[1]
    if stored is None or not len(texts):
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(stored, dtype=np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]


def offsets_of(texts: Any) -> Any:
    """Where each text of an Arrow array begins in `raw_bytes`, and where the last ends."""
    found = _stored_offsets(texts).astype(np.int64)
    return found - found[0]


def raw_bytes(texts: Any) -> bytes:
    """The bytes of all texts of an Arrow array, one after the other."""
    ends, data = _stored_offsets(texts), texts.buffers()[2]
    return b"" if data is None else bytes(memoryview(data)[int(ends[0]) : int(ends[-1])])


def _has_other_blanks(texts: Any) -> bool:
    """Whether some text begins or ends with a blank, or has two in a row, or white space that is none."""
    data, ends = raw_bytes(texts), offsets_of(texts)
    if b"  " in data or any(bytes([blank]) in data for blank in _OTHER_BLANKS):
        return True
    if b" " not in data:
        return False
    letters, full = np.frombuffer(data, dtype=np.uint8), np.diff(ends) > 0
    return bool((letters[ends[:-1][full]] == _BLANK).any() or (letters[ends[1:][full] - 1] == _BLANK).any())


def _lowered(texts: Any) -> Any:
    import pyarrow

    ends = offsets_of(texts)
    wide = pyarrow.types.is_large_string(texts.type)
    buffers = [
        None,
        pyarrow.py_buffer(ends if wide else ends.astype(np.int32)),
        pyarrow.py_buffer(raw_bytes(texts).lower()),
    ]
    return pyarrow.Array.from_buffers(texts.type, len(texts), buffers)


def _imported(name: str) -> Function:
    asked = f"normalising by {name}"
    place, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(place), attribute)
    except (ImportError, AttributeError, ValueError):
        raise BadInput(
            asked, "it cannot be imported", "Write it like my_texts:clean, and put it on PYTHONPATH"
        ) from None
    if not callable(found):
        raise BadInput(asked, "it is not a function", "Name a function of one text")
    own: Function = found
    return own
