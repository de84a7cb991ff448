"""The DP-AL paper's campaign on sets that two cores can train: its proportions, its methods, a model a set.

Labels are asked as in the paper's Table 3: two fifths of the labelling budget at random, then four queries of two
fifths, 12%, 4% and 4%; the expected batch is 0.4096 of the initial labels. Where it differs: 10 epochs a phase instead
of 30, delta 1e-5 instead of one in so many labels, other models (below). Training was set by hand, on random asking
alone, with seeds that no table has.

    fashion-mnist     odd classes 20 times rarer, 12,000 records; the small CNN
    pneumonia         as it came, 4,708 records; the small CNN
    cifar10           the paper's sizes, 40,000 records; a linear model of a frozen encoder's vectors
    cifar10, 20:1     odd classes 20 times rarer, 26,250 records; the same model
    clinc150          15,000 records; a linear model of a frozen encoder's vectors
    banking77         10,003 records; the same

Accuracies beside random asking: paired over seeds, with intervals, and said plainly where nothing is gained.

Every method of a problem is compared with two baselines that choose at random: DP-SGD on as many records labelled at
once, and active learning that asks at random. A method *beats random* where the paired difference to both is above 0
with its whole 95% interval. Intervals are each for itself: of forty rows two may seem better or worse by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from discreet.privacy.budget import Schedule
from discreet.simulation.points import Interval, mean_interval
from discreet.simulation.results import Row, Table, percent
from discreet_research.bench.problems import Method, Problem
from discreet_research.bench.rows import BySeed, half_interval, points_of, values_in
from discreet_research.bench.rows import difference as paired_difference

SHARES = (0.40, 0.40, 0.12, 0.04, 0.04)
"""Of the labelling budget: the initial labels, then four queries."""
BATCH = 0.4096
EPOCHS = 10

PASSIVE, NAIVE, RANDOM_AL = "random, DP-SGD", "random, naive AL", "random AL"
EXACT, LAPLACE, RESPONSE, HIDDEN = "not private", "Laplace", "threshold response", "hidden threshold"
AUTHORS = "authors' rules (not certified)"
SCORES = ("entropy", "margin", "least-confidence", "bald")
_CLIPPED = ("entropy", "bald")
"""Scores that the paper clips before it adds noise."""


def _problem(name: str, labels: int, **options: object) -> Problem:
    return with_labels(
        Problem(
            **{  # type: ignore[arg-type]
                "name": f"{name}, eps 8",
                "initial": 1,
                "queries": (),
                "batch": round(BATCH * SHARES[0] * labels),
                "epsilon": "8",
                "epochs": EPOCHS,
                "score": "entropy",
                "rare": 1,
            }
            | options
        ),
        labels,
    )


def with_labels(problem: Problem, labels: int) -> Problem:
    """The same with another labelling budget, in the same proportions."""
    sizes = [round(share * labels) for share in SHARES]
    return replace(problem, initial=sizes[0], queries=tuple(sizes[1:]))


def with_epsilon(problem: Problem, epsilon: str) -> Problem:
    """The same with another budget."""
    return replace(problem, epsilon=epsilon, name=problem.name.replace("eps 8", f"eps {epsilon}"))


_CNN = {"pictures": "images", "model": "small_cnn"}
_HEAD = {"pictures": "vectors", "model": "embedding_head"}
FASHION = _problem("fashion-mnist", 6_000, data="fashion-mnist", pool=12_000, **(_CNN | {"rare": 20, "travel": 1000.0}))
PNEUMONIA = _problem("pneumonia", 2_350, data="pneumonia-mnist", **(_CNN | {"travel": 100.0}))
CIFAR = _problem("cifar10", 25_000, data="cifar10", pool=40_000, **(_HEAD | {"travel": 10000.0}))
CIFAR_RARE = _problem("cifar10 20:1", 13_125, data="cifar10", **(_HEAD | {"rare": 20, "travel": 10000.0}))
CLINC = _problem("clinc150", 7_500, data="clinc150", **(_HEAD | {"travel": 10000.0}))
BANKING = _problem("banking77", 5_000, data="banking77", **(_HEAD | {"travel": 8000.0}))


def baselines() -> tuple[Method, ...]:
    """Random asking three ways; none pays for selection."""
    return (
        Method(name=PASSIVE, mechanism="random", passive=True),
        Method(name=NAIVE, mechanism="random", schedule="naive"),
        Method(name=RANDOM_AL, mechanism="random"),
    )


def exact(score: str) -> Method:
    """The highest scores: a bound, not a method."""
    return Method(name=f"{score}, {EXACT}", mechanism="exact", score=score)


def laplace(score: str, epsilon: str = "2", schedule: Schedule = "step-amplification") -> Method:
    """The paper's: noise on every score, clipped where the paper clips."""
    mechanism = "clipped-laplace" if score in _CLIPPED else "laplace"
    name = _named(f"{score}, {LAPLACE}", epsilon, schedule)
    return Method(name=name, mechanism=mechanism, score=score, selection_epsilon=epsilon, schedule=schedule)


def authors_rules(score: str, epsilon: str = "2") -> Method:
    """The authors' selection in a plan of the authors' code: a baseline that may pass its budget."""
    name = _named(f"{score}, {AUTHORS}", epsilon, "step-amplification")
    return Method(name=name, mechanism="authors-laplace", score=score, selection_epsilon=epsilon)


