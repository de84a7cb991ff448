"""The map `image-encoder`: the vector that a frozen network makes of a picture or of another array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from discreet.checks import either, listed, number, text, whole
from discreet.errors import BadInput
from discreet.features.encoders import (
    ENCODER,
    NO_ENCODER,
    PRETRAINING,
    FrozenEncoder,
    hashes_of,
    one_vector,
    place_and_options,
)
from discreet.features.feature_map import (
    UNIT_LENGTH,
    ArrayMap,
    FeatureRequest,
    Features,
    at_length_one,
    checked_shape,
)
from discreet.models.encoders import one_thread
from discreet.models.image_encoders import ImageNetwork, kind_of, open_network, refuse_mixing, vectors_of
from discreet.parts import Option, Part

SIDE, NUMBERS = whole(1, 4096), listed(number(-1e6, 1e6), least=1, most=64)


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
        vector = one_vector(self.network.run, self.prepared(records), self.width)
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


def _resized(pictures: Features, sides: Any) -> Features:
    import torch
    from torch.nn.functional import interpolate

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


def _built_image(request: FeatureRequest) -> ImageEncoder:
    place, options = place_and_options(request, "image-encoder")
    return image_encoder(place, request.record_shape("image-encoder"), **options)


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
)
