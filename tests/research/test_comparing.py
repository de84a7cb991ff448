"""A planted difference is found, none is not; what is said to be shown holds as often as it says."""

import json
import math

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.errors import BadInput
from discreet.simulation.results import Store
from discreet_research.bench import experiment_named
from discreet_research.bench.comparing import (
    LEVEL,
    compare_methods,
    compare_places,
    comparison_form,
    comparison_table,
    figures_of,
    holm,
    seeds_needed,
    sign_flip_p,
    student_p,
)

pytestmark = pytest.mark.thorough


def rows_of(**accuracies):
    """Rows of two phases: the last one counts. Keys: `problem__method`; values: an accuracy a seed."""
    found = []
    for name, values in accuracies.items():
        problem, method = name.replace("_", " ").split("  ")
        for seed, value in enumerate(values):
            named = {"problem": problem, "method": method, "seed": seed, "made_of": "files"}
            found += [named | {"phase": 1, "test_accuracy": value}, named | {"phase": 0, "test_accuracy": 0.99}]
    return found


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1, 1, 1], 2 / 8),
        ([3, 2, 1], 2 / 8),
        ([3, 2, -1], 4 / 8),  # +-(3 + 2 - 1) and +-(3 + 2 + 1)
        ([0, 0, 0], 1),
        ([2, 1, 1, 1, 1, 1], 2 / 64),
    ],
)
def test_signs_flipped_by_hand(differences, p):
    assert sign_flip_p(differences) == p


def test_many_differences_are_drawn_and_agree_with_all_ways(monkeypatch):
    chance = np.random.default_rng(4)
    differences = chance.normal(0.3, 1, size=14)
    whole = sign_flip_p(differences)
    monkeypatch.setattr("discreet_research.bench.comparing.MOST_EXACT", 3)
    monkeypatch.setattr("discreet_research.bench.comparing.DRAWN", 200_000)
    assert sign_flip_p(differences) == pytest.approx(whole, abs=6 * math.sqrt(whole / 200_000))


def test_students_t_by_scipy():
    from scipy import stats

    sample = [0.3, 0.1, 0.5, 0.2, -0.1]
    assert student_p(sample) == pytest.approx(stats.ttest_1samp(sample, 0).pvalue, rel=1e-12)
    assert student_p([0.1, 0.1]) == 1  # no spread: it says nothing, rather than everything
    assert student_p([0.0, 0.0]) == 1


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert seeds_needed(1) == 6  # 2^-5 is below 5%, 2^-4 is not
    assert 2.0 ** (1 - seeds_needed(16)) * 16 <= LEVEL < 2.0 ** (2 - seeds_needed(16)) * 16


def shown_share(effect, test, *, problems=4, seeds=10, times=400):
    """How often anything is said to be shown, with noise of one point a seed."""
    chance = np.random.default_rng(11)
    count = 0
    for _ in range(times):
        common = chance.normal(0.7, 0.02, size=(problems, seeds))
        first = common + effect + chance.normal(0, 0.01, size=(problems, seeds))
        values = {f"p{i}__b": common[i] for i in range(problems)} | {f"p{i}__a": first[i] for i in range(problems)}
        parts = compare_methods(rows_of(**values), "a", "b").parts
        count += any(getattr(part, test) <= LEVEL for part in parts)
    return count / times


@pytest.mark.parametrize("test", ["corrected_exact", "corrected_student"])
def test_level_and_power_over_four_problems(test):
    assert shown_share(0.0, test) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert shown_share(0.02, test, times=60) >= 0.95


def test_without_the_correction_the_level_would_not_hold(monkeypatch):
    monkeypatch.setattr("discreet_research.bench.comparing.holm", list)
    assert shown_share(0.0, "corrected_student") > 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_the_last_phase_counts_and_pairs_are_of_one_seed():
    found = compare_methods(rows_of(p__a=[0.5, 0.7], p__b=[0.4, 0.5]), "a", "b")
    (part,) = found.parts
    assert part.differences == (pytest.approx(0.1), pytest.approx(0.2))
    assert part.means == (pytest.approx(0.6), pytest.approx(0.45))
    assert found.together is None
    other = compare_methods(rows_of(p__b=[0.5, 0.7], p__a=[0.4, 0.5]), "a", "b")
    assert other.parts[0].difference.value == -part.difference.value


def test_what_is_shown_is_said_and_what_is_not():
    sure = compare_methods(rows_of(p__a=[0.6 + 0.001 * i for i in range(8)], p__b=[0.5] * 8), "a", "b")
    assert sure.parts[0].shown == "A higher"
    few = compare_methods(rows_of(p__a=[0.60, 0.61, 0.60, 0.62], p__b=[0.5] * 4), "a", "b")
    assert few.parts[0].shown == "A higher, by t alone"
    assert "With 4 seeds the sign-flip test cannot go below 0.125: to show one of 1 it needs 6" in few.statement
    nothing = compare_methods(rows_of(p__a=[0.6, 0.4, 0.5], p__b=[0.5, 0.5, 0.45]), "a", "b")
    assert nothing.parts[0].shown == "not shown"
    assert nothing.statement.startswith("Nothing is shown")
    assert compare_methods(rows_of(p__a=[0.6, 0.4], p__b=[0.6, 0.4]), "a", "b").statement.startswith("The two are the")
    lower = compare_methods(rows_of(p__a=[0.5] * 8, p__b=[0.6 + 0.001 * i for i in range(8)]), "a", "b")
    assert lower.parts[0].shown == "B higher"


