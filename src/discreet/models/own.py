"""A user's own model, named ``module:callable``.

The callable is called with ``inputs=``, ``classes=``, the user's options, and ``dropout=`` when it is not zero, and
returns a torch module. What would break the promise of a private gradient is refused: see `mixing`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from discreet.errors import BadInput, DiscreetError
from discreet.models.mixing import refuse_mixing


def own_model(name: str, arguments: dict[str, Any], options: dict[str, Any]) -> Callable[[], nn.Module]:
    """What calls the user's callable; the module, the attribute and the signature are checked first."""
    asked = f"the model {name!r}"
    target = _callable(name, asked)
    given = {word: value for word, value in arguments.items() if word != "dropout" or value}
    clash = sorted(set(given) & set(options))
    if clash:
        raise BadInput(asked, f"{', '.join(clash)} is given twice", "Leave it out of the options")
    _check_call(target, asked, {**given, **options})

    def make() -> nn.Module:
        try:
            module = target(**given, **options)
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
    place, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*place.split("."), *path.split("."))):
        raise BadInput(asked, "it does not read as module:callable", "Write it like my_models:build")
    target: Any = _imported(place, asked)
    for part in path.split("."):
        if not hasattr(target, part):
            raise BadInput(asked, f"{place} has no {path}", "Correct the name, or define it there")
        target = getattr(target, part)
    if not callable(target):
        raise BadInput(asked, f"{path} is a {type(target).__name__}, not a callable", "Name a class or a function")
    found: Callable[..., Any] = target
    return found


def _imported(place: str, asked: str) -> Any:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as problem:
        missing = problem.name or place
        own = place == missing or place.startswith(f"{missing}.")
        fact = f"there is no module {missing}" if own else f"{place} imports {missing}, which is not installed"
        remedy = "Install it, or put its folder on PYTHONPATH" if own else f"Install {missing}"
        raise BadInput(asked, fact, remedy) from None
    except Exception as problem:
        raise BadInput(
            asked, f"importing {place} raised {type(problem).__name__}", f"Run: python -c 'import {place}'"
        ) from problem


def _check_call(target: Callable[..., Any], asked: str, given: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # some builtins have none; the call itself will tell
        return
    try:
        signature.bind(**given)
    except TypeError as problem:
        raise BadInput(
            asked,
            f"the callable cannot be called with {', '.join(f'{word}=' for word in given)} ({problem})",
            "Let it take inputs= and classes=, and only options it knows",
        ) from None
