"""Small files that unpack to large arrays: refused by their headers, before they are unpacked."""

import gzip
import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.pools import array_files as archives
from discreet.pools import open_pool
from discreet.pools.array_files import read_idx
from discreet.trainers.students.stored import student_from_bytes
from discreet.trainers.teachers import read_votes
from discreet.trainers.text_classifier import TextClassifier

MEGABYTE = 1 << 20


def peak(act):
    """What ``act`` allocates at most, in megabytes."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()


def written(path, shape, ids=40):
    np.savez_compressed(path, x=np.zeros(shape, dtype=np.float32), id=np.arange(ids))
    assert path.stat().st_size < MEGABYTE
    return path


@pytest.mark.parametrize(
    ("shape", "options"),
    [((10**6, 100), {"size": 40}), ((40, 2_500_000), {"size": 40, "shape": (4,)})],
    ids=["more rows than declared", "wider rows than declared"],
)
def test_a_compressed_array_is_compared_with_what_is_declared_before_it_is_unpacked(tmp_path, shape, options):
    path = written(tmp_path / "pool.npz", shape)

    def act():
        with pytest.raises(BadInput, match="declared"):
            open_pool(path, kind="npz", id="id", array="x", **options)

    assert peak(act) < 20


def test_a_compressed_array_of_more_than_we_unpack(tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.pools.array_files.MOST_UNPACKED", MEGABYTE)
    path = written(tmp_path / "pool.npz", (40, 10**5))
    with pytest.raises(BadInput, match="15 MB") as refused:
        open_pool(path, kind="npz", id="id", array="x", size=40)
    assert "numpy.savez" in refused.value.remedy


def test_a_header_that_says_more_than_the_archive(tmp_path):
    """An array of a petabyte in a hundred bytes: its memory is not asked for."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (40, 10**12)})
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("format.npy", header.getvalue())
    path = tmp_path / "pool.npz"
    path.write_bytes(content.getvalue())
    with pytest.raises(BadInput, match="not an npz file"):
        open_pool(path, kind="npz", id="position", array="x", size=40)
    with pytest.raises(BadInput):
        read_votes(path)
    with pytest.raises(InvalidCheckpoint):
        student_from_bytes(content.getvalue(), estimator=None)
    with pytest.raises(InvalidCheckpoint):
        TextClassifier.from_bytes(content.getvalue())


def test_models_and_votes_that_unpack_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_UNPACKED", MEGABYTE)
    path = written(tmp_path / "votes.npz", (10**6, 40))

    def act():
        with pytest.raises(BadInput):
            read_votes(path)
        with pytest.raises(InvalidCheckpoint):
            student_from_bytes(path.read_bytes(), estimator=None)

    assert peak(act) < 10


def test_gzip_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.pools.array_files.MOST_UNPACKED", MEGABYTE)
    (tmp_path / "images").write_bytes(gzip.compress(bytes(100 * MEGABYTE)))

    def act():
        with pytest.raises(BadInput, match="two gigabytes"):
            read_idx(tmp_path / "images")

    assert peak(act) < 10
