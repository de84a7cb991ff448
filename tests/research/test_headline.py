"""The headline: cases of other experiments are not run again, shares are right, and no gain is said to be none."""

import pytest

from discreet_research.bench import EXPERIMENTS
from discreet_research.bench.headline import EPSILONS, HEADLINE, KINDS, headline_charts, headline_tables, kind_of

CASES = EXPERIMENTS["headline"].cases()


def test_four_sets_four_epsilons_five_seeds_and_every_kind():
    problems = {case.problem.name for case in CASES}
    assert len(problems) == 16
    assert {case.seed for case in CASES} == {0, 1, 2, 3, 4}
    for problem in problems:
        kinds = {kind_of(case.method.name) for case in CASES if case.problem.name == problem}
        assert kinds >= set(KINDS) - {"random, DP-SGD"}


@pytest.mark.parametrize(
    ("name", "start", "epsilons"),
    [
        ("accuracy-kept", "fashion-mnist", ("3", "8")),
        ("accuracy-kept", "mnist", ("3", "8")),
        ("table-2", "cifar10 20:1", EPSILONS),
        ("table-1", "banking77", ("8",)),
    ],
)
def test_what_other_experiments_have_is_not_run_again(name, start, epsilons):
    others = {case.digest for case in EXPERIMENTS[name].cases()}
    for epsilon in epsilons:
        mine = [case for case in CASES if case.problem.name.startswith(f"{start}, eps {epsilon}")]
        assert mine
        assert {case.digest for case in mine} <= others, (name, epsilon)


def test_one_score_and_the_papers_prices():
    for problems, methods in HEADLINE:
        (problem,) = problems
        paid = {kind_of(method.name): method.selection_epsilon for method in methods}
        assert {method.score or problem.score for method in methods if method.mechanism != "random"} == {"entropy"}
        assert paid["Laplace"] == {"3": "1", "5": "1", "8": "2", "16": "4"}[problem.epsilon]
        assert float(paid["threshold response"]) < float(problem.epsilon)
        assert problem.accountant == "pld"


GAINS = {"random AL": 0.0, "not private": 0.1, "Laplace": 0.01, "threshold response": 0.05, "hidden threshold": 0.099}


def made_up(gain=1.0):
    """Every kind keeps its share of a gain of ten points, times ``gain``; seeds move all alike, and a little apart."""
    rows = []
    for case in CASES:
        share = GAINS.get(kind_of(case.method.name), -0.02)
        apart = 0.002 * ((case.seed * 7 + len(case.method.name)) % 5 - 2)
        rows.append(case.names() | {"phase": 4, "test_accuracy": 0.6 + gain * share + 0.01 * case.seed + apart})
    return rows


def test_shares_by_hand():
    shares, accuracies, compared = headline_tables(made_up())
    assert len(shares.rows) == 4 * 4
    by_kind = {line[1]: line for line in shares.rows if line[0] == "cifar10 20:1"}
    assert by_kind["*gain of exact selection, points*"][3].startswith(("9.", "10."))
    laplace = by_kind["the paper's clipped Laplace (1, 1, 2, 4)"]
    ours = by_kind["ours: threshold response (1, 1, 2, 4)"]
    assert [abs(int(cell.split()[0]) - 10) <= 4 for cell in laplace[3:]] == [True] * 4
    assert [abs(int(cell.split()[0]) - 50) <= 4 for cell in ours[3:]] == [True] * 4
    assert by_kind["ours: hidden threshold"][2] == "owner and annotators only"
    assert any("1.5, 2, 3, 5" in line[1] for line in shares.rows if line[0] == "mnist")
    assert len(accuracies.rows) == 4 * len(KINDS) - 2
    marks = {line[1]: line[2][-1] for line in accuracies.rows if line[0] == "banking77"}
    assert (marks["ours: threshold response"], marks["not private"]) == ("+", "+")
    assert compared.rows[-1][0] == "all together"
    assert len(compared.rows) == 17


def test_of_an_unfinished_run_it_tells_what_there_is():
    begun = [row for row in made_up() if row["seed"] == 0]
    assert len(headline_tables(begun)) == 2
    more = [row for row in made_up() if row["seed"] < 2 and not row["problem"].startswith("mnist")]
    assert len(headline_tables([*begun, *more])[2].rows) == 12 + 1


def test_no_share_of_nothing():
    shares, *_ = headline_tables(made_up(gain=0.0))
    told = [cell for line in shares.rows if "Laplace" in line[1] for cell in line[3:]]
    assert set(told) == {"-"}


def test_the_chart_has_a_panel_a_set():
    (chart,) = headline_charts(made_up())
    assert [panel.title for panel in chart.panels] == ["fashion-mnist", "mnist", "cifar10 20:1", "banking77"]
    line = chart.panels[0].series[1]
    assert line.x == (3.0, 5.0, 8.0, 16.0)
    assert all(low < y < high for low, y, high in zip(line.low, line.y, line.high, strict=True))
    assert [panel.series[0].x for panel in headline_charts(made_up(gain=0.0))[0].panels] == [()] * 4
