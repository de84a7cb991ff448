"""The words of a release: the documented bits, uniform and unrelated, the same in any number of threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discreet.noise import SecretKey
from discreet.noise.unit_words import UnitWords
from discreet.testing.noise import SURELY

KEY = SecretKey(bytes(range(32)))
WORDS = UnitWords(KEY)


def packed(texts):
    raw = [text.encode() for text in texts]
    ends = np.concatenate([[0], np.cumsum([len(one) for one in raw])]).astype(np.int64)
    return np.frombuffer(b"".join(raw), dtype=np.uint8), ends


def cbc(use, message):
    """The last block of AES-CBC from a zero vector: CBC-MAC, by the library alone."""
    cipher = Cipher(algorithms.AES(KEY.derive(f"gate/{use}")._bytes), modes.CBC(bytes(16)))
    return cipher.encryptor().update(message)[-16:]


def code(use, text):
    raw = text.encode()
    return cbc(use, len(raw).to_bytes(8, "little") + bytes(8) + raw + bytes(-len(raw) % 16))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(max_size=70), min_size=1, max_size=20))
def test_codes_are_the_documented_ones(texts):
    for use, found in (("units", WORDS.unit_codes(*packed(texts))), ("values", WORDS.value_codes(*packed(texts)))):
        assert [one.tobytes() for one in found.astype("<u8")] == [code(use, text) for text in texts]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=40)), min_size=1, max_size=20))
def test_words_of_pairs_are_the_documented_ones(pairs):
    units = WORDS.unit_codes(*packed([unit for unit, _ in pairs]))
    values = WORDS.value_codes(*packed([value for _, value in pairs]))
    for use, found in (("coins", WORDS.coins(units, values)), ("caps", WORDS.caps(units, values))):
        wanted = [cbc(use, code("units", u) + code("values", v))[:8] for u, v in pairs]
        assert [int(one).to_bytes(8, "little") for one in found] == wanted


@pytest.mark.parametrize(
    ("file", "first", "count"), [(0, 0, 3), (7, 123_456_789_012, 5), (3, 1, 1), (1, 5, 0), (2**40, 16_381, 40_000)]
)
def test_words_of_rows_are_the_documented_ones(file, first, count):
    found = WORDS.rows(file, first, count)
    for place in range(0, count, max(1, count // 5)):
        half, place_of_block = (first + place) % 2, (first + place) // 2
        block = file.to_bytes(8, "little") + place_of_block.to_bytes(8, "little")
        assert int(found[place]).to_bytes(8, "little") == cbc("rows", block)[8 * half : 8 * half + 8]
    for coin in (1, 2**62, 2**63 - 1):
        fell = WORDS.fallen_rows(file, first, count, coin)
        assert fell.tolist() == np.flatnonzero((found >> np.uint64(1)) < np.uint64(coin)).tolist()


def test_known_words():
    """For other engines: these bits are the definition."""
    unit, value = WORDS.unit_codes(*packed(["ada"])), WORDS.value_codes(*packed(["play the next song"]))
    assert unit.astype("<u8").tobytes().hex() == "ba8050423ced6b8ad4207d643319264f"
    assert value.astype("<u8").tobytes().hex() == "8acdf3e1e7afea4ce508c7032e0ee849"
    assert [hex(WORDS.coins(unit, value)[0]), hex(WORDS.caps(unit, value)[0])] == [
        "0x7f2ea3336321e624",
        "0xd323b645a392e990",
    ]
    assert hex(WORDS.rows(0, 0, 1)[0]) == "0x896d1e480c233d24"
    assert hex(WORDS.rows(0, 1, 1)[0]) == "0x12ddd7ca55fcaadc"


def test_large_batches_are_their_small_ones():
    texts = [f"user {number % 40_000}" for number in range(50_000)]
    whole = WORDS.unit_codes(*packed(texts))
    assert np.array_equal(whole[33_000:33_010], WORDS.unit_codes(*packed(texts[33_000:33_010])))
    assert np.array_equal(whole[:10_000], whole[40_000:])
    data, ends = packed(texts)
    assert np.array_equal(whole[100:200], WORDS.unit_codes(data, ends[100:201]))  # a slice of a larger table
    assert WORDS.unit_codes(*packed([])).shape == (0, 2)


def test_threads_find_the_same():
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda file: WORDS.rows(file, 0, 60_000), [3] * 16))
    assert all(np.array_equal(found[0], other) for other in found)


def test_uniform_and_unrelated():
    many = 200_000
    rows = WORDS.rows(0, 0, many)
    units = WORDS.unit_codes(*packed([str(number) for number in range(many)]))
    value = np.repeat(WORDS.value_codes(*packed(["a"])), many, axis=0)
    other = np.repeat(WORDS.value_codes(*packed(["b"])), many, axis=0)
    drawn = [rows, WORDS.coins(units, value), WORDS.coins(units, other), WORDS.caps(units, value)]
    for words in drawn:
        assert stats.kstest(words / 2.0**64, "uniform").pvalue > SURELY
        bits = np.unpackbits(words.view(np.uint8)).reshape(many, 64).sum(axis=0)
        assert (np.abs(bits - many / 2) < 7 * np.sqrt(many) / 2).all()
    for one in range(4):
        for two in range(one):
            table = stats.contingency.crosstab(drawn[one] >> np.uint64(61), drawn[two] >> np.uint64(61)).count
            assert stats.chi2_contingency(table).pvalue > SURELY
    assert stats.kstest(rows / 2.0**64 * 0.99, "uniform").pvalue < SURELY  # it can fail


def test_keys_are_not_shown():
    assert repr(WORDS) == "UnitWords(...)"
    assert not np.array_equal(WORDS.rows(0, 0, 5), UnitWords(SecretKey(bytes(32))).rows(0, 0, 5))
