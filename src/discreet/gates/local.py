"""The local engine: exact counting of what the coins left, on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.gates.normalising import Normaliser, offsets_of, raw_bytes
from discreet.gates.query_log import QueryLog, Told
from discreet.gates.released import OwnersFigures
from discreet.noise.keyed import SecretKey
from discreet.noise.unit_words import UnitWords

if TYPE_CHECKING:
    from discreet.gates.gate import CrowdGate


def release_locally(
    gate: CrowdGate, log: QueryLog, *, key: SecretKey, memory: int | None, told: Told
) -> tuple[Any, Any, OwnersFigures]:
    """Texts in the order of their bytes, how many units kept each, and the owner's figures."""
    import pyarrow
    from pyarrow import compute

    words, normaliser = UnitWords(key), Normaliser(gate.normalisation)
    total = broken = without_text = without_unit = 0
    pieces, coins, units = [], [], []
    for number, part in enumerate(log.parts):
        for rows, left_out in part.batches(log.text, log.unit):
            total, broken = total + len(rows) + left_out, broken + left_out
            texts = _plain(rows.texts)
            there = texts.is_valid()
            forms = normaliser.texts(texts.filter(there)).cast(pyarrow.large_string())
            places = np.flatnonzero(there.to_numpy(zero_copy_only=False))
            usable = forms.is_valid().to_numpy(zero_copy_only=False)
            without_text += len(texts) - int(usable.sum())
            forms, places = forms.filter(forms.is_valid()), places[usable]
            if rows.units is None:
                pieces.append(forms)
                coins.append(words.rows(number, rows.first, len(rows))[places])
                continue
            who = _plain(rows.units).take(places).cast(pyarrow.large_string())
            named = compute.and_(who.is_valid(), compute.not_equal(who, "")).fill_null(False)
            without_unit += int(len(who) - named.true_count)
            pieces.append(forms.filter(named))
            units.append(who.filter(named))
    forms = pyarrow.concat_arrays(pieces) if pieces else pyarrow.array([], pyarrow.large_string())
    if log.unit is None:
        word = np.concatenate(coins) if coins else np.zeros(0, dtype=np.uint64)
        kept = forms.filter(pyarrow.array(_falls(gate, word)))
    else:
        who = pyarrow.concat_arrays(units) if units else pyarrow.array([], pyarrow.large_string())
        kept = _kept_by_units(gate, words, who, forms)
    counted = compute.value_counts(kept)
    enough = counted.filter(compute.greater_equal(counted.field("counts"), gate.k))
    order = sorted(range(len(enough)), key=lambda place: enough[place]["values"].as_py().encode())
    found = enough.take(pyarrow.array(order, pyarrow.int64()))
    figures = OwnersFigures(
        rows=total, broken=broken, without_text=without_text, without_unit=without_unit, kept=len(kept)
    )
    return found.field("values").cast(pyarrow.string()), found.field("counts").to_numpy(), figures


def _falls(gate: CrowdGate, words: Any) -> Any:
    return (words >> np.uint64(1)) < np.uint64(gate.coin)


def _plain(column: Any) -> Any:
    import pyarrow

    return column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column


def _kept_by_units(gate: CrowdGate, words: UnitWords, who: Any, forms: Any) -> Any:
    """One text for every (unit, value) whose coin fell, after each unit was cut to its values."""
    unit = words.unit_codes(np.frombuffer(raw_bytes(who), np.uint8), offsets_of(who))
    value = words.value_codes(np.frombuffer(raw_bytes(forms), np.uint8), offsets_of(forms))
    pairs = np.hstack([unit, value])
    _, first = np.unique(pairs, axis=0, return_index=True)
    unit, value = unit[first], value[first]
    cap = words.caps(unit, value)
    order = np.lexsort((value[:, 1], value[:, 0], cap, unit[:, 1], unit[:, 0]))
    unit, value, first = unit[order], value[order], first[order]
    begins = np.flatnonzero(np.r_[True, (unit[1:] != unit[:-1]).any(axis=1)]) if len(unit) else np.zeros(0, np.int64)
    rank = np.arange(len(unit)) - np.repeat(begins, np.diff(np.r_[begins, len(unit)]))
    allowed = rank < gate.values
    fell = _falls(gate, words.coins(unit[allowed], value[allowed]))
    return forms.take(first[allowed][fell])
