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
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.checks import Wrong, either, listed, number, shown, text, truth, whole
from discreet.errors import BadInput, alternatives
from discreet.features.feature_map import (
    ROUNDING,
    UNIT_LENGTH,
    ArrayMap,
    FeatureMap,
    FeatureRequest,
    Features,
    at_length_one,
    checked,
    checked_shape,
    in_threads,
)
from discreet.models.encoders import SentenceEncoder
from discreet.models.image_encoders import (
    ImageNetwork,
    Run,
    is_named,
    kind_of,
    named_callable,
    open_network,
    refuse_mixing,
    vectors_of,
)
from discreet.parts import Option, Part
from discreet.pools.rows import Mask
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
_AT_ONCE = 256
_STATEMENT = re.compile(r"[A-Za-z0-9 ._:/+()*-]{1,120}", re.ASCII)
MAX_LENGTH, SIDE, NUMBERS = whole(3, 100_000), whole(1, 4096), listed(number(-1e6, 1e6), least=1, most=64)


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


# -- pictures and other arrays


@dataclass(frozen=True, kw_only=True)
class ImageEncoder(FrozenEncoder, ArrayMap):
    """Of pictures (rows, columns) or (channels, rows, columns), or of arrays that a function or an ONNX file takes.

    model      the network's name in timm, for a file of weights
    output     which output of an ONNX file
    resize     rows and columns that a picture is brought to (bilinear, with antialiasing)
    channels   that the encoder takes: grey pictures are repeated
    mean, std  of a channel: (value - mean) / std
    """

    name = "image-encoder"
    block = 1
    input_shape: tuple[int, ...]
    model: str | None = None
    output: str | None = None
    resize: tuple[int, int] | None = None
    channels: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("mean", "std", *(() if self.resize is None else ("resize",))):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "input_shape", checked_shape(self.input_shape, self.name))
        is_picture = len(self.input_shape) in (2, 3)
        asked = f"{self.name} features of records of shape {self.input_shape}"
        if not is_picture and (self.resize or self.channels or self.mean or self.std):
            raise BadInput(
                asked, "they are not pictures", "Declare shape = [3, 224, 224], or name a function of arrays"
            )
        has = self.input_shape[0] if len(self.input_shape) == 3 else 1
        if self.channels not in (None, has) and has != 1:
            fact = f"they have {has} channels, and the encoder takes {self.channels}"
            raise BadInput(asked, fact, "Store pictures with as many channels, or grey ones")
        if any(len(values) not in (0, 1, self.channels or has) for values in (self.mean, self.std)):
            raise BadInput(f"{asked} with mean and std", "there is not one a channel", "Give one number, or one each")
        if any(value <= 0 for value in self.std):
            raise BadInput(f"{asked} with std", "one is not above 0", "Give the encoder's own")

    def options(self) -> dict[str, Any]:
        """Everything but where the encoder is."""
        values = super().options()
        return {"shape": values.pop("input_shape")} | values

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The inverse of `options`."""
        return super().from_options({"input_shape" if key == "shape" else key: part for key, part in options.items()})

    def features(self, records: Features) -> Features:
        """Of one record."""
        vector = _one_vector(self.network.run, self.prepared(records), self.width)
        return at_length_one(vector) if self.unit_length else vector

    @cached_property
    def network(self) -> ImageNetwork:
        """The opened encoder."""
        return _opened(self._verified(), self.kind, self.model, self.output, tuple(self.files.items()))

    def prepared(self, records: Features) -> Features:
        """Records as the encoder takes them."""
        if not (self.channels or self.resize or self.mean or self.std):
            return records
        pictures = records.reshape(len(records), -1, *self.input_shape[-2:])
        if self.channels is not None:
            pictures = np.repeat(pictures, self.channels // pictures.shape[1], axis=1)
        if self.resize not in (None, pictures.shape[2:]):
            pictures = _resized(pictures, self.resize)
        if self.mean:
            pictures = pictures - np.array(self.mean, dtype=np.float32)[:, None, None]
        if self.std:
            pictures = pictures / np.array(self.std, dtype=np.float32)[:, None, None]
        return np.ascontiguousarray(pictures, dtype=np.float32)

    def torch_module(self) -> Any:
        """Preparation, network and length 1; None of an ONNX file and of a function."""
        if self.network.module is None:
            return None
        import torch

        outer, blank = self, torch.zeros(1, *self.input_shape)

        class Encoded(torch.nn.Module):
            mean: torch.Tensor
            std: torch.Tensor

            def __init__(self) -> None:
                super().__init__()
                self.network = outer.network.module
                self.register_buffer("mean", torch.tensor(outer.mean or (0.0,))[:, None, None])
                self.register_buffer("std", torch.tensor(outer.std or (1.0,))[:, None, None])

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                pictures = x if x.ndim == 4 else x.unsqueeze(1)
                if outer.channels not in (None, pictures.shape[1]):
                    pictures = pictures.repeat(1, outer.channels, 1, 1)
                if outer.resize not in (None, blank.shape[-2:]):
                    pictures = torch.nn.functional.interpolate(pictures, outer.resize, mode="bilinear", antialias=True)
                vectors: torch.Tensor = self.network((pictures - self.mean) / self.std)
                return torch.nn.functional.normalize(vectors, dim=1) if outer.unit_length else vectors

        return Encoded()

    def probe(self) -> None:
        """Refuse an encoder that mixes records."""
        words = np.random.Philox(key=0).random_raw(3 * int(np.prod(self.input_shape)))
        made_up = (words >> np.uint64(40)).astype(np.float32).reshape(3, *self.input_shape) / np.float32(2**24)
        made_up[1] *= 100
        if self.network.batch != 1:
            refuse_mixing(self.network.run, self.prepared(made_up[: self.network.batch]), f"{self.name} features")


def _one_vector(run: Run, record: Any, width: int) -> Features:
    """The vector of one record; where the encoder fails on it, no numbers, which is a null. It took others before."""
    try:
        vector = vectors_of(run, record, "a record")
    except BadInput:
        vector = np.zeros((0, 0), dtype=np.float32)
    return vector if vector.shape == (1, width) else np.full((1, width), np.nan, dtype=np.float32)


def _resized(pictures: Features, sides: Any) -> Features:
    import torch
    from torch.nn.functional import interpolate

    from discreet.models.encoders import one_thread

    with one_thread():
        resized = interpolate(torch.tensor(pictures), tuple(sides), mode="bilinear", antialias=True)
    return np.asarray(resized.numpy())


@lru_cache(maxsize=2)
def _opened(
    encoder: Path | str, kind: str, model: str | None, output: str | None, _files: tuple[tuple[str, str], ...]
) -> ImageNetwork:
    """Opened once in a process: an encoder is large."""
    return open_network(encoder, kind, model=model, output=output)


def image_encoder(encoder: Path | str, shape: tuple[int, ...], **options: Any) -> ImageEncoder:
    """The map by the encoder at a path, for records of this shape; what is not said is what the encoder says."""
    kind, files = kind_of(encoder), hashes_of(encoder)
    model, output = options.pop("model", None), options.pop("output", None)
    network = _opened(encoder, kind, model, output, tuple(files.items()))
    resize = options.pop("resize", None)
    sides = network.sides if resize is None else tuple(resize) if isinstance(resize, list | tuple) else (resize, resize)
    declared = ImageEncoder(
        encoder=encoder,
        kind=kind,
        files=files,
        width=1,
        input_shape=shape,
        model=model,
        output=output,
        resize=sides,
        channels=network.channels,
        mean=tuple(options.pop("mean", network.mean)),
        std=tuple(options.pop("std", network.std)),
        **options,
    )
    blank = declared.prepared(np.zeros((1, *declared.input_shape), dtype=np.float32))
    width = vectors_of(network.run, blank, f"the encoder {Path(encoder).name}").shape[1]
    feature_map = replace(declared, width=width)
    feature_map.probe()
    return feature_map


# -- texts


@dataclass(frozen=True, kw_only=True)
class TextEncoder(FrozenEncoder):
    """Of texts. ``max_length``: the most tokens that are read of one."""

    name = "text-encoder"
    reads = "texts"
    max_length: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(f"{self.name} features", {"max_length": (MAX_LENGTH, self.max_length)})

    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of texts, and which records are texts: others are nulls. Audience: owner."""
        if isinstance(batch, str) or not hasattr(batch, "__len__"):
            raise BadInput(f"{self.name} features", "the records are not a list of texts", "Put them in a list")
        fine = np.array([isinstance(words, str) for words in batch], dtype=bool)
        values = np.zeros((len(batch), self.width), dtype=np.float32)
        places, run = np.flatnonzero(fine), self._run

        def compute(some: NDArray[np.int64]) -> None:
            for place in some.tolist():
                values[place] = _one_vector(run, [str(batch[place])], self.width)[0]

        in_threads([(compute, places[start : start + _AT_ONCE]) for start in range(0, len(places), _AT_ONCE)])
        fine &= np.isfinite(values).all(axis=1)
        values[~fine] = 0
        return (at_length_one(values) if self.unit_length else values), fine

    @cached_property
    def _run(self) -> Run:
        return _opened_texts(self._verified(), self.kind, self.max_length, tuple(self.files.items()))

    def probe(self) -> None:
        """Refuse an encoder that mixes records."""
        refuse_mixing(self._run, ["a text", "another and much longer text, of many words", ""], f"{self.name} features")


