"""Feature maps: public functions of one record alone, to the bit.

Guarantee: row i of the output is computed from record i and declared constants alone. A map of arrays computes records
in blocks of one size, filled up with zeros, each block by one thread, and with the records as the last axis: numpy then
does the same with each of them. So a record alone, among others, at another position, and with any number of threads
gives the same bits. Products of matrices are no exception: `product` makes them without BLAS, whose kernels sum some
columns in another order than others. Nothing is fitted to the records. A map therefore costs nothing, and changes no
sensitivity: a record and its null are replaced by the features of one and by a null.

A null is a flag beside the features, never a vector that means something: where the record is a null, holds a number
that is not finite, or has features that are not finite, its row is zeros and its flag is False.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from discreet.checks import Wrong, truth
from discreet.errors import BadInput
from discreet.parts import Option
from discreet.pools.rows import Mask, readable_rows
from discreet.pools.schema import Schema
from discreet.privacy.ledger.charges import canonical

Features = NDArray[np.float32]
ROUNDING = 1 + 1e-5
"""A bound in real numbers, times this, holds in single precision."""
_BLOCKS_AT_ONCE = 64


class FeatureMap(ABC):
    """A public function of one record. Maps are frozen dataclasses; ``version`` changes when the numbers do.

    ``reads``: the kind of records that it takes.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    reads: ClassVar[Literal["arrays", "tables", "texts"]] = "arrays"

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what is derived from them is derived anew in a copy."""
        return {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]

    @property
    @abstractmethod
    def output_shape(self) -> tuple[int, ...]:
        """The shape of one record's features."""

    @property
    @abstractmethod
    def norm_bound(self) -> float | None:
        """The largest Euclidean norm that the features of a record can have; None: it depends on the records."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Everything that the features depend on beside the record, in a form that JSON takes."""

    @classmethod
    @abstractmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The inverse of `options`, with the same checks as a new map."""

    @abstractmethod
    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of records, nulls as zeros, and which records are none. Audience: owner."""

    def transform(self, batch: Any) -> Features:
        """The features of records, float32, nulls as zeros."""
        return self.readable(batch)[0]

    def of_inputs(self, inputs: Any) -> tuple[Features, Mask]:
        """As `readable`, of records as a pool gives them: rows of a table as its schema encodes them, scaled arrays,
        or texts.
        """
        return self.readable(inputs)

    def torch_module(self) -> Any:
        """The same of scaled records as a module of torch, up to rounding, for an ONNX file; None if there is none."""
        return None

    @property
    def record_map(self) -> FeatureMap:
        """The map that takes the record itself: this one, or the lowest of those that it is on top of."""
        return self

    @property
    def output_size(self) -> int:
        """How many features a record has."""
        return prod(self.output_shape)

    def to_json(self) -> dict[str, Any]:
        """A form that `discreet.features.feature_map_from_json` reads back to an equal map."""
        return {"name": self.name, "version": self.version, "options": self.options()}

    def identity(self) -> dict[str, Any]:
        """What a certificate says of the map: its form, the SHA-256 of the form, and its encoder's. Public."""
        form, encoder = self.to_json(), self.record_map.encoder_facts()
        facts = {"encoder": encoder} if encoder else {}
        return form | {"sha256": hashlib.sha256(canonical(form)).hexdigest()} | facts

    @property
    def packages(self) -> tuple[str, ...]:
        """The installed packages that compute the features: another version may round otherwise."""
        return ("numpy", "scipy")

    def encoder_facts(self) -> dict[str, str]:
        """What a certificate says of the encoder's weights; nothing where the map has no encoder."""
        return {}

    def located(self, encoder: Path | str) -> FeatureMap:
        """The same map, with the files of its encoder there; the map itself where it has none."""
        return self


