"""Baselines of selection: uniform random, which is free, and the exact top k, which is not private. And how good a
selection was beside them.

How good was a selection? Its figures against the true k highest scores, beside those of a random draw.

Guarantee: none; that is why it is refused where people are protected. Every figure here reads all scores of the pool,
which nobody paid for. So it takes a *simulation* (the ledger that was charged, and the selection, both marked so), or a
pool whose ids and scores are declared public. Audience: the owner in a simulation, the public for a public pool.

With m records in the pool, n asked, k planned, A the asked and T the k highest (DP-AL, Table 5, and the share kept):

    accuracy    |A and T| / k                             how much of the true top k was asked
    iou         |A and T| / |A or T|                      a / (2 - a) of the accuracy a where n = k
    mse         mean squared difference between the sorted scores of A and those of T, rank by rank
    mean        the mean score of A
    share_kept  (mean of A - mean of the pool) / (mean of T - mean of the pool)
    gain_kept   share_kept n / k: the same for sums, so that who asks fewer has gained less

T is always the top k that was planned. Where n < k, ranks are shares: the mse is the squared difference of the two
quantile functions, averaged (for n = k that is rank by rank). Of records that tie for the last places of T, those that
were asked are taken to be in T: whoever chose the highest scores has accuracy 1, however ties fell.

*Random* is what n records drawn at random have on average. Accuracy, mean and shares are exact, ties included; iou and
mse are those of the average draw (its overlap, its quantiles): both are convex, so the true averages are a little
higher, by terms of order 1/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import OperatingSystem, Source, random_places
from discreet.parts import Part
from discreet.privacy.events import Event
from discreet.privacy.ledger import Ledger, Receipt
from discreet.records import Selection
from discreet.scorers.score import declared_range
from discreet.selectors.hidden_threshold import HiddenThresholdSelector
from discreet.selectors.selection_inputs import Floats, checked, chosen

FORMAT = "discreet.selection-quality/1"
_MOST = 1e100
"""Scores beyond this are not scores, and their squares are not numbers."""


@dataclass(frozen=True, kw_only=True)
class RandomSelector:
    """k records, all equally likely. Reads nothing, costs nothing; needs no receipt.

    ``source``: where its chance comes from; the operating system, or a seed in a simulation.
    """

    source: Source | None = None
    name = "random"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing."""
        return ()

    def select(
        self, *, ids: Any, scores: Any = None, k: int, receipt: Receipt | Sequence[Receipt] = (), phase: int = 0
    ) -> Selection:
        """k of ``ids``. ``phase`` keeps the draws of a simulation's phases apart."""
        names, _, count = checked(ids, None, k, None)
        where = self.source or OperatingSystem()
        places = random_places(len(names), count, where=where, kind=f"{self.name} {phase}")
        return Selection(ids=chosen(names, places), mechanism=self.name, simulation=where.simulation)


@dataclass(frozen=True, kw_only=True)
class ExactTopK:
    """The k largest scores: **not private**. For simulations, and for pools of public records.

    Its selections are marked ``private=False``, and so is everything that is made of them.
    """

    range: tuple[float, float] = (0.0, 1.0)
    source: Source | None = None
    name = "exact"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """There is none: no finite epsilon holds."""
        return ()

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt] = (), phase: int = 0
    ) -> Selection:
        """The k largest; of equal scores, at random."""
        names, values, count = checked(ids, scores, k, self.range)
        where = self.source or OperatingSystem()
        mixed = random_places(len(names), len(names), where=where, kind=f"{self.name} {phase}")
        places = mixed[np.argsort(-values[mixed], kind="stable")[:count]]
        shown = places[random_places(count, count, where=where, kind=f"{self.name} order {phase}")]
        return Selection(
            ids=chosen(names, shown),
            mechanism=self.name,
            private=False,
            simulation=where.simulation,
            epsilon=Decimal("Infinity"),
        )


