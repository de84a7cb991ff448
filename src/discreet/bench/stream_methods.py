"""Streams to learn from, and ways to learn from them: what the stream paper compares, ours, and the baselines.

A *problem* is a set, how many labels its axis has, and how long a stream may be. A *method* says who is asked, how
updates are hidden, when they are made, and what all of it may cost. Step size and lambda are not in it: each method has
its own, found on the public part (`stream_tuning`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from discreet.bench.stream_sets import StreamData
from discreet.errors import BadInput
from discreet.privacy.budget import Budget, Relation
from discreet.stream import (
    AskEverything,
    Asking,
    BernoulliAsking,
    ExponentialAsking,
    FixedSlab,
    GammaNoise,
    GaussianNoise,
    Immediate,
    MiniBatch,
    OneSidedAsking,
    ShrinkingSlab,
    Slab,
    SlidingWindow,
    UpdateNoise,
    Window,
    gaussian_noise_for,
)

Kind = Literal["stream", "one batch", "not private"]
WINDOW = 5
WIDTH = 0.2
"""The paper's window and slab."""


@dataclass(frozen=True, kw_only=True)
class StreamProblem:
    """``labels``: where the label axis ends; ``updates``: where the other one does; ``marks``: labels that tables tell
    of; ``arrivals``: how long a stream is at most; ``public``: how many records everything is tuned on; ``paid``: how
    many records, that never arrive, components are paid by; 0: they are of the public part.
    """

    name: str
    data: StreamData
    components: int = 0
    labels: int
    updates: int
    marks: tuple[int, ...]
    arrivals: int
    public: int
    paid: int = 0

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class StreamMethod:
    """``asked``: what being asked may cost; ``total``: what all may cost, which says how large Gaussian noise is;
    ``update``: what Gamma noise costs. ``kind``: *one batch* is objective perturbation of all that was asked, for
    ``total``; *not private* the batch SVM.
    """

    name: str
    kind: Kind = "stream"
    asking: str = "everything"
    asked: str = "0"
    missed: str = "0"
    update: str = "0"
    relation: Relation = "zero-out"
    total: str = "2"
    delta: str = "0"
    window: Literal["flsw", "flmb", "immediate"] = "flmb"
    size: int = WINDOW
    shrinking: bool = False
    ball: float = 1.0
    width: float = WIDTH

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        return asdict(self)

    @property
    def private(self) -> bool:
        """Whether it promises anything."""
        return self.kind != "not private"

    @property
    def gaussian(self) -> bool:
        """Whether its noise is Gaussian."""
        return self.kind == "stream" and Decimal(self.update) == 0

    def rule(self) -> Asking:
        """Who is asked."""
        if self.asking == "everything":
            return AskEverything()
        if self.asking == "bernoulli":
            return BernoulliAsking(epsilon=self.asked)
        if self.asking == "one-sided":
            return OneSidedAsking(asked=self.asked, missed=self.missed)
        if self.asking in ("exponential", "exponential, the paper's"):
            return ExponentialAsking(epsilon=self.asked, form="ours" if self.asking == "exponential" else "paper")
        raise BadInput(f"asking by {self.asking}", "there is no such way", "See stream_methods")

    def noise(self) -> UpdateNoise:
        """How updates are hidden."""
        if self.gaussian:
            return _gaussian(self.total, self.delta, self.rule())
        return GammaNoise(epsilon=self.update, relation=self.relation)

    def windows(self) -> Window:
        """When the model is updated."""
        if self.window == "immediate":
            return Immediate()
        return SlidingWindow(self.size) if self.window == "flsw" else MiniBatch(self.size)

    def budget(self) -> Budget:
        """What all may cost, under zero-out."""
        return Budget(epsilon=self.total, delta=self.delta)

    def slab(self) -> Slab:
        """Where a record is worth asking; 1/t shrinks with the updates, as the paper's e^(-1/t)."""
        return ShrinkingSlab(1.0) if self.shrinking else FixedSlab(self.width)

    def zero_out(self) -> Decimal:
        """What it costs under zero-out, each path by itself; Gaussian noise is made for the total."""
        if self.kind != "stream" or self.gaussian:
            return Decimal(self.total)
        price = self.rule().price()
        update = Decimal(self.update) / (1 if self.relation == "zero-out" else 2)
        return max(price.asked + update, price.missed)


@lru_cache(maxsize=64)
def _gaussian(epsilon: str, delta: str, asking: Asking) -> GaussianNoise:
    return gaussian_noise_for(Budget(epsilon=epsilon, delta=delta), asking=asking)


def papers(asking: str, window: Literal["flsw", "flmb"], **options: Any) -> StreamMethod:
    """As the paper has it: 1 for asking and 1 for an update, noise for records that are replaced."""
    told = {"bernoulli": "Bernoulli", "exponential": "exponential"}.get(asking, asking)
    given = {"name": f"paper: {told}, {window.upper()}", "relation": "replace-one"} | options
    return StreamMethod(asking=asking, asked="1", missed="1", update="1", window=window, **given)


def zero_out(asking: str, window: Literal["flsw", "flmb"], **options: Any) -> StreamMethod:
    """The same with noise for records that are zeroed out."""
    return papers(asking, window, **({"name": f"zero-out noise, {window.upper()}", "relation": "zero-out"} | options))


def one_sided(asked: str, window: Literal["flsw", "flmb"], **options: Any) -> StreamMethod:
    """One-sided asking at a total of 2, Gamma noise for the rest."""
    given = {"name": f"one-sided {asked}, {window.upper()}", "update": str(2 - Decimal(asked))} | options
    return StreamMethod(asking="one-sided", asked=asked, missed="2", window=window, **given)


def ours(asked: str, window: Literal["flsw", "flmb"], **options: Any) -> StreamMethod:
    """One-sided asking and Gaussian noise, certified together at (2, 1e-6)."""
    given = {"name": f"ours: one-sided {asked}, Gaussian, {window.upper()}", "delta": "1e-6"} | options
    return StreamMethod(asking="one-sided", asked=asked, missed="2", window=window, **given)


def everything(window: Literal["flmb", "immediate"], noise: Literal["Gamma", "Gaussian"]) -> StreamMethod:
    """Every record is asked and teaches; nothing is paid for asking."""
    told = "one by one" if window == "immediate" else f"batches of {WINDOW}"
    return StreamMethod(
        name=f"label everything, {noise}, {told}",
        update="2" if noise == "Gamma" else "0",
        delta="0" if noise == "Gamma" else "1e-6",
        window=window,
    )


ONE_BATCH = StreamMethod(name="one batch, objective perturbation", kind="one batch")
NOT_PRIVATE = StreamMethod(name="not private: batch SVM", kind="not private")