@lru_cache(maxsize=2)
def _opened_texts(encoder: Path | str, kind: str, max_length: int, _files: tuple[tuple[str, str], ...]) -> Run:
    if kind == "callable":
        return named_callable(str(encoder))
    return SentenceEncoder(encoder, max_length=max_length, normalise=False).embed


def text_encoder(encoder: Path | str, **options: Any) -> TextEncoder:
    """The map by the encoder in a local directory, or by a function of a list of texts."""
    kind, files = "callable" if is_named(encoder) and not Path(encoder).exists() else "transformers", {}
    if kind == "transformers":
        SentenceEncoder(encoder)  # refuses what is no directory of a model
    files = hashes_of(encoder)
    run = _opened_texts(encoder, kind, options.get("max_length", 128), tuple(files.items()))
    width = vectors_of(run, ["a text"], f"the encoder {Path(encoder).name}").shape[1]
    feature_map = TextEncoder(encoder=encoder, kind=kind, files=files, width=width, **options)
    feature_map.probe()
    return feature_map


def encoder_place(directory: Path, encoder: str) -> Path | str:
    """Where an encoder is that is named in a file of this directory: a path, or ``module:callable``."""
    place = directory / encoder
    return encoder if is_named(encoder) and not place.exists() else place


def _place_and_options(request: FeatureRequest, name: str) -> tuple[Path | str, dict[str, Any]]:
    options = dict(request.options)
    encoder = options.pop("encoder", None)
    if encoder is None:
        raise BadInput(f"{name} features", *NO_ENCODER)
    return encoder_place(request.directory, encoder), options


