"""An attack on private selection: run a campaign many times with a record and with its null, and see whether what an
observer sees tells them apart better than was claimed.

    found = attack_selection(campaign, paths=[loss.name for loss in claim.paths], runs=10**6)
    assert found.within(claim), found.excesses(claim)

``campaign.views(present=, runs=, seed=)`` gives, for each run, the record's path and what else was seen (whole numbers,
a column each): `discreet.testing.SelectorRuns` does it for any selector.

For every path and both directions: a fifth of the runs orders what was seen on that path by its ratio, another fifth
chooses how much of that order makes the event, the others try it. A loss counts as *proved* up to the largest epsilon
that the event's counts prove,

    log((lowest P(event) - delta) / highest Q(event)),

both ends by Clopper and Pearson. All ends of one attack hold together but for a chance of ``level``: a true claim is
called broken at most so often, whatever the mechanism. That nothing was found proves nothing; planted mistakes show
what would have been (docs/reference/selection-attack.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.privacy.events import Event, Repeated
from discreet.privacy.selection_terms import SelectionTerms
from discreet.privacy.trajectories import Trajectory
from discreet.testing.noise import SURELY
from discreet_research.selection_attacks.sample_tests import lowest_share

Codes = NDArray[np.int64]
NEVER = "never asked"
_PIECE = 50_000
_MOST_EVENTS = 200
"""Unions of cells that are weighed for one path: more would find no better one."""


@dataclass(frozen=True, kw_only=True)
class Views:
    """What was seen of each run: ``path`` (a number each, see the claim's order), and columns of whole numbers."""

    path: Codes
    seen: Codes


class Campaign(Protocol):
    """Something that selects several times, with one record present or as its null."""

    def views(self, *, present: bool, runs: int, seed: int) -> Views:
        """``runs`` independent runs."""
        ...


@dataclass(frozen=True, kw_only=True)
class PathLoss:
    """Losses of one path, in both directions: claimed, or proved to be there."""

    name: str
    forward: float
    backward: float


@dataclass(frozen=True, kw_only=True)
class SelectionClaim:
    """What every path may lose; at ``delta``. The whole view may lose the worst of them."""

    paths: tuple[PathLoss, ...]
    delta: float = 0.0

    @property
    def whole(self) -> PathLoss:
        """The claim about everything that is seen."""
        ways = [max(loss.forward for loss in self.paths), max(loss.backward for loss in self.paths)]
        return PathLoss(name="all paths", forward=ways[0], backward=ways[1])


@dataclass(frozen=True, kw_only=True)
class SelectionAttack:
    """Losses that were proved: at least so much, by path and of all that is seen."""

    paths: tuple[PathLoss, ...]
    whole: PathLoss
    runs: int
    delta: float
    level: float

    def excesses(self, claim: SelectionClaim) -> tuple[str, ...]:
        """Where more was proved than is claimed, in words."""
        if claim.delta != self.delta or [path.name for path in claim.paths] != [path.name for path in self.paths]:
            raise BadInput("comparing an attack with a claim", "they have another delta or other paths", "Attack again")
        return tuple(
            f"{measured.name}, {way}: at least {getattr(measured, way):.4f}, claimed {getattr(theirs, way):.4f}"
            for measured, theirs in zip((*self.paths, self.whole), (*claim.paths, claim.whole), strict=True)
            for way in ("forward", "backward")
            if getattr(measured, way) > getattr(theirs, way)
        )

    def within(self, claim: SelectionClaim) -> bool:
        """Whether nothing was proved that the claim denies."""
        return not self.excesses(claim)


def one_sided_claim(terms: SelectionTerms, *, sides: bool = False) -> SelectionClaim:
    """Losses of every path as a plan prices them: never asked, asked in query 1, 2, ... (and, with ``sides``, asked
    in query 1, 2, ... from below its threshold).
    """
    queries = range(1, terms.queries + 1)
    branches = {NEVER: terms.never_asked()} | {_asked(query): terms.asked_at(query) for query in queries}
    if sides:
        branches |= {f"{_asked(query)} from below": terms.asked_at(query, "low") for query in queries}
    trajectories = [Trajectory(name=name, selection=before) for name, before in branches.items()]
    return SelectionClaim(
        paths=tuple(
            PathLoss(name=trajectory.name, forward=float(trajectory.forward), backward=float(trajectory.backward))
            for trajectory in trajectories
        )
    )


def composed_claim(event: Event, queries: int, *, delta: float) -> SelectionClaim:
    """For a mechanism without a saving on paths: every record pays every query, by its privacy loss distribution."""
    from discreet.privacy.accounting.pld import pld_epsilons

    forward, backward = pld_epsilons(Repeated(event=event, count=queries), delta)
    names = (NEVER, *map(_asked, range(1, queries + 1)))
    return SelectionClaim(
        paths=tuple(PathLoss(name=name, forward=forward, backward=backward) for name in names), delta=delta
    )


def attack_selection(
    campaign: Campaign,
    *,
    paths: Sequence[str],
    runs: int,
    delta: float = 0.0,
    seed: int = 0,
    level: float = SURELY,
) -> SelectionAttack:
    """``runs`` runs with the record and as many with its null; what they prove about every path in ``paths``."""
    if type(runs) is not int or runs < 100:
        raise BadInput(f"an attack of {runs} runs", "events could not be chosen and tried", "Give 100 or more")
    worlds = [_gathered(campaign, present, runs, seed) for present in (True, False)]
    grains = _grains(*worlds)
    each = level / (4 * (len(paths) + 1))  # two directions, two ends
    proved = [_proved(grains, index, name, runs, delta, each) for index, name in enumerate(paths)]
    whole = _proved(grains, None, "all paths", runs, delta, each)
    return SelectionAttack(paths=tuple(proved), whole=whole, runs=runs, delta=delta, level=level)


def _asked(query: int) -> str:
    return f"asked in query {query}"


def _gathered(campaign: Campaign, present: bool, runs: int, seed: int) -> Views:
    ends = [*range(0, runs, _PIECE), runs]
    pieces = []
    for start, end in pairwise(ends):
        digest = hashlib.sha256(f"selection attack {seed} {present} {start}".encode()).digest()
        pieces.append(campaign.views(present=present, runs=end - start, seed=int.from_bytes(digest[:8])))
    return Views(
        path=np.concatenate([piece.path for piece in pieces]), seen=np.concatenate([piece.seen for piece in pieces])
    )


@dataclass(frozen=True, kw_only=True)
class _Grain:
    """One way of telling views apart: a path for each cell, and counts[world, part, cell].

    Parts: runs that order cells, runs that choose an event, runs that try it.
    """

    path: Codes
    counts: NDArray[np.int64]


def _grains(present: Views, null: Views) -> list[_Grain]:
    """By the path alone, by the path and one column, and by everything."""
    path, seen = np.concatenate([present.path, null.path]), np.concatenate([present.seen, null.seen])
    columns = [column for column in map(_numbered, seen.T) if column.max() > 0]
    everything = path
    for column in columns:  # numbered anew each time, so that no product overflows
        everything = _numbered(everything * (column.max() + 1) + column)
    return [_grain(path, key) for key in (np.zeros_like(path), *columns, everything)]


def _numbered(labels: Codes) -> Codes:
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)


