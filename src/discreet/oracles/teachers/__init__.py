"""Teachers as the labeller: votes in, paid answers out."""

from discreet.oracles.teachers.aggregators import Aggregator, build_aggregator, distances
from discreet.oracles.teachers.data_dependent import OwnersEpsilon, owners_epsilon
from discreet.oracles.teachers.teacher_oracle import TeacherOracle

__all__ = ["Aggregator", "OwnersEpsilon", "TeacherOracle", "build_aggregator", "distances", "owners_epsilon"]
