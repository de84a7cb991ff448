"""Frozen networks that turn an array, above all a picture, into a vector: transformers, timm, ONNX, or your own.

Everything is read from the disk: nothing is downloaded, no code of a model's directory runs, no pickle is read. What is
read is in evaluation mode and in float32.

An ONNX file whose results for a record depend on the other records of a batch is refused: one with an operator that
finds a scale while it runs (dynamic quantisation) or draws at random, and one whose result for a made-up record is
another beside other neighbours. So is any other network that fails the second test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, require
from discreet.models.encoders import one_thread, read_quietly
from discreet.parts import Target

Floats = NDArray[np.float32]
Run = Callable[[Any], Any]
Kind = Literal["transformers", "timm", "onnx", "callable"]

# scales or numbers that are found while the network runs: over a whole batch, or at random
REFUSED_OPERATORS = frozenset(
    {
        "Bernoulli",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeLinear",
        "DynamicQuantizeMatMul",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
_CLOSE = 1e-3


@dataclass(frozen=True, kw_only=True)
class ImageNetwork:
    """A frozen network. ``run``: of records (n, *shape), their vectors (n, width).

    channels, sides   of the pictures that it takes; None: any
    mean, std         of a channel, that pictures in [0, 1] are normalised by
    batch             how many records it takes at once; None: any number
    module            the same as a module of torch, where it is one
    """

    run: Run
    channels: int | None = None
    sides: tuple[int, int] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    batch: int | None = None
    module: Any = None


def kind_of(encoder: str | Path) -> Kind:
    """What is at the path, or named."""
    path, asked = Path(encoder), f"the encoder {str(encoder)!r}"
    if path.suffix == ".onnx" and path.is_file():
        return "onnx"
    if path.suffix == ".safetensors" and path.is_file():
        return "timm"
    if (path / "config.json").is_file():
        return "timm" if "architecture" in _settings(path / "config.json", asked) else "transformers"
    if is_named(encoder):
        return "callable"
    raise BadInput(
        asked,
        "there is no .onnx or .safetensors file and no directory with a config.json, and nothing is downloaded",
        "Name a local file or directory, or module:callable",
    )


def is_named(encoder: str | Path) -> bool:
    """Whether this is ``module:callable`` and no path."""
    module, _, name = str(encoder).partition(":")
    return all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def open_network(
    encoder: str | Path, kind: str, *, model: str | None = None, output: str | None = None
) -> ImageNetwork:
    """The network. ``model``: its name in timm, for a file of weights. ``output``: the name of an ONNX file's."""
    asked = f"the encoder {str(encoder)!r}"
    if kind == "onnx":
        return _onnx(Path(encoder), asked, output)
    if kind == "timm":
        return _timm(Path(encoder), asked, model)
    if kind == "transformers":
        return _transformers(Path(encoder), asked)
    return ImageNetwork(run=named_callable(str(encoder)))


def named_callable(name: str) -> Run:
    """The function ``module:callable``."""
    try:
        function = Target(name).load()
    except Exception as problem:  # noqa: BLE001 - whatever a module of the user's does when it is imported
        fact = f"it cannot be imported ({type(problem).__name__})"
        raise BadInput(f"the encoder {name!r}", fact, "Give module:callable, importable from here") from None
    if not callable(function):
        raise BadInput(f"the encoder {name!r}", "it cannot be called", "Name a function of a batch of records")
    run: Run = function
    return run


def vectors_of(run: Run, records: Any, asked: str) -> Floats:
    """What ``run`` makes of records; an error that repeats none of them where it fails, or gives no vectors."""
    try:
        vectors = np.asarray(run(records), dtype=np.float32)
    except (BadInput, MemoryError):
        raise
    except Exception as problem:  # noqa: BLE001 - whatever a network does with records that it does not take
        fact = f"it does not take records of this shape ({type(problem).__name__})"
        raise BadInput(asked, fact, "Declare resize, or the shape that the encoder takes") from None
    if vectors.ndim != 2 or len(vectors) != len(records):
        fact = f"it gives an array of {vectors.ndim} axes, not one vector a record"
        raise BadInput(asked, fact, "Name another output (of an ONNX file: output), or pool before the end")
    return vectors


def refuse_mixing(run: Run, records: Any, asked: str) -> None:
    """Refuse a network whose vector of the first made-up record is another beside the others, or a second time."""
    alone = vectors_of(run, records[:1], asked)
    for company in (records, records[:1]):
        try:
            vectors = vectors_of(run, company, asked)
        except BadInput:
            continue  # it takes one record alone
        if not np.allclose(vectors[0], alone[0], rtol=_CLOSE, atol=_CLOSE * float(np.abs(alone).max()) + 1e-12):
            raise BadInput(
                asked,
                "what it makes of a record depends on the records beside it, or on what it saw before",
                "Export the network in evaluation mode, without layers or scales that span a batch",
            )


# -- transformers


