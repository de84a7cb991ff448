"""What the stream paper's figures seem to say, asked with enough permutations to be answered.

Ten permutations leave most differences within their own noise. Here are fifty, of the cases that the questions need:
does FLMB beat FLSW at equal labels; do mini-batches reduce the variance; does a shrinking slab cut labels; what does
ours add at equal epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from discreet.bench.charts import Chart
from discreet.bench.results import Row
from discreet.bench.stream_figures import answers_of
from discreet.bench.stream_grid import AT, FIG_3, FIG_4, FIG_5, KDD, KDD_SHORT, MARKS, MNIST
from discreet.bench.stream_methods import NOT_PRIVATE, StreamMethod, StreamProblem
from discreet.bench.stream_sizes_and_slabs import slabs_of, spreads_of
from discreet.bench.stream_tables import MEAN, by_problem
from discreet.bench.tables import Table

SEEDS = 50


def _blocks() -> Iterator[tuple[tuple[StreamProblem, ...], tuple[StreamMethod, ...]]]:
    """A problem each, with every method that a figure has on it, once."""
    for problem in (MNIST, KDD, KDD_SHORT):
        wanted = [methods for problems, methods in (*FIG_3, *FIG_4, *FIG_5) if problem in problems]
        mine = dict.fromkeys(method for methods in wanted for method in methods if method is not NOT_PRIVATE)
        yield (problem,), tuple(mine)


QUESTIONS = tuple(_blocks())


def questions_tables(rows: Sequence[Row]) -> list[Table]:
    """Only answers: the figures have the error rates."""
    tables = []
    for found in by_problem(rows):
        if found.problem != KDD_SHORT.name:
            tables += answers_of(found, [MARKS[found.problem][0], MARKS[found.problem][-1], MEAN])
        if found.problem in (MNIST.name, KDD_SHORT.name):
            tables.append(spreads_of(found, AT[found.problem]))
        if found.problem == KDD.name:
            tables += slabs_of(found, [KDD.marks[0], KDD.marks[-1], MEAN])
    return tables


def questions_charts(rows: Sequence[Row]) -> list[Chart]:
    """None: there is nothing to see but answers."""
    return []
