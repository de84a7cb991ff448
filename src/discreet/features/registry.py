"""The feature maps by name: every module of this package declares its own, and nothing else lists them."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.checks import Wrong, shown
from discreet.errors import BadInput, DiscreetError
from discreet.features.feature_map import FeatureMap, FeatureRequest
from discreet.parts import Part, Registry
from discreet.pools.schema import Schema

_MOST_BYTES = 2**26


def _declared() -> tuple[Part, ...]:
    """What the modules of this package declare."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    modules = [importlib.import_module(f"discreet.features.{name}") for name in names if name != "registry"]
    return tuple(part for module in modules for part in getattr(module, "PARTS", ()))


FEATURES = Registry("feature", _declared())
"""Every feature map, by name."""


def build_feature_map(
    name: str,
    *,
    shape: Any = None,
    schema: Any = None,
    public: Any = None,
    base: FeatureMap | None = None,
    **options: Any,
) -> FeatureMap:
    """The feature map called ``name`` for records of these declared facts.

    ``shape``: of one record, where records are arrays. ``schema``: of the table (`Schema.of` takes it). ``public``: a
    table of public rows to fit edges and scales on. ``base``: the map that this one is on top of. ``options``: its own,
    as it declares them; None for one that is not set.
    """
    part = FEATURES.get(name)
    request = FeatureRequest(
        shape=None if shape is None else tuple(shape) if isinstance(shape, tuple | list) else (shape,),
        schema=None if schema is None else Schema.of(schema),
        public=public,
        base=base,
        options=part.checked({word: value for word, value in options.items() if value is not None}),
    )
    feature_map: FeatureMap = part.build(request)
    return feature_map


def feature_map_from_json(form: Any) -> FeatureMap:
    """The inverse of `FeatureMap.to_json`; takes an `identity`, too, and then compares the hash."""
    asked = "a stored feature map"
    if not isinstance(form, Mapping) or not isinstance(form.get("options"), Mapping):
        raise BadInput(asked, "it is not the form of one", "Give what to_json or identity returned")
    if not isinstance(form.get("name"), str):
        raise BadInput(asked, "it has no name", "Give what to_json or identity returned")
    part = FEATURES.get(form["name"])
    kind = next((kind for kind in part.makes if issubclass(kind, FeatureMap)), None)
    if kind is None:
        raise BadInput(asked, f"{part.origin} does not declare what {part.name} makes", "Ask its authors")
    if form.get("version") != kind.version:
        raise BadInput(
            f"a stored {part.name} feature map of version {shown(form.get('version'))}",
            f"this program computes version {kind.version}, whose numbers differ",
            "Use the program that feature_map it, or make the map and what was learnt on it anew",
        )
    try:
        options = dict(form["options"])
        if isinstance(options.get("base"), Mapping):
            options["base"] = feature_map_from_json(options["base"])
        feature_map = kind.from_options(options)
    except DiscreetError:
        raise
    except (Wrong, TypeError, ValueError, KeyError, AttributeError):
        raise BadInput(
            asked, f"its options are none of {part.name}", "Give what to_json or identity returned"
        ) from None
    if "sha256" in form and not (form.items() <= feature_map.identity().items()):
        raise BadInput(asked, "its hash is not that of its options", "Give what identity returned, unchanged")
    return feature_map


def write_feature_map(path: Path | str, feature_map: FeatureMap) -> None:
    """Store a map as JSON."""
    Path(path).write_text(json.dumps(feature_map.identity(), indent=1) + "\n", encoding="utf-8")


def read_feature_map(path: Path | str, *, encoder: Path | str | None = None) -> FeatureMap:
    """The map that `write_feature_map` stored. ``encoder``: where its encoder's files are, if it has one."""
    file = Path(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise BadInput(f"the feature map {file.name}", "it is larger than 64 MB", "Check the path")
        form = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as problem:
        if isinstance(problem, BadInput):
            raise
        fact = "there is no such file" if isinstance(problem, FileNotFoundError) else "it is not JSON"
        raise BadInput(f"the feature map {file.name}", fact, "Give a file that write_feature_map wrote") from None
    feature_map = feature_map_from_json(form)
    return feature_map if encoder is None else feature_map.located(encoder)
