"""`discreet select`: ids out, charged first, shard by shard; nonsense costs nothing."""

import json

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from discreet.cli.app import run
from discreet.privacy.ledger import FileSink, Ledger
from discreet.selectors import MECHANISMS, ThresholdSelector

pytestmark = pytest.mark.thorough

FIELDS = {"format", "simulation", "ids", "mechanism", "epsilon", "delta", "event", "shard", "threshold", "k", "asked"}
FIELDS |= {"dropped", "recorded"}


@pytest.fixture
def pool(tmp_path):
    rng = np.random.default_rng(0)
    table = pyarrow.table(
        {
            "scan": [f"s{place}" for place in range(3000)],
            "entropy": rng.beta(1, 6, 3000),
            "number": range(3000),
            "same": ["a"] * 3000,
            "gaps": [None if place % 2 else 0.5 for place in range(3000)],
        }
    )
    parquet.write_table(table, tmp_path / "pool.parquet")
    return tmp_path / "pool.parquet"


def select(pool, *extra, k=100, scores="entropy", column="scan"):
    return run(["select", str(pool), "--scores", scores, "--id", column, "--k", str(k), *extra])


def asked(capsys, pool, *extra, **options):
    assert select(pool, *extra, "--json", **options) == 0
    form = json.loads(capsys.readouterr().out)
    assert set(form) == FIELDS
    assert form["format"] == "discreet.selection/1"
    assert len(set(form["ids"])) == form["asked"] == len(form["ids"])
    return form


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism(capsys, pool, mechanism):
    extra = ["--delta", "1e-6"] if "gaussian" in mechanism else []
    form = asked(capsys, pool, "--mechanism", mechanism, "--epsilon", "2", "--simulation-seed", "3", *extra)
    assert form["mechanism"] == mechanism
    assert form["simulation"] is True
    assert form["recorded"] is False
    assert 60 <= form["asked"] <= 100
    assert form["epsilon"] == (0 if mechanism == "random" else 2)
    assert len(form["event"]) == {"random": 0, "threshold-response": 2}.get(mechanism, 1)
    assert (form["threshold"] is not None) == (mechanism == "threshold-response")


def test_a_seed_repeats_and_production_does_not(capsys, pool):
    first, again = (asked(capsys, pool, "--simulation-seed", "3")["ids"] for _ in range(2))
    assert first == again
    fresh, other = (asked(capsys, pool) for _ in range(2))
    assert fresh["ids"] != other["ids"]
    assert fresh["simulation"] is False


def test_ids_are_printed_one_a_line_and_the_rest_to_standard_error(capsys, pool):
    assert select(pool, "--mechanism", "laplace", k=7) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 7
    assert "7 asked by laplace, epsilon 1, delta 0: NOT recorded" in shown.err


def test_shards_are_used_once_each_and_charged(capsys, pool, tmp_path):
    book = tmp_path / "scans.ledger"
    given = ["--epsilon", "2", "--shards", "3", "--ledger", str(book), "--budget", "2"]
    forms = [asked(capsys, pool, *given) for _ in range(3)]
    assert [form["shard"] for form in forms] == [1, 2, 3]
    assert all(form["recorded"] for form in forms)
    assert not set.intersection(*(set(form["ids"]) for form in forms))
    assert select(pool, *given) == 2
    assert "each of them met one already" in capsys.readouterr().err
    ledger = Ledger.open(FileSink(book))
    assert [charge.who for entry in ledger.entries for charge in entry.charges] == [
        group for number in (1, 2, 3) for group in (f"shard-{number}",) * 2
    ]
    assert (tmp_path / "scans.ledger.key").stat().st_mode & 0o777 == 0o600


def test_a_pool_that_is_not_cut_pays_again_until_its_budget_ends(capsys, pool, tmp_path):
    given = ["--epsilon", "2", "--ledger", str(tmp_path / "a.ledger"), "--budget", "5"]
    assert asked(capsys, pool, *given)["shard"] is None
    asked(capsys, pool, *given)
    assert select(pool, *given) == 2
    assert "BudgetExceeded" not in capsys.readouterr().out
    assert len(Ledger.open(FileSink(tmp_path / "a.ledger")).entries) == 4  # nothing of the third


