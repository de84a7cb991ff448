"""Texts to tokens and to vectors, by public models in a local directory: no code from it, no network, no pickle.

An encoder is loaded with plain ("eager") attention, which `torch.func` can differentiate record by record, without
dropout (the only dropout of a model is in its head), in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, require
from discreet.models.checks import whole

if TYPE_CHECKING:
    from torch import nn

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
    from torch import nn

    with _quiet():
        encoder = _from_directory(local_directory(path)) if config is None else _from_settings(config)
    for layer in encoder.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return encoder


def local_directory(path: Any) -> Path:
    """``path`` if it is a directory with a config.json: a name on a hub is never looked up."""
    directory = Path(path)
    if not (directory / "config.json").is_file():
        raise BadInput(
            f"the text model in {str(path)!r}",
            "there is no config.json in such a directory, and nothing is downloaded",
            "Give a local directory, as save_pretrained or a hub's snapshot download writes it",
        )
    return directory


def encoder_layers(encoder: Any) -> list[nn.Module]:
    """The encoder's layers, first to last."""
    return list(encoder.get_submodule(LAYERS[encoder.config.model_type]))


def longest(encoder: Any) -> int:
    """The most tokens a text may have."""
    settings = encoder.config
    positions = int(settings.max_position_embeddings)
    return positions - int(settings.pad_token_id) - 1 if settings.model_type in PADDED_POSITIONS else positions


def _from_directory(directory: Path) -> Any:
    asked = f"the text model in {str(directory)!r}"
    model, missing = read_quietly(directory, asked, prepare=_prepare)
    lacking = sorted(name for name in missing if not name.startswith("pooler."))
    if lacking:  # they would be random
        fact = f"{len(lacking)} of its tensors are in none of its files ({lacking[0]})"
        raise BadInput(asked, fact, "Give the directory of the whole model")
    return model


