"""The selectors by name: every module of this package declares its own, and nothing else lists them."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

from discreet.errors import BadInput, alternatives
from discreet.noise import Source
from discreet.parts import Part, Registry
from discreet.privacy.budget import Number, exact_decimal
from discreet.roles import Selector
from discreet.selectors.selection_inputs import SelectorRequest


def _declared() -> tuple[Part, ...]:
    """What the modules of this package declare; `top_k`, with the baselines, comes first."""
    names = sorted((module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])), reverse=True)
    modules = [importlib.import_module(f"discreet.selectors.{name}") for name in names if name != "registry"]
    return tuple(part for module in modules for part in getattr(module, "PARTS", ()))


SELECTORS = Registry("selector", _declared())
"""Every selector, by name."""
MECHANISMS = SELECTORS.names(one_query=True)
"""What `discreet select` and `selector_for` offer: selectors that one query can be priced for without a plan."""


def selector_for(
    name: str,
    *,
    epsilon: Number,
    delta: Number = 0,
    limits: tuple[float, float] = (0.0, 1.0),
    source: Source | None = None,
    clip: float | None = None,
    **options: Any,
) -> Selector:
    """The selector called ``name`` whose one query costs ``epsilon`` (at ``delta``, where it needs one), all told.

    ``limits``: the range of the scores. ``clip``: the score at which clipped-laplace clips. ``options``: its own, as
    it declares them; None for one that is not set.
    """
    total, chance = exact_decimal(epsilon, "epsilon"), exact_decimal(delta, "delta")
    part = SELECTORS.find(name)
    if part is None or not (part.one_query or "hidden" in part.prices):
        raise BadInput(f"the mechanism {name}", "there is none of that name", alternatives(name, MECHANISMS))
    values = part.checked({word: value for word, value in options.items() if value is not None})
    if clip is not None:
        if part.option("clip") is None:
            raise BadInput(f"{name} with a clip", "only clipped-laplace has one", "Drop it")
        values["clip"] = clip
    simulation = source is not None and source.simulation
    if part.simulations_only and not simulation:
        raise BadInput(f"the mechanism {name}", "it is not private", "Give a seeded source, or choose another")
    if part.prices and total <= 0 and "hidden" not in part.prices:
        raise BadInput(f"epsilon={total} for {name}", "it must be above 0", "Give more, or choose random")
    if part.prices and chance and part.option("delta") is None:
        raise BadInput(f"{name} with delta={chance}", "its guarantee holds at delta 0", "Drop delta")
    request = SelectorRequest(epsilon=total, delta=chance, range=limits, options=values, source=source)
    selector: Selector = part.build(request)
    if part.origin is not None and part.reads and not (simulation or selector.price(1, 2)):
        raise BadInput(f"the mechanism {name}", "it reads scores, and its price is nothing", "Choose another")
    return selector