def _built_image(request: FeatureRequest) -> ImageEncoder:
    place, options = _place_and_options(request, "image-encoder")
    return image_encoder(place, request.record_shape("image-encoder"), **options)


def _built_text(request: FeatureRequest) -> TextEncoder:
    place, options = _place_and_options(request, "text-encoder")
    return text_encoder(place, **options)


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

PARTS = (
    Part(
        kind="feature",
        name="image-encoder",
        summary="pictures or arrays: the vector of a frozen encoder (transformers, timm, ONNX, a function)",
        build=_built_image,
        options=(
            ENCODER,
            PRETRAINING,
            Option(
                name="resize",
                check=either(SIDE, int, listed(SIDE, least=2, most=2, such_as="[224, 224]")),
                type="whole number, or [rows, columns]",
                default="the encoder's own size",
                meaning="of the picture that the encoder sees",
            ),
            Option(name="mean", check=NUMBERS, type="list", default="the encoder's own", meaning="of each channel"),
            Option(name="std", check=NUMBERS, type="list", default="the encoder's own", meaning="of each channel"),
            Option(name="model", check=text(), type="text", meaning="its name in timm, for a file of weights"),
            Option(name="output", check=text(), type="text", default="the first", meaning="of an ONNX file"),
            UNIT_LENGTH,
        ),
        required={"encoder": NO_ENCODER},
        reads=(),
        makes=(ImageEncoder,),
    ),
    Part(
        kind="feature",
        name="text-encoder",
        summary="texts: the vector of a frozen sentence encoder",
        build=_built_text,
        options=(
            ENCODER,
            PRETRAINING,
            Option(
                name="max_length", check=MAX_LENGTH, type="whole number", default="128", meaning="the most tokens read"
            ),
            UNIT_LENGTH,
        ),
        required={"encoder": NO_ENCODER},
        reads=(),
        makes=(TextEncoder,),
    ),
)
