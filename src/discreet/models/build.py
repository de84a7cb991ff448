"""Models by name: a name, the public shape of a record, the number of classes, and options.

A name is one of `model_names`, ``timm:<model>``, or ``module:callable`` of the user's. Initial weights are drawn from a
public seed on the CPU: they are no secret, they do not depend on the data, and a resumed campaign can draw them again.
The caller's own random state is as it was afterwards.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from discreet.checks import choice, listed, number, text
from discreet.checks import options as any_options
from discreet.checks import whole as whole_number
from discreet.errors import BadInput, DiscreetError, alternatives, require
from discreet.models.checks import fraction, record_shape, whole
from discreet.parts import Option, Part, Registry, Target

if TYPE_CHECKING:
    from torch import nn


LEAST_SEED, MOST_SEED = 0, 2**63 - 1


@dataclass(frozen=True)
class ModelClass(Target):
    """Where a model's class is, and the library and the extra that it needs. It is imported when it is built."""

    library: str = "torch"
    extra: str = "torch"


_COUNT, _WORD, _PATH = whole_number(), text(), text(what="a path")
_WIDTH_OF_HIDDEN = Option(name="hidden", check=_COUNT, type="whole number", default="32", meaning="of the dense layer")
_TANH = Option(
    name="activation",
    check=_WORD,
    type="text",
    default="tanh",
    meaning="`relu`, `tanh`, `mish` or `gelu`, never in place",
)
_MISH = replace(_TANH, default="mish")
_GROUPS = Option(
    name="groups", check=_COUNT, type="whole number", default="32", meaning="the most groups of a normalisation"
)
_WIDTH = Option(name="width", check=_COUNT, type="whole number", default="64", meaning="channels of the first layer")


def _model(name: str, summary: str, build: ModelClass, *options: Option) -> Part:
    return Part(kind="model", name=name, summary=summary, build=build, options=options)


MODELS = Registry(
    "model",
    (
        _model(
            "embedding_head",
            "one affine layer on an embedding of fixed length",
            ModelClass("discreet.models.small_networks:EmbeddingHead"),
            Option(
                name="scale",
                check=number(0, 1e9, open_ends=True),
                type="number",
                default="1.0",
                meaning="the length that each record is brought to",
            ),
        ),
        _model(
            "equivariant_resnet9",
            "ResNet-9 whose output does not see turns and flips",
            ModelClass("discreet.models.resnet9:EquivariantResNet9"),
            Option(
                name="group",
                check=choice("c4", "d4"),
                type="text",
                default="d4",
                meaning="`c4`: quarter turns; `d4`: flips, too",
            ),
            replace(_WIDTH, default="64 / order of the group"),
            _GROUPS,
            _MISH,
        ),
        _model(
            "linear",
            "one affine layer on the flattened record",
            ModelClass("discreet.models.small_networks:LinearClassifier"),
        ),
        _model(
            "mlp",
            "hidden layers on the flattened record",
            ModelClass("discreet.models.small_networks:MLP"),
            Option(
                name="hidden",
                check=listed(_COUNT),
                type="list",
                default="[256]",
                meaning="the widths of the hidden layers",
            ),
            _TANH,
        ),
        _model(
            "resnet9",
            "ResNet-9 with scale normalisation, images of 16 x 16 and more",
            ModelClass("discreet.models.resnet9:ResNet9"),
            _WIDTH,
            _GROUPS,
            _MISH,
        ),
        _model(
            "small_cnn",
            "the TensorFlow Privacy tutorial's network, 26,010 parameters on 1 x 28 x 28",
            ModelClass("discreet.models.small_networks:SmallCNN"),
            _TANH,
            _WIDTH_OF_HIDDEN,
        ),
        _model(
            "transformer",
            "a local BERT-like encoder whose last layers train",
            ModelClass("discreet.models.pretrained:TransformerClassifier", library="transformers", extra="text"),
            Option(name="path", check=_PATH, type="text", meaning="the encoder's local directory"),
            Option(
                name="config", check=any_options, type="table", meaning="settings of a fresh encoder, instead of `path`"
            ),
            Option(
                name="train_layers",
                check=whole_number(least=0),
                type="whole number",
                default="2",
                meaning="how many of its last layers train",
            ),
        ),
    ),
)
TIMM = _model(
    "timm:<model>",
    "any timm model without batch normalisation, such as timm:dm_nfnet_f0; further options are timm's own",
    ModelClass("discreet.models.pretrained:TimmClassifier", library="timm", extra="timm"),
    Option(name="weights", check=_PATH, type="text", meaning="a local safetensors file"),
)


def model_names() -> dict[str, str]:
    """The names `build_model` knows, each with one line of description."""
    lines = {part.name: _line(part) for part in (*MODELS, TIMM)}
    lines["<module>:<callable>"] = "your own: called with inputs=, classes= and your options, returns a torch module"
    return lines


