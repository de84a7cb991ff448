"""Problems of improving a private model with public data, and the ways of choosing public records that are compared.

All sets are public; "private" is the part that plays the private records. Everything a result depends on is a field.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from discreet.bench.sets import Data

Choice = Literal[
    "random", "entropy", "logit-difference", "k-means", "greedy-k-centre", "diverse-public", "near-private"
]


@dataclass(frozen=True, kw_only=True)
class PrivateRun:
    """One DP-SGD run, of which a checkpoint is kept after every ``every`` epochs.

    ``epsilon`` at ``delta``: of the whole run; its noise is the least that keeps it, by PLD.
    """

    epsilon: float = 3.0
    delta: float = 1e-5
    batch: int = 1000
    epochs: int = 30
    every: int = 1
    learning_rate: float = 1.0
    clip: float = 1.0
    model: str = "small_cnn"


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Of the checkpoint, on public labels: ordinary training, the same for every method and seed.

    Found with a seed that is in no table, on public records that were kept apart there; no test set was looked at.

    epochs, steps    so many epochs; more, where they would be fewer steps
    recall           what the checkpoint says of public records without a label counts as much as so many labels
    shift            pictures are moved by up to so many pixels
    """

    epochs: int = 7
    steps: int = 250
    batch: int = 64
    learning_rate: float = 0.05
    momentum: float = 0.9
    schedule: str = "cosine"
    recall: float = 500.0
    shift: int = 1

    def epochs_for(self, count: int) -> int:
        """Of ``count`` labels."""
        return max(self.epochs, -(-self.steps // -(-count // self.batch)))


@dataclass(frozen=True, kw_only=True)
class PublicProblem:
    """``private`` and ``public`` records of ``data``; ``pollution`` further public ones are of ``polluted_by``."""

    name: str
    data: Data = "mnist"
    private: int = 40_000
    public: int = 20_000
    polluted_by: Data | None = None
    pollution: int = 0
    labels: tuple[int, ...] = (500, 1000, 2500, 7000)
    run: PrivateRun = PrivateRun()
    tuning: Tuning = Tuning()
    test: int = 10_000

    def settings(self) -> dict[str, Any]:
        """For the digest of a case."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class PublicMethod:
    """A way of choosing, and the checkpoint it starts from.

    start       ``last``; ``fits``: the latest that leaves room for what near-private costs; or a number of epochs
    support     epsilon of near-private's counts; ``fill``: what the budget leaves from its start
    noise       noise multiplier of near-private's components
    labels      other numbers of labels than the problem's
    """

    name: str
    choice: Choice
    start: Literal["last", "fits"] | int = "last"
    support: str = "0.5"
    noise: float = 20.0
    components: int = 32
    each: int = 10
    times: int = 5
    labels: tuple[int, ...] | None = None

    def settings(self) -> dict[str, Any]:
        """For the digest of a case."""
        return asdict(self)

    @property
    def pays(self) -> bool:
        """Whether it reads the private records."""
        return self.choice == "near-private"
