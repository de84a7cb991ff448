"""Any model of timm that does not mix records, ``timm:dm_nfnet_f0`` above all (Brock et al. 2021; De et al. 2022).

timm builds the trunk without a classifier and without dropout; the head is ours, so the seam holds. Nothing is
downloaded: ``weights=`` names a local safetensors file, whose own classifier is left out. Models with batch
normalisation are refused; norm-free ones (``dm_nfnet_f0``, ``nf_resnet50``), ones with layer normalisation (``vit_*``,
``convnext_*``) or group normalisation (``resnet50_gn``) take their place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discreet.errors import BadInput, MissingExtra
from discreet.models.checks import image_shape
from discreet.models.mixing import refuse_mixing
from discreet.models.split import Head, Split

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
        self.trunk = _trunk(model, asked, channels, options)
        refuse_mixing(self.trunk, asked)
        _open_to_torch_func(self.trunk)
        if weights is not None:
            _load(self.trunk, Path(weights), asked)
        self.head = Head(width=_width(self.trunk, inputs, asked), classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """What timm gives its classifier."""
        pooled: Tensor = self.trunk(x)
        return pooled


def _trunk(model: str, asked: str, channels: int, options: dict[str, Any]) -> nn.Module:
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


def _load(trunk: nn.Module, path: Path, asked: str) -> None:
    """The weights in a local safetensors file, but for the classifier's."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise BadInput(asked, f"there is no file {str(path)!r}", "Give the path of a local .safetensors file")
    try:
        found = load_file(path)
    except SafetensorError:
        raise BadInput(
            asked, f"{str(path)!r} is not a safetensors file", "Convert it first; pickled weights are never read"
        ) from None
    own = trunk.state_dict()
    missing = sorted(set(own) - set(found))
    unfit = sorted(name for name in set(own) & set(found) if own[name].shape != found[name].shape)
    if missing or unfit:
        raise BadInput(
            asked,
            f"the weights do not fit: {len(missing)} missing, {len(unfit)} of another shape ({(missing + unfit)[0]})",
            "Give weights of this very model; grey images on weights of colour need their channel three times",
        )
    trunk.load_state_dict({name: found[name] for name in own})


def _width(trunk: nn.Module, inputs: tuple[int, ...], asked: str) -> int:
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
