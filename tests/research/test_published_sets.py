"""MedMNIST, CIFAR-10 binary and SNLI in their published formats, on tiny files; broken ones are refused in words."""

import json

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet_research.bench.sets import read_set
from discreet_research.data_sets.image_files import ROW, TRAINING_FILES, read_cifar10, read_medmnist
from discreet_research.data_sets.snli import NO_LABEL, read_snli

# -- CIFAR-10, binary version


def cifar(path, classes, seed=0):
    chance = np.random.default_rng(seed)
    pictures = chance.integers(0, 256, (len(classes), 3, 32, 32)).astype(np.uint8)
    path.write_bytes(b"".join(bytes([one]) + picture.tobytes() for one, picture in zip(classes, pictures, strict=True)))
    return pictures


def test_a_row_of_cifar10_is_a_class_and_three_planes(tmp_path):
    pictures = cifar(tmp_path / "data_batch_1.bin", [3, 9, 0])
    content = (tmp_path / "data_batch_1.bin").read_bytes()
    assert len(content) == 3 * ROW == 3 * 3073
    x, y = read_cifar10(tmp_path / "data_batch_1.bin")
    assert y.tolist() == [3, 9, 0]
    assert np.array_equal(x, pictures)
    assert x[1, 2, 5, 7] == content[3073 + 1 + 2 * 1024 + 5 * 32 + 7]  # blue of the second picture


def test_several_files_of_cifar10_follow_each_other(tmp_path):
    parts = [cifar(tmp_path / name, [place], seed=place) for place, name in enumerate(TRAINING_FILES)]
    x, y = read_cifar10([tmp_path / name for name in TRAINING_FILES])
    assert y.tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(x, np.concatenate(parts))


def test_cifar10_files_that_are_not_so_are_refused(tmp_path):
    cifar(tmp_path / "whole.bin", [1, 2])
    whole = (tmp_path / "whole.bin").read_bytes()
    broken = {"cut.bin": whole[:-1], "longer.bin": whole + b"\0", "empty.bin": b"", "class.bin": b"\x0a" + whole[1:]}
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=name):
            read_cifar10(tmp_path / name)
    for missing in (tmp_path / "missing.bin", tmp_path, []):
        with pytest.raises(BadInput):
            read_cifar10(missing)


def test_the_bench_reads_cifar10_of_either_kind(tmp_path):
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for name in TRAINING_FILES[:4]:
        cifar(folder / name, [1, 2])
    cifar(folder / "test_batch.bin", [5])
    with pytest.raises(BadInput, match=r"cifar10\.npz is not in its directory"):
        read_set("cifar10", tmp_path)
    last = cifar(folder / TRAINING_FILES[4], [7])
    raw = read_set("cifar10", tmp_path)
    assert raw.x.shape == (9, 32, 32, 3)
    assert np.array_equal(raw.x[-1], last[0].transpose(1, 2, 0))
    assert raw.test_y.tolist() == [5]
    arrays = {"train_images": raw.x[:2], "train_labels": raw.y[:2]}
    np.savez(folder / "cifar10.npz", **arrays, test_images=raw.test_x, test_labels=raw.test_y)
    assert len(read_set("cifar10", tmp_path).y) == 2  # what was there before is taken as before


# -- MedMNIST


def medmnist(path, shape=(28, 28), columns=1, **changes):
    chance = np.random.default_rng(2)
    held = {}
    for part, count in (("train", 6), ("val", 2), ("test", 3)):
        held[f"{part}_images"] = chance.integers(0, 256, (count, *shape)).astype(np.uint8)
        held[f"{part}_labels"] = chance.integers(0, 2, (count, columns)).astype(np.uint8)
    held |= changes
    np.savez_compressed(path, **{name: value for name, value in held.items() if value is not None})
    return held


def test_medmnist_in_grey_and_in_colour(tmp_path):
    held = medmnist(tmp_path / "pneumoniamnist.npz")
    found = read_medmnist(tmp_path / "pneumoniamnist.npz")
    assert [len(found[part]) for part in ("train", "val", "test")] == [6, 2, 3]
    assert np.array_equal(found["val"].x, held["val_images"])
    assert found["train"].y.tolist() == held["train_labels"][:, 0].tolist()
    assert found["train"].y.ndim == 1
    held = medmnist(tmp_path / "pathmnist.npz", shape=(28, 28, 3))
    found = read_medmnist(tmp_path / "pathmnist.npz")
    assert found["test"].x.shape == (3, 3, 28, 28)
    assert found["test"].x[2, 1, 4, 9] == held["test_images"][2, 4, 9, 1]


def test_chestmnist_has_several_labels(tmp_path):
    held = medmnist(tmp_path / "chestmnist.npz", columns=14)
    found = read_medmnist(tmp_path / "chestmnist.npz")["train"]
    assert found.y.ndim == 2
    assert np.array_equal(found.y, held["train_labels"])


