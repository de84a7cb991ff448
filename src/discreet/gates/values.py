"""Values of texts: the form that a text is brought to before it is counted, and the code of that form.

Steps of `Normaliser`, in this order whatever the order they are named in:

    nfkc         Unicode's compatibility form: full-width letters, ligatures and the like become plain ones
    case         case folding (and the compatibility form again, if that is asked for)
    whitespace   runs of white space become one blank, and ends are trimmed
    module:function   your own, last: a text in, a text out, or None for one that is not to be counted

Guarantee: a text's form depends on that text alone, so one unit's rows move no other unit's. It is what is released:
nobody's own spelling leaves. A function of yours must keep to that, and not look at other texts.
A text that becomes empty is not counted. Neither is one on which your function fails: an error would tell that
somebody wrote such a text. It is tried on a text of our own first, before anything is charged.

`Coder` turns the texts of a batch into codes of values and of units; a dictionary is normalised and coded once. Codes
are private: they are keyed, but whoever has the key can try texts.
"""

from __future__ import annotations

import importlib
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.unit_words import Codes, UnitWords
from discreet.privacy.events import PLAIN

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
        functions = [step for step in named if ":" in step]
        unknown = [step for step in named if ":" not in step and step not in STEPS]
        if unknown or len(functions) > 1 or len(set(named)) != len(named):
            raise BadInput(
                f"normalising by {steps}",
                "a step is not known, or given twice",
                f"Choose some of {', '.join(STEPS)} and one module:function, with commas between; or {NONE}",
            )
        self.steps = tuple(step for step in STEPS if step in named)
        self.name = ",".join([*self.steps, *functions]) or NONE
        self._own: Function | None = _imported(functions[0]) if functions else None
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
            form = function(_TRIED)
        except Exception as problem:  # noqa: BLE001 - whatever it is
            kind = type(problem).__name__
            raise BadInput(asked, f"the function raised {kind} on a plain word", "Let it take a text") from None
        if not (form is None or isinstance(form, str)):
            raise BadInput(asked, f"the function returned a {type(form).__name__}", "Return a text, or None")


