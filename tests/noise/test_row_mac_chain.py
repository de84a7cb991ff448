"""MACs over rows: every change is found, and nothing is told without the key."""

import pytest

from discreet.noise import SecretKey
from discreet.noise.keys import RowMacs

ROWS = [{"id": "q1", "above": True, "mac": b"\x01"}, {"id": "q2", "above": False, "mac": b"\x02"}]
NAME, NONCE = ("questions", "1"), b"n" * 16


@pytest.fixture
def macs():
    return RowMacs(SecretKey(b"k" * 32))


def test_a_leaf_is_of_its_rows_their_order_their_block_and_its_nonce(macs):
    leaf = macs.leaf(NAME, ROWS, NONCE)
    assert leaf == macs.leaf(NAME, [dict(reversed(row.items())) for row in ROWS], NONCE), "columns have no order"
    others = [
        macs.leaf(NAME, ROWS[::-1], NONCE),
        macs.leaf(NAME, ROWS[:1], NONCE),
        macs.leaf(NAME, [], NONCE),
        macs.leaf(NAME, [{**ROWS[0], "above": False}, ROWS[1]], NONCE),
        macs.leaf(NAME, [{**ROWS[0], "mac": {"bytes": "02"}}, ROWS[1]], NONCE),
        macs.leaf(NAME, [{**ROWS[0], "above": 1}, ROWS[1]], NONCE),
        macs.leaf(("questions", "2"), ROWS, NONCE),
        macs.leaf(("questions1", ""), ROWS, NONCE),
        macs.leaf(NAME, ROWS, b"m" * 16),
        RowMacs(SecretKey(b"l" * 32)).leaf(NAME, ROWS, NONCE),
    ]
    assert len({leaf, *others}) == 1 + len(others)


def test_a_column_without_a_value_counts_as_none(macs):
    assert macs.leaf(NAME, [{**ROWS[0], "later": None}], NONCE) == macs.leaf(NAME, ROWS[:1], NONCE)


def test_a_head_is_of_every_entry_in_its_order(macs):
    leaves = [(("answers", f"q{number}"), macs.leaf(("answers", f"q{number}"), ROWS, NONCE)) for number in range(3)]

    def head(entries, **facts):
        found = macs.start(facts)
        for name, leaf in entries:
            found = macs.after(found, name, leaf)
        return found

    heads = [head(leaves), head(leaves[::-1]), head(leaves[:2]), head(leaves[1:]), head([]), head(leaves, whole=True)]
    moved = [(("answers", "q9"), leaves[0][1]), *leaves[1:]]
    assert len({*heads, head(moved)}) == len(heads) + 1


def test_nonces_differ_and_the_key_is_not_told(macs):
    assert macs.nonce() != macs.nonce()
    assert "kkkk" not in repr(macs)