def _transformers(directory: Path, asked: str) -> ImageNetwork:
    require("torch", extra="torch", asked=asked)
    require("transformers", extra="text", asked=asked)
    import torch

    model, missing = read_quietly(directory, asked)
    network = getattr(model, "vision_model", model)  # of a model of pictures and texts, the half of pictures
    lacking = sorted(name for name in missing if "pooler" not in name)
    if network is model and lacking:
        fact = f"{len(lacking)} of its tensors are in none of its files ({lacking[0]})"
        raise BadInput(asked, fact, "Give the directory of the whole model")
    if getattr(model, "main_input_name", "pixel_values") != "pixel_values" and network is model:
        raise BadInput(asked, "it reads no pictures", "Use text-encoder for a model of texts")
    settings = getattr(model.config, "vision_config", model.config)
    pooled = not missing

    class Vector(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            output = self.network(pixel_values=pictures)
            vector: torch.Tensor | None = getattr(output, "pooler_output", None) if pooled else None
            if vector is None:
                hidden: torch.Tensor = output.last_hidden_state
                vector = hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))
            return vector.flatten(1)

    file = directory / "preprocessor_config.json"
    reading = _settings(file, asked) if file.is_file() else {}
    return ImageNetwork(
        **_of_module(Vector()),
        channels=int(getattr(settings, "num_channels", 3)),
        sides=_sides(getattr(settings, "image_size", None)),
        mean=tuple(map(float, reading.get("image_mean") or ())),
        std=tuple(map(float, reading.get("image_std") or ())),
    )


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return (size, size)
    return (int(size[0]), int(size[1])) if isinstance(size, list | tuple) and len(size) == 2 else None


def _settings(file: Path, asked: str) -> dict[str, Any]:
    try:
        settings = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise BadInput(
            asked, f"its {file.name} is not a table in JSON", "Give a directory as save_pretrained writes it"
        )
    return settings


# -- timm


def _timm(path: Path, asked: str, model: str | None) -> ImageNetwork:
    require("torch", extra="torch", asked=asked)
    from discreet.models.pretrained import load_timm_weights, timm_trunk

    settings = _settings(path / "config.json", asked) if path.is_dir() else {}
    name = model or settings.get("architecture")
    if not isinstance(name, str):
        raise BadInput(asked, "the file does not say which network of timm it is of", "Write model = 'resnet18'")
    reading = settings.get("pretrained_cfg") or {}
    channels, *sides = reading.get("input_size") or (3,)
    trunk = timm_trunk(name, asked, int(channels), dict(settings.get("model_args") or {}))
    load_timm_weights(trunk, path / "model.safetensors" if path.is_dir() else path, asked)
    return ImageNetwork(
        **_of_module(trunk),
        channels=int(channels),
        sides=_sides(sides),
        mean=tuple(map(float, reading.get("mean") or ())),
        std=tuple(map(float, reading.get("std") or ())),
    )


def _of_module(module: Any) -> dict[str, Any]:
    import torch

    module.eval().requires_grad_(False)

    def run(records: Floats) -> Floats:
        with one_thread(), torch.inference_mode():
            vectors: Floats = module(torch.tensor(records)).numpy()
            return vectors

    return {"run": run, "module": module}


# -- ONNX


def _onnx(path: Path, asked: str, output: str | None) -> ImageNetwork:
    require("onnx", extra="onnx", asked=asked)
    require("onnxruntime", extra="onnx", asked=asked)
    import onnx
    import onnxruntime

    content = path.read_bytes()
    try:
        model = onnx.load_model_from_string(content)
    except Exception as problem:  # noqa: BLE001 - whatever protobuf says of the file
        raise BadInput(asked, f"it is no ONNX file ({type(problem).__name__})", "Export it again") from None
    _refuse_operators(model, asked)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    except Exception as problem:  # noqa: BLE001 - whatever the runtime says of the file
        raise BadInput(asked, f"onnxruntime refused it ({type(problem).__name__})", "Export it again") from None
    taken, given = session.get_inputs(), [entry.name for entry in session.get_outputs()]
    if len(taken) != 1 or taken[0].type != "tensor(float)" or len(taken[0].shape) < 2:
        raise BadInput(asked, "it does not take one input of float32 records", "Export it with one input")
    if output is not None and output not in given:
        raise BadInput(asked, f"it has no output {output!r}", f"Its outputs: {', '.join(given)}")
    batch, *shape = (size if isinstance(size, int) else None for size in taken[0].shape)
    names = [output or given[0]]

    def run(records: Floats) -> Floats:
        padded = records
        if batch is not None:  # other places of a fixed batch hold zeros
            padded = np.zeros((batch, *records.shape[1:]), dtype=np.float32)
            padded[: len(records)] = records
        vectors: Floats = session.run(names, {taken[0].name: np.ascontiguousarray(padded)})[0][: len(records)]
        return vectors

    pictures = len(shape) == 3
    return ImageNetwork(
        run=run,
        channels=shape[0] if pictures else None,
        sides=(shape[1], shape[2]) if pictures and shape[1] and shape[2] else None,
        batch=batch,
    )


def _refuse_operators(model: Any, asked: str) -> None:
    if any(tensor.data_location for tensor in _tensors(model)):
        raise BadInput(asked, "its weights are in another file", "Store them in the ONNX file itself")
    for node in _nodes([model.graph, *model.functions]):
        training = any(entry.name == "training_mode" and entry.i for entry in node.attribute)
        if node.op_type in REFUSED_OPERATORS or (training and node.op_type == "BatchNormalization"):
            why = "is in training mode" if training else "finds scales in a whole batch, or draws at random"
            raise BadInput(
                asked,
                f"its operator {node.op_type} {why}: a record's features would depend on others",
                "Export it in float32 or with static quantisation, in evaluation mode",
            )


def _nodes(graphs: Any) -> Iterator[Any]:
    """Every node, also of branches and loops."""
    for graph in graphs:
        for node in graph.node:
            yield node
            for entry in node.attribute:
                yield from _nodes([*([entry.g] if entry.HasField("g") else []), *entry.graphs])


def _tensors(message: Any) -> Iterator[Any]:
    """Every tensor in a message: weights, also of branches, and values of constants."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for part, content in message.ListFields():
        if part.message_type is not None:
            for inner in [content] if hasattr(content, "DESCRIPTOR") else content:
                yield from _tensors(inner)
