"""Which public records are worth labelling, seen by a private model: DiversePublic, and the baselines beside it.

    DiversePublic    the most uncertain, projected on principal components of the public embeddings, in clusters; of
                     each cluster those nearest its centre (Nguyen and Smeulders 2004; the Public paper's Algorithm 1)
    uncertain        the most uncertain alone
    k-means          clusters of all records, whatever the model thinks of them
    greedy-k-centre  each next record is the one farthest from all that are taken

Guarantee: all of them read public records and what a private model says of those: post-processing, free. That holds for
a model that was downloaded, too, whose private records are gone. Symbols: ``uncertain`` k, ``components`` p, ``each``
N_each; N_cluster is the number asked over N_each.

k-means: Lloyd's algorithm runs on at most 50 rows a cluster (uniform random, from a public seed); then every row is
assigned, block by block, so a million rows need little memory. The same rows and seed give the same clusters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.checks import whole as whole_number
from discreet.components import Floats, public_components, shape_of
from discreet.errors import BadInput
from discreet.noise import OperatingSystem, Source, random_places
from discreet.parts import Option, Part
from discreet.privacy.events import Event
from discreet.privacy.ledger import Receipt
from discreet.records import Selection
from discreet.selectors.selection_inputs import chosen, some_of, whole

Places = NDArray[np.int64]
TIMES = 5
"""So many times as many as are asked are looked at, where nothing else is said."""
PIECE = 8192
_EMBEDDINGS = "embeddings of public records"


def checked_public(ids: Any, scores: Any, embeddings: Any, k: Any) -> tuple[Sequence[str], Floats, int]:
    """Ids, a score each, and at most all of them."""
    names, count = some_of(ids, k)
    if embeddings is not None and shape_of(embeddings, _EMBEDDINGS)[0] != len(names):
        raise BadInput(_EMBEDDINGS, "there is not one row for each id", "Give them in one order")
    return names, scored(scores, len(names)), count


def scored(scores: Any, size: int) -> Floats:
    """A score each: -inf where there is no number; zeros, where nothing is scored."""
    if scores is None:
        return np.zeros(size)
    try:
        values = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("scores of public records", "they are not numbers", "Give one number a record") from None
    if values.shape != (size,):
        raise BadInput("scores of public records", "there is not one for each id", "Give them in one order")
    values[np.isnan(values)] = -np.inf
    return values


def most_uncertain(scores: Floats, count: int) -> Places:
    """Places of the ``count`` largest scores, largest first; of equal ones, the first. None without a score."""
    size = min(count, int((scores > -np.inf).sum()))
    if size < len(scores):
        rough = np.argpartition(-scores, size - 1)[:size] if size else np.empty(0, dtype=np.int64)
        limit = scores[rough].min() if size else np.inf
        rough = np.flatnonzero(scores >= limit)  # all of the equal ones, in their order
    else:
        rough = np.arange(len(scores))
    return np.asarray(rough[np.argsort(-scores[rough], kind="stable")][:size], dtype=np.int64)


def looked_at(uncertain: int | None, count: int, size: int) -> int:
    """How many of the most uncertain are candidates."""
    if uncertain is not None and (isinstance(uncertain, bool) or not isinstance(uncertain, int) or uncertain < 1):
        raise BadInput(f"the {uncertain} most uncertain", "it is not a whole number from 1", "Try ten times as many")
    if uncertain is not None and uncertain < count <= size:
        raise BadInput(
            f"asking {count} of the {uncertain} most uncertain", "there are not so many", "Raise uncertain, or ask less"
        )
    return min(size, TIMES * count if uncertain is None else uncertain)


def in_pieces(embeddings: Any, places: Places) -> Iterator[tuple[Places, NDArray[Any]]]:
    """Rows at places, a piece at a time and forwards; each with where its rows stand among ``places``."""
    order = np.argsort(places, kind="stable")
    for start in range(0, len(places), PIECE):
        some = order[start : start + PIECE]
        yield some, np.asarray(embeddings[places[some]])


def finite_lengths(embeddings: Any, places: Places) -> tuple[Places, Floats]:
    """Places whose rows are finite, and how long those rows are."""
    lengths = np.empty(len(places))
    for some, rows in in_pieces(embeddings, places):
        lengths[some] = np.linalg.norm(rows.astype(np.float64), axis=1)
    finite = np.isfinite(lengths)
    return (places, lengths) if finite.all() else (places[finite], lengths[finite])


def projected(embeddings: Any, places: Places, components: int) -> tuple[Places, Floats]:
    """Places whose rows are finite, and those rows on the leading components of all public embeddings.

    Only the projections lie in memory at once.
    """
    _, width = shape_of(embeddings, _EMBEDDINGS)
    axes = public_components(FiniteRows(embeddings), min(components, width))
    points = np.empty((len(places), len(axes)))
    for some, rows in in_pieces(embeddings, places):
        points[some] = np.asarray(rows, dtype=np.float64) @ axes.T
    finite = np.isfinite(points).all(axis=1)
    return (places, points) if finite.all() else (places[finite], points[finite])


class FiniteRows:
    """Rows with zeros in place of broken ones."""

    def __init__(self, rows: Any) -> None:
        self._rows, self.shape = rows, rows.shape

    def __getitem__(self, key: Any) -> Floats:
        """Rows by a slice."""
        piece = np.asarray(self._rows[key], dtype=np.float64)
        return np.where(np.isfinite(piece).all(axis=1, keepdims=True), piece, 0.0)


def shown(
    names: Sequence[str], places: Places, mechanism: str, source: Source | None, phase: int, **facts: Any
) -> Selection:
    """A free selection, in random order."""
    where = source or OperatingSystem()
    order = random_places(len(places), len(places), where=where, kind=f"{mechanism} {phase}")
    return Selection(ids=chosen(names, places[order]), mechanism=mechanism, simulation=where.simulation, **facts)


ROWS_EACH, FEWEST_ROWS = 50, 20_000
ITERATIONS = 50
_BLOCK = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Of n rows: the cluster each is in, and its rank there, 0 for the one nearest the centre. Audience: public."""

    labels: Places
    ranks: Places

    def taken(self, count: int) -> Places:
        """``count`` places: the nearest of every cluster, then the second nearest of every cluster, and so on.

        Large clusters come first among equals, so that where not all can be served the rare ones wait.
        """
        sizes = np.bincount(self.labels, minlength=int(self.labels.max(initial=-1)) + 1)
        order = np.lexsort((self.labels, -sizes[self.labels], self.ranks))
        return np.asarray(order[:count], dtype=np.int64)


