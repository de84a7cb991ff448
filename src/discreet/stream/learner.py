"""The online learner: asks, learns, publishes. River's habits, and numpy batches that decide the same.

    learner = StreamLearner(features=50, asking=..., noise=..., ledger=ledger)
    for x, y in stream:
        if learner.ask(x):
            learner.learn_one(x, y)

Guarantee (docs/proofs/streams.md, zero-out, both directions): the ask bits and every published model together cost a
record the price of `discreet.stream.terms`, however long the stream runs.

Numbers: records are rounded to multiples of 2^-25 M and models to multiples of 2^-25 of their ball, so every score and
every sum is exact in floats, whatever the order of its terms: one record at a time and a batch decide bit for bit the
same, and a resumed stream goes on as if it had not stopped.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.noise import SealedPhase
from discreet.privacy.ledger import Ledger, Receipt
from discreet.stream.asking import Asking
from discreet.stream.drift import DriftWatch
from discreet.stream.losses import Loss
from discreet.stream.published import Label, Published
from discreet.stream.settings import StreamSettings
from discreet.stream.slabs import Slab
from discreet.stream.steps import Step
from discreet.stream.update_noise import UpdateNoise
from discreet.stream.windows import Window

Record = NDArray[np.float64] | Sequence[float] | Mapping[str, float] | None
"""A vector, a dict of the declared features (one that is missing is 0), or None: a broken record, a null."""


class StreamLearner:
    """Private online active learning with a linear model.

    Exactly one of ``receipt`` (of `discreet.stream.charge_stream`) and ``ledger`` (which is charged now) pays for it.
    The other arguments are those of `StreamSettings`.
    """

    def __init__(
        self,
        *,
        features: int | Sequence[str],
        asking: Asking,
        noise: UpdateNoise,
        classes: int | Sequence[Label] = 2,
        slab: Slab | None = None,
        window: Window | None = None,
        loss: str | Loss | None = None,
        step: Step | None = None,
        radius: float = 1.0,
        regularization: float = 0.0,
        ball: float = 1.0,
        drift: DriftWatch | None = None,
        patience: int | None = None,
        receipt: Receipt | None = None,
        ledger: Ledger | SealedPhase | None = None,
    ) -> None:
        raise NotImplementedError

    @classmethod
    def of(
        cls,
        settings: StreamSettings,
        *,
        receipt: Receipt | None = None,
        ledger: Ledger | SealedPhase | None = None,
    ) -> Self:
        """A learner with these settings."""
        raise NotImplementedError

    @classmethod
    def simulated(cls, settings: StreamSettings, *, seed: int) -> Self:
        """A learner whose draws come from a seed, with a ledger in memory: for simulations and benches."""
        raise NotImplementedError

    # -- one record

    def ask(self, x: Record, id: Hashable = None) -> bool:  # noqa: A002
        """Whether the record that arrives now is asked. Audience of the answer: world.

        ``id``: under which its label will come; without one it is known by its number (`arrived` - 1).
        """
        raise NotImplementedError

    def learn_one(self, x: Record, y: Label | None, id: Hashable = None) -> None:  # noqa: A002
        """The label of a record that was asked. Without an id it is the one that was asked last, and ``x`` is it."""
        raise NotImplementedError

    def learn_late(self, id: Hashable, y: Label | None) -> bool:  # noqa: A002
        """The label of an asked record by its id, or by its number; None: there is none. Whether it was waited for."""
        raise NotImplementedError

    def predict_one(self, x: Record) -> Label:
        """The class of a record by the published model. Not an arrival."""
        raise NotImplementedError

    def predict_proba_one(self, x: Record) -> dict[Label, float]:
        """A logistic (or softmax) reading of the scores; of a hinge loss it is not calibrated."""
        raise NotImplementedError

    # -- many records

    def ask_many(self, x: ArrayLike, ids: Sequence[Hashable] | None = None) -> NDArray[np.bool_]:
        """As `ask` of each row in order, with no label in between. A row that is not finite is a null."""
        raise NotImplementedError

    def learn_many(self, x: ArrayLike, y: Sequence[Label | None], ids: Sequence[Hashable] | None = None) -> None:
        """The labels of rows that were asked, in the order of `ask_many`: ``learn_many(x[asked], y[asked])``."""
        raise NotImplementedError

    def ask_and_learn_many(
        self, x: ArrayLike, y: Sequence[Label | None], ids: Sequence[Hashable] | None = None
    ) -> NDArray[np.bool_]:
        """As ``if ask(x): learn_one(x, y)`` for each row; labels of rows that are not asked are not looked at."""
        raise NotImplementedError

    def predict_many(self, x: ArrayLike) -> NDArray[Any]:
        """The class of each row."""
        raise NotImplementedError

    def predict_proba_many(self, x: ArrayLike) -> NDArray[np.float64]:
        """A column a class."""
        raise NotImplementedError

    # -- the model and the window

    def model(self) -> Published:
        """The model as it is published now. Audience: world."""
        raise NotImplementedError

    def update(self) -> bool:
        """Make the update of a window that has closed now, not when the next record arrives. Whether there was one."""
        raise NotImplementedError

    def reset(self) -> None:
        """Throw the model away and begin anew: free, if it is decided by released things alone."""
        raise NotImplementedError

    def change_slab(self, slab: Slab) -> None:
        """Another slab from now on: free, if it is decided by released things alone."""
        raise NotImplementedError

    @property
    def settings(self) -> StreamSettings:
        """What was fixed before the first record."""
        raise NotImplementedError

    @property
    def arrived(self) -> int:
        """How many records arrived."""
        raise NotImplementedError

    @property
    def asked(self) -> int:
        """How many of them were asked."""
        raise NotImplementedError

    @property
    def labelled(self) -> int:
        """How many labels came. Audience: owner."""
        raise NotImplementedError

    @property
    def updates(self) -> int:
        """How many updates there were since the model began: t - 1."""
        raise NotImplementedError

    @property
    def version(self) -> int:
        """Of the model: updates and resets so far."""
        raise NotImplementedError

    @property
    def waiting(self) -> tuple[Hashable, ...]:
        """Asked records whose label has not come. Audience: owner and annotator."""
        raise NotImplementedError

    @property
    def simulation(self) -> bool:
        """Drawn from a seed: proves nothing about people."""
        raise NotImplementedError

    # -- stopping and going on

    def state(self) -> dict[str, Any]:
        """Everything to go on with, as JSON values and numpy arrays (private: for the owner alone). Exact to the bit."""
        raise NotImplementedError

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        *,
        receipt: Receipt | None = None,
        ledger: Ledger | SealedPhase | None = None,
    ) -> Self:
        """Go on where `state` was taken, with the draws of the same entry: from its sealed key, or its seed.

        A state is gone on from once: the same coins for other records, or the same noise for another sum, would show
        what they hide. `discreet.stream.journal` keeps to that.
        """
        raise NotImplementedError