def _called(function: Function, text: str) -> str | None:
    """Its form; None, in silence, where it fails or gives something else than a text."""
    try:
        form = function(text)
        if not isinstance(form, str):
            return None
        form.encode()  # half a surrogate is no text
    except Exception:  # noqa: BLE001 - that it failed says what somebody wrote, and so does its message
        return None
    return form or None


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
    offsets = _stored_offsets(texts).astype(np.int64)
    return offsets - offsets[0]


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
    module, _, attribute = name.partition(":")
    try:
        attribute_value = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise BadInput(
            asked, "it cannot be imported", "Write it like my_texts:clean, and put it on PYTHONPATH"
        ) from None
    if not callable(attribute_value):
        raise BadInput(asked, "it is not a function", "Name a function of one text")
    return attribute_value  # type: ignore[no-any-return]


Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Coder:
    """Codes of one release. One thread's own: it remembers the dictionary it saw last."""

    def __init__(self, words: UnitWords, normaliser: Normaliser) -> None:
        self._words, self._normaliser = words, normaliser
        self._last: tuple[Any, Any, Codes, Mask] | None = None

    def counted(self, texts: Any, places: Places) -> tuple[Codes, Places]:
        """The values at some places of a batch, and how often each; a value may come more than once."""
        if is_coded(texts):
            codes, usable, _ = self._entries(texts.dictionary)
            fell = np.bincount(np.take(indices_of(texts), places), minlength=len(codes) + 1)[: len(codes)]
            used = np.flatnonzero(usable & (fell > 0))
            return np.take(codes, used, axis=0), fell[used]
        codes, usable, _ = self._plain(texts.take(places))
        codes = codes if usable.all() else np.compress(usable, codes, axis=0)
        return codes, np.ones(len(codes), dtype=np.int64)

    def each(self, texts: Any) -> tuple[Codes, Mask]:
        """A code for each text of a batch; and where there is a value at all."""
        if is_coded(texts):
            codes, usable, _ = self._entries(texts.dictionary)
            at = indices_of(texts)
            return np.take(_one_more(codes), at, axis=0), np.take(np.append(usable, False), at)
        codes, usable, _ = self._plain(texts)
        return codes, usable

    def forms(self, texts: Any, places: Places | None) -> tuple[Codes, Any]:
        """Codes and normalised texts: of the dictionary's entries, or of the texts at some places, or of all."""
        if is_coded(texts):
            codes, usable, forms = self._entries(texts.dictionary)
        else:
            codes, usable, forms = self._plain(texts if places is None else texts.take(places))
        if usable.all():
            return codes, forms
        used = np.flatnonzero(usable)
        return np.take(codes, used, axis=0), forms.take(used)

    def units(self, units: Any) -> tuple[Codes, Mask]:
        """A code for each unit of a batch; and where one is named."""
        if is_coded(units):
            named = lengths_of(units.dictionary) > 0
            codes, at = self._unit_codes(units.dictionary), indices_of(units)
            return np.take(_one_more(codes), at, axis=0), np.take(np.append(named, False), at)
        return self._unit_codes(units), lengths_of(units) > 0

    def _entries(self, entries: Any) -> tuple[Codes, Mask, Any]:
        if self._last is None or not _same_buffers(self._last[0], entries):
            codes, usable, forms = self._plain(entries)
            self._last = (entries, forms, codes, usable)
        _, forms, codes, usable = self._last
        return codes, usable, forms

    def _plain(self, texts: Any) -> tuple[Codes, Mask, Any]:
        valid = None if not texts.null_count else np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        forms = self._normaliser.texts(texts if valid is None else texts.drop_null())
        if valid is not None:
            places = np.full(len(texts), -1)
            places[valid] = np.arange(valid.size)
            import pyarrow

            forms = forms.take(pyarrow.array(places, mask=places < 0))
        codes = self._words.value_codes(np.frombuffer(raw_bytes(forms), dtype=np.uint8), offsets_of(forms))
        usable = np.ones(len(forms), dtype=bool)
        return codes, usable if not forms.null_count else forms.is_valid().to_numpy(zero_copy_only=False), forms

    def _unit_codes(self, units: Any) -> Codes:
        return self._words.unit_codes(np.frombuffer(raw_bytes(units), dtype=np.uint8), offsets_of(units))


def is_coded(column: Any) -> bool:
    """Whether a column is a dictionary and numbers of its entries."""
    import pyarrow

    return bool(pyarrow.types.is_dictionary(column.type))


def indices_of(column: Any) -> NDArray[np.integer[Any]]:
    """The numbers of a coded column; one past the last entry where it is missing."""
    indices = column.indices
    if indices.null_count:
        import pyarrow

        indices = indices.cast(pyarrow.int64()).fill_null(len(column.dictionary))
    return np.asarray(indices.to_numpy(zero_copy_only=False))


def lengths_of(texts: Any) -> NDArray[np.int64]:
    """In bytes; 0 where one is missing."""
    lengths: NDArray[np.int64] = np.diff(offsets_of(texts))
    if texts.null_count:
        lengths[~texts.is_valid().to_numpy(zero_copy_only=False)] = 0
    return lengths


def missing(texts: Any) -> int:
    """How many are missing or empty, as they stand."""
    if not is_coded(texts):
        return int((lengths_of(texts) == 0).sum())
    empty = lengths_of(texts.dictionary) == 0
    if not empty.any():
        return int(texts.indices.null_count)
    return int(np.append(empty, True)[indices_of(texts)].sum())


def _one_more(codes: Codes) -> Codes:
    return np.concatenate([codes, np.zeros((1, 2), dtype=np.uint64)])


def _same_buffers(first: Any, other: Any) -> bool:
    """Whether two arrays are the same memory, which is kept for as long as the first is."""
    if first is other:
        return True
    if len(first) != len(other) or first.type != other.type or first.offset != other.offset:
        return False
    buffers = zip(first.buffers(), other.buffers(), strict=True)
    return all((a and a.address) == (b and b.address) for a, b in buffers)