def clustered(rows: Floats, count: int, *, seed: int = 0) -> Clusters:
    """``rows`` in ``count`` clusters (fewer, if fewer rows differ)."""
    if not len(rows):
        return Clusters(labels=np.empty(0, dtype=np.int64), ranks=np.empty(0, dtype=np.int64))
    centres = _centres(rows.astype(np.float32), min(count, len(rows)), seed)
    labels, apart = assigned(rows, centres)
    order = np.lexsort((np.arange(len(rows)), apart, labels))
    ranks = np.empty(len(rows), dtype=np.int64)
    starts = np.searchsorted(labels[order], np.arange(len(centres)))
    ranks[order] = np.arange(len(rows)) - starts[labels[order]]
    return Clusters(labels=labels, ranks=ranks)


def assigned(rows: Floats, centres: Floats) -> tuple[Places, Floats]:
    """The nearest centre of each row, and the square of the distance to it."""
    labels, apart = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    lengths = (centres * centres).sum(axis=1)
    for start in range(0, len(rows), _BLOCK):
        piece = rows[start : start + _BLOCK]
        squares = lengths - 2 * (piece @ centres.T)
        labels[start : start + _BLOCK] = squares.argmin(axis=1)
        apart[start : start + _BLOCK] = squares.min(axis=1) + (piece * piece).sum(axis=1)
    return labels, apart


def _centres(rows: NDArray[np.float32], count: int, seed: int) -> Floats:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    limit = max(FEWEST_ROWS, ROWS_EACH * count)
    if len(rows) > limit:
        rows = rows[np.sort(np.random.default_rng(seed).choice(len(rows), limit, replace=False))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer rows differ than clusters were asked for
        fitted = KMeans(n_clusters=count, n_init=1, max_iter=ITERATIONS, random_state=seed).fit(rows)
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)


COMPONENTS, EACH = 32, 10
Receipts = Receipt | Sequence[Receipt]


@dataclass(frozen=True, kw_only=True)
class UncertainPublic:
    """The k highest scores."""

    source: Source | None = None
    name = "uncertain"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing: post-processing."""
        return ()

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipts = (), phase: int = 0, embeddings: Any = None
    ) -> Selection:
        """k of ``ids``."""
        names, values, count = checked_public(ids, scores, None, k)
        return shown(names, most_uncertain(values, count), self.name, self.source, phase)


@dataclass(frozen=True, kw_only=True)
class DiversePublic:
    """``uncertain``: how many of the most uncertain are clustered; None: five times as many as are asked.

    ``seed``: of k-means; public.
    """

    uncertain: int | None = None
    each: int = EACH
    components: int = COMPONENTS
    seed: int = 0
    source: Source | None = None
    name: str = "diverse-public"

    def __post_init__(self) -> None:
        for word in ("each", "components"):
            value = getattr(self, word)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{self.name} with {word}={value}", "it is not a whole number from 1", "Try 10")

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing: post-processing."""
        return ()

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipts = (), phase: int = 0, embeddings: Any = None
    ) -> Selection:
        """k of ``ids``; ``embeddings``: (n, d), an array or anything with a shape and slices."""
        names, _, count = checked_public(ids, scores, embeddings, k)
        places, clusters = self.clusters(scores=scores, embeddings=embeddings, k=k)
        return shown(names, places[clusters.taken(count)], self.name, self.source, phase)

    def clusters(self, *, scores: Any, embeddings: Any, k: int) -> tuple[Places, Clusters]:
        """The records that are clustered, by their places, and their clusters. Public, as they are."""
        size, _ = shape_of(embeddings, "embeddings of public records")
        count = min(whole(k), size)
        if self.name == K_MEANS:
            places = np.arange(size)
        else:
            places = most_uncertain(scored(scores, size), looked_at(self.uncertain, count, size))
        places, rows = projected(embeddings, places, self.components)
        return places, clustered(rows, math.ceil(max(count, 1) / self.each), seed=self.seed)


