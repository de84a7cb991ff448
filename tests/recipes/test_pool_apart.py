"""Records to measure on are kept apart from the pool; keys and questions are those of the campaign."""

import numpy as np
import pytest
from small_campaigns import CLASSES, finish, ids_of, made, pool_and_truth, records

from discreet.campaign.state import evaluations_of
from discreet.cli.app import run
from discreet.errors import InvalidConfig

pytestmark = pytest.mark.thorough

TOML = """
format = "discreet.campaign/1"
name = "apart"
[pool]
path = "pool.npz"
kind = "npz"
id = "{id}"
array = "x"
size = 300
[task]
kind = "binary"
classes = ["no", "yes"]
[budget]
epsilon = 8
delta = "1e-5"
[recipe]
name = "private-pool"
[plan]
initial = 60
queries = [20]
batch = 30
epochs = 3
accountant = "rdp"
{plan}
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.1"
[oracle]
name = "files"
[model]
name = "linear"
[evaluation]
kind = "{kind}"
path = "{path}"
labels = "labels.csv"
{epsilon}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    for name, part in (("pool", slice(0, 300)), ("held", slice(300, 400)), ("more", slice(350, 450))):
        ids = np.array([f"r{number}" for number in range(600)])[part]
        np.savez(f"{name}.npz", x=x[part], id=ids)
    rows = "".join(f"r{number},{'yes' if row[0] > 0 else 'no'}\n" for number, row in enumerate(x))
    (tmp_path / "labels.csv").write_text("record,label\n" + rows)
    return tmp_path


def write(place, *, kind="public", path="held.npz", name="id", plan='selection_epsilon = "2"'):
    epsilon = 'epsilon = "0.5"' if kind == "paid" else ""
    (place / "c.toml").write_text(TOML.format(kind=kind, path=path, epsilon=epsilon, id=name, plan=plan))


@pytest.mark.parametrize("kind", ["public", "paid"])
def test_the_pool_is_not_measured_on(place, capsys, kind):
    write(place, kind=kind, path="pool.npz")
    assert run(["init", "c.toml"]) == 2
    assert "records or persons of the pool are in it, too" in capsys.readouterr().err
    assert not (place / "apart.db").exists() or not (place / "apart.db.files").exists()


def test_positions_are_told_apart_by_their_files(place, capsys):
    write(place, path="pool.npz", name="position")
    (place / "labels.csv").write_text("record,label\n0,yes\n1,no\n")
    assert run(["init", "c.toml"]) == 2
    assert "of the pool are in it, too" in capsys.readouterr().err


def test_records_that_are_measured_on_do_not_join_the_pool(place, capsys):
    write(place)
    assert run(["init", "c.toml"]) == 0
    assert run(["pool", "extend", "c.toml", "more.npz"]) == 2
    assert "of the pool are in it, too" in capsys.readouterr().err


def test_records_known_by_positions_join_once_under_the_next_ones(place, capsys):
    write(place, name="position")
    (place / "labels.csv").write_text("record,label\n" + "".join(f"{number},yes\n" for number in range(100)))
    assert run(["init", "c.toml"]) == 0
    assert run(["pool", "extend", "c.toml", "held.npz"]) == 2  # it is measured on
    for _ in range(2):
        assert run(["pool", "extend", "c.toml", "more.npz"]) == 0
    assert run(["pool", "check", "c.toml"]) == 0
    assert "100 records joined" in capsys.readouterr().out
    assert run(["ask", "c.toml", "--n", "1"]) == 0


def test_a_lost_key_is_noticed_and_a_new_one_refused(place, capsys):
    write(place, plan='selection_epsilon = "2"\nselection = "shards"')
    assert run(["init", "c.toml"]) == 0
    (key,) = place.glob("apart.db.files/*/shards.key")
    assert key.stat().st_mode & 0o777 == 0o600
    kept = key.read_bytes()
    key.unlink()
    assert run(["ask", "c.toml"]) == 2
    assert "shards.key, which it was created with, is missing or another" in capsys.readouterr().err
    assert run(["verify", "c.toml"]) == 1
    assert "FAILED  keys" in capsys.readouterr().out
    key.write_bytes(kept)
    key.chmod(0o600)
    assert run(["ask", "c.toml", "--out", "q.csv"]) == 0
    assert (place / "q.csv").stat().st_mode & 0o777 == 0o600


def test_questions_are_not_called_as_records_are(place, capsys):
    ids = np.array([f"0.{number}" for number in range(300)])
    np.savez(place / "pool.npz", x=np.zeros((300, 4), np.float32), id=ids)
    write(place)
    assert run(["init", "c.toml"]) == 0
    assert run(["ask", "c.toml"]) == 0
    asked = [line.split("\t") for line in capsys.readouterr().out.splitlines() if "\t" in line]
    assert len(asked) == 60
    assert not {question for question, _ in asked} & set(ids.tolist())
    (place / "a.csv").write_text(f"question_id,label\n{asked[0][1]},yes\n")  # a record is no question
    assert run(["tell", "c.toml", "a.csv"]) == 2


def test_answers_about_another_record_are_refused(place, capsys):
    write(place)
    assert run(["init", "c.toml"]) == 0
    assert run(["ask", "c.toml", "--out", "q.csv"]) == 0
    lines = (place / "q.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines[1:3]]
    swapped = ",".join([cells[0][0], cells[1][1], *cells[0][2:3], '"yes"', '""'])
    (place / "a.csv").write_text(f"{lines[0]}\n{swapped}\n")
    capsys.readouterr()
    assert run(["tell", "c.toml", "a.csv"]) == 2
    assert "line 2: its question was not asked about its record" in capsys.readouterr().err


def test_labels_of_other_records_measure_nothing(place, capsys):
    write(place)
    (place / "labels.csv").write_text("record,label\nsomebody,yes\n")
    assert run(["init", "c.toml"]) == 2
    assert "none of them is of a record in evaluation.path" in capsys.readouterr().err


def test_a_pool_given_in_python_is_measured_on_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = records(100, seed=5)
    np.savez("held.npz", id=np.array([f"h{number}" for number in range(100)]), x=x)
    rows = "".join(f"h{number},{CLASSES[label]}\n" for number, label in enumerate(y))
    (tmp_path / "held.csv").write_text("record,label\n" + rows)
    pool, truth = pool_and_truth()
    table = {"kind": "paid", "path": "held.npz", "labels": "held.csv", "epsilon": "2"}
    campaign = made(tmp_path, pool, evaluation=table)
    finish(campaign, truth)
    measured = evaluations_of(campaign.store.transitions())
    assert measured[2]["kind"] == "paid"
    assert 0.5 < measured[2]["accuracy"] <= 1
    np.savez("held.npz", id=np.array(ids_of(100)), x=x)
    (tmp_path / "held.csv").write_text(("record,label\n" + rows).replace("\nh", "\nr"))
    with pytest.raises(InvalidConfig, match="records or persons of the pool are in it"):
        made(tmp_path, pool, name="again", evaluation=table)
    (tmp_path / "held.parquet").write_bytes(b"")
    with pytest.raises(InvalidConfig, match="Save an npz"):
        made(tmp_path, pool, name="again", evaluation=table | {"path": "held.parquet"})
