"""Problems, methods, seeds: simulations whose results are kept, and tables and charts made of the results alone."""

from discreet.bench.experiments import EXPERIMENTS, Experiment, experiment_named
from discreet.bench.methods import Method
from discreet.bench.problems import Problem

__all__ = ["EXPERIMENTS", "Experiment", "Method", "Problem", "experiment_named"]
