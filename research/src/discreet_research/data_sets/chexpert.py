"""CheXpert, chest X-rays of patients, as it is published (Irvin et al. 2019): train.csv, valid.csv, JPEGs beside.

Columns: Path, Sex, Age, Frontal/Lateral, AP/PA, then fourteen observations: 1.0 present, 0.0 absent, -1.0 uncertain,
blank where the report does not mention it. A path is CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg;
its first folder is the one the table is in, whatever that is called here. It is the record's id, and its patient the
person: a patient has several studies, a study several views, and a picture alone is not what is to be protected.

Pictures have many sizes, and a pool has one: each is brought to the declared shape, bilinearly, from itself alone. One
that is missing, broken, or named by a path that leads out of the folder is a null record: it keeps its place.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools import Pool, PoolDeclaration
from discreet.pools.checks import check_size, existing_file, ids_of, reading
from discreet.pools.images import ImageRows, require_pillow

OBSERVATIONS = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
COLUMNS = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *OBSERVATIONS)
UNCERTAIN = -1.0
Uncertain = Literal["u-zeros", "u-ones", "missing"]
Blank = Literal["negative", "missing"]
_CELLS = {"": np.nan, "1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "-1": UNCERTAIN, "-1.0": UNCERTAIN}
_PATH = re.compile(r"[^/]+/(?P<below>(?:train|valid|test)/(?P<patient>patient\d+)/.+)")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ChestPictures:
    """``pool``: pictures by path and patient. ``labels``: (n, 14), as the table has them, NaN where it is blank.

    ``frontal``: whether a picture was taken from the front. Audience: owner.
    """

    pool: Pool
    labels: NDArray[np.float32]
    frontal: NDArray[np.bool_]

    def targets(self, *, uncertain: Uncertain, blank: Blank = "negative") -> NDArray[np.float32]:
        """0, 1 and NaN (missing) a label, as trainers take them. Each row depends on itself alone.

        ``uncertain``: as absent (the paper's U-Zeros), as present (U-Ones), or left out of the loss (U-Ignore). For
        another reading a column, smoothed: `discreet.trainers.dp_sgd.chexpert_targets(labels, OBSERVATIONS)`.
        """
        if uncertain not in get_args(Uncertain) or blank not in get_args(Blank):
            raise BadInput(
                f"uncertain={uncertain!r}, blank={blank!r}",
                "labels cannot be read so",
                f"Choose of {', '.join(get_args(Uncertain))}; of {', '.join(get_args(Blank))}",
            )
        instead = {"u-zeros": 0.0, "u-ones": 1.0, "missing": np.nan}[uncertain]
        unsaid = np.float32(0.0 if blank == "negative" else np.nan)
        read = np.where(self.labels == UNCERTAIN, np.float32(instead), self.labels)
        return np.where(np.isnan(self.labels), unsaid, read).astype(np.float32)


def read_chexpert(
    path: Path | str, *, shape: tuple[int, int], center: float = 0.0, scale: float = 1.0, size: int | None = None
) -> ChestPictures:
    """The pictures of train.csv or valid.csv, brought to ``shape`` (height, width), grey; labels and patients."""
    require_pillow()
    file = existing_file(Path(path))
    asked = f"reading {file.name}"
    if len(shape) != 2 or any(type(side) is not int or side < 1 for side in shape):
        raise BadInput(asked, "shape is not height and width", "Declare shape = (320, 320), say")
    with reading(file):
        rows = _rows(file)
    check_size(asked, len(rows), size)
    matches = [_PATH.fullmatch(row["Path"]) for row in rows]
    if None in matches:
        raise _broken(file, f"{matches.count(None)} paths are not .../train/patientN/...")
    ids = ids_of([row["Path"] for row in rows], file.name)
    named = [match for match in matches if match is not None]
    declared = PoolDeclaration(
        kind="chexpert", id="Path", person="patient", shape=shape, center=center, scale=scale, size=size
    )
    below = [match["below"] for match in named]
    pictures = ResizedImageRows(file.parent, below, shape=shape, declared=declared)
    pool = Pool(ids=ids, x=pictures, persons=[match["patient"] for match in named], declared=declared)
    frontal = np.array([row["Frontal/Lateral"] == "Frontal" for row in rows], dtype=bool)
    return ChestPictures(pool=pool, labels=_labels(file, rows), frontal=frontal)


class ResizedImageRows(ImageRows):
    """Pictures of any size below a folder, each brought to one shape."""

    def _decode(self, path: Path, target: NDArray[Any]) -> bool:
        from PIL import Image

        try:
            if not path.resolve().is_relative_to(self._folder.resolve()):
                return False
            with Image.open(path, formats=("JPEG", "PNG")) as picture:
                grey = picture.convert("L").resize((target.shape[1], target.shape[0]), Image.Resampling.BILINEAR)
                target[...] = np.asarray(grey)
        except Exception:  # noqa: BLE001 - decoders fail in many ways, and their words quote the file
            return False
        return True


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
        if missing:
            raise _broken(path, f"there is no column {', '.join(missing)}")
        rows = list(table)
    short = sum(None in row or None in row.values() for row in rows)
    if short:
        raise _broken(path, f"{short} rows have more or fewer cells than columns")
    return rows


def _labels(path: Path, rows: list[dict[str, str]]) -> NDArray[np.float32]:
    cells = [[row[name].strip() for name in OBSERVATIONS] for row in rows]
    strange = sum(cell not in _CELLS for row in cells for cell in row)
    if strange:
        raise _broken(path, f"{strange} labels are none of 1.0, 0.0, -1.0 and blank")
    return np.array([[_CELLS[cell] for cell in row] for row in cells], dtype=np.float32)


def _broken(path: Path, fact: str) -> BadInput:
    return BadInput(f"reading {path.name}", fact, "Get the table again: train.csv or valid.csv of CheXpert")
