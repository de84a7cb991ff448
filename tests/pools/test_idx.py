import gzip
import struct

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.pools.array_files import read_idx

TABLE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


def written(path, values, code, *, packed=False, broken=0):
    kind = {0x08: ">u1", 0x0C: ">i4", 0x0E: ">f8"}[code]
    head = bytes([0, 0, code, values.ndim]) + b"".join(struct.pack(">I", size) for size in values.shape)
    content = head + values.astype(kind).tobytes()
    content = content[: len(content) - broken]
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("code", [0x08, 0x0C, 0x0E])
def test_what_was_written_is_read(tmp_path, code, packed):
    found = read_idx(written(tmp_path / "a", TABLE, code, packed=packed))
    assert (found == TABLE).all()
    assert found.shape == TABLE.shape
    assert found.dtype.isnative


def test_nonsense_is_refused_in_words(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        read_idx(tmp_path / "nothing")
    for content in (
        b"",
        b"\0\0",
        b"PNG and so on",
        b"\0\0\x08\x02\0\0",
        gzip.compress(b"\0\0\x08\x01")[:-3],
        b"\x1f\x8bx",
    ):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(BadInput):
            read_idx(tmp_path / "a")
    with pytest.raises(BadInput, match="more or fewer"):
        read_idx(written(tmp_path / "a", TABLE, 0x0C, broken=1))
