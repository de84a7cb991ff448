"""Text encoders from a local directory: safetensors only, no code from the directory, no network.

An encoder is loaded with plain ("eager") attention, which `torch.func` can differentiate record by record, without
dropout (the only dropout of a model is in its head), in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from discreet.errors import BadInput

# where the layers are, of the families that are tested
LAYERS = {
    "bert": "encoder.layer",
    "camembert": "encoder.layer",
    "distilbert": "transformer.layer",
    "roberta": "encoder.layer",
    "xlm-roberta": "encoder.layer",
}
PADDED_POSITIONS = ("camembert", "roberta", "xlm-roberta")  # count positions from padding_idx + 1, over real tokens


def load_encoder(*, path: Any = None, config: Any = None) -> Any:
    """An encoder with the weights in the directory ``path``, or a fresh one of the settings ``config``."""
    if (path is None) == (config is None):
        raise BadInput(
            "a text encoder", "it takes either path= or config=", "Give the local directory of a model, or its settings"
        )
    with _quiet():
        encoder = _from_directory(local_directory(path)) if config is None else _from_settings(config)
    for layer in encoder.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return encoder


def local_directory(path: Any) -> Path:
    """``path`` if it is a directory with a config.json: a name on a hub is never looked up."""
    found = Path(path)
    if not (found / "config.json").is_file():
        raise BadInput(
            f"the text model in {str(path)!r}",
            "there is no config.json in such a directory, and nothing is downloaded",
            "Give a local directory, as save_pretrained or a hub's snapshot download writes it",
        )
    return found


def encoder_layers(encoder: Any) -> list[nn.Module]:
    """The encoder's layers, first to last."""
    return list(encoder.get_submodule(LAYERS[encoder.config.model_type]))


def longest(encoder: Any) -> int:
    """The most tokens a text may have."""
    settings = encoder.config
    most = int(settings.max_position_embeddings)
    return most - int(settings.pad_token_id) - 1 if settings.model_type in PADDED_POSITIONS else most


def _from_directory(directory: Path) -> Any:
    import torch
    from transformers import AutoConfig, AutoModel

    asked = f"the text model in {str(directory)!r}"
    try:
        settings = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        _prepare(settings, asked)
        return AutoModel.from_pretrained(
            directory,
            config=settings,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="eager",
            dtype=torch.float32,
        )
    except BadInput:
        raise
    except Exception as problem:
        raise BadInput(
            asked,
            f"it could not be read ({type(problem).__name__})",
            "Check that config.json is whole and that the weights are in model.safetensors",
        ) from problem


def _from_settings(config: Any) -> Any:
    from transformers import AutoConfig, AutoModel

    asked = "a text encoder from settings"
    if not isinstance(config, Mapping) or "model_type" not in config:
        raise BadInput(asked, "config= is not a table with model_type", f"Give a model_type: {', '.join(LAYERS)}")
    _known(str(config["model_type"]), asked)
    try:
        settings = AutoConfig.for_model(**config)
        _prepare(settings, asked)
        return AutoModel.from_config(settings, attn_implementation="eager")
    except BadInput:
        raise
    except Exception as problem:
        raise BadInput(asked, f"transformers refused it ({type(problem).__name__})", "Correct config=") from problem


def _known(family: str, asked: str) -> None:
    if family not in LAYERS:
        raise BadInput(asked, f"its family is {family!r}", f"Use one of: {', '.join(LAYERS)}")


def _prepare(settings: Any, asked: str) -> None:
    """Refuse families that were never tested; no dropout in the trunk."""
    _known(str(settings.model_type), asked)
    for name, value in list(vars(settings).items()):
        if "dropout" in name and isinstance(value, int | float):
            setattr(settings, name, 0.0)


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no advice on standard error; the caller's own settings are put back."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
