"""Labelled records of a cohort, and Poisson sampling of them.

Guarantee: a unit (record or person) is in a step with its cohort's rate, independently of all others and of all data.
A record without a label, or with one that is no class, keeps its slot and has gradient 0, as the null does; nothing
outside tells how many there are. The number of slots is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import Source, poisson_mask, random_places
from discreet.pools.pool import as_array
from discreet.pools.rows import PlacedRows, or_none
from discreet.privacy.ledger import Receipt
from discreet.privacy.plan import TrainingStage

MISSING = -1
"""The class of a record whose label never came. In a table of several labels, NaN stands for one."""
Positions = NDArray[np.int64]
_SEVERAL = 8


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CohortRecords:
    """The records of one cohort. ``x``: an array, or a dict of arrays, with a row a record. Anything will do that has
    ``shape``, ``dtype`` and rows by an array of positions: memory-mapped files, or a reader of a folder.

    ``y``: class numbers from 0, `MISSING` where there is none; or a table of 0, 1 and NaN (or -1), a column a label.
    ``persons``: whose record it is, needed where the unit is the person.
    """

    x: Any
    y: NDArray[Any]
    persons: NDArray[Any] | None = None
    owners: Positions = field(init=False)
    units: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", self._as_given({name: _array(part) for name, part in self.arrays.items()}))
        object.__setattr__(self, "y", _labels(_array(self.y)))
        sizes = {len(part) for part in self.arrays.values()} | {len(self.y)}
        if self.persons is not None:
            object.__setattr__(self, "persons", _names(self.persons))
            sizes.add(len(self.persons))
        if len(sizes) != 1:
            raise BadInput("a cohort", "its records, labels and persons are not equally many", "Give one of each a row")
        if self.persons is None:
            owners, units = np.arange(len(self.y)), len(self.y)
        else:
            names, owners = np.unique(self.persons, return_inverse=True)
            units = len(names)
        object.__setattr__(self, "owners", owners.astype(np.int64).reshape(-1))
        object.__setattr__(self, "units", units)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.y)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<CohortRecords: {self.units} units>"

    @property
    def arrays(self) -> dict[str, Any]:
        """``x`` by name; a single array has the empty one."""
        return dict(self.x) if isinstance(self.x, Mapping) else {"": self.x}

    @property
    def kind(self) -> tuple[Any, ...]:
        """What records must share to be computed together: types and shapes, which are public."""
        arrays = ((name, str(np.dtype(part.dtype)), tuple(part.shape[1:])) for name, part in self.arrays.items())
        return (*arrays, str(self.y.dtype), self.y.shape[1:])

    def one_by_one(self) -> CohortRecords:
        """The same records, each a unit of its own."""
        return self if self.persons is None else CohortRecords(x=self.x, y=self.y)

    def of_classes(self, classes: int = 2) -> CohortRecords:
        """The same records, a column of class numbers read as a list of them, where there are several ``classes``."""
        if classes < 2 or self.y.ndim != 2 or self.y.shape[1] != 1:
            return self
        numbers = np.nan_to_num(self.y[:, 0], nan=MISSING).astype(np.int64)
        return CohortRecords(x=self.x, y=numbers, persons=self.persons)

    def rows(self, positions: Positions) -> Any:
        """The records at ``positions``, all of them."""
        try:
            return self._as_given(self._read(positions))
        except Exception as failed:  # noqa: BLE001 - what a reader says may name a record
            raise _unreadable(failed) from None

    def readable_rows(self, positions: Positions) -> tuple[Any, NDArray[np.bool_]]:
        """The records at ``positions`` and which of them could be read: one that cannot is zeros, and a null.

        Where none of several can be read it is not a record that is broken but the reader, and it says so.
        """
        try:
            return self._as_given(self._read(positions)), np.ones(len(positions), dtype=bool)
        except Exception as failed:  # noqa: BLE001
            each = [or_none(self._read, positions[index : index + 1]) for index in range(len(positions))]
            if len(each) >= _SEVERAL and all(row is None for row in each):
                raise _unreadable(failed) from None
        blank = {name: np.zeros((1, *part.shape[1:]), dtype=part.dtype) for name, part in self.arrays.items()}
        joined = {name: np.concatenate([(row or blank)[name] for row in each]) for name in blank}
        return self._as_given(joined), np.array([row is not None for row in each])

    def _as_given(self, parts: dict[str, Any]) -> Any:
        """Parts by name as ``x`` has them: a table, or the one array."""
        return parts if isinstance(self.x, Mapping) else parts[""]

    def _read(self, positions: Positions) -> dict[str, NDArray[Any]]:
        arrays = {name: np.asarray(part[positions]) for name, part in self.arrays.items()}
        for name, part in self.arrays.items():
            if arrays[name].shape != (len(positions), *part.shape[1:]) or arrays[name].dtype.kind not in "biuf":
                raise ValueError(name)
        return arrays

    def labelled(self, classes: int) -> NDArray[np.bool_]:
        """Which records have a label that means something. Audience: owner."""
        if self.y.ndim == 2:
            return np.asarray(~np.isnan(self.y.astype(np.float64)).all(axis=1))
        if self.y.dtype.kind == "f":
            return np.asarray(np.isfinite(self.y))
        return np.asarray((self.y >= 0) & (self.y < classes))


def _unreadable(failed: Exception) -> BadInput:
    return BadInput("reading records", f"their reader ended with {type(failed).__name__}", "Read them once by yourself")


def _array(values: Any) -> Any:
    values = as_array(values)
    if len(values.shape) == 0 or np.dtype(values.dtype).kind not in "biuf":
        raise BadInput("a cohort", "records or labels are not arrays of numbers with a row each", "Give numbers")
    return values


def _labels(y: NDArray[Any]) -> NDArray[Any]:
    y = np.asarray(y)
    if y.dtype == np.bool_:
        y = y.astype(np.int64)
    if y.ndim == 2:
        with np.errstate(all="ignore"):
            y = np.where(y < 0, np.nan, y).astype(np.float32)
    if y.ndim not in (1, 2):
        raise BadInput(
            "the labels of a cohort", "they are neither a list nor a table", "Give class numbers, or 0 and 1"
        )
    return y


def _names(persons: Any) -> NDArray[np.str_]:
    """Whose records they are, as words, so that 7 and "7" are one person everywhere. What could name one person twice
    (NaN, None, floats, a mixture) is refused: a person in two units would be protected by halves.
    """
    if hasattr(persons, "iloc"):
        persons = persons.to_numpy()
    if not isinstance(persons, np.ndarray):  # a list is looked at name by name: numpy would make one type of all
        persons = np.fromiter(persons, dtype=object) if np.iterable(persons) else np.empty((), dtype=object)
    names = persons
    if names.dtype.kind == "O" and {type(name) for name in names.ravel().tolist()} in ({str}, {int}, set()):
        names = names.astype(str)
    if names.dtype.kind not in "iuU" or names.ndim != 1:
        raise BadInput("persons", "they are not a list of words or of whole numbers", "Name every record's person")
    return np.asarray(names.astype(str))


@dataclass(frozen=True)
class PoissonCohortSampler:
    """Draws the units of a step: every cohort with its own rate, paid for by one receipt."""

    stage: TrainingStage
    cohorts: Mapping[str, CohortRecords]
    receipt: Receipt

    def draw(self) -> dict[str, Positions]:
        """The sampled units of every cohort, by position. Secret."""
        return {
            label: np.flatnonzero(poisson_mask(self.cohorts[label].units, receipt=self.receipt, who=label))
            for label, _ in self.stage.cohorts
        }


def slots_of(
    cohort: CohortRecords,
    units: Positions,
    usable: NDArray[np.bool_],
    rows_per_unit: int,
    order_by: NDArray[np.float64],
) -> tuple[Positions, NDArray[np.bool_]]:
    """``rows_per_unit`` rows for every one of ``units``, (U, m), and which of them count.

    A unit with more usable rows gives those that ``order_by`` (a number for every row of the cohort) puts first; one
    with fewer, or none, keeps its places empty. So nobody's rows move another's, in a batch or in what is drawn for it.
    """
    order = np.lexsort((order_by, ~usable, cohort.owners))
    starts = np.searchsorted(cohort.owners[order], np.arange(cohort.units + 1))
    reach = np.arange(rows_per_unit)
    places = starts[units][:, None] + reach
    belongs = reach < (starts[units + 1] - starts[units])[:, None]
    rows = order[np.where(belongs, places, starts[units][:, None])]
    return np.asarray(rows), np.asarray(belongs & usable[rows])


# A cohort brought to its committed number of slots, for plans whose asked sets are hidden.
#
# How many were asked is private there, and the scale of the noise depends (in its last digits) on the number of slots.
# So the asked are put into random places of ``slots``, and all other places hold nulls: zeros without a label.
#
# Guarantee (docs/proofs/hidden-selection.md): the number of slots is the plan's. Places are drawn at random, so a run
# in which a record is missing can be drawn as the run in which it is there, with a null in its place and all others in
# theirs: masks, micro-batches and the rounding of the others' gradients are the same to the bit.


def padded(records: CohortRecords, slots: int, *, where: Receipt | Source, kind: str = "slots") -> CohortRecords:
    """``records`` in random places of ``slots``, the others nulls. ``where``: the receipt of the selection, so that a
    redo after a crash has the same places. ``kind`` keeps the draws of several cohorts apart.
    """
    if type(slots) is not int or slots < 1 or records.persons is not None:
        raise BadInput("padding a cohort", "it is for records, to a whole number of slots", "Give the plan's slots")
    if len(records) > slots:
        raise BadInput(
            "padding a cohort", "it has more records than slots", "Select with the plan's slots, which drops at random"
        )
    places = random_places(slots, slots, where=where, kind=kind)[: len(records)]
    x = {name: _spread(part, places, slots) for name, part in records.arrays.items()}
    return CohortRecords(x=x if isinstance(records.x, Mapping) else x[""], y=_padded_labels(records.y, places, slots))


def _padded_labels(y: NDArray[Any], places: Positions, slots: int) -> NDArray[Any]:
    kind = y.dtype if y.dtype.kind in "if" else np.dtype(np.int64)  # one that can say that a label is missing
    labels = np.full((slots, *y.shape[1:]), MISSING if kind.kind == "i" else np.nan, dtype=kind)
    labels[places] = y
    return labels


def _spread(part: Any, places: Positions, slots: int) -> Any:
    if type(part) is not np.ndarray:
        sources = np.full(slots, -1, dtype=np.int64)
        sources[places] = np.arange(len(places))
        return PlacedRows(part, sources)
    spread = np.zeros((slots, *part.shape[1:]), dtype=part.dtype)
    spread[places] = part
    return spread
