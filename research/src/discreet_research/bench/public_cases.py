"""Problems of improving a private model with public data, and the ways of choosing public records that are compared.

All sets are public; "private" is the part that plays the private records. Everything a result depends on is a field.

What is tried of the Public paper: its Figures 1, 3, 4a and 5, on MNIST, at equal total epsilon.

One way of choosing public records on one problem with one seed: a case of the bench. Its plan is the private run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from discreet_research.bench.cases import GridCase
from discreet_research.bench.problems import GridSettings
from discreet_research.bench.sets import Data

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
class PublicProblem(GridSettings):
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


@dataclass(frozen=True, kw_only=True)
class PublicMethod(GridSettings):
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

    @property
    def pays(self) -> bool:
        """Whether it reads the private records."""
        return self.choice == "near-private"


FREE = (
    PublicMethod(name="random", choice="random"),
    PublicMethod(name="entropy", choice="entropy"),
    PublicMethod(name="logit difference", choice="logit-difference"),
    PublicMethod(name="k-means", choice="k-means"),
    PublicMethod(name="k-centre", choice="greedy-k-centre"),
    PublicMethod(name="DiversePublic", choice="diverse-public"),
)
NEAR = PublicMethod(name="NearPrivate", choice="near-private", start="fits")
METHODS = (*FREE, NEAR)

MNIST = PublicProblem(name="mnist 40k/20k")
POLLUTED = PublicProblem(name="mnist 40k/20k, 30% fashion", polluted_by="fashion-mnist", pollution=8_571)
PAPERS = PublicProblem(
    name="mnist 22.5k/30k, 7.5k fashion",  # the paper's 30k/40k/10k at three quarters: MNIST has no more
    private=22_500,
    public=30_000,
    polluted_by="fashion-mnist",
    pollution=7_500,
)
LABELS = (((MNIST,), METHODS),)
POLLUTION = (((POLLUTED, PAPERS), METHODS),)

CLUSTERS, EACH = (100, 200, 300, 400, 500), (5, 10, 20)
FIG_4A = (
    (
        (MNIST,),
        tuple(
            PublicMethod(
                name=f"{each} of each cluster",
                choice="diverse-public",
                each=each,
                labels=tuple(each * count for count in CLUSTERS),
            )
            for each in EACH
        ),
    ),
)

STARTS = (5, 10, 15, 20, 25, 30)
EPSILON_5 = replace(MNIST, name="mnist 40k/20k, total 5", run=PrivateRun(epsilon=5.0))
FIG_5 = (
    (
        (MNIST,),
        tuple(
            PublicMethod(
                name=f"fixed price, from epoch {start}",
                choice="near-private",
                start=start,
                noise=11.0,  # 0.5 at delta 1e-5, as the paper's; so are the counts
                labels=(1000, 4000, 10_000),
            )
            for start in STARTS
        ),
    ),
    (
        (EPSILON_5,),
        tuple(
            PublicMethod(
                name=f"fixed total, from epoch {start}",
                choice="near-private",
                start=start,
                support="fill",
                noise=18.0,  # 0.3 at delta 1e-5
                labels=(1000, 4000, 10_000),
            )
            for start in STARTS[:-1]
        ),
    ),
)
"""5a, 5b: a fixed extra price, from every checkpoint. 5c: a fixed total, which an early checkpoint spends on counts."""

TRY_OUT = (
    (
        (
            PublicProblem(
                name="mnist, a tenth",
                private=4_000,
                public=2_000,
                polluted_by="fashion-mnist",
                pollution=857,
                labels=(100, 400),
                run=PrivateRun(epsilon=8.0, batch=200, epochs=4),
                tuning=Tuning(epochs=5),
                test=2_000,
            ),
        ),
        METHODS,
    ),
)


@dataclass(frozen=True, kw_only=True)
class PublicCase(GridCase):
    """A cell of the grid."""

    problem: PublicProblem
    method: PublicMethod
    kind = "public"

    def plan_name(self) -> str | None:
        """The private run that it starts from."""
        from discreet_research.bench.public_runs import run_name

        return run_name(self.problem, self.seed)

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Train that run, once for all methods."""
        from discreet_research.bench.public_runs import checkpoints_of, scene_of

        checkpoints_of(self.problem, scene_of(self.problem, data, self.seed), self.seed, _shelf(plans))

    @property
    def labels(self) -> tuple[int, ...]:
        """How many are asked, each time anew."""
        return self.problem.labels if self.method.labels is None else self.method.labels

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of fine-tuning; those of the private run are shared by all methods."""
        tuning = self.problem.tuning
        return sum(tuning.epochs_for(count) * count * (1 + bool(tuning.recall)) for count in self.labels)

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row for the checkpoint, and one a number of labels."""
        from discreet_research.bench.public_runs import checkpoints_of, rows_of, scene_of

        problem, scene = self.problem, scene_of(self.problem, data, self.seed)
        points = checkpoints_of(problem, scene, self.seed, None if plans is None else _shelf(plans))
        return rows_of(self.method, scene, points, problem.run, problem.tuning, self.labels, self.seed)


def _shelf(plans: Path) -> Path:
    """Beside the plans of all experiments: they start from the same private runs."""
    return plans.parent / "public-runs"
