"""Lines of a CSV file with more or fewer cells than its header: their names stay, and their other cells are missing."""

import random

import pytest

from discreet.errors import BadInput
from discreet.pools import csv_files, open_pool
from discreet.pools.file_columns import cells_of_records

SCHEMA = {name: {"type": "number", "low": 0, "high": 100} for name in ("a", "b")}


def line_of(rng, row):
    """A line, and which of its two cells are missing."""
    kinds = [("{0},5", 2), ("{0},5,6,7", 2), ("{0}", 2), ("{0},\xff,6", 1), ('{0},"5\n",6', 0), ("{0},5,6", 0)]
    text, missing = rng.choices(kinds, weights=[1, 1, 1, 1, 1, 15])[0]
    return text.format(f"r{row}").encode("latin-1"), missing


@pytest.mark.parametrize("seed", range(40))
def test_each_record_keeps_its_place_and_its_own_cells(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 200)
    rng = random.Random(seed)
    lines, missing = zip(*(line_of(rng, row) for row in range(rng.randrange(1, 80))), strict=True)
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n".join([b"id,a,b", *lines]) + b"\n" * rng.randrange(3))
    pool = open_pool(path, id="id", schema=SCHEMA)
    assert pool.ids == [f"r{row}" for row in range(len(lines))]
    assert pool.x[:][:, [1, 3]].sum(axis=1).tolist() == list(missing)
    plain = open_pool(path, id="id", columns=["a", "b"])
    if not all(missing):
        assert plain.broken(slice(None)).tolist() == [bool(cells) for cells in missing]


def test_persons_beside_the_ids_are_kept(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('who,id,a,b\n"p, q",r0,1,2\np,r1,1\n"p, q",r2,1,2,3\n')
    pool = open_pool(path, id="id", person="who", schema=SCHEMA)
    assert (pool.ids, pool.persons) == (["r0", "r1", "r2"], ["p, q", "p", "p, q"])
    assert cells_of_records(path, "csv", "id", ["a"], ["r0", "r1"])["a"]["r0"] == "1"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("a,id,b\n1,r0,2\n3,r1\n", "its id is not sure"),
        ('id,a,b\nr0,1,2\nr1,"secret,2\nr2,3,4\n', "stays open"),
    ],
)
def test_where_ids_are_not_sure_the_file_is_refused_without_a_count_or_a_cell(tmp_path, text, fact):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(BadInput, match=fact) as refused:
        open_pool(tmp_path / "a.csv", id="id", schema=SCHEMA)
    assert "secret" not in str(refused.value)
    assert not any(sign.isdigit() for sign in refused.value.fact)


def test_other_separators_and_encodings_are_named(tmp_path):
    path = tmp_path / "a.csv"
    for sign, name in {";": "semicolons", "\t": "tabs"}.items():
        path.write_text(f"id{sign}a{sign}b\nr0{sign}1{sign}2\n")
        with pytest.raises(BadInput, match=f"no comma, but {name}"):
            open_pool(path, id="id", schema=SCHEMA)
    path.write_text("id,a,b\nr0,1,2\n", encoding="utf-16")
    with pytest.raises(BadInput, match="iconv -f UTF-16"):
        open_pool(path, id="id", schema=SCHEMA)
