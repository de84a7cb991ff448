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
from discreet.noise import poisson_mask
from discreet.privacy.ledger import Receipt
from discreet.privacy.training_phase import TrainingStage

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
        whole = {name: _array(part) for name, part in self.x.items()} if isinstance(self.x, Mapping) else _array(self.x)
        object.__setattr__(self, "x", whole)
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

    def of_classes(self) -> CohortRecords:
        """The same records, a column of class numbers read as a list of them."""
        if self.y.ndim != 2 or self.y.shape[1] != 1:
            return self
        numbers = np.nan_to_num(self.y[:, 0], nan=MISSING).astype(np.int64)
        return CohortRecords(x=self.x, y=numbers, persons=self.persons)

    def rows(self, positions: Positions) -> Any:
        """The records at ``positions``, all of them."""
        try:
            return self._read(positions)
        except Exception as failed:  # noqa: BLE001 - what a reader says may name a record
            raise _unreadable(failed) from None

    def readable_rows(self, positions: Positions) -> tuple[Any, NDArray[np.bool_]]:
        """The records at ``positions`` and which of them could be read: one that cannot is zeros, and a null.

        Where none of several can be read it is not a record that is broken but the reader, and it says so.
        """
        try:
            return self._read(positions), np.ones(len(positions), dtype=bool)
        except Exception as failed:  # noqa: BLE001
            each = [self._read_alone(positions[place : place + 1]) for place in range(len(positions))]
            found = [row for row in each if row is not None]
            if not found and len(each) >= _SEVERAL:
                raise _unreadable(failed) from None
        blank = self._blank()
        rows = [row if row is not None else blank for row in each]
        joined = {name: np.concatenate([row[name] for row in rows]) for name in blank}
        return (joined if isinstance(self.x, Mapping) else joined[""]), np.array([row is not None for row in each])

    def _read(self, positions: Positions) -> Any:
        found = {name: np.asarray(part[positions]) for name, part in self.arrays.items()}
        for name, part in self.arrays.items():
            if found[name].shape != (len(positions), *part.shape[1:]) or found[name].dtype.kind not in "biuf":
                raise ValueError(name)
        return found if isinstance(self.x, Mapping) else found[""]

    def _read_alone(self, position: Positions) -> dict[str, NDArray[Any]] | None:
        try:
            found = self._read(position)
        except Exception:  # noqa: BLE001
            return None
        return found if isinstance(found, dict) else {"": found}

    def _blank(self) -> dict[str, NDArray[Any]]:
        return {name: np.zeros((1, *part.shape[1:]), dtype=part.dtype) for name, part in self.arrays.items()}

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
    """What has rows by position as it is; torch tensors, tables of pandas and lists as arrays."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    elif hasattr(values, "iloc"):
        values = values.to_numpy()
    elif not all(hasattr(values, name) for name in ("shape", "dtype", "__getitem__", "__len__")):
        try:
            values = np.asarray(values)
        except (TypeError, ValueError):
            values = np.empty(0, dtype=object)
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
    found = persons
    if found.dtype.kind == "O" and {type(name) for name in found.ravel().tolist()} in ({str}, {int}, set()):
        found = found.astype(str)
    if found.dtype.kind not in "iuU" or found.ndim != 1:
        raise BadInput("persons", "they are not a list of words or of whole numbers", "Name every record's person")
    return np.asarray(found.astype(str))


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
    cohort: CohortRecords, units: Positions, usable: NDArray[np.bool_], most: int, luck: NDArray[np.float64]
) -> tuple[Positions, NDArray[np.bool_]]:
    """``most`` rows for every one of ``units``, (U, m), and which of them count.

    A unit with more usable rows gives those with the least ``luck`` (a number for every row of the cohort); one with
    fewer, or none, keeps its places empty. So nobody's rows move another's, in a batch or in what is drawn for it.
    """
    order = np.lexsort((luck, ~usable, cohort.owners))
    starts = np.searchsorted(cohort.owners[order], np.arange(cohort.units + 1))
    reach = np.arange(most)
    places = starts[units][:, None] + reach
    own = reach < (starts[units + 1] - starts[units])[:, None]
    rows = order[np.where(own, places, starts[units][:, None])]
    return np.asarray(rows), np.asarray(own & usable[rows])
