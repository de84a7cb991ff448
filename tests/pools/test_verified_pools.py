"""A verified pool: what changed since it was enrolled is read as a null, and refused before anything is charged."""

import numpy as np
import pytest

from discreet.errors import PoolChanged
from discreet.pools import ArrayPool, JoinedPool, ManifestKey, VerifiedPool, macs, with_withdrawn

KEY = ManifestKey.fresh()


def pool_of(size=30, *, changed=(), text=False):
    numbers = np.arange(size * 3, dtype=np.float32).reshape(size, 3)
    texts = [f"text {place}" for place in range(size)]
    for place in changed:
        numbers[place] += 1
        texts[place] += "!"
    parts = {"text": texts} if text else {"x": numbers}
    return ArrayPool(ids=[f"r{place}" for place in range(size)], **parts)


def verified(now, before, **options):
    stored = list(macs(before, KEY))
    return VerifiedPool(now, KEY, lambda: stored, **options)


def test_an_unchanged_pool_is_read_as_it_is():
    pool = pool_of()
    mine = verified(pool, pool)
    mine.check(name="here")
    assert np.array_equal(mine.x[:], pool.x[:])
    assert np.array_equal(mine.rows([4, 2]), pool.rows([4, 2]))
    assert not mine.broken(slice(None)).any()
    assert mine.public() == pool.public()


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("read_first", [False, True])
def test_a_changed_record_is_a_null_and_refused(text, read_first):
    mine = verified(pool_of(changed=[7], text=text), pool_of(text=text))
    if read_first:
        rows = mine.rows(slice(5, 10))
        assert [not np.any(row) if not text else row == "" for row in rows] == [False, False, True, False, False]
    assert np.flatnonzero(mine.broken(slice(None))).tolist() == [7]
    with pytest.raises(PoolChanged) as refused:
        mine.check(name="here")
    assert "r7" not in str(refused.value)


def test_a_check_reads_only_what_nobody_read():
    pool, read = pool_of(3000), []

    class Counted:
        shape, dtype = pool.x.shape, pool.x.dtype

        def __len__(self):
            return len(pool)

        def __getitem__(self, key):
            found = pool.x[key]
            read.append(len(found))
            return found

    mine = verified(ArrayPool(ids=pool.ids, x=Counted()), pool)
    assert len(mine.x[:2500]) == 2500
    read.clear()
    told = []
    mine.check(name="here", progress=lambda done, whole: told.append((done, whole)))
    assert sum(read) == 500
    assert told[-1] == (3000, 3000)
    mine.check(name="here")
    assert sum(read) == 500


def test_withdrawn_records_are_not_compared_and_those_to_be_erased_neither():
    before, now = pool_of(), pool_of(changed=[3, 9])
    stored = [(name, code) for name, code in macs(before, KEY) if name != "r3"]
    names = [KEY.withdrawn_id(name) if name == "r3" else name for name in before.ids]
    mine = with_withdrawn(now, names, marked=[9], erased={3: b""}, key=KEY, name="here")
    VerifiedPool(mine, KEY, lambda: stored, besides=["r9"]).check(name="here")
    with pytest.raises(PoolChanged):
        VerifiedPool(mine, KEY, lambda: stored).check(name="here")


def test_a_record_that_was_never_enrolled_is_refused():
    with pytest.raises(PoolChanged):
        verified(pool_of(31), pool_of(30)).check(name="here")


def test_broken_records_of_joined_and_withdrawn_pools_are_told_by_their_rows():
    """They were scored as blanks, not as nulls: who scores asks the rows which of them could be read."""
    numbers = np.ones((10, 2), dtype=np.float32)
    numbers[4] = np.nan
    broken = ArrayPool(ids=[f"a{place}" for place in range(10)], x=numbers)
    whole = ArrayPool(ids=[f"b{place}" for place in range(10)], x=np.ones((10, 2), dtype=np.float32))
    joined = JoinedPool([whole, broken])
    assert np.flatnonzero(~joined.x.readable(slice(0, 20))[1]).tolist() == [14]
    assert np.flatnonzero(~joined.x.readable(np.arange(20))[1]).tolist() == [14]
    names = [KEY.withdrawn_id(name) if name == "a1" else name for name in broken.ids]
    mine = with_withdrawn(broken, names, marked=[], erased={1: b""}, key=KEY, name="here")
    assert np.flatnonzero(~mine.x.readable(slice(0, 10))[1]).tolist() == [1, 4]
