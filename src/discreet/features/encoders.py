"""Feature maps by a frozen encoder with public weights: the vector that it makes of a picture, an array or a text.

The encoder is a local file or directory, or a function of your own; nothing is downloaded. Records are computed one by
one, each by one thread, so that neighbours have no way into a record's features; a file whose batch is fixed at more
than one record is filled up with zeros.

What is stored and certified of an encoder is the SHA-256 of its files, never where they are: a map that was read back
is told with `FeatureMap.located`. The hash is compared when the encoder is opened. It vouches for the weights; that
their pre-training excluded the private records is the user's word (``pretraining``), which a certificate repeats.
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np

from discreet.checks import Wrong, shown, text, truth, whole
from discreet.errors import BadInput, alternatives
from discreet.features.feature_map import ROUNDING, FeatureMap, FeatureRequest, Features, checked
from discreet.models.image_encoders import Run, is_named, vectors_of
from discreet.parts import Option
from discreet.privacy.ledger.charges import canonical

READ = (".json", ".txt", ".model", ".safetensors")
"""Ends of the files of an encoder's directory that are read, hashed and exported: no code and no pickles."""
NOT_STATED = "not stated"
_PACKAGES = {
    "callable": ("numpy",),
    "onnx": ("numpy", "onnxruntime"),
    "timm": ("numpy", "torch", "timm"),
    "transformers": ("numpy", "torch", "transformers", "tokenizers"),
}
_STATEMENT = re.compile(r"[A-Za-z0-9 ._:/+()*-]{1,120}", re.ASCII)


def _statement(value: Any) -> str:
    """What a certificate can repeat."""
    words: str = text(what="a statement")(value)
    if not _STATEMENT.fullmatch(words):
        fact = "a certificate takes at most 120 letters, digits, spaces and . _ : / + ( ) * -"
        raise Wrong(fact, "Write pretraining = 'public data without these records'")
    return words


def encoder_files(encoder: Path | str) -> dict[str, Path]:
    """The files of an encoder by their names in it; of ``module:callable`` the module's source."""
    path, asked = Path(encoder), f"the encoder {str(encoder)!r}"
    if path.is_file():
        return {path.name: path}
    if path.is_dir():
        inside = {file.relative_to(path): file for file in sorted(path.rglob("*")) if file.suffix in READ}
        hidden = [name for name in inside if any(part.startswith(".") for part in name.parts)]
        return {name.as_posix(): file for name, file in inside.items() if name not in hidden and file.is_file()}
    if not is_named(encoder):
        raise BadInput(asked, "there is no such file or directory", "Name a local one, or module:callable")
    try:
        spec = find_spec(str(encoder).partition(":")[0])
    except (ImportError, ValueError):
        spec = None
    source = None if spec is None or spec.origin is None else Path(spec.origin)
    if source is None or source.suffix != ".py" or not source.is_file():
        raise BadInput(asked, "its module has no source here, whose hash a certificate would name", "Put it in a file")
    return {str(encoder): source}


