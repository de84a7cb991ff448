"""What a feature map is built for: the declared facts of the records, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.errors import BadInput
from discreet.features.feature_map import FeatureMap
from discreet.pools.schema import Schema


@dataclass(frozen=True, kw_only=True)
class FeatureRequest:
    """Declared facts of the records, and the options of a map.

    shape     of one record, where records are arrays
    schema    of the table that records are rows of
    public    a table of public rows, for maps that are fitted
    base      the map that this one is on top of
    options   of the part, as it declares them
    """

    shape: tuple[int, ...] | None = None
    schema: Schema | None = None
    public: Any = None
    base: FeatureMap | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def record_shape(self, name: str) -> tuple[int, ...]:
        """The shape, for a map of arrays."""
        if self.shape is None:
            raise BadInput(f"{name} features", "the shape of a record is not declared", "Give shape=(1, 28, 28)")
        return self.shape

    def table_schema(self, name: str) -> Schema:
        """The schema, for a map of tables."""
        if self.schema is None:
            raise BadInput(f"{name} features", "no schema declares the columns", "Give schema=, with bounds and values")
        return self.schema
