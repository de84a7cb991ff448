"""From a record as it arrives to a vector in a ball of radius M. Nothing here is fitted to private records.

In this order: columns to numbers (a declared schema, with one-hot choices), (x - center) / scale, a linear map to fewer
numbers (components), and the projection onto the ball. Every constant is *declared*, comes from a *public* sample, or
was *paid* for (`private_components`); ``origin`` says which, and goes into what is published.

Guarantee: a record's vector depends on that record and on these constants alone, has length at most M, and is the same
whether the record comes alone or among others. A record that cannot be read is a null: a row that is no number, as the
learner knows nulls; nothing is raised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.stream.ball import checked_radius, into_ball
from discreet.stream.columns import Schema

Floats = NDArray[np.float64]
Origin = Literal["declared", "public", "paid"]
FORMAT = "discreet.preparation/1"
_KEYS = {
    "format",
    "inputs",
    "radius",
    "schema",
    "center",
    "scale",
    "components",
    "constants_origin",
    "components_origin",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """``inputs`` numbers of a record (or the columns of ``schema``) to a vector of length at most ``radius``.

    ``center`` and ``scale``: a number, or one for each input. ``components``: (k, inputs), one map a row.
    """

    inputs: int = 0
    radius: float = 1.0
    schema: Schema | None = None
    center: Any = 0.0
    scale: Any = 1.0
    components: Any = None
    constants_origin: Origin = "declared"
    components_origin: Origin = "declared"

    def __post_init__(self) -> None:
        inputs = self.schema.width if self.schema is not None and not self.inputs else self.inputs
        if type(inputs) is not int or inputs < 1 or (self.schema is not None and self.schema.width != inputs):
            raise BadInput("a preparation", "it does not say how many numbers a record has", "Give inputs, or a schema")
        for name in ("constants_origin", "components_origin"):
            if getattr(self, name) not in get_args(Origin):
                raise BadInput(f"{name} of a preparation", "it is not known", f"Say {' or '.join(get_args(Origin))}")
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "radius", checked_radius(self.radius))
        object.__setattr__(self, "center", _constants("center", self.center, inputs))
        object.__setattr__(self, "scale", _constants("scale", self.scale, inputs))
        if not (self.scale > 0).all():
            raise BadInput("the scale of a preparation", "a number is not above 0", "Declare positive numbers")
        if self.components is not None:
            object.__setattr__(self, "components", _components(self.components, inputs))

    @property
    def width(self) -> int:
        """How many numbers a prepared vector has."""
        return self.inputs if self.components is None else len(self.components)

    def with_constants(self, center: Any, scale: Any, *, origin: Origin) -> Self:
        """The same with other constants."""
        return replace(self, center=center, scale=scale, constants_origin=origin)

    def with_components(self, components: Any, *, origin: Origin) -> Self:
        """The same with a linear map after the constants."""
        return replace(self, components=components, components_origin=origin)

    def one(self, record: Any) -> Floats:
        """A record as a vector."""
        return np.asarray(self.many([record])[0])

    def many(self, records: Any) -> Floats:
        """Records as rows: mappings, where columns are declared; otherwise vectors of ``inputs`` numbers."""
        if self.schema is None:
            return self.rows(_vectors(records, self.inputs))
        rows = self.rows(self.schema.many(records))
        rows[[not isinstance(record, Mapping) for record in records]] = np.nan
        return rows

    def rows(self, inputs: Any) -> Floats:
        """The same of (n, inputs) numbers: what `Schema.table` gives, or pictures as rows."""
        mapped = self.mapped(self.scaled(inputs))
        return np.where(np.isfinite(mapped).all(axis=1, keepdims=True), into_ball(mapped, self.radius), np.nan)

    def scaled(self, inputs: Any) -> Floats:
        """(n, inputs) numbers after the constants alone; a row with one that is not finite is no number anywhere."""
        try:
            found = np.array(inputs, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):  # whose message would show a value
            found = np.empty(0)
        if found.ndim != 2 or found.shape[1] != self.inputs:
            raise BadInput("records to prepare", f"they are not rows of {self.inputs} numbers", "Give (n, inputs)")
        with np.errstate(all="ignore"):  # a warning would tell of a record
            found = (found - self.center) / self.scale
            whole = np.isfinite(found).all(axis=1, keepdims=True)
        return np.asarray(np.where(whole, found, np.nan))

    def mapped(self, scaled: Floats) -> Floats:
        """The linear map, a row at a time: a product of many rows may round otherwise than that of one."""
        if self.components is None:
            return scaled
        with np.errstate(all="ignore"):
            return np.array([self.components @ row for row in scaled]).reshape(len(scaled), self.width)

    def to_json(self) -> dict[str, Any]:
        """Plain values that read back to the same preparation, to the bit. Audience: world; nothing of a record."""
        return {
            "format": FORMAT,
            "inputs": self.inputs,
            "radius": self.radius,
            "schema": None if self.schema is None else self.schema.to_json(),
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
            "components": None if self.components is None else self.components.tolist(),
            "constants_origin": self.constants_origin,
            "components_origin": self.components_origin,
        }

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The inverse of `to_json`; strict about its keys."""
        if not isinstance(form, dict) or set(form) != _KEYS or form["format"] != FORMAT:
            raise BadInput("a stored preparation", f"it is not a {FORMAT}", "Restore the file")
        given = {key: value for key, value in form.items() if key not in ("format", "schema")}
        return cls(schema=None if form["schema"] is None else Schema.from_json(form["schema"]), **given)

    @cached_property
    def digest(self) -> str:
        """Names it: a model fits the preparation it was made with."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<Preparation of {self.inputs} inputs to {self.width} features, norm at most {self.radius:g}>"


def _vectors(records: Any, inputs: int) -> Floats:
    """Rows of numbers; a record that is none is a row that is not finite."""
    if isinstance(records, np.ndarray) and records.dtype.kind in "biuf":
        return records
    rows = np.full((len(records), inputs), np.nan)
    for place, record in enumerate(records):
        try:
            row = np.asarray(record, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            continue
        if row.shape == (inputs,):
            rows[place] = row
    return rows


def _constants(name: str, value: Any, inputs: int) -> Floats:
    try:
        found = np.broadcast_to(np.asarray(value, dtype=np.float64), (inputs,)).copy()
    except (TypeError, ValueError):
        found = np.full(inputs, np.nan)
    if not np.isfinite(found).all():
        raise BadInput(
            f"the {name} of a preparation", "it is not a finite number, or one for each input", "Declare it so"
        )
    found.flags.writeable = False
    return found


def _components(value: Any, inputs: int) -> Floats:
    try:
        found = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 2 or found.shape[1] != inputs or not len(found) or not np.isfinite(found).all():
        raise BadInput(
            "the components of a preparation", f"they are not rows of {inputs} finite numbers", "Give (k, inputs)"
        )
    found.flags.writeable = False
    return found