def test_all_together_is_by_seed_and_problems_without_both_are_named():
    rows = rows_of(p__a=[0.5, 0.6, 0.7], p__b=[0.4, 0.4, 0.4], q__a=[0.5, 0.4], q__b=[0.4, 0.4], r__a=[0.1, 0.1])
    found = compare_methods(rows, "a", "b")
    assert found.left_out == ("r",)
    assert "Left out" in found.statement
    assert found.together.seeds == (0, 1)
    assert found.together.differences == (pytest.approx(0.1), pytest.approx(0.1))


def test_a_method_is_named_by_a_part_within_each_problem():
    rows = rows_of(
        p__entropy_Laplace_1=[0.1, 0.2], p__random=[0.1, 0.1], q__entropy_Laplace=[0.1, 0.2], q__random=[0, 0]
    )
    found = compare_methods(rows, "laplace", "RANDOM")
    assert [part.a for part in found.parts] == ["entropy Laplace 1", "entropy Laplace"]
    with pytest.raises(BadInput, match="none has a name like that.*entropy Laplace 1; random"):
        compare_methods(rows, "gauss", "random")
    with pytest.raises(BadInput, match="it may be one of: entropy Laplace 1; random"):
        compare_methods(rows, "a", "random")
    with pytest.raises(BadInput, match="both are random"):
        compare_methods(rows, "rand", "random")
    exact = rows_of(p__random=[0.1, 0.2], p__random_AL=[0.3, 0.1], p__x=[0, 0])
    assert compare_methods(exact, "random", "x").parts[0].a == "random"  # the whole name wins


def test_too_few_seeds_and_unknown_figures_are_refused():
    with pytest.raises(BadInput, match="1 seeds in common"):
        compare_methods(rows_of(p__a=[0.5], p__b=[0.4, 0.3]), "a", "b")
    with pytest.raises(BadInput, match="Choose with --figure one of: test_accuracy"):
        figures_of(rows_of(p__a=[0.5]), "speed")


def test_two_places_are_compared_method_by_method():
    old, new = rows_of(p__a=[0.5, 0.6], p__b=[0.5, 0.5]), rows_of(p__a=[0.6, 0.8], p__c=[0.1, 0.1])
    found = compare_places(new, old, "new", "old")
    assert [(part.problem, part.a) for part in found.parts] == [("p", "a")]
    assert found.parts[0].differences == (pytest.approx(0.1), pytest.approx(0.2))
    assert set(found.left_out) == {"p, b", "p, c"}
    with pytest.raises(BadInput, match="other files"):
        compare_places(new, [row | {"made_of": "others"} for row in old], "new", "old")
    with pytest.raises(BadInput, match="in common"):
        compare_places(rows_of(p__a=[1, 1]), rows_of(p__b=[1, 1]), "new", "old")


@pytest.fixture
def place(tmp_path):
    """Results of the experiment try-out, as if it had run: exact selection is ahead."""
    store = Store(tmp_path / "one", "try-out")
    chance = np.random.default_rng(5)
    for case in experiment_named("try-out").cases(range(8)):
        gain = 0.1 if case.method.mechanism == "exact" else 0.0
        accuracy = 0.6 + gain + 0.004 * case.seed + float(chance.normal(0, 0.01))
        store.keep(case, [{"phase": 0, "test_accuracy": 0.5}, {"phase": 1, "test_accuracy": accuracy, "size": 1800.0}])
    return store.directory


def test_the_command_says_what_is_shown(place, tmp_path, capsys):
    words = ["bench", "compare", "exact", "random", "--in", "try-out", "--results", str(place)]
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    assert run([*words, "--json", "--markdown", str(page), "--plot", str(picture)]) == 0
    form = json.loads(capsys.readouterr().out)
    assert (form["format"], form["simulation"]) == ("discreet.bench-comparison/1", True)
    (part,) = form["parts"]
    assert (part["shown"], len(part["seeds"])) == ("A higher", 8)
    assert part["p_sign_flip"] == 2 / 2**8
    assert part["low"] < part["difference"] < part["high"]
    assert page.read_text().startswith("### test_accuracy, %: A = exact, B = random")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run([*words, "--seeds", "3"]) == 0
    assert "A higher, by t alone" in capsys.readouterr().out
    assert run(["bench", "compare", "threshold", "random", "--in", "try-out", "--results", str(place)]) == 0
    assert "Nothing is shown" in capsys.readouterr().out


def test_two_directories(place, capsys):
    assert run(["bench", "compare", str(place), str(place), "--in", "try-out", "--method", "exact", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert form["statement"].startswith("The two are the same")
    assert [part["a"] for part in form["parts"]] == ["exact (not private)"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gauss", "random", "--in", "try-out"], "Choose of: random; exact (not private); threshold response, 2"),
        (["exact", "random", "--in", "try-out", "--seeds", "1"], "1 seeds in common"),
        (["exact", "random", "--in", "table-1"], "has no results of it"),
        (["exact", "random", "--in", "nothing"], "there is none of that name"),
        (["exact", "random", "--in", "try-out", "--method", "exact"], "Drop --method"),
        (["exact", "random", "--in", "try-out", "--seeds", "20-22"], "none of these cases"),
        (["exact", "random", "--in", "try-out", "--figure", "speed"], "size, test_accuracy"),
    ],
)
def test_mistakes_are_told(place, words, said, capsys):
    assert run(["bench", "compare", *words, "--results", str(place)]) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_the_table_and_the_form_say_the_same():
    found = compare_methods(rows_of(p__a=[0.5, 0.6, 0.8], p__b=[0.4, 0.4, 0.4]), "a", "b")
    form, table = comparison_form(found), comparison_table(found)
    assert table.rows[0][-1] == form["parts"][0]["shown"]
    assert table.rows[0][6].startswith(f"{100 * form['parts'][0]['difference']:+.3g}")
    whole = compare_methods(rows_of(p__a=[5.0, 6.0], p__b=[4.0, 4.0]), "a", "b")
    assert "%" not in comparison_table(whole).title
