"""A keyed manifest notices every change of a record, and tells those without the key nothing.

A verified pool: what changed since it was enrolled is read as a null, and refused before anything is charged.
"""

import hashlib
import itertools
import pickle

import numpy as np
import pytest
from pool_files import COUNT, FILES, IDS, PERSONS, PIXELS, TEXTS

from discreet.errors import BadInput, PoolChanged
from discreet.pools import ArrayPool, JoinedPool, ManifestKey, VerifiedPool, compare, macs, open_pool, with_withdrawn

KEY = ManifestKey(bytes(range(32)))


def pool_of(*, ids=IDS, x=PIXELS, persons=PERSONS, text=TEXTS):
    return ArrayPool(ids=ids, x=x, persons=persons, text=text)


def changed(sequence, place, value):
    return [*sequence[:place], value, *sequence[place + 1 :]]


def test_nothing_differs_from_itself():
    found = compare(macs(pool_of(), KEY), pool_of(), KEY)
    assert not found
    assert repr(found) == "<Differences: 0 changed, 0 missing, 0 added>"


def test_every_change_of_a_record_is_noticed():
    stored = dict(macs(pool_of(), KEY))
    pixels = PIXELS.copy()
    pixels[7, 3, 2] ^= 1
    for other in (
        pool_of(x=pixels),
        pool_of(persons=changed(PERSONS, 7, "patient-x")),
        pool_of(text=changed(TEXTS, 7, TEXTS[7] + " ")),
        pool_of(text=changed(TEXTS, 7, TEXTS[7][:-1])),
    ):
        found = compare(stored, other, KEY)
        assert (found.changed, found.missing, found.added) == ((IDS[7],), (), ())
        assert IDS[7] not in repr(found)
    for other in (pool_of(persons=None), pool_of(text=None), pool_of(x=None), pool_of(x=PIXELS.astype(np.float32))):
        assert len(compare(stored, other, KEY).changed) == COUNT
    assert len(compare(stored, pool_of(x=PIXELS.reshape(COUNT, 3, 4)), KEY).changed) == COUNT


def test_missing_added_and_moved_records():
    stored = dict(macs(pool_of(), KEY))
    order = [*range(1, COUNT)][::-1]
    moved = pool_of(
        ids=[IDS[place] for place in order] + ["new"],
        x=PIXELS[[*order, 0]],
        persons=[PERSONS[place] for place in order] + ["patient-x"],
        text=[TEXTS[place] for place in order] + ["said"],
    )
    found = compare(stored, moved, KEY)
    assert (found.changed, found.missing, found.added) == ((), (IDS[0],), ("new",))
    assert repr(found) == "<Differences: 0 changed, 1 missing, 1 added>"
    swapped = pool_of(x=PIXELS[[1, 0, *range(2, COUNT)]])
    assert compare(stored, swapped, KEY).changed == tuple(IDS[:2])


def test_parts_of_a_record_do_not_run_into_each_other():
    """Each of these is another record, though their parts joined without lengths would be the same bytes."""
    records = [("a", "bc", "d"), ("ab", "c", "d"), ("a", "b", "cd"), ("a", None, "bcd"), ("a", "bcd", None)]
    records += [("abcd", None, None), ("a", "bcd", "")]
    codes = []
    for (name, person, text), x in itertools.product(records, (None, np.zeros((1, 4), np.uint8))):
        if text is not None or x is not None:
            persons, texts = None if person is None else [person], None if text is None else [text]
            codes += [code for _, code in macs(ArrayPool(ids=[name], x=x, persons=persons, text=texts), KEY)]
    assert len(set(codes)) == len(codes) > 10