@lru_cache(maxsize=8)
def _sha256(path: Path, _size: int, _time: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes_of(encoder: Path | str) -> dict[str, str]:
    """The SHA-256 of every file of an encoder, by name."""
    files = encoder_files(encoder)
    return {name: _sha256(path, path.stat().st_size, path.stat().st_mtime_ns) for name, path in files.items()}


@dataclass(frozen=True, kw_only=True)
class FrozenEncoder(FeatureMap):
    """A map by an encoder.

    encoder       where it is: a path, or ``module:callable``; None: it was not said yet
    kind          "transformers", "timm", "onnx" or "callable"
    files         the SHA-256 of each of its files
    width         how many numbers it gives
    unit_length   whether features have length 1
    pretraining   the user's statement of what it was trained on
    """

    encoder: Path | str | None = field(default=None, compare=False)
    kind: str
    files: Mapping[str, str]
    width: int
    unit_length: bool = True
    pretraining: str | None = None

    def __post_init__(self) -> None:
        asked = f"{self.name} features"
        checked(asked, {"width": (whole(1, 10**7), self.width), "unit_length": (truth, self.unit_length)})
        if self.pretraining is not None:
            checked(asked, {"pretraining": (_statement, self.pretraining)})
        if self.kind not in _PACKAGES:
            raise BadInput(asked, f"there is no encoder of kind {shown(self.kind)}", alternatives("", _PACKAGES))
        hashes = list(self.files.values()) if isinstance(self.files, Mapping) else []
        if not hashes or not all(isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) for value in hashes):
            raise BadInput(asked, "files does not give the SHA-256 of the encoder's files", "Name the encoder")

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One axis."""
        return (self.width,)

    @property
    def norm_bound(self) -> float | None:
        """1, where vectors are normalised."""
        return ROUNDING if self.unit_length else None

    def options(self) -> dict[str, Any]:
        """Everything but where the encoder is."""
        values = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "encoder"}
        listed_values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return listed_values | {"files": dict(self.files)}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The inverse of `options`; `located` then says where the encoder is."""
        if "encoder" in options:
            raise BadInput("a stored feature map", "it says where its encoder is", "Give what identity returned")
        return cls(**options)

    def located(self, encoder: Path | str) -> Self:
        """The same map, with its encoder there."""
        return replace(self, encoder=encoder)

    def place_in(self, folder: Path) -> Path:
        """Where the encoder is in a folder that holds its files, and nothing else."""
        return (
            folder / next(iter(self.files)) if list(self.files) != ["config.json"] and len(self.files) == 1 else folder
        )

    @property
    def packages(self) -> tuple[str, ...]:
        """Those that run the encoder."""
        return _PACKAGES[self.kind]

    def encoder_facts(self) -> dict[str, str]:
        """What a certificate says of the encoder."""
        weights = {name: value for name, value in self.files.items() if not name.endswith((".json", ".txt", ".model"))}
        weights = weights or dict(self.files)
        one = next(iter(weights.values()))
        return {
            "hash_of": "source of a module" if self.kind == "callable" else "weights",
            "sha256": one if len(weights) == 1 else hashlib.sha256(canonical(weights)).hexdigest(),
            "pretraining": self.pretraining or NOT_STATED,
        }

    def _verified(self) -> Path | str:
        """Where the encoder is, once its files have their hashes."""
        asked = f"{self.name} features"
        if self.encoder is None:
            raise BadInput(asked, "where the encoder is was not said", "Give it: feature_map.located(PATH)")
        if hashes_of(self.encoder) != dict(self.files):
            raise BadInput(
                f"{asked} by {Path(self.encoder).name}",
                "its files are not those that the map was made with",
                "Restore them, or make the map and what was learnt on it anew",
            )
        return self.encoder

    @abstractmethod
    def probe(self) -> None:
        """Refuse an encoder that mixes records."""


def one_vector(run: Run, record: Any, width: int) -> Features:
    """The vector of one record; where the encoder fails on it, no numbers, which is a null. It took others before."""
    try:
        vector = vectors_of(run, record, "a record")
    except BadInput:
        vector = np.zeros((0, 0), dtype=np.float32)
    return vector if vector.shape == (1, width) else np.full((1, width), np.nan, dtype=np.float32)


def encoder_place(directory: Path, encoder: str) -> Path | str:
    """Where an encoder is that is named in a file of this directory: a path, or ``module:callable``."""
    place = directory / encoder
    return encoder if is_named(encoder) and not place.exists() else place


def place_and_options(request: FeatureRequest, name: str) -> tuple[Path | str, dict[str, Any]]:
    """Where the named encoder is, and the other options of its map."""
    options = dict(request.options)
    encoder = options.pop("encoder", None)
    if encoder is None:
        raise BadInput(f"{name} features", *NO_ENCODER)
    return encoder_place(request.directory, encoder), options


def _path(value: Any) -> str:
    return str(text(what="a path")(str(value) if isinstance(value, Path) else value))


ENCODER = Option(
    name="encoder",
    check=_path,
    type="path, or module:callable",
    default="",
    meaning="a local file or directory with public weights, or a function of your own",
)
NO_ENCODER = ("no encoder is named", "Write encoder = 'DIRECTORY', a local one")
PRETRAINING = Option(
    name="pretraining",
    check=_statement,
    type="text",
    default="not stated",
    meaning="your statement that the encoder's training excluded these records; the certificate repeats it",
)
