"""Networks of other libraries: a text encoder of transformers, and any model of timm that does not mix records.

``transformer``: a pretrained text encoder whose last layers, pooler and classifier train; the rest is frozen.
A record is a table of two rows of ``length`` numbers: ``input_ids`` and ``attention_mask`` (see `encoders.tokenize`),
and ``token_type_ids`` for pairs of texts. ``inputs`` is (length,), a public number.

Two traps are closed here. Position ids are made for each record: the library's (1, length) row, broadcast over the
batch, has no record axis, and engines that take per-record gradients by hooks on layers fail on it. And the mask is
given in the additive form of plain attention: the library's own way from a mask looks at its values, which
``torch.func.vmap`` refuses.

Fewer trained weights means less noise for the same guarantee: Schwethelm et al. (Differentially private active
learning: balancing effective data selection and privacy) train BERT's last two layers on SNLI, the default here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discreet.errors import BadInput, MissingExtra
from discreet.models.checks import image_shape, vector_width, whole
from discreet.models.encoders import PADDED_POSITIONS, encoder_layers, load_encoder, longest
from discreet.models.layers import Head, Split, refuse_mixing

NEEDED = ("input_ids", "attention_mask")


class TransformerClassifier(Split):
    """A BERT-like encoder with a fresh classifier; the embedding is the pooled first token."""

    def __init__(
        self,
        *,
        inputs: tuple[int, ...],
        classes: int,
        dropout: float,
        path: Any = None,
        config: Any = None,
        train_layers: int = 2,
    ) -> None:
        super().__init__()
        length = vector_width(inputs, model="transformer")
        self.encoder = load_encoder(path=path, config=config)
        if length > longest(self.encoder):
            raise BadInput(
                f"the model 'transformer' on {length} tokens",
                f"this encoder takes at most {longest(self.encoder)}",
                "Cut the texts: a smaller max_length in tokenize, and the same in inputs",
            )
        width = int(self.encoder.config.hidden_size)
        self.pooler: nn.Module | None = None
        if getattr(self.encoder, "pooler", None) is None:  # DistilBERT
            self.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.head = Head(width=width, classes=classes, dropout=dropout)
        self._freeze(whole(train_layers, "train_layers", least=0))
        self.train()

    def _freeze(self, train_layers: int) -> None:
        layers = encoder_layers(self.encoder)
        if train_layers > len(layers):
            raise BadInput(
                f"train_layers={train_layers}", f"the encoder has {len(layers)} layers", "Train at most as many"
            )
        self.encoder.requires_grad_(False)
        for layer in layers[len(layers) - train_layers :]:
            layer.requires_grad_(True)
        if self.pooler is None:
            self.encoder.pooler.requires_grad_(True)

    def features(self, x: Mapping[str, Tensor]) -> Tensor:
        """The pooled first token."""
        if not isinstance(x, Mapping) or any(name not in x for name in NEEDED):
            raise BadInput(
                "the model 'transformer' on a batch", f"it takes a table of {' and '.join(NEEDED)}", "Use tokenize"
            )
        output = self.encoder(**self._arguments(x))
        pooled: Tensor = output.pooler_output if self.pooler is None else self.pooler(output.last_hidden_state[:, 0])
        return pooled

    def _arguments(self, x: Mapping[str, Tensor]) -> dict[str, Tensor]:
        tokens, family = x["input_ids"], self.encoder.config.model_type
        arguments = {"input_ids": tokens, "attention_mask": self._additive(x["attention_mask"])}
        if family not in PADDED_POSITIONS:  # those count real tokens, already for each record
            arguments["position_ids"] = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
        if family != "distilbert":
            arguments["token_type_ids"] = x.get("token_type_ids", torch.zeros_like(tokens))
        return arguments

    def _additive(self, mask: Tensor) -> Tensor:
        """0 where there is a token, the most negative number where there is padding: (n, 1, length, length)."""
        kind: torch.dtype = next(self.head.parameters()).dtype
        hidden: Tensor = (1 - mask.to(kind)) * torch.finfo(kind).min
        return hidden[:, None, None, :].expand(-1, 1, mask.shape[1], -1)


# Any model of timm that does not mix records, ``timm:dm_nfnet_f0`` above all (Brock et al. 2021; De et al. 2022).
#
# timm builds the trunk without a classifier and without dropout; the head is ours, so the seam holds. Nothing is
# downloaded: ``weights=`` names a local safetensors file, whose own classifier is left out. Models with batch
# normalisation are refused; norm-free ones (``dm_nfnet_f0``, ``nf_resnet50``), ones with layer normalisation
# (``vit_*``, ``convnext_*``) or group normalisation (``resnet50_gn``) take their place.

# ours to set, or ways to a download, a pickle or randomness in the trunk
REFUSED = frozenset(
    {
        "cache_dir",
        "checkpoint_path",
        "drop_path_rate",
        "drop_rate",
        "features_only",
        "in_chans",
        "num_classes",
        "pretrained",
        "pretrained_cfg",
        "pretrained_cfg_overlay",
    }
)


class TimmClassifier(Split):
    """A timm trunk with our head; ``options`` go to ``timm.create_model``."""

    def __init__(
        self,
        *,
        model: str,
        inputs: tuple[int, ...],
        classes: int,
        dropout: float,
        weights: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        asked = f"the model 'timm:{model}'"
        channels, _, _ = image_shape(inputs, model=f"timm:{model}", least=1)
        refused = sorted(REFUSED & set(options))
        if refused:
            raise BadInput(asked, f"{', '.join(refused)} is not an option here", "Use dropout=, inputs= and weights=")
        self.trunk = timm_trunk(model, asked, channels, options)
        refuse_mixing(self.trunk, asked)
        _open_to_torch_func(self.trunk)
        if weights is not None:
            load_timm_weights(self.trunk, Path(weights), asked)
        self.head = Head(width=_embedding_width(self.trunk, inputs, asked), classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """What timm gives its classifier."""
        embedding: Tensor = self.trunk(x)
        return embedding


def timm_trunk(model: str, asked: str, channels: int, options: dict[str, Any]) -> nn.Module:
    """The network without its classifier, with weights at random."""
    try:
        import timm
    except ImportError as problem:
        raise MissingExtra(
            asked, f"timm could not be imported ({problem})", "Install it whole: pip install 'discreet[timm]'"
        ) from None
    if any(mark in model for mark in ":/") or not timm.is_model(model):
        raise BadInput(asked, "timm has no such model, and nothing is downloaded", "See timm.list_models()")
    try:
        trunk: nn.Module = timm.create_model(
            model, pretrained=False, num_classes=0, in_chans=channels, drop_rate=0.0, **options
        )
    except Exception as problem:
        raise BadInput(asked, f"timm refused it ({type(problem).__name__})", "Check the options") from problem
    return trunk


def _open_to_torch_func(trunk: nn.Module) -> None:
    """No writing in place, and plain attention: fused kernels have no rule for gradients record by record."""
    for layer in trunk.modules():
        for switch in ("inplace", "fused_attn"):
            if getattr(layer, switch, False) is True:
                setattr(layer, switch, False)


def load_timm_weights(trunk: nn.Module, path: Path, asked: str) -> None:
    """The weights in a local safetensors file, but for the classifier's."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise BadInput(asked, f"there is no file {str(path)!r}", "Give the path of a local .safetensors file")
    try:
        stored = load_file(path)
    except SafetensorError:
        raise BadInput(
            asked, f"{str(path)!r} is not a safetensors file", "Convert it first; pickled weights are never read"
        ) from None
    state = trunk.state_dict()
    missing = sorted(set(state) - set(stored))
    unfit = sorted(name for name in set(state) & set(stored) if state[name].shape != stored[name].shape)
    if missing or unfit:
        raise BadInput(
            asked,
            f"the weights do not fit: {len(missing)} missing, {len(unfit)} of another shape ({(missing + unfit)[0]})",
            "Give weights of this very model; grey images on weights of colour need their channel three times",
        )
    trunk.load_state_dict({name: stored[name] for name in state})


def _embedding_width(trunk: nn.Module, inputs: tuple[int, ...], asked: str) -> int:
    """The length of the embedding, by trying one record of zeros: it also shows that the image size fits."""
    training = trunk.training
    try:
        with torch.no_grad():
            shape = trunk.eval()(torch.zeros(1, *inputs)).shape
    except Exception as problem:
        raise BadInput(
            asked, f"it does not take images of shape {inputs} ({type(problem).__name__})", "Give img_size=, or resize"
        ) from problem
    finally:
        trunk.train(training)
    if len(shape) != 2:
        raise BadInput(asked, "it does not give one vector a record", "Choose a classification model")
    return int(shape[1])
