"""Which public records a method asks about, seen with one checkpoint.

What a checkpoint says of the records is computed once for all numbers of labels. Draws are seeded: simulations on
public sets. What near-private pays goes to a ledger all the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.bench.public_problems import PublicMethod
from discreet.bench.public_scenes import Scene
from discreet.noise import Seeded
from discreet.privacy.events import DiscreteLaplace, Event, Gaussian
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.scorers import EmbeddedRows, build_scorer, pool_scores
from discreet.selectors import (
    DiversePublic,
    GreedyKCentre,
    NearPrivate,
    RandomSelector,
    UncertainPublic,
    charge_selection,
    k_means_public,
)
from discreet.testing.neighbours import AMPLE

Rows = NDArray[Any]


class Seen:
    """The records of ``scene`` as a checkpoint sees them; each part is computed when it is first asked for."""

    def __init__(self, scene: Scene, model: Any, choice: str) -> None:
        self._scene, self._model = scene, model
        self._scorer = build_scorer(
            "logit-difference" if choice == "logit-difference" else "entropy", classes=scene.classes
        )

    @cached_property
    def scores(self) -> Any:
        """Of public records."""
        return pool_scores(self._scorer, self._model, self._scene.public_x)

    @cached_property
    def embeddings(self) -> Rows:
        """Of public records."""
        return np.asarray(EmbeddedRows(self._model, self._scene.public_x)[:])

    @cached_property
    def private(self) -> dict[str, Any]:
        """Scores and embeddings of the records that play the private ones."""
        return {
            "private_scores": pool_scores(self._scorer, self._model, self._scene.private_x),
            "private_embeddings": np.asarray(EmbeddedRows(self._model, self._scene.private_x)[:]),
        }


def chosen(method: PublicMethod, scene: Scene, seen: Seen, count: int, looks: tuple[Event, ...], seed: int) -> Rows:
    """Places of ``count`` public records."""
    ids = [str(place) for place in range(len(scene.public_y))]
    source = Seeded(seed)
    given: dict[str, Any] = {"ids": ids, "k": count, "scores": None}
    if method.choice == "random":
        return _places(RandomSelector(source=source).select(ids=ids, k=count))
    if method.choice not in ("k-means", "greedy-k-centre"):
        given["scores"] = seen.scores
    if method.choice in ("entropy", "logit-difference"):
        return _places(UncertainPublic(source=source).select(**given))
    given["embeddings"] = seen.embeddings
    if method.choice == "near-private":
        return _near_private(method, seen, given, looks, source)
    options: dict[str, Any] = {"components": method.components, "source": source}
    if method.choice == "greedy-k-centre":
        return _places(GreedyKCentre(**options).select(**given))
    options |= {"each": method.each, "seed": seed}
    if method.choice == "k-means":
        return _places(k_means_public(**options).select(**given))
    return _places(DiversePublic(uncertain=_uncertain(method, given), **options).select(**given))


def _near_private(
    method: PublicMethod, seen: Seen, given: dict[str, Any], looks: tuple[Event, ...], source: Seeded
) -> Rows:
    noise, counts = looks
    assert isinstance(noise, Gaussian)
    assert isinstance(counts, DiscreteLaplace)
    selector = NearPrivate(
        support_epsilon=counts.epsilon,
        noise_multiplier=noise.noise_multiplier,
        uncertain=_uncertain(method, given),
        components=method.components,
    )
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=source)
    size = len(given["ids"])
    paid = charge_selection(ledger, selector, k=given["k"], pool_size=size, who="private", why="selection")
    return _places(selector.select(**given, **seen.private, receipt=paid))


def _uncertain(method: PublicMethod, given: dict[str, Any]) -> int:
    return min(len(given["ids"]), method.times * int(given["k"]))


def _places(found: Any) -> Rows:
    return np.array([int(one) for one in found.ids], dtype=np.int64)
