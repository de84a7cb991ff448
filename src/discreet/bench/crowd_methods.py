"""Problems and methods of the crowd paper's experiment: a log, a crowd, and settings of the gate."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from discreet.bench.crowd_log import LogShape

Aggregation = Literal["dawid-skene", "majority"]
KS = (1, 20, 100, 200, 500)
BETAS = (0.1, 0.3, 0.6, 0.9)


@dataclass(frozen=True, kw_only=True)
class CrowdProblem:
    """What is learned, and who answers.

    people         of the crowd; ``per_question`` of them answer each question
    right, spread  mean and standard deviation of a Gaussian that each of them draws their own accuracy from, clipped
                   to [0, 1]
    rounds         in which the released texts are asked about, most uncertain first
    asked          at most so many questions; 0: all that was released
    """

    name: str
    shape: LogShape = field(default_factory=LogShape)
    people: int = 30
    per_question: int = 3
    right: float = 0.65
    spread: float = 0.01
    aggregation: Aggregation = "dawid-skene"
    rounds: int = 5
    asked: int = 0

    def settings(self) -> dict[str, Any]:
        """Everything that a result depends on."""
        return {key: value for key, value in asdict(self).items() if key != "name"}


@dataclass(frozen=True, kw_only=True)
class CrowdMethod:
    """A setting of the gate, and a score. ``beta = 1`` tosses no coin: it is in simulations alone, and not private."""

    name: str
    k: int
    beta: float
    scorer: str = "entropy"
    order: str = "least-confident"

    @property
    def private(self) -> bool:
        """Whether there is a promise that says anything: with k = 1 a value of one person is shown with chance beta."""
        return self.beta < 1 and self.k > 1

    def settings(self) -> dict[str, Any]:
        """Everything that a result depends on."""
        return {"k": self.k, "beta": self.beta, "scorer": self.scorer, "order": self.order}


def gated(k: int, beta: float, **others: Any) -> CrowdMethod:
    """With the usual score."""
    return CrowdMethod(name=gate_name(k, beta), k=k, beta=beta, **others)


def gate_name(k: int, beta: float) -> str:
    """As tables name it."""
    return f"k={k}, beta={beta:g}"


BASELINE = gated(1, 1.0)
GRID = (BASELINE, *(gated(k, beta) for k in KS for beta in BETAS))
PAPER = CrowdProblem(name="CLINC150 log, accuracy N(.65, sd .01)")
GATE = (((PAPER,), GRID),)

SCORES = ("entropy", "least-confidence", "predictive-variance", "random")
_GATES = ((20, 0.6), (1, 1.0))
ASKING = CrowdProblem(name="CLINC150 log, 2,000 questions", rounds=10, asked=2_000)
"""At k = 20, beta = 0.6 about 2,400 texts are released: nearly all are asked in the end, whatever the order."""
WIDE = CrowdProblem(name="the same, accuracy N(.65, sd .1)", rounds=10, asked=2_000, spread=0.1)
VOTED = CrowdProblem(
    name="the same, accuracy N(.65, sd .1), majority", rounds=10, asked=2_000, spread=0.1, aggregation="majority"
)
MAJORITY = CrowdProblem(
    name="the same, accuracy N(.65, sd .01), majority", rounds=10, asked=2_000, aggregation="majority"
)
SCORED = tuple(
    CrowdMethod(name=f"{gate_name(k, beta)}, {scorer}", k=k, beta=beta, scorer=scorer)
    for k, beta in _GATES
    for scorer in SCORES
)
SHUFFLED = tuple(
    CrowdMethod(name=f"{gate_name(k, beta)}, entropy, trained in random order", k=k, beta=beta, order="shuffled")
    for k, beta in _GATES
)
ORDERS = (((ASKING,), (*SCORED, *SHUFFLED)), ((WIDE, VOTED, MAJORITY), (SCORED[0], SCORED[4])))
