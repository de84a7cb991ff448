"""CheXpert's table and pictures in their published format, on tiny files."""

import numpy as np
import pytest
from PIL import Image

from discreet.errors import BadInput
from discreet.testing import check_pool
from discreet.trainers.dp_sgd import chexpert_targets
from discreet_research.data_sets.chexpert import COLUMNS, OBSERVATIONS, read_chexpert

ROWS = [  # patient, study, view, side, three observations in front, the others blank
    ("patient00001", 1, "view1_frontal", "Frontal", ["1.0", "", "0.0"]),
    ("patient00002", 2, "view1_frontal", "Frontal", ["", "-1.0", "1.0"]),
    ("patient00002", 1, "view2_lateral", "Lateral", ["", "", "-1.0"]),
    ("patient00005", 1, "view1_frontal", "Frontal", ["0.0", "1.0", ""]),
]


def path_of(row, folder="CheXpert-v1.0-small"):
    return f"{folder}/train/{row[0]}/study{row[1]}/{row[2]}.jpg"


def table(rows=ROWS, columns=COLUMNS, **cells):
    lines = [",".join(columns)]
    for row in rows:
        side = "AP" if row[3] == "Frontal" else ""
        told = (
            dict(zip(COLUMNS, [path_of(row), "Female", "68", row[3], side, *row[4], *[""] * 11], strict=True)) | cells
        )
        lines.append(",".join(told[name] for name in columns))
    return "\n".join(lines) + "\n"


@pytest.fixture
def place(tmp_path):
    """As it is unpacked, and renamed; sizes differ as they do."""
    folder = tmp_path / "scans"
    for number, row in enumerate(ROWS):
        file = tmp_path / path_of(row, "scans")
        file.parent.mkdir(parents=True)
        Image.new("L", (39 + number, 32), color=40 * (number + 1)).save(file)
    (folder / "train.csv").write_text(table())
    return folder


def test_pictures_go_by_their_paths_and_belong_to_patients(place):
    found = read_chexpert(place / "train.csv", shape=(16, 20), scale=255.0)
    pool = found.pool
    assert pool.ids == [path_of(row) for row in ROWS]
    assert pool.persons == ["patient00001", "patient00002", "patient00002", "patient00005"]
    assert pool.x.shape == (4, 16, 20)
    assert np.allclose(pool.x[2], 120 / 255, atol=0.01)
    assert not pool.broken(slice(None)).any()
    assert found.frontal.tolist() == [True, True, False, True]
    check_pool(pool)


def test_uncertain_labels_are_read_as_is_said(place):
    found = read_chexpert(place / "train.csv", shape=(8, 8))
    assert found.labels.shape == (4, 14)
    nan = np.nan
    expected = {
        ("u-zeros", "negative"): [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0]],
        ("u-ones", "negative"): [[1, 0, 0], [0, 1, 1], [0, 0, 1], [0, 1, 0]],
        ("missing", "negative"): [[1, 0, 0], [0, nan, 1], [0, 0, nan], [0, 1, 0]],
        ("u-ones", "missing"): [[1, nan, 0], [nan, 1, 1], [nan, nan, 1], [0, 1, nan]],
    }
    for (uncertain, blank), first in expected.items():
        targets = found.targets(uncertain=uncertain, blank=blank)
        assert np.array_equal(targets[:, :3], np.array(first, dtype=np.float32), equal_nan=True)
    with pytest.raises(TypeError):
        found.targets()  # never by default
    with pytest.raises(BadInput, match="u-maybe"):
        found.targets(uncertain="u-maybe")
    smooth = chexpert_targets(found.labels, OBSERVATIONS, positive=[], smoothing=0.2)
    assert smooth[1, 1] == np.float32(0.1)


def test_a_picture_that_cannot_be_read_is_a_null_record(place):
    (place.parent / path_of(ROWS[0], "scans")).write_bytes(b"\xff\xd8\xff not a picture, patient says hello")
    (place.parent / path_of(ROWS[1], "scans")).unlink()
    whole = (place.parent / path_of(ROWS[2], "scans")).read_bytes()
    (place.parent / path_of(ROWS[2], "scans")).write_bytes(whole[: len(whole) // 3])
    pool = read_chexpert(place / "train.csv", shape=(8, 8)).pool
    assert len(pool) == 4
    assert pool.broken(slice(None)).tolist() == [True, True, True, False]
    assert not pool.x[0].any()


def test_a_path_does_not_lead_out_of_the_folder(place):
    Image.new("L", (9, 9), color=200).save(place.parent / "elsewhere.jpg")
    lines = table().replace(path_of(ROWS[3]), "CheXpert/train/patient00005/../../../elsewhere.jpg")
    (place / "train.csv").write_text(lines)
    pool = read_chexpert(place / "train.csv", shape=(8, 8)).pool
    assert pool.broken([3]).tolist() == [True]
    assert not pool.x[3].any()


@pytest.mark.parametrize("missing", ["Path", "Sex", "Frontal/Lateral", "Pleural Other"])
def test_a_table_without_a_column_is_refused(place, missing):
    (place / "train.csv").write_text(table(columns=[name for name in COLUMNS if name != missing]))
    with pytest.raises(BadInput, match=missing):
        read_chexpert(place / "train.csv", shape=(8, 8))


@pytest.mark.parametrize(
    "content",
    [
        "",
        ",".join(COLUMNS) + "\n",
        table(Edema="yes, a secret"),
        table(Edema="2.0"),
        table(Edema="nan"),
        table(Path="secret.jpg"),
        table(Path="CheXpert/train/secret/view1.jpg"),
        table([ROWS[0], ROWS[0]]),
        table() + "CheXpert/train/patient1/x.jpg,secret\n",
        table() + path_of(ROWS[0]) + "," * 30 + "\n",
        '"' + table(),
    ],
)
def test_tables_that_are_not_so_are_refused_without_their_cells(place, content):
    (place / "train.csv").write_text(content)
    with pytest.raises(BadInput, match=r"train\.csv") as refused:
        read_chexpert(place / "train.csv", shape=(8, 8))
    assert "secret" not in str(refused.value)
    assert "patient0" not in str(refused.value)


def test_bytes_that_are_no_text_and_shapes_that_are_none(place):
    for shape in ((8,), (0, 8), (8, 8, 3), (8.5, 8)):
        with pytest.raises(BadInput, match="height and width"):
            read_chexpert(place / "train.csv", shape=shape)
    with pytest.raises(BadInput, match="size = 7"):
        read_chexpert(place / "train.csv", shape=(8, 8), size=7)
    (place / "train.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"train\.csv"):
        read_chexpert(place / "train.csv", shape=(8, 8))
