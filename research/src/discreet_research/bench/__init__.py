"""Problems, methods, seeds: simulations whose results are kept, and tables and charts made of the results alone."""

from discreet_research.bench.experiments import EXPERIMENTS, Experiment, experiment_named
from discreet_research.bench.problems import Method, Problem

__all__ = ["EXPERIMENTS", "Experiment", "Method", "Problem", "experiment_named"]