def _line(part: Part) -> str:
    names = ", ".join(option.name for option in part.options)
    return f"{part.summary}; options: {names}" if names else part.summary


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
    import torch

    # Seeding the CPU's generator directly: torch.manual_seed would also reseed every GPU, which the fork does not keep.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        return make()


def check_model_name(name: str) -> None:
    """Refuse a name that no model has; one of the user's own is for whoever imports it."""
    if ":" in name and name != "timm:":
        return
    if MODELS.find(name) is None:
        raise _unknown(name)


def _unknown(name: str) -> BadInput:
    return BadInput(f"the model {name!r}", "there is no such model", alternatives(name, model_names()))


def _maker(name: str, arguments: dict[str, Any], options: dict[str, Any]) -> Callable[[], nn.Module]:
    """What builds the model when called; everything that can be refused before is refused here."""
    asked = f"the model {name!r}"
    if not isinstance(name, str) or not name:
        raise BadInput(asked, "a model's name is a word", f"Give one of: {', '.join(model_names())}")
    timm, _, timm_name = name.partition(":")
    part = None if ":" in name else MODELS.find(name)
    if ":" in name and timm != "timm":
        require("torch", extra="torch", asked=asked)
        return own_model(name, arguments, options)
    if timm == "timm" and timm_name:
        part, arguments = TIMM, {**arguments, "model": timm_name}
    if part is None:
        raise _unknown(name)
    require("torch", extra="torch", asked=asked)
    if isinstance(part.build, ModelClass):
        require(part.build.library, extra=part.build.extra, asked=asked)
    _check_options(part, name, options, arguments)
    return lambda: part.build(**arguments, **options)


def _check_options(part: Part, name: str, options: dict[str, Any], arguments: dict[str, Any]) -> None:
    known = [option.name for option in part.options]
    unknown = sorted(set(options) & set(arguments) if part is TIMM else set(options) - set(known))
    if unknown:
        raise BadInput(
            f"the model {name!r} with {', '.join(unknown)}",
            f"its options are {', '.join(known)}" if known else "it has no options",
            "Leave the others out",
        )


# A user's own model, named ``module:callable``.
#
# The callable is called with ``inputs=``, ``classes=``, the user's options, and ``dropout=`` when it is not zero, and
# returns a torch module. Layers that mix records are refused: see `layers.refuse_mixing`.


def own_model(name: str, arguments: dict[str, Any], options: dict[str, Any]) -> Callable[[], nn.Module]:
    """What calls the user's callable; the module, the attribute and the signature are checked first."""
    asked = f"the model {name!r}"
    target = _callable(name, asked)
    arguments_given = {word: value for word, value in arguments.items() if word != "dropout" or value}
    clash = sorted(set(arguments_given) & set(options))
    if clash:
        raise BadInput(asked, f"{', '.join(clash)} is given twice", "Leave it out of the options")
    _check_call(target, asked, {**arguments_given, **options})

    def make() -> nn.Module:
        from torch import nn

        from discreet.models.layers import refuse_mixing

        try:
            module = target(**arguments_given, **options)
        except DiscreetError:
            raise
        except Exception as problem:
            raise BadInput(
                asked, f"the callable raised {type(problem).__name__}", "Call it by hand with inputs= and classes="
            ) from problem
        if not isinstance(module, nn.Module):
            raise BadInput(
                asked, f"the callable returned a {type(module).__name__}", "Return a torch.nn.Module from it"
            )
        refuse_mixing(module, asked)
        return module

    return make


def _callable(name: str, asked: str) -> Callable[..., Any]:
    module_name, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise BadInput(asked, "it does not read as module:callable", "Write it like my_models:build")
    try:
        target: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        missing = problem.name or module_name
        names_itself = module_name == missing or module_name.startswith(f"{missing}.")
        fact = (
            f"there is no module {missing}"
            if names_itself
            else f"{module_name} imports {missing}, which is not installed"
        )
        remedy = "Install it, or put its folder on PYTHONPATH" if names_itself else f"Install {missing}"
        raise BadInput(asked, fact, remedy) from None
    except Exception as problem:
        raise BadInput(
            asked, f"importing {module_name} raised {type(problem).__name__}", f"Run: python -c 'import {module_name}'"
        ) from problem
    for part in path.split("."):
        if not hasattr(target, part):
            raise BadInput(asked, f"{module_name} has no {path}", "Correct the name, or define it there")
        target = getattr(target, part)
    if not callable(target):
        raise BadInput(asked, f"{path} is a {type(target).__name__}, not a callable", "Name a class or a function")
    build: Callable[..., Any] = target
    return build


def _check_call(target: Callable[..., Any], asked: str, arguments: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # some builtins have none; the call itself will tell
        return
    try:
        signature.bind(**arguments)
    except TypeError as problem:
        raise BadInput(
            asked,
            f"the callable cannot be called with {', '.join(f'{word}=' for word in arguments)} ({problem})",
            "Let it take inputs= and classes=, and only options it knows",
        ) from None