def test_without_a_ledger_a_fresh_shard(capsys, pool):
    form = asked(capsys, pool, "--shards", "3", "--mechanism", "random", k=5000)
    assert form["shard"] == 1
    assert 800 < form["asked"] < 1200


def test_odd_scores_and_ids(capsys, pool):
    form = asked(capsys, pool, scores="gaps", column="number")
    assert all(one.isdigit() for one in form["ids"])
    asked(capsys, pool, "--range", "-1,0.001")
    assert asked(capsys, pool, k=0)["ids"] == []
    assert asked(capsys, pool, k=10**6)["asked"] == 3000


@pytest.mark.parametrize(
    ("extra", "options", "says"),
    [
        (["--epsilon", "0"], {}, "above 0"),
        (["--epsilon", "x"], {}, "epsilon"),
        (["--mechanism", "magic"], {}, "none of that name"),
        (["--mechanism", "gaussian"], {}, "no epsilon at delta 0"),
        (["--delta", "1e-6"], {}, "holds at delta 0"),
        (["--mechanism", "hidden-threshold"], {}, "Choose threshold-response"),
        (["--range", "1"], {}, "BOTTOM,TOP"),
        (["--range", "1,0"], {}, "bottom below top"),
        (["--clip", "0.5"], {}, "only clipped-laplace"),
        (["--budget", "3"], {}, "nothing would keep it"),
        ([], {"scores": "entropie"}, "none of that name"),
        ([], {"scores": "scan"}, "not numbers"),
        ([], {"column": "entropy"}, "not text or whole numbers"),
        ([], {"column": "same"}, "occurs twice"),
    ],
)
def test_nonsense_is_refused_and_costs_nothing(capsys, pool, tmp_path, extra, options, says):
    book = ["--ledger", str(tmp_path / "n.ledger"), "--budget", "9"] if "--budget" not in extra else []
    assert select(pool, *extra, *book, **options) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert "Traceback" not in shown.err
    if (tmp_path / "n.ledger").exists() and (tmp_path / "n.ledger").stat().st_size:
        assert not Ledger.open(FileSink(tmp_path / "n.ledger")).entries


def test_files_that_are_none(capsys, tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    assert select(tmp_path / "a.parquet") == 2
    assert "not a Parquet file" in capsys.readouterr().err
    assert select(tmp_path / "b.parquet") == 2
    assert "no such file" in capsys.readouterr().err


def test_a_ledger_of_another_cut_or_budget(capsys, pool, tmp_path):
    book = ["--ledger", str(tmp_path / "c.ledger")]
    assert select(pool, *book) == 2
    assert "Give --budget to create it" in capsys.readouterr().err
    asked(capsys, pool, *book, "--budget", "9", "--shards", "2")
    assert select(pool, *book, "--shards", "3") == 2
    assert "another number" in capsys.readouterr().err
    assert select(pool, *book, "--shards", "2", "--budget", "8") == 2
    assert "another budget" in capsys.readouterr().err
    assert select(pool, *book, "--shards", "2", "--simulation-seed", "1") == 2
    assert "simulation" in capsys.readouterr().err


@pytest.mark.parametrize(("where", "says"), [("select", "the charge was made"), ("price", "nothing was charged")])
def test_an_interrupt_says_whether_anything_was_charged(capsys, pool, tmp_path, monkeypatch, where, says):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ThresholdSelector, where, interrupted)
    assert select(pool, "--ledger", str(tmp_path / "i.ledger"), "--budget", "3") == 130
    assert says in capsys.readouterr().err
    assert len(Ledger.open(FileSink(tmp_path / "i.ledger")).entries) == (2 if where == "select" else 0)


def test_a_pool_is_never_cut_twice_for_one_ledger(capsys, pool, tmp_path):
    given = ["--shards", "3", "--ledger", str(tmp_path / "k.ledger"), "--budget", "3"]
    asked(capsys, pool, *given)
    (tmp_path / "k.ledger.key").unlink()
    assert select(pool, *given) == 2
    assert "k.ledger.key, which cut the pool, is gone" in capsys.readouterr().err
    assert not (tmp_path / "k.ledger.key").exists()
    assert len(Ledger.open(FileSink(tmp_path / "k.ledger")).entries) == 2


def test_a_seed_below_zero_is_refused(pool, capsys):
    assert select(pool, "--simulation-seed", "-1") == 2
    assert "Traceback" not in capsys.readouterr().err
