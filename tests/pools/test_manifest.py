"""A keyed manifest notices every change of a record, and tells those without the key nothing."""

import hashlib
import itertools
import pickle

import numpy as np
import pytest
from pool_files import COUNT, FILES, IDS, PERSONS, PIXELS, TEXTS

from discreet.errors import BadInput
from discreet.pools import ArrayPool, ManifestKey, compare, macs, open_pool

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
