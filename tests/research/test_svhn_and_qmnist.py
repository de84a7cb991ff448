"""SVHN and QMNIST in their published formats, on tiny files."""

import gzip
import struct

import numpy as np
import pytest
from scipy.io import savemat

from discreet.errors import BadInput
from discreet_research.bench.sets import read_set
from discreet_research.data_sets.image_files import read_qmnist, read_svhn


def svhn(path, count=5, **changes):
    chance = np.random.default_rng(0)
    held = {"X": chance.integers(0, 256, (32, 32, 3, count)).astype(np.uint8)}
    held["y"] = np.array([[10], [1], [2], [9], [10]], dtype=np.uint8)[:count]
    savemat(path, held | changes)
    return held


def test_svhn_pictures_come_with_their_channels_first_and_ten_is_zero(tmp_path):
    held = svhn(tmp_path / "train_32x32.mat")
    x, y = read_svhn(tmp_path / "train_32x32.mat")
    assert x.shape == (5, 3, 32, 32)
    assert x.dtype == np.uint8
    assert y.tolist() == [0, 1, 2, 9, 0]
    assert x[2, 1, 7, 20] == held["X"][7, 20, 1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"X": np.zeros((32, 32, 3, 5))},
        {"X": np.zeros((32, 32, 5), dtype=np.uint8)},
        {"y": np.ones((4, 1))},
        {"y": np.full((5, 1), 11)},
        {"y": np.full((5, 1), 1.5)},
        {"y": np.array(["a"] * 5)},
    ],
)
def test_svhn_files_that_are_not_so_are_refused(tmp_path, changes):
    svhn(tmp_path / "x.mat", **changes)
    with pytest.raises(BadInput, match=r"x\.mat"):
        read_svhn(tmp_path / "x.mat")


def test_svhn_files_that_are_broken_are_refused(tmp_path):
    svhn(tmp_path / "x.mat")
    whole = (tmp_path / "x.mat").read_bytes()
    savemat(tmp_path / "other.mat", {"Z": 1})
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n")
    for name, content in (("cut.mat", whole[: len(whole) // 2]), ("text.mat", b"no"), ("empty.mat", b"")):
        (tmp_path / name).write_bytes(content)
    for name in ("cut.mat", "text.mat", "empty.mat", "other.mat", "new.mat", "missing.mat"):
        with pytest.raises(BadInput):
            read_svhn(tmp_path / name)


def idx(path, kind, array):
    head = bytes([0, 0, kind, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


def qmnist(place, part="test", count=6, **changes):
    chance = np.random.default_rng(1)
    x = chance.integers(0, 256, (count, 28, 28)).astype(np.uint8)
    table = np.column_stack([chance.integers(0, 10, count), *chance.integers(0, 9, (7, count))]).astype(">i4")
    idx(place / f"qmnist-{part}-images-idx3-ubyte.gz", 0x08, changes.get("x", x))
    idx(place / f"qmnist-{part}-labels-idx2-int.gz", 0x0C, changes.get("table", table))
    return x, table


def files(place, part="test"):
    return place / f"qmnist-{part}-images-idx3-ubyte.gz", place / f"qmnist-{part}-labels-idx2-int.gz"


def test_qmnist_has_classes_writers_and_series(tmp_path):
    x, table = qmnist(tmp_path)
    found = read_qmnist(*files(tmp_path))
    assert np.array_equal(found.x, x)
    assert found.y.tolist() == table[:, 0].tolist()
    assert found.series.tolist() == table[:, 1].tolist()
    assert found.writers.tolist() == table[:, 2].tolist()
    assert len(found.part(2, 4)) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"table": np.zeros((6, 7), dtype=">i4")},
        {"table": np.zeros((5, 8), dtype=">i4")},
        {"table": np.full((6, 8), 11, dtype=">i4")},
        {"x": np.zeros((6, 28), dtype=np.uint8)},
    ],
)
def test_qmnist_files_that_are_not_so_are_refused(tmp_path, changes):
    qmnist(tmp_path, **changes)
    with pytest.raises(BadInput, match="qmnist"):
        read_qmnist(*files(tmp_path))


def test_both_are_sets_of_the_bench(tmp_path, monkeypatch):
    monkeypatch.setattr("discreet_research.bench.sets.MNIST_TEST", 2)
    for name in ("svhn", "qmnist"):
        (tmp_path / name).mkdir()
    for part in ("train", "test"):
        svhn(tmp_path / "svhn" / f"{part}_32x32.mat")
        qmnist(tmp_path / "qmnist", part)
    pictures, digits = read_set("svhn", tmp_path), read_set("qmnist", tmp_path)
    assert pictures.x.shape == (5, 32, 32, 3)
    assert (len(digits.y), len(digits.test_y)) == (6 + 4, 2)
