"""Frozen records that a campaign store gives back. Audience: owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True)
class PoolCohort:
    """Records that were enrolled together: number 0 when the campaign began, the others when the pool was extended."""

    number: int
    size: int
    facts: Mapping[str, Any] = field(repr=False)
    at: datetime


@dataclass(frozen=True, kw_only=True)
class WithdrawnRecord:
    """A record that was taken back.

    id        its own while it is only marked; its keyed code once it is ``erased``
    person    the keyed code of whose record it was, if it is erased and that was known
    done      no copy is left in the store's files
    """

    place: int
    id: str = field(repr=False)
    person: bytes = field(repr=False)
    erased: bool
    done: bool


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A step of the campaign that was taken: once for each kind and phase."""

    number: int
    kind: str
    phase: int
    facts: Mapping[str, Any] = field(repr=False)
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Told:
    """What became of answers: how many were new, said again, or other than before."""

    new: int
    repeated: int
    corrected: int


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """A file that the store names by its hash."""

    kind: str
    phase: int
    sha256: str
    size: int
    at: datetime