def test_the_kind_of_file_does_not_matter_the_key_does(tmp_path):
    pools = []
    for name in ("npz", "npz packed", "parquet lists", "arrow lists"):
        write, file, options = FILES[name]
        (tmp_path / name).mkdir()
        pools.append(open_pool(write(tmp_path / name / file), **options))
    codes = [dict(macs(pool, KEY, rows=rows)) for pool, rows in zip(pools, (1, 7, 40, 1000), strict=True)]
    assert all(one == codes[0] for one in codes)
    assert not set(codes[0].values()) & {code for _, code in macs(pools[0], ManifestKey.fresh())}


def test_a_code_is_not_the_hash_of_anything_without_the_key():
    """Known answer: what is hashed, and that the key is in it."""
    pool = ArrayPool(ids=["a"], x=np.array([[1, 2]], np.uint8), persons=["p"])
    framed = b"".join(len(part).to_bytes(8, "little") + part for part in (b"|u1(2)", b"a"))
    content = framed + b"\1" + (1).to_bytes(8, "little") + b"p" + b"\0" + b"\1\2"
    keyed = hashlib.blake2b(content, key=bytes(range(32)), digest_size=16, person=b"manifest").digest()
    plain = hashlib.blake2b(content, digest_size=16, person=b"manifest").digest()
    assert list(macs(pool, KEY)) == [("a", keyed)]
    assert keyed != plain


def test_progress_is_told():
    seen = []
    list(macs(pool_of(), KEY, rows=15, progress=lambda done, size: seen.append((done, size))))
    assert seen == [(15, 40), (30, 40), (40, 40)]


def test_keys_are_kept_by_their_owner(tmp_path):
    key = ManifestKey.fresh()
    key.write(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    again = ManifestKey.read(tmp_path / "key")
    assert list(macs(pool_of(), again)) == list(macs(pool_of(), key))
    assert again.fingerprint == key.fingerprint != ManifestKey.fresh().fingerprint
    with pytest.raises(BadInput, match="a key already"):
        key.write(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(BadInput, match="others may read"):
        ManifestKey.read(tmp_path / "key")
    with pytest.raises(BadInput, match="cannot be opened"):
        ManifestKey.read(tmp_path / "nothing")
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(BadInput, match="32 bytes"):
        ManifestKey(b"short")
    assert repr(key) == "ManifestKey(...)"


def numbered_pool(size=30, *, changed=(), text=False):
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
    pool = numbered_pool()
    mine = verified(pool, pool)
    mine.check(name="here")
    assert np.array_equal(mine.x[:], pool.x[:])
    assert np.array_equal(mine.rows([4, 2]), pool.rows([4, 2]))
    assert not mine.broken(slice(None)).any()
    assert mine.public() == pool.public()


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("read_first", [False, True])
def test_a_changed_record_is_a_null_and_refused(text, read_first):
    mine = verified(numbered_pool(changed=[7], text=text), numbered_pool(text=text))
    if read_first:
        rows = mine.rows(slice(5, 10))
        assert [not np.any(row) if not text else row == "" for row in rows] == [False, False, True, False, False]
    assert np.flatnonzero(mine.broken(slice(None))).tolist() == [7]
    with pytest.raises(PoolChanged) as refused:
        mine.check(name="here")
    assert "r7" not in str(refused.value)


def test_a_check_reads_only_what_nobody_read():
    pool, read = numbered_pool(3000), []

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
    before, now = numbered_pool(), numbered_pool(changed=[3, 9])
    stored = [(name, code) for name, code in macs(before, KEY) if name != "r3"]
    names = [KEY.withdrawn_id(name) if name == "r3" else name for name in before.ids]
    mine = with_withdrawn(now, names, marked=[9], erased={3: b""}, key=KEY, name="here")
    VerifiedPool(mine, KEY, lambda: stored, besides=["r9"]).check(name="here")
    with pytest.raises(PoolChanged):
        VerifiedPool(mine, KEY, lambda: stored).check(name="here")


def test_a_record_that_was_never_enrolled_is_refused():
    with pytest.raises(PoolChanged):
        verified(numbered_pool(31), numbered_pool(30)).check(name="here")


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