class ArrayMap(FeatureMap):
    """A map of records that are arrays of one shape."""

    input_shape: tuple[int, ...]

    @property
    @abstractmethod
    def block(self) -> int:
        """How many records are computed together, always."""

    @abstractmethod
    def features(self, records: Features) -> Features:
        """The features of exactly ``block`` finite records. The result of one must not depend on its position."""

    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of records, nulls as zeros, and which records are none. Audience: owner."""
        records = batch if hasattr(batch, "shape") else np.asarray(batch)
        self._check(records)
        count = int(records.shape[0])
        values, fine = np.zeros((count, *self.output_shape), dtype=np.float32), np.zeros(count, dtype=bool)

        def compute(piece: tuple[NDArray[Any], Mask], start: int, first: int) -> None:
            """One block: of what was read from row ``start``, the rows from ``first``."""
            rows, present = (part[first : first + self.block] for part in piece)
            span = slice(start + first, start + first + len(rows))
            values[span], fine[span] = self._of_block(rows, present)

        for start in range(0, count, self.block * _BLOCKS_AT_ONCE):
            piece = readable_rows(records, slice(start, min(start + self.block * _BLOCKS_AT_ONCE, count)))
            in_threads([(compute, piece, start, first) for first in range(0, len(piece[0]), self.block)])
        return values, fine

    def _of_block(self, rows: NDArray[Any], present: Mask) -> tuple[Features, Mask]:
        with np.errstate(all="ignore"):
            records = rows.astype(np.float32)
            fine: Mask = present & np.isfinite(records.reshape(len(records), -1)).all(axis=1)
            padded = np.zeros((self.block, *self.input_shape), dtype=np.float32)
            padded[: len(rows)][fine] = records[fine]
            values = self.features(padded)[: len(rows)].reshape(len(rows), *self.output_shape)
        fine &= np.isfinite(values.reshape(len(rows), -1)).all(axis=1)
        return np.where(fine.reshape(-1, *[1] * len(self.output_shape)), values, np.float32(0)), fine

    def _check(self, records: Any) -> None:
        if tuple(records.shape[1:]) != self.input_shape or np.dtype(records.dtype).kind not in "fiub":
            raise BadInput(
                f"{self.name} features",
                f"the records are not numbers of shape {self.input_shape}",
                "Give an array (records, *shape), or make the map for another shape",
            )


@dataclass(frozen=True, kw_only=True)
class FeatureRequest:
    """Declared facts of the records, and the options of a map.

    shape     of one record, where records are arrays
    schema    of the table that records are rows of
    public    a table of public rows, for maps that are fitted
    base      the map that this one is on top of
    directory that paths are seen from
    options   of the part, as it declares them
    """

    shape: tuple[int, ...] | None = None
    schema: Schema | None = None
    public: Any = None
    base: FeatureMap | None = None
    directory: Path = Path()
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


def in_threads(work: list[tuple[Any, ...]]) -> None:
    """Call each function with its arguments, in as many threads as the process has processors."""
    threads = min(processors(), len(work))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library's warning would tell of a record
        if threads < 2:
            for function, *arguments in work:
                function(*arguments)
            return
        with ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(*call) for call in work]:
                future.result()


def processors() -> int:
    """How many threads a map uses: OMP_NUM_THREADS, or the processors of this process."""
    from joblib import cpu_count

    told = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(int(told), int(cpu_count()))) if told.isdecimal() else int(cpu_count())


def product(matrix: Features, columns: Features) -> Features:
    """Matrices (.., m, k) times columns (.., k, n), broadcast, every column summed in the same order."""
    return np.asarray(np.einsum("...mk,...kn->...mn", matrix, columns))


def at_length_one(vectors: Features) -> Features:
    """Each record at length 1; one of zeros stays. Computed in double precision: no square overflows."""
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.maximum(np.sqrt((wide**2).sum(axis=1, keepdims=True)), 1e-30), dtype=np.float32)


UNIT_LENGTH = Option(
    name="unit_length", check=truth, type="true or false", default="true", meaning="bring each record to length 1"
)


def checked_shape(shape: Any, asked: str) -> tuple[int, ...]:
    """The declared shape of one record."""
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise BadInput(asked, f"{shape!r} is not the shape of a record", "Write it like (1, 28, 28)")
    return sizes


def checked(asked: str, values: Mapping[str, tuple[Callable[[Any], Any], Any]]) -> None:
    """Refuse the first value that its check does not take; name: (check, value)."""
    for name, (check, value) in values.items():
        try:
            check(value)
        except Wrong as wrong:
            raise BadInput(f"{asked} with {name}", wrong.fact, wrong.remedy) from None