K_MEANS = "k-means"


def k_means_public(**options: Any) -> DiversePublic:
    """Clusters of all records, without a look at how uncertain they are."""
    return DiversePublic(name=K_MEANS, **options)


@dataclass(frozen=True, kw_only=True)
class GreedyKCentre:
    """Farthest first (Gonzalez 1985), among components of the public embeddings, without noise: records are public."""

    components: int = COMPONENTS
    source: Source | None = None
    name = "greedy-k-centre"

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """Nothing: post-processing."""
        return ()

    def select(
        self,
        *,
        ids: Any,
        scores: Any = None,
        k: int,
        receipt: Receipts = (),
        phase: int = 0,
        embeddings: Any = None,
        centres: Any = None,
    ) -> Selection:
        """k of ``ids``, far from each other and from ``centres``, embeddings of records that are labelled."""
        names, _, count = checked_public(ids, None, embeddings, k)
        before = 0 if centres is None else shape_of(centres, "embeddings of centres")[0]
        rows = embeddings if not before else _Joined(embeddings, centres)
        places, points = projected(rows, np.arange(len(names) + before), self.components)
        known = places >= len(names)
        taken = farthest_first(points[~known].astype(np.float32), count, known=points[known].astype(np.float32))
        return shown(names, places[~known][taken], self.name, self.source, phase)


def farthest_first(points: NDArray[np.float32], count: int, *, known: NDArray[np.float32]) -> Places:
    """Places of ``count`` points, each the farthest from ``known`` and all before it; the first is the most central."""
    taken = np.empty(min(count, len(points)), dtype=np.int64)
    if not len(taken):
        return taken
    lengths = np.einsum("ij,ij->i", points, points)
    apart = np.full(len(points), np.inf, dtype=np.float32)
    for centre in known:
        np.minimum(apart, lengths - 2 * (points @ centre) + centre @ centre, out=apart)
    farthest = int(apart.argmax()) if len(known) else int((lengths - 2 * (points @ points.mean(axis=0))).argmin())
    for number in range(len(taken)):
        taken[number] = farthest
        np.minimum(apart, lengths - 2 * (points @ points[farthest]) + lengths[farthest], out=apart)
        apart[farthest] = -np.inf
        farthest = int(apart.argmax())
    return taken


class _Joined:
    """Rows, then further rows."""

    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._second = first, np.asarray(second)
        self.shape = (first.shape[0] + len(self._second), first.shape[1])
        if self._second.shape[1] != first.shape[1]:
            raise BadInput("centres", "they have another dimension than the pool", "Embed both by the same model")

    def __getitem__(self, key: Any) -> Any:
        places = np.arange(self.shape[0])[key]
        size = self._first.shape[0]
        before, after = places[places < size], places[places >= size] - size
        return np.concatenate([np.asarray(self._first[before]), self._second[after]])


UNCERTAIN = Option(
    name="uncertain",
    check=whole_number(),
    type="whole number",
    default="five times as many as are asked",
    meaning="so many of the most uncertain public records are looked at",
)
EACH_OPTION = Option(
    name="each",
    check=whole_number(most=10**6),
    type="whole number",
    default="10",
    meaning="how many of a cluster are asked",
)
COMPONENTS_OPTION = Option(
    name="components",
    check=whole_number(most=10**5),
    type="whole number",
    default="32",
    meaning="principal components of the embeddings",
)
PARTS = (
    Part(
        kind="selector",
        name="uncertain",
        summary="the highest scores",
        build=lambda request: UncertainPublic(source=request.source),
        recipes=("public-data",),
    ),
    Part(
        kind="selector",
        name="k-means",
        summary="nearest the centres of clusters of all records",
        build=lambda request: k_means_public(source=request.source, seed=request.seed, **request.options),
        options=(EACH_OPTION, COMPONENTS_OPTION),
        reads=("embeddings",),
        recipes=("public-data",),
    ),
    Part(
        kind="selector",
        name="greedy-k-centre",
        summary="each the farthest from all that are labelled or taken",
        build=lambda request: GreedyKCentre(source=request.source, **request.options),
        options=(COMPONENTS_OPTION,),
        reads=("embeddings", "centres"),
        recipes=("public-data",),
    ),
    Part(
        kind="selector",
        name="diverse-public",
        summary="nearest the centres of clusters of the most uncertain",
        build=lambda request: DiversePublic(source=request.source, seed=request.seed, **request.options),
        options=(UNCERTAIN, EACH_OPTION, COMPONENTS_OPTION),
        reads=("scores", "embeddings"),
        recipes=("public-data",),
    ),
)