def _grain(path: Codes, key: Codes) -> _Grain:
    wide = int(key.max()) + 1
    cells, cell_of = np.unique(path * wide + key, return_inverse=True)
    ends = np.cumsum(_sizes(path.size // 2))[:-1]
    parts = [part for world in np.split(cell_of, 2) for part in np.split(world, ends)]
    counts = np.array([np.bincount(part, minlength=cells.size) for part in parts]).reshape(2, 3, -1)
    return _Grain(path=cells // wide, counts=counts)


def _sizes(runs: int) -> tuple[int, int, int]:
    return runs // 5, runs // 5, runs - 2 * (runs // 5)


def _proved(grains: list[_Grain], path: int | None, name: str, runs: int, delta: float, level: float) -> PathLoss:
    forward, backward = (_one_way(grains, path, runs, delta, level, way) for way in (1, -1))
    return PathLoss(name=name, forward=forward, backward=backward)


def _one_way(grains: list[_Grain], path: int | None, runs: int, delta: float, level: float, way: int) -> float:
    _, choosing, trying = _sizes(runs)
    best, event = -math.inf, np.zeros(2, dtype=np.int64)
    for grain in grains:
        unions = _unions(grain, path, way)
        hopes = _epsilons(unions[0, 1], unions[1, 1], choosing, delta, level)
        if hopes.max(initial=-math.inf) > best:
            best, event = float(hopes.max()), unions[:, 2, int(hopes.argmax())]
    return float(_epsilons(event[:1], event[1:], trying, delta, level)[0])


def _unions(grain: _Grain, path: int | None, way: int) -> NDArray[np.int64]:
    """Counts[world, part] of events: the likeliest cells of a path, by their ratio, the first few or more of them."""
    inside = np.ones(grain.path.size, dtype=bool) if path is None else grain.path == path
    counts = grain.counts[::way][:, :, inside]
    order = np.argsort(-(counts[0, 0] + 0.5) / (counts[1, 0] + 0.5), kind="stable")
    ends = np.unique(np.linspace(0, max(order.size - 1, 0), min(order.size, _MOST_EVENTS)).astype(np.int64))
    return np.asarray(np.cumsum(counts[:, :, order], axis=2)[:, :, ends])


def _epsilons(likely: Any, other: Any, tosses: int, delta: float, level: float) -> Any:
    """The epsilon that each pair of counts proves; minus infinity, where it proves none."""
    low = lowest_share(likely, tosses, level) - delta
    high = 1 - lowest_share(tosses - other, tosses, level)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low, 0.0) / high)
