"""Teachers as the labeller: votes in, paid answers out."""

from discreet.oracles.teachers.aggregators import Aggregator, build_aggregator, distances
from discreet.oracles.teachers.data_dependent import OwnersEpsilon, owners_epsilon
from discreet.oracles.teachers.smooth_price import CostRelease, ReleasedCost, cost_release, release_cost, smooth_cost
from discreet.oracles.teachers.teacher_oracle import TeacherOracle

__all__ = [
    "Aggregator",
    "CostRelease",
    "OwnersEpsilon",
    "ReleasedCost",
    "TeacherOracle",
    "build_aggregator",
    "cost_release",
    "distances",
    "owners_epsilon",
    "release_cost",
    "smooth_cost",
]
