"""The experiments by name: problems, methods, seeds, and what is made of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from discreet.errors import BadInput
from discreet.simulation.results import Chart, Row, Table
from discreet_research.bench.authors_rules import AUTHORS_BLOCKS, authors_tables
from discreet_research.bench.automatic_settings import AUTOMATIC, AutomaticCase
from discreet_research.bench.automatic_settings import SEEDS as AUTOMATIC_SEEDS
from discreet_research.bench.automatic_tables import automatic_tables
from discreet_research.bench.cases import Case, GridCase
from discreet_research.bench.crowd_cases import CrowdCase
from discreet_research.bench.crowd_log import GATE, ORDERS
from discreet_research.bench.crowd_tables import asking_charts, asking_tables, gate_charts, gate_tables
from discreet_research.bench.feature_pictures import CHOICE, CIFAR, CIFAR_CHOICE, PICTURES, PictureCase
from discreet_research.bench.feature_results import choice_tables, picture_tables, rate_tables, table_tables
from discreet_research.bench.feature_tables import RATES, TABLES, TableCase
from discreet_research.bench.headline import (
    ACCURACY_BLOCKS,
    HEADLINE,
    accuracy_charts,
    accuracy_tables,
    headline_charts,
    headline_tables,
)
from discreet_research.bench.majority import majority_tables
from discreet_research.bench.paper_tables import (
    FEATURES_RARE,
    FEATURES_SCOUT,
    FIG_7,
    FIG_8,
    TABLE_1,
    TABLE_2,
    TABLE_4,
    fig_7_charts,
    fig_8_charts,
    paper_tables,
    table_2_charts,
)
from discreet_research.bench.peer_cases import PEERS, PeerCase
from discreet_research.bench.peer_cases import SEEDS as PEER_SEEDS
from discreet_research.bench.peer_tables import peer_tables
from discreet_research.bench.problems import Method, Problem
from discreet_research.bench.public_cases import FIG_4A as CLUSTERS
from discreet_research.bench.public_cases import FIG_5 as CHECKPOINTS
from discreet_research.bench.public_cases import LABELS, POLLUTION, PublicCase
from discreet_research.bench.public_cases import TRY_OUT as PUBLIC_TRY_OUT
from discreet_research.bench.public_tables import (
    checkpoint_charts,
    checkpoint_tables,
    cluster_charts,
    cluster_tables,
    label_charts,
    label_tables,
)
from discreet_research.bench.selection_kept import (
    NOISE_METHODS,
    NOISE_PROBLEMS,
    SELECTION_METHODS,
    SELECTION_PROBLEMS,
    noise_charts,
    noise_tables,
    selection_charts,
    selection_tables,
)
from discreet_research.bench.stream_figures import (
    QUESTIONS,
    SEEDS,
    fig_2_charts,
    fig_2_tables,
    fig_3_charts,
    fig_3_tables,
    fig_4_charts,
    fig_4_tables,
    fig_5_charts,
    fig_5_tables,
    questions_tables,
)
from discreet_research.bench.stream_methods import FIG_2, FIG_3, FIG_4, FIG_5
from discreet_research.bench.stream_runs import StreamCase
from discreet_research.bench.teacher_cases import SEEDS as TEACHER_SEEDS
from discreet_research.bench.teacher_cases import TEACHERS_ADULT, TEACHERS_MNIST, TeacherCase
from discreet_research.bench.teacher_tables import METHODS as OVERLAP_METHODS
from discreet_research.bench.teacher_tables import PROBLEMS as OVERLAP_PROBLEMS
from discreet_research.bench.teacher_tables import OverlapCase, overlap_tables, teacher_charts, teacher_tables


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """``tables`` and ``charts`` are made of rows of results and of nothing else.

    ``blocks``: problems, and the methods that are tried on them; ``case`` makes a cell of a problem, a method, a seed.
    """

    name: str
    about: str
    blocks: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    seeds: int
    tables: Callable[[Sequence[Row]], list[Table]]
    charts: Callable[[Sequence[Row]], list[Chart]] = lambda rows: []
    case: Callable[..., GridCase] = Case

    def all_tables(self, rows: Sequence[Row]) -> list[Table]:
        """And what always answering the largest class has."""
        return [*self.tables(rows), *majority_tables(rows)]

    def cases(self, seeds: Sequence[int] | None = None) -> list[GridCase]:
        """The grid, seed by seed, so that a run that is cut short has whole seeds."""
        return [
            self.case(problem=problem, method=method, seed=seed)
            for seed in (range(self.seeds) if seeds is None else seeds)
            for problems, methods in self.blocks
            for problem in problems
            for method in methods
        ]


_TRY_OUT = Problem(
    name="digits, eps 8, T=2",
    data="digits",
    rare=5,
    initial=200,
    queries=(60, 60),
    epsilon="8",
    batch=120,
    epochs=15,
    features=200,
    travel=2000.0,
    accountant="rdp",
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="try-out",
            about="scikit-learn's digits, two queries: a minute, to see how the bench works",
            blocks=(
                (
                    (_TRY_OUT,),
                    (
                        Method(name="random", mechanism="random"),
                        Method(name="exact (not private)", mechanism="exact"),
                        Method(
                            name="threshold response, 2",
                            mechanism="threshold-response",
                            selection_epsilon="2",
                            threshold_epsilon="0.1",
                            individual_rates=True,
                        ),
                    ),
                ),
            ),
            seeds=3,
            tables=accuracy_tables,
            charts=accuracy_charts,
        ),
        Experiment(
            name="selection-quality",
            about="how much of the highest scores each mechanism asks (DP-AL, Table 5, Figs. 9 and 10)",
            blocks=((SELECTION_PROBLEMS, SELECTION_METHODS),),
            seeds=10,
            tables=selection_tables,
            charts=selection_charts,
        ),
        Experiment(
            name="noise-mechanisms",
            about="the first query for selection epsilons from 1 to 10 (DP-AL, Fig. 11)",
            blocks=((NOISE_PROBLEMS, NOISE_METHODS),),
            seeds=10,
            tables=noise_tables,
            charts=noise_charts,
        ),
        Experiment(
            name="accuracy-kept",
            about="how much of the accuracy that non-private selection gains over random survives privacy",
            blocks=ACCURACY_BLOCKS,
            seeds=10,
            tables=accuracy_tables,
            charts=accuracy_charts,
        ),
        Experiment(
            name="headline",
            about="the share of the non-private gain that is kept at epsilon 3, 5, 8 and 16, on four sets",
            blocks=HEADLINE,
            seeds=5,
            tables=headline_tables,
            charts=headline_charts,
        ),
        Experiment(
            name="authors-rules",
            about="plans by the DP-AL authors' code beside ours: what they cost, and what they give",
            blocks=AUTHORS_BLOCKS,
            seeds=5,
            tables=authors_tables,
        ),
        Experiment(
            name="table-1",
            about="every score, chosen in every way, beside random asking (DP-AL, Table 1)",
            blocks=TABLE_1,
            seeds=5,
            tables=partial(paper_tables, "Active learning under privacy, epsilon 8"),
        ),
        Experiment(
            name="table-2",
            about="entropy at epsilon 3, 5, 8 and 16 (DP-AL, Table 2)",
            blocks=TABLE_2,
            seeds=5,
            tables=partial(paper_tables, "By the whole budget"),
            charts=table_2_charts,
        ),
        Experiment(
            name="table-4",
            about="how later records catch up: three schedules (DP-AL, Table 4)",
            blocks=TABLE_4,
            seeds=5,
            tables=partial(paper_tables, "By schedule"),
        ),
        Experiment(
            name="fig-7",
            about="entropy by what selection may cost (DP-AL, Fig. 7)",
            blocks=FIG_7,
            seeds=5,
            tables=partial(paper_tables, "By what selection may cost, of epsilon 8"),
            charts=fig_7_charts,
        ),
        Experiment(
            name="fig-8",
            about="entropy by the labelling budget (DP-AL, Fig. 8)",
            blocks=FIG_8,
            seeds=5,
            tables=partial(paper_tables, "By the labelling budget"),
            charts=fig_8_charts,
        ),
        Experiment(
            name="stream-fig-2",
            about="streams: error by updates (Stream, Fig. 2)",
            blocks=FIG_2,
            seeds=10,
            tables=fig_2_tables,
            charts=fig_2_charts,
            case=StreamCase,
        ),
        Experiment(
            name="stream-fig-3",
            about="streams: error by labels, what ours adds at equal epsilon, and baselines (Stream, Fig. 3)",
            blocks=FIG_3,
            seeds=10,
            tables=fig_3_tables,
            charts=fig_3_charts,
            case=StreamCase,
        ),
        Experiment(
            name="stream-fig-4",
            about="streams: sizes of mini-batches and windows (Stream, Fig. 4)",
            blocks=FIG_4,
            seeds=10,
            tables=fig_4_tables,
            charts=fig_4_charts,
            case=StreamCase,
        ),
        Experiment(
            name="stream-fig-5",
            about="streams: fixed and shrinking slabs (Stream, Fig. 5)",
            blocks=FIG_5,
            seeds=10,
            tables=fig_5_tables,
            charts=fig_5_charts,
            case=StreamCase,
        ),
        Experiment(
            name="stream-questions",
            about="streams: what the figures seem to say, with fifty permutations",
            blocks=QUESTIONS,
            seeds=SEEDS,
            tables=questions_tables,
            case=StreamCase,
        ),
        Experiment(
            name="crowd-gate",
            about="what a crowd may see: k people, coins of beta, a heavy-tailed log (Crowd, Figs. 1 to 4, Table 1)",
            blocks=GATE,
            seeds=5,
            tables=gate_tables,
            charts=gate_charts,
            case=CrowdCase,
        ),
        Experiment(
            name="crowd-asking",
            about="what a crowd is asked first: scores beside random asking, orders of training, one label of three",
            blocks=ORDERS,
            seeds=5,
            tables=asking_tables,
            charts=asking_charts,
            case=CrowdCase,
        ),
        Experiment(
            name="public-try-out",
            about="public data: every selector on a tenth of MNIST: a minute, to see how it works",
            blocks=PUBLIC_TRY_OUT,
            seeds=2,
            tables=label_tables,
            charts=partial(label_charts, name="public-try-out"),
            case=PublicCase,
        ),
        Experiment(
            name="public-labels",
            about="public data: accuracy by extra labels, all selectors at equal epsilon (Public, Fig. 1)",
            blocks=LABELS,
            seeds=5,
            tables=label_tables,
            charts=label_charts,
            case=PublicCase,
        ),
        Experiment(
            name="public-pollution",
            about="public data: a part of it is of another set (Public, Fig. 3)",
            blocks=POLLUTION,
            seeds=5,
            tables=label_tables,
            charts=partial(label_charts, name="public-pollution"),
            case=PublicCase,
        ),
        Experiment(
            name="public-clusters",
            about="public data: clusters, and how many are taken of each (Public, Fig. 4a)",
            blocks=CLUSTERS,
            seeds=5,
            tables=cluster_tables,
            charts=cluster_charts,
            case=PublicCase,
        ),
        Experiment(
            name="public-checkpoints",
            about="public data: from which checkpoint NearPrivate does best (Public, Fig. 5)",
            blocks=CHECKPOINTS,
            seeds=5,
            tables=checkpoint_tables,
            charts=checkpoint_charts,
            case=PublicCase,
        ),
        Experiment(
            name="teachers-adult",
            about="teachers on Adult: aggregators, students, numbers of teachers (PATE)",
            blocks=TEACHERS_ADULT,
            seeds=TEACHER_SEEDS,
            tables=teacher_tables,
            charts=teacher_charts,
            case=TeacherCase,
        ),
        Experiment(
            name="teachers-overlap",
            about="active questions and a sparse vector: the same points? together? (PATE, an open question)",
            blocks=((OVERLAP_PROBLEMS, OVERLAP_METHODS),),
            seeds=TEACHER_SEEDS,
            tables=overlap_tables,
            case=OverlapCase,
        ),
        Experiment(
            name="teachers-mnist",
            about="teachers on MNIST: aggregators, students, numbers of teachers (PATE)",
            blocks=TEACHERS_MNIST,
            seeds=TEACHER_SEEDS,
            tables=teacher_tables,
            charts=teacher_charts,
            case=TeacherCase,
        ),
        Experiment(
            name="automatic-settings",
            about="settings of DP-SGD by the rule from public numbers, beside the best of twelve",
            blocks=AUTOMATIC,
            seeds=AUTOMATIC_SEEDS,
            tables=automatic_tables,
            case=AutomaticCase,
        ),
        Experiment(
            name="features-choice",
            about="scattering of pictures: settings compared on 10,000 held-out records of the training set",
            blocks=CHOICE,
            seeds=1,
            tables=choice_tables,
            case=PictureCase,
        ),
        Experiment(
            name="features-cifar10-choice",
            about="scattering of CIFAR-10: settings compared on 10,000 held-out records of the training set",
            blocks=CIFAR_CHOICE,
            seeds=1,
            tables=choice_tables,
            case=PictureCase,
        ),
        Experiment(
            name="features-cifar10",
            about="scattering of CIFAR-10 without public data at (3, 1e-5), on the test set",
            blocks=CIFAR,
            seeds=3,
            tables=picture_tables,
            case=PictureCase,
        ),
        Experiment(
            name="features-pictures",
            about="scattering and one linear layer at (3, 1e-5), with settings chosen by features-choice",
            blocks=PICTURES,
            seeds=5,
            tables=picture_tables,
            case=PictureCase,
        ),
        Experiment(
            name="features-rare",
            about="odd classes 20 times rarer, one linear layer on scattering: random, released, hidden, not private",
            blocks=FEATURES_RARE,
            seeds=5,
            tables=partial(paper_tables, "Scattering and one linear layer, odd classes 20 times rarer"),
        ),
        Experiment(
            name="features-scout",
            about="the same with a scout: one short training before one query, and a last one with the rest",
            blocks=FEATURES_SCOUT,
            seeds=5,
            tables=partial(paper_tables, "Scattering and one linear layer, odd classes 20 times rarer, one query"),
        ),
        Experiment(
            name="features-rates",
            about="feature maps of a table that is in no result: learning rates compared at epsilon 1",
            blocks=RATES,
            seeds=3,
            tables=rate_tables,
            case=TableCase,
        ),
        Experiment(
            name="features-tables",
            about="feature maps of three tables at epsilon 1: private, not private, and boosted trees",
            blocks=TABLES,
            seeds=5,
            tables=table_tables,
            case=TableCase,
        ),
        Experiment(
            name="peers",
            about="scikit-activeml's loop without privacy beside ours, and Opacus as the trainer of our campaigns",
            blocks=PEERS,
            seeds=PEER_SEEDS,
            tables=peer_tables,
            case=PeerCase,
        ),
    )
}


def experiment_named(name: str) -> Experiment:
    """The one of that name."""
    if name not in EXPERIMENTS:
        raise BadInput(
            f"the experiment {name}", "there is none of that name", f"Choose one of {', '.join(EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]