def response(
    score: str, tau: str, epsilon: str = "2", schedule: Schedule = "step-amplification", *, individual: bool = True
) -> Method:
    """Ours, for the same release: who is asked may be shown to anybody."""
    return Method(
        name=_named(f"{score}, {RESPONSE}", epsilon, schedule),
        mechanism="threshold-response",
        score=score,
        selection_epsilon=epsilon,
        threshold_epsilon=tau,
        individual_rates=individual,
        schedule=schedule,
    )


def hidden(score: str, tau: str) -> Method:
    """Ours, for another release: who is asked stays with owner and annotators."""
    return Method(name=f"{score}, {HIDDEN}", mechanism="hidden-threshold", score=score, threshold_epsilon=tau)


def k_centre() -> tuple[Method, ...]:
    """Diversity, which needs no score: the greedy choice, and the exponential mechanism in sequence."""
    return (
        Method(name=f"k-centre, {EXACT}", mechanism="exact-k-centre"),
        Method(name="k-centre, exponential", mechanism="k-centre", selection_epsilon="2"),
    )


def tau_of(problem: Problem) -> str:
    """For a threshold, a query: smaller pools need more to see their scores."""
    return "0.02" if problem.labels > 10_000 else "0.05"


def _named(name: str, epsilon: str, schedule: Schedule) -> str:
    """The table's own settings have no ending, so that the same case in two experiments is run once."""
    ends = [epsilon] * (epsilon != "2") + [schedule] * (schedule != "step-amplification")
    return ", ".join([name, *ends])


Finals = dict[str, BySeed]
"""Accuracy after the last phase, by method and seed."""
MARKS = {"yes": "+", "not shown": "=", "worse": "-"}


def finals_of(rows: Sequence[Row], problem: str) -> Finals:
    """Of the last phase that a case has."""
    measured = [row for row in rows if row["problem"] == problem and row.get("test_accuracy") is not None]
    finals: Finals = {method: {} for method in values_in(measured, "method")}
    for row in sorted(measured, key=itemgetter("phase")):
        finals[row["method"]][row["seed"]] = row["test_accuracy"]
    return finals


def difference(finals: Finals, method: str, baseline: str) -> Interval | None:
    """Method less baseline, over the seeds that both have."""
    return paired_difference(finals.get(method, {}), finals.get(baseline, {}), least=1)


def beats_random(finals: Finals, method: str) -> str:
    """`yes`, `worse` (surely below one of the two), or `not shown`."""
    gains = [difference(finals, method, baseline) for baseline in (RANDOM_AL, PASSIVE)]
    if any(gain is not None and gain.high < 0 for gain in gains):
        return "worse"
    return "yes" if all(gain is not None and gain.low > 0 for gain in gains) else "not shown"


def release_of(method: str) -> str:
    """What of the asked set may be seen, as a word for a table."""
    if method in (PASSIVE, NAIVE, RANDOM_AL):
        return "free"
    if EXACT in method:
        return "none"
    if AUTHORS in method:
        return "not certified"
    return "hidden" if HIDDEN in method else "private"


def problem_table(rows: Sequence[Row], problem: str) -> Table:
    """A method a row, random beside it."""
    finals = finals_of(rows, problem)
    lines = []
    for method, by_seed in finals.items():
        cells = [percent(mean_interval(list(by_seed.values())), 2), _beside(finals, method)]
        cells += [points_of(difference(finals, method, baseline), 2) for baseline in (RANDOM_AL, PASSIVE)]
        verdict = "" if release_of(method) == "free" else beats_random(finals, method)
        lines.append((method, release_of(method), str(len(by_seed)), *cells, verdict))
    return Table(
        title=problem,
        columns=(
            "method",
            "selection",
            "seeds",
            "accuracy, %",
            RANDOM_AL,
            "less random AL",
            "less DP-SGD",
            "beats random",
        ),
        rows=tuple(lines),
        note=NOTE,
    )


NOTE = (
    "Means with 95% intervals by Student's t. Differences are in points, paired over seeds. `selection`: *private* "
    "pays for a release of the asked set; *hidden* keeps it with owner and annotators, which is another promise; "
    "*none* is not private and only shows what there is to gain. `beats random`: *yes* where both differences are "
    "above 0 with their whole interval, *worse* where one is below 0 with its whole interval, otherwise *not shown*."
)


def summary_table(rows: Sequence[Row], title: str) -> Table:
    """The paper's form: a method a row, a problem a column."""
    problems = values_in(rows, "problem")
    finals = {problem: finals_of(rows, problem) for problem in problems}
    methods = list(dict.fromkeys(method for problem in problems for method in finals[problem]))
    lines = [
        (method, release_of(method), *(_cell(finals[problem], method) for problem in problems)) for method in methods
    ]
    return Table(
        title=title,
        columns=("method", "selection", *problems),
        rows=tuple(lines),
        note="Accuracy in %, mean and half of its 95% interval. Behind it, paired over seeds against both ways of "
        "random asking: + beats them, - is worse than one of them, = neither is shown.",
    )


def _cell(finals: Finals, method: str) -> str:
    if method not in finals:
        return "-"
    text = half_interval(finals[method].values(), 2)
    return text if release_of(method) == "free" else f"{text} {MARKS[beats_random(finals, method)]}"


def _beside(finals: Finals, method: str) -> str:
    """Random AL over the same seeds."""
    seeds = sorted(set(finals[method]) & set(finals.get(RANDOM_AL, {})))
    if not seeds:
        return "-"
    return f"{100 * mean_interval([finals[RANDOM_AL][seed] for seed in seeds]).value:.2f}"
