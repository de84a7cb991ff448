"""Files with bytes changed or cut off are read or refused; nothing else comes of them."""

import random

import pytest
from pool_files import COUNT, FILES

from discreet.errors import BadInput
from discreet.pools import open_pool


def damaged(whole, rng):
    content = bytearray(whole)
    for _ in range(rng.choice([1, 2, 5])):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content[: rng.randrange(len(content))] if rng.random() < 0.2 else content)


@pytest.mark.parametrize("name", [name for name in FILES if name != "images"])
def test_damaged_files_are_read_or_refused(name, tmp_path):
    write, file, options = FILES[name]
    plain = {"compression": "uncompressed"} if "arrow" in name else {}  # what is mapped is least checked
    whole = write(tmp_path / file, **plain).read_bytes()
    rng, path, ends = random.Random(5), tmp_path / f"damaged-{file}", set()
    for _ in range(25):
        path.unlink(missing_ok=True)  # never changed below the feet of the pool before
        path.write_bytes(damaged(whole, rng))
        try:
            pool = open_pool(path, **options, size=COUNT)
            ends.add(len(pool.x[:]) + len(pool.rows([0])))
        except BadInput as refused:
            assert refused.remedy
            ends.add("refused")
    assert "refused" in ends
    assert len(ends) <= 2  # what was not refused has all its records
