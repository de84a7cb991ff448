"""From a record as it arrives to a vector in a ball of radius M. Nothing here is fitted to private records.

In this order: columns to numbers (a declared schema with one-hot choices, or a feature map), (x - center) / scale, a
linear map to fewer numbers (components), and the projection onto the ball. Every constant is *declared*, comes from a
*public* sample, or was *paid* for (`private_components`); ``origin`` says which, and goes into what is published.

Guarantee: a record's vector depends on that record and on these constants alone, has length at most M, and is the same
whether the record comes alone or among others. A record that cannot be read is a null: a row that is no number, as the
learner knows nulls; nothing is raised.

Constants of a public sample (`constants_of`, `components_of`) are a function of the sample that was given. Whether that
sample is public is the owner's word; a part of the private records is not public because it is small. Where there is no
public sample, declare the constants, or pay (`private_components`): the moment is released before a record of the
stream is asked or missed, and Gaussian noise has no pure loss, so every path of the ledger pays a block of (epsilon,
delta) for it (`stream_terms(preparation=...)`, docs/proofs/apart.md).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np

from discreet import components
from discreet.components import PaidComponents, checked_radius, into_ball, leading
from discreet.errors import BadInput
from discreet.features import FeatureMap, TableMap, feature_map_from_json
from discreet.pools.checks import encodable
from discreet.privacy.ledger import Receipt
from discreet.stream.columns import RecordSchema
from discreet.stream.linear_model import Floats, float_array
from discreet.stream.parts import set_fields
from discreet.stream.terms import PREPARED

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
_OF_FEATURES = {"features", "text"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """``inputs`` numbers of a record (or the columns of ``schema``) to a vector of length at most ``radius``.

    ``features``: a map whose features are these numbers. One of a table takes mappings, one of texts the column
    ``text`` of mappings, one of arrays the arrays.
    ``center`` and ``scale``: a number, or one for each input. ``components``: (k, inputs), one map a row.
    """

    inputs: int = 0
    radius: float = 1.0
    schema: RecordSchema | None = None
    features: FeatureMap | None = None
    text: str | None = None
    center: Any = 0.0
    scale: Any = 1.0
    components: Any = None
    constants_origin: Origin = "declared"
    components_origin: Origin = "declared"

    def __post_init__(self) -> None:
        widths = [] if self.schema is None else [self.schema.width]
        widths += [] if self.features is None else [self.features.output_size]
        inputs = self.inputs or sum(widths)
        if type(inputs) is not int or inputs < 1 or widths not in ([], [inputs]):
            fact, remedy = "it does not say how many numbers a record has", "Give inputs, a schema, or features"
            raise BadInput("a preparation", fact, remedy)
        if (self.text is not None) != (self.features is not None and self.features.record_map.reads == "texts"):
            remedy = "Give both features of texts and text, the name of their column"
            raise BadInput("the text of a preparation", "it is there without features that read it, or missing", remedy)
        for name in ("constants_origin", "components_origin"):
            if getattr(self, name) not in get_args(Origin):
                raise BadInput(f"{name} of a preparation", "it is not known", f"Say {' or '.join(get_args(Origin))}")
        constants = {name: _constants(name, getattr(self, name), inputs) for name in ("center", "scale")}
        set_fields(self, inputs=inputs, radius=checked_radius(self.radius), **constants)
        if not (self.scale > 0).all():
            raise BadInput("the scale of a preparation", "a number is not above 0", "Declare positive numbers")
        if self.components is not None:
            set_fields(self, components=_components(self.components, inputs))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are read of a record; none of vectors."""
        if self.features is None:
            return () if self.schema is None else tuple(column.name for column in self.schema.columns)
        lowest = self.features.record_map
        named = lowest.schema.names if isinstance(lowest, TableMap) else ()
        return named if self.text is None else (self.text,)

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
        return self.rows(self.numbers(records))

    def numbers(self, records: Any) -> Floats:
        """The same before the constants: (n, inputs). A record that is none is a row that is not finite."""
        if not self.columns:
            return _vectors(records, self.inputs) if self.features is None else _of_arrays(self.features, records)
        known = [isinstance(record, (dict, Mapping)) for record in records]
        if self.features is None:
            assert self.schema is not None
            rows = self.schema.many(records)
        else:
            fields = [record if fine else {} for record, fine in zip(records, known, strict=True)]
            rows = _of_fields(self.features, self.columns, self.text, fields)
        rows[~np.array(known, dtype=bool)] = np.nan
        return rows

    def rows(self, inputs: Any) -> Floats:
        """The same of (n, inputs) numbers: what `RecordSchema.table` gives, or pictures as rows."""
        mapped = self.mapped(self.scaled(inputs))
        return np.where(np.isfinite(mapped).all(axis=1, keepdims=True), into_ball(mapped, self.radius), np.nan)

    def scaled(self, inputs: Any) -> Floats:
        """(n, inputs) numbers after the constants alone; a row with one that is not finite is no number anywhere."""
        rows = float_array(inputs)
        if rows.ndim != 2 or rows.shape[1] != self.inputs:
            raise BadInput("records to prepare", f"they are not rows of {self.inputs} numbers", "Give (n, inputs)")
        with np.errstate(all="ignore"):  # a warning would tell of a record
            rows = (rows - self.center) / self.scale
            finite = np.isfinite(rows).all(axis=1, keepdims=True)
        return np.asarray(np.where(finite, rows, np.nan))

    def mapped(self, scaled: Floats) -> Floats:
        """The linear map, a row at a time: a product of many rows may round otherwise than that of one."""
        if self.components is None:
            return scaled
        with np.errstate(all="ignore"):
            return np.array([self.components @ row for row in scaled]).reshape(len(scaled), self.width)

    def to_json(self) -> dict[str, Any]:
        """Plain values that read back to the same preparation, to the bit. Audience: public; nothing of a record."""
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
            **({} if self.features is None else {"features": self.features.identity()}),
            **({} if self.text is None else {"text": self.text}),
        }

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The inverse of `to_json`; strict about its keys."""
        if not isinstance(form, dict) or set(form) - _OF_FEATURES != _KEYS or form["format"] != FORMAT:
            raise BadInput("a stored preparation", f"it is not a {FORMAT}", "Restore the file")
        parts = {key: value for key, value in form.items() if key not in ("format", "schema", "features")}
        return cls(
            schema=None if form["schema"] is None else RecordSchema.from_json(form["schema"]),
            features=feature_map_from_json(form["features"]) if "features" in form else None,
            **parts,
        )

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
    for index, record in enumerate(records):
        row = float_array(record)
        if row.shape == (inputs,):
            rows[index] = row
    return rows


def _of_fields(feature_map: FeatureMap, columns: tuple[str, ...], text: str | None, fields: list[Any]) -> Floats:
    """Features of records by their columns; of a null a row that is not finite."""
    if text is None:
        batch: Any = {name: [record.get(name) for record in fields] for name in columns}
    else:
        cells = [record.get(text) for record in fields]
        batch = [cell if isinstance(cell, str) and encodable(cell) else None for cell in cells]
    return _as_rows(*feature_map.readable(batch))


def _of_arrays(feature_map: FeatureMap, records: Any) -> Floats:
    shape = getattr(feature_map.record_map, "input_shape", ())
    rows = records if isinstance(records, np.ndarray) else _vectors(records, math.prod(shape))
    return _as_rows(*feature_map.readable(rows.reshape(len(rows), *shape)))


def _as_rows(values: Any, fine: Any) -> Floats:
    rows = float_array(values).reshape(len(values), -1)
    rows[~fine] = np.nan
    return rows


def _constants(name: str, value: Any, inputs: int) -> Floats:
    constants = float_array(value)
    constants = np.full(inputs, constants.item()) if constants.size == 1 else constants
    if constants.shape != (inputs,) or not np.isfinite(constants).all():
        raise BadInput(
            f"the {name} of a preparation", "it is not a finite number, or one for each input", "Declare it so"
        )
    constants.flags.writeable = False
    return constants


def _components(value: Any, inputs: int) -> Floats:
    components = float_array(value)
    if (
        components.ndim != 2
        or components.shape[1] != inputs
        or not len(components)
        or not np.isfinite(components).all()
    ):
        raise BadInput(
            "the components of a preparation", f"they are not rows of {inputs} finite numbers", "Give (k, inputs)"
        )
    components.flags.writeable = False
    return components


By = Literal["deviation", "range"]


def constants_of(sample: Any, *, by: By = "deviation") -> tuple[Floats, Floats]:
    """A center and a scale for each input, of (n, inputs) public numbers.

    ``deviation``: mean and standard deviation; ``range``: the least value, and the distance to the largest. An input
    that is the same everywhere in the sample has scale 1.
    """
    rows = _checked(sample, "constants")
    if by == "deviation":
        center, scale = rows.mean(axis=0), rows.std(axis=0)
    elif by == "range":
        center, scale = rows.min(axis=0), np.ptp(rows, axis=0)
    else:
        raise BadInput(f"constants by {by}", "there is no such way", "Choose deviation or range")
    return center, np.where(scale > 1e-12 * np.maximum(np.abs(center), 1.0), scale, 1.0)


def components_of(sample: Any, count: int) -> Floats:
    """(count, inputs): the directions in which the sample, as it is, is largest; each with a sign that is fixed.

    Not centered here: center the sample by `Preparation.scaled` first, for principal components in the usual sense.
    """
    rows = _checked(sample, "components")
    return leading(rows.T @ rows / len(rows), count)


def _checked(sample: Any, what: str) -> Floats:
    rows = float_array(sample)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise BadInput(
            f"{what} of a public sample", "it is not rows of finite numbers, two at least", "Give (n, inputs)"
        )
    return rows


def private_components(records: Any, *, count: int, norm: float, receipt: Receipt) -> PaidComponents:
    """The ``count`` leading components of (n, inputs) private numbers, as `Preparation.scaled` gives them.

    ``norm``: C. The receipt is of `charge_preparation` with a `second_moment_event`; n is public, as slots are.
    """
    return components.private_components(records, count=count, norm=norm, receipt=receipt, who=PREPARED)