PARTS = (
    Part(
        kind="selector",
        name="random",
        summary="uniform random; nothing is read, and nothing paid",
        build=lambda request: RandomSelector(source=request.source),
        reads=(),
        recipes=("private-pool", "public-data"),
        one_query=True,
    ),
    Part(
        kind="selector",
        name="exact",
        summary="the k largest scores; not private, in simulations only",
        build=lambda request: ExactTopK(range=request.range, source=request.source),
        private=False,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """See the module. None: nobody was asked, or there is nothing to gain (equal scores, or everybody is planned)."""

    accuracy: float
    iou: float
    mse: float | None
    mean: float | None
    share_kept: float | None
    gain_kept: float | None


@dataclass(frozen=True, kw_only=True)
class SelectionQuality:
    """What was ``found``, beside what ``random`` and the ``exact`` top k have. ``audience``: who may see it."""

    audience: Literal["owner", "public"]
    simulation: bool
    mechanism: str
    pool: int
    k: int
    asked: int
    found: Figures
    random: Figures
    exact: Figures

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json`` and reports; it says who may see it."""
        return {"format": FORMAT, "public": self.audience == "public"} | asdict(self)


def selection_quality(
    *,
    ids: Any,
    scores: Any,
    selection: Selection,
    k: int,
    where: Ledger | None = None,
    public: bool = False,
    limits: tuple[float, float] | None = None,
) -> SelectionQuality:
    """The quality of ``selection`` among ``ids`` with ``scores``, where ``k`` were planned.

    ``where``     the ledger it was charged to; refused unless both are simulations
    ``public``    these ids *and scores* are public, so that anybody may compute this; then ``where`` may be anything
    ``limits``    bring scores into this range first, as a selector does; without it they are taken as they are
    """
    _refuse_private(selection, where, public=public)
    names, values, planned = _pool(ids, scores, k, limits)
    places = _places(names, selection, planned)
    everybody, asked = np.sort(values)[::-1], np.sort(values[places])[::-1]  # sums do not depend on who comes first
    exact = everybody[:planned]
    return SelectionQuality(
        audience="public" if public else "owner",
        simulation=selection.simulation,
        mechanism=selection.mechanism,
        pool=values.size,
        k=planned,
        asked=places.size,
        found=_figures(asked, exact, everybody, _overlap(asked, exact)),
        random=_random(asked.size, exact, everybody),
        exact=_figures(exact, exact, everybody, planned),
    )


def _refuse_private(selection: Selection, where: Ledger | None, *, public: bool) -> None:
    asked = "the quality of a selection"
    if not isinstance(selection, Selection) or not isinstance(where, Ledger | None):
        raise BadInput(asked, "it is of a Selection, and of the Ledger that it was charged to", "Give both as they are")
    if public is True:
        return
    if where is None:
        raise BadInput(asked, "nothing says that this is a simulation, or that the pool is public",
                       "Give where=, the ledger it was charged to, or public=True")  # fmt: skip
    if not where.simulation or not selection.simulation:
        what = "selection" if where.simulation else "ledger"
        raise BadInput(
            asked,
            f"the {what} is not a simulation, and every figure reads scores that nobody paid for",
            "Try selectors on a simulation (a ledger and a source with a seed), or on a public pool",
        )


def _pool(ids: Any, scores: Any, k: Any, limits: tuple[float, float] | None) -> tuple[Sequence[str], Floats, int]:
    try:
        values = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("scores", "they are not numbers", "Give one number a record") from None
    if limits is None and not (np.abs(values) <= _MOST).all():  # NaN is not below anything
        raise BadInput("scores", "they are not all ordinary numbers", "Give limits, the range of the selector")
    names, values, planned = checked(ids, values, k, declared_range(limits or (-_MOST, _MOST)))
    if planned == 0:
        raise BadInput("the quality of a selection", "the pool is empty, or nobody was to be asked", "Give k from 1")
    return names, values, planned


def _places(names: Sequence[str], selection: Selection, k: int) -> NDArray[np.int64]:
    place_of = {name: position for position, name in enumerate(names)}
    places = [place_of.get(name, -1) for name in selection.ids]
    if -1 in places or len(set(places)) != len(places):
        raise BadInput("the quality of a selection", "it has an id that is not in the pool, or one twice",
                       "Give the pool it was chosen from")  # fmt: skip
    if len(places) > k and selection.mechanism != HiddenThresholdSelector.name:  # which asks about k
        raise BadInput(f"a selection of {len(places)}", f"only {k} were planned", "Give the k it was made with")
    return np.array(places, dtype=np.int64)


def _overlap(asked: Floats, exact: Floats) -> int:
    """|A and T|: everyone above the k-th score, and of those at it as many as T has places for."""
    last = exact[-1]
    return int((asked > last).sum()) + min(int((asked == last).sum()), int((exact == last).sum()))


def _figures(asked: Floats, exact: Floats, pool: Floats, overlap: float) -> Figures:
    share = _share_kept(asked, exact, pool)
    count, planned = asked.size, exact.size
    return Figures(
        accuracy=overlap / planned,
        iou=overlap / (count + planned - overlap),
        mse=_between(asked, exact) if count else None,
        mean=float(asked.mean()) if count else None,
        share_kept=share if count else None,
        gain_kept=None if share is None else share * count / planned,
    )


def _random(count: int, exact: Floats, pool: Floats) -> Figures:
    """What ``count`` of the pool, all equally likely, have: its mean and quantiles, and no gain."""
    overlap = _expected_overlap(count, exact, pool)
    nothing = None if _share_kept(pool, exact, pool) is None else 0.0
    return Figures(
        accuracy=overlap / exact.size,
        iou=overlap / (count + exact.size - overlap),
        mse=_between(pool, exact) if count else None,
        mean=float(pool.mean()) if count else None,
        share_kept=nothing if count else None,
        gain_kept=nothing,
    )


def _share_kept(asked: Floats, exact: Floats, pool: Floats) -> float | None:
    """Of scores brought to [0, 1] first, so that rounding is small beside what is divided. Nobody asked gains 0."""
    low, spread = pool.min(), pool.max() - pool.min()
    if spread == 0 or exact.size == pool.size:
        return None
    if asked.size == 0:
        return 0.0
    mean, best, usual = (float(((part - low) / spread).mean()) for part in (asked, exact, pool))
    return (mean - usual) / (best - usual)


def _between(left: Floats, right: Floats) -> float:
    """The mean squared difference of two quantile functions: steps of 1/n and 1/k, cut where either has one."""
    first, second = np.sort(left), np.sort(right)
    n, k = first.size, second.size
    cuts = np.unique(np.concatenate([np.arange(n + 1) * k, np.arange(k + 1) * n]))  # in parts of 1 / (n k)
    differences = first[cuts[:-1] // k] - second[cuts[:-1] // n]
    return float((differences**2 * (np.diff(cuts) / (n * k))).sum())


def _expected_overlap(count: int, exact: Floats, pool: Floats) -> float:
    """E|A and T| for a random A: those above the k-th score in their share, those at it up to the places there are.

    How many at it are drawn is hypergeometric: of m records c tie, n are drawn.
    """
    from scipy.special import gammaln

    m, last = pool.size, exact[-1]
    ties, open_places = int((pool == last).sum()), int((exact == last).sum())
    above = count * (exact.size - open_places) / m
    if ties == open_places:
        return above + count * ties / m
    drawn = np.arange(max(0, count - (m - ties)), min(count, ties) + 1)

    def log_ways(total: int, some: Any) -> Any:
        return gammaln(total + 1) - gammaln(some + 1) - gammaln(total - some + 1)

    chance = np.exp(log_ways(ties, drawn) + log_ways(m - ties, count - drawn) - log_ways(m, count))
    return above + float((np.minimum(drawn, open_places) * chance).sum() / chance.sum())
