"""One door to the models: a name, the public shape of a record, the number of classes, and options.

A name is one of `model_names`, ``timm:<model>``, or ``module:callable`` of the user's. Initial weights are drawn from a
public seed on the CPU: they are no secret, they do not depend on the data, and a resumed campaign can draw them again.
The caller's own random state is as it was afterwards.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput, alternatives
from discreet.models.checks import fraction, record_shape, require, whole

if TYPE_CHECKING:
    from torch import nn

LEAST_SEED, MOST_SEED = 0, 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A built-in model: where its class lives, in one line what it is, and which extra it needs."""

    place: str
    line: str
    extra: str = "torch"
    library: str = "torch"


REGISTRY: dict[str, Entry] = {
    "embedding_head": Entry(
        place="discreet.models.dense:EmbeddingHead",
        line="one affine layer on an embedding of fixed length; options: scale",
    ),
    "equivariant_resnet9": Entry(
        place="discreet.models.equivariant_resnet9:EquivariantResNet9",
        line="ResNet-9 whose output does not see turns and flips; options: group, width, groups, activation",
    ),
    "linear": Entry(
        place="discreet.models.dense:LinearClassifier",
        line="one affine layer on the flattened record",
    ),
    "mlp": Entry(
        place="discreet.models.dense:MLP",
        line="hidden layers on the flattened record; options: hidden, activation",
    ),
    "resnet9": Entry(
        place="discreet.models.resnet9:ResNet9",
        line="ResNet-9 with scale normalisation, images of 16 x 16 and more; options: width, groups, activation",
    ),
    "small_cnn": Entry(
        place="discreet.models.small_cnn:SmallCNN",
        line="the TensorFlow Privacy tutorial's network, 26,010 parameters on 1 x 28 x 28; options: activation, hidden",
    ),
    "transformer": Entry(
        place="discreet.models.transformer:TransformerClassifier",
        line="a local BERT-like encoder whose last layers train; options: path, config, train_layers",
        extra="text",
        library="transformers",
    ),
}
TIMM = Entry(
    place="discreet.models.timm_adapter:TimmClassifier",
    line="any timm model without batch normalisation, such as timm:dm_nfnet_f0; options: weights, and timm's own",
    extra="timm",
    library="timm",
)


def model_names() -> dict[str, str]:
    """The names `build_model` knows, each with one line of description."""
    lines = {name: entry.line for name, entry in REGISTRY.items()}
    lines["timm:<model>"] = TIMM.line
    lines["<module>:<callable>"] = "your own: called with inputs=, classes= and your options, returns a torch module"
    return lines


def build_model(
    name: str, *, inputs: Any, classes: int, dropout: float = 0.0, seed: int = 0, **options: Any
) -> nn.Module:
    """A model with weights drawn from ``seed``.

    ``inputs`` is the public shape of one record, as (784,) or (1, 28, 28); ``classes`` the number of logits, at least
    one; ``dropout`` acts in the head alone. A user's callable is given ``dropout`` only when it is not zero.
    """
    arguments = {
        "inputs": record_shape(inputs),
        "classes": whole(classes, "classes"),
        "dropout": fraction(dropout, "dropout"),
    }
    seed = whole(seed, "seed", least=LEAST_SEED)
    if seed > MOST_SEED:
        raise BadInput(f"seed={seed}", "a seed has at most 63 bits", "Give a smaller seed")
    make = _maker(name, arguments, options)
    return _seeded(make, seed)


def check_model_name(name: str) -> None:
    """Refuse a name that no built-in model has; one of the user's own is for whoever imports it."""
    if name not in REGISTRY and (":" not in name or name == "timm:"):
        raise _unknown(name)


def _unknown(name: str) -> BadInput:
    return BadInput(f"the model {name!r}", "there is no such model", alternatives(name, model_names()))


def _maker(name: str, arguments: dict[str, Any], options: dict[str, Any]) -> Callable[[], nn.Module]:
    """What builds the model when called; everything that can be refused before is refused here."""
    asked = f"the model {name!r}"
    if not isinstance(name, str) or not name:
        raise BadInput(asked, "a model's name is a word", f"Give one of: {', '.join(model_names())}")
    timm, _, timm_name = name.partition(":")
    entry = REGISTRY.get(name)
    if entry is None and ":" in name and timm != "timm":
        require("torch", extra="torch", asked=asked)
        from discreet.models.own import own_model

        return own_model(name, arguments, options)
    if entry is None and timm == "timm" and timm_name:
        entry, arguments = TIMM, {**arguments, "model": timm_name}
    elif entry is None:
        raise _unknown(name)
    require("torch", extra="torch", asked=asked)
    require(entry.library, extra=entry.extra, asked=asked)
    module, _, attribute = entry.place.partition(":")
    built_in: Callable[..., nn.Module] = getattr(importlib.import_module(module), attribute)
    _check_options(built_in, name, options, arguments)
    return lambda: built_in(**arguments, **options)


def _check_options(built_in: Callable[..., Any], name: str, options: dict[str, Any], arguments: dict[str, Any]) -> None:
    parameters = inspect.signature(built_in).parameters
    rest = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    known = [word for word in parameters if word not in (*arguments, "options")]
    unknown = sorted(set(options) & set(arguments) if rest else set(options) - set(known))
    if unknown:
        raise BadInput(
            f"the model {name!r} with {', '.join(unknown)}",
            f"its options are {', '.join(known)}" if known else "it has no options",
            "Leave the others out",
        )


def _seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """The module, its weights drawn on the CPU from ``seed`` and nothing else disturbed."""
    import torch

    # Seeding the CPU's generator directly: torch.manual_seed would also reseed every GPU, which the fork does not keep.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        return make()