def read_quietly(
    directory: Path, asked: str, prepare: Callable[[Any, str], None] | None = None
) -> tuple[Any, set[str]]:
    """The model in a local directory, in float32, and the names of tensors that its files do not have.

    ``prepare``: checks and changes the settings before the model is made.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    try:
        with _quiet():
            settings = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
            if prepare is not None:
                prepare(settings, asked)
            model, information = AutoModel.from_pretrained(
                directory,
                config=settings,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                attn_implementation="eager",
                dtype=torch.float32,
                output_loading_info=True,
            )
        return model, set(information["missing_keys"])
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


# Texts to token ids of one fixed, public length: the shape of the result tells nothing about a text.
#
# The tokenizer is read from a local directory; it is public, so tokenising costs nothing.

Tokens = dict[str, NDArray[np.int64]]


def tokenize(texts: Sequence[str], *, path: Any, max_length: int, pairs: Sequence[str] | None = None) -> Tokens:
    """``input_ids`` and ``attention_mask`` of shape (n, max_length), cut and padded on the right.

    ``pairs`` gives each text a second one (a premise its hypothesis); where the model tells the two apart,
    ``token_type_ids`` is in the result too.
    """
    return encode(load_tokenizer(path), texts, max_length=whole(max_length, "max_length", least=3), pairs=pairs)


def load_tokenizer(path: Any) -> Any:
    """The tokenizer of a local model directory."""
    require("torch", extra="torch", asked="a tokenizer")
    require("transformers", extra="text", asked="a tokenizer")

    directory = local_directory(path)
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except Exception as problem:
        raise BadInput(
            f"the tokenizer in {str(path)!r}",
            f"it could not be read ({type(problem).__name__})",
            "Put tokenizer.json, or the vocabulary, beside config.json",
        ) from problem
    # without its vocabulary a tokenizer is made all the same, and reads every word as unknown
    files = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    if not any((directory / name).is_file() for name in files):
        raise BadInput(f"the tokenizer in {str(path)!r}", "its vocabulary is missing", f"Add one of {sorted(files)}")
    if tokenizer.pad_token_id is None:
        raise BadInput(f"the tokenizer in {str(path)!r}", "it has no padding token", "Use an encoder's tokenizer")
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def encode(tokenizer: Any, texts: Sequence[str], *, max_length: int, pairs: Sequence[str] | None = None) -> Tokens:
    """`tokenize` with a tokenizer at hand."""
    first = _texts(texts, "texts")
    second = None if pairs is None else _texts(pairs, "pairs")
    if second is not None and len(second) != len(first):
        raise BadInput(f"{len(first)} texts and {len(second)} pairs", "each text has one pair", "Give as many of both")
    wanted = ["input_ids", "attention_mask"]
    if second is not None and "token_type_ids" in tokenizer.model_input_names:
        wanted.append("token_type_ids")
    if not first:
        return {name: np.zeros((0, max_length), dtype=np.int64) for name in wanted}
    tokens = tokenizer(first, second, padding="max_length", truncation=True, max_length=max_length)
    return {name: np.asarray(tokens[name], dtype=np.int64) for name in wanted}


def _texts(texts: Any, name: str) -> list[str]:
    """The texts as a list; what is not text is refused without being shown."""
    if isinstance(texts, str) or not hasattr(texts, "__iter__"):
        raise BadInput(f"{name} of type {type(texts).__name__}", "a sequence of strings is needed", "Put it in a list")
    strings = [str(text) for text in texts if isinstance(text, str)]
    if len(strings) != len(texts):
        raise BadInput(
            f"{len(texts)} {name}",
            f"{len(texts) - len(strings)} of them are not strings",
            "Give every text as a string",
        )
    return strings


# Sentences to vectors by a public, frozen encoder: the mean over a text's tokens, brought to length 1.
#
# Guarantee: a text's vector depends on that text alone, to the bit. Texts are computed one by one, each by one thread,
# padded to the next multiple of 16 of their own length.

STEP = 16
_THREADS = Lock()
_users_threads: list[int] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """torch computes with one thread in this thread and in those that begin meanwhile; afterwards as it did before."""
    import torch

    with _THREADS:
        _users_threads.append(_users_threads[0] if _users_threads else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _THREADS:
            torch.set_num_threads(_users_threads.pop())


class SentenceEncoder:
    """Embeds texts with the encoder in the local directory ``path``; it is read at first use."""

    def __init__(self, path: Any, *, max_length: int = 128, normalise: bool = True) -> None:
        require("torch", extra="torch", asked="a sentence encoder")
        require("transformers", extra="text", asked="a sentence encoder")

        self.path = local_directory(path)
        self.max_length = whole(max_length, "max_length", least=3)
        self.normalise = normalise

    @property
    def width(self) -> int:
        """The length of a vector."""
        return int(self._encoder.config.hidden_size)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector a text, (n, width), in the order of the texts."""
        vectors = np.zeros((len(texts), self.width), dtype=np.float32)
        tokens = encode(self._tokenizer, texts, max_length=self.max_length)
        with one_thread():
            for row, count in enumerate(tokens["attention_mask"].sum(1).tolist()):
                length = min(-(-count // STEP) * STEP, self.max_length)
                vectors[row] = self._mean({name: values[row : row + 1, :length] for name, values in tokens.items()})
        return vectors

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self.path)

    @cached_property
    def _encoder(self) -> Any:
        encoder = load_encoder(path=self.path).eval().requires_grad_(False)
        if self.max_length > longest(encoder):
            raise BadInput(
                f"a sentence encoder with max_length={self.max_length}",
                f"this one takes at most {longest(encoder)} tokens",
                "Give a smaller max_length",
            )
        return encoder

    def _mean(self, tokens: Tokens) -> NDArray[np.float32]:
        import torch

        inputs = {name: torch.tensor(values) for name, values in tokens.items()}
        with torch.inference_mode():
            hidden = self._encoder(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean: torch.Tensor = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            if self.normalise:
                mean = torch.nn.functional.normalize(mean, dim=1)
            return mean.numpy()