def test_volumes_are_refused_as_such(tmp_path):
    medmnist(tmp_path / "organmnist3d.npz", shape=(28, 28, 28))
    with pytest.raises(BadInput, match="3D"):
        read_medmnist(tmp_path / "organmnist3d.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"val_images": None},
        {"train_labels": None},
        {"train_images": np.zeros((6, 28, 28), dtype=np.float32)},
        {"train_images": np.zeros((6, 784), dtype=np.uint8)},
        {"train_labels": np.zeros((5, 1), dtype=np.uint8)},
        {"train_labels": np.zeros(6, dtype=np.uint8)},
        {"train_labels": np.zeros((6, 1), dtype=np.float64)},
        {"train_labels": np.full((6, 1), -3, dtype=np.int64)},
        {"train_labels": np.full((6, 14), 2, dtype=np.uint8)},
        {"train_labels": np.zeros((6, 14), dtype=np.uint8)},
        {"test_images": np.zeros((3, 64, 64), dtype=np.uint8)},
        {"train_labels": np.array([["a"]] * 6, dtype=object)},
    ],
)
def test_medmnist_files_that_are_not_so_are_refused(tmp_path, changes):
    medmnist(tmp_path / "x.npz", **changes)
    with pytest.raises(BadInput, match=r"x\.npz"):
        read_medmnist(tmp_path / "x.npz")


def test_medmnist_files_that_are_broken_are_refused(tmp_path):
    medmnist(tmp_path / "x.npz")
    whole = (tmp_path / "x.npz").read_bytes()
    np.save(tmp_path / "one.npz", np.zeros(3))
    (tmp_path / "one.npz").write_bytes((tmp_path / "one.npz.npy").read_bytes())
    flipped = bytearray(whole)
    flipped[200:260] = bytes(60)
    for name, content in (("cut", whole[: len(whole) // 2]), ("text", b"no"), ("empty", b""), ("flip", bytes(flipped))):
        (tmp_path / f"{name}.npz").write_bytes(content)
    for name in ("cut", "text", "empty", "flip", "one", "missing"):
        with pytest.raises(BadInput, match=name):
            read_medmnist(tmp_path / f"{name}.npz")


def test_medmnist_sets_are_sets_of_the_bench(tmp_path):
    for name, shape in (("path-mnist", (28, 28, 3)), ("organa-mnist", (28, 28))):
        (tmp_path / name).mkdir()
        medmnist(tmp_path / name / f"{name.replace('-', '')}.npz", shape=shape)
    assert read_set("path-mnist", tmp_path).x.shape == (6, 28, 28, 3)
    assert len(read_set("organa-mnist", tmp_path).test_y) == 3


# -- SNLI


def pair(number, label, **changes):
    """A line as it is published."""
    told = {
        "annotator_labels": [label],
        "captionID": f"34162356{number}.jpg#4",
        "gold_label": label,
        "pairID": f"34162356{number}.jpg#4r1n",
        "sentence1": f"A person on a horse jumps over {number} planes.",
        "sentence1_binary_parse": "( ( ( A person ) ... ) )",
        "sentence1_parse": "(ROOT (S (NP (NP (DT A) ...",
        "sentence2": "A person is training his horse.",
        "sentence2_binary_parse": "( ( A person ) ... )",
        "sentence2_parse": "(ROOT (S ...",
    }
    return {name: value for name, value in (told | changes).items() if value != "left out"}


def snli(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_pairs_have_ids_sentences_and_labels(tmp_path):
    labels = ["neutral", "contradiction", "-", "entailment"]
    found = read_snli(snli(tmp_path / "snli_1.0_train.jsonl", [pair(n, one) for n, one in enumerate(labels)]))
    assert found.y.tolist() == [1, 2, NO_LABEL, 0]
    assert found.ids[3] == "341623563.jpg#4r1n"
    assert found.premises[0] == "A person on a horse jumps over 0 planes."
    agreed = found.labelled()
    assert agreed.y.tolist() == [1, 2, 0]
    assert agreed.ids == [found.ids[place] for place in (0, 1, 3)]
    assert found.pool().text[1] == "A person on a horse jumps over 1 planes.\nA person is training his horse."
    assert "horse" not in repr(found) + repr(found.pool())


@pytest.mark.parametrize("damage", [None, 7, "", "  ", ["a"], "\ud800"])
def test_a_pair_without_a_sentence_is_a_null_record(tmp_path, damage):
    rows = [pair(0, "neutral"), pair(1, "neutral", sentence2=damage), pair(2, "entailment")]
    found = read_snli(snli(tmp_path / "x.jsonl", rows))
    pool = found.pool()
    assert len(pool) == 3
    assert pool.broken(slice(None)).tolist() == [False, True, False]
    assert pool.text[1] == ""


@pytest.mark.parametrize(
    "row",
    [
        pair(5, "maybe-a-secret"),
        pair(5, None),
        pair(5, ["neutral"]),
        pair(5, "neutral", pairID="left out"),
        pair(5, "neutral", sentence1="left out"),
        pair(5, "neutral", pairID=3.5),
        pair(5, "neutral", pairID="341623560.jpg#4r1n"),  # the first one's
        ["a-secret"],
    ],
)
def test_snli_files_that_are_not_so_are_refused_without_their_words(tmp_path, row):
    with pytest.raises(BadInput) as refused:
        read_snli(snli(tmp_path / "x.jsonl", [pair(0, "neutral"), row]))
    assert "secret" not in str(refused.value)
    assert "3416" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"gold_label": "neu', b"\xff\xfe\x00", b"[" * 100_000])
def test_snli_files_that_are_broken_are_refused(tmp_path, content):
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(BadInput, match=r"x\.jsonl"):
        read_snli(tmp_path / "x.jsonl")
