"""Nonsense in a campaign on public data: one clear error, exit code 2, no trace, no record in it, nothing charged."""

import numpy as np
import pytest
from small_public import NEAR, STATED, written

from discreet.cli.app import run

pytestmark = pytest.mark.thorough

SECRET = "r17"
"""An id of a private record."""


def refused(arguments, capsys):
    code = run(arguments)
    said = capsys.readouterr()
    assert code == 2, (code, said)
    assert said.err.startswith("discreet: ")
    assert "Traceback" not in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert SECRET not in said.err
    return said.err


WORDS = [
    (STATED, STATED + "\nrecall = -1", "recall"),
    (STATED, STATED + '\nrecall = "all"', "recall"),
    (STATED, STATED + "\nrecall = nan", "recall"),
    (STATED, STATED + "\nrecal = 5", "recal"),
    (STATED, 'epsilon = "0"\ndelta = "1e-6"', "epsilon"),
    (STATED, 'epsilon = "1"\ndelta = "1"', "delta"),
    (STATED, 'certificate = "."', "certificate"),
    (STATED, 'certificate = "truth.csv"', "certificate"),
    (STATED, 'certificate = "weights.safetensors"', "certificate"),
    (STATED, "sampling_rate = 2.0\nnoise_multiplier = 1.0\nsteps = 5", "sampling_rate"),
    (STATED, "sampling_rate = 0.5\nnoise_multiplier = 0.01\nsteps = 5000", "epsilon"),
    ('path = "weights.safetensors"', 'path = "."', "path"),
    ('path = "weights.safetensors"', 'path = "truth.csv"', "path"),
    ('path = "weights.safetensors"', 'path = "public.npz"', "path"),
    ("hidden = [8]", "hidden = [9]", "path"),
    ('classes = ["a", "b"]', 'classes = ["a", "b", "c"]', "path"),
    ("queries = [10, 10]", "queries = [100, 100]", ""),
    ("queries = [10, 10]", "queries = [0]", "queries"),
    ("uncertain = 60", "uncertain = 0", "uncertain"),
    ("uncertain = 60", "uncertain = 3", "uncertain"),
    ("components = 4", "components = 0", "components"),
    ("support_epsilon = '0.5'", "support_epsilon = '0'", "support_epsilon"),
    ("support_epsilon = '0.5'", "support_epsilon = '1e99'", "support_epsilon"),
    ("support_epsilon = '0.5'", "support_epsilon = '0.5'\nnorm = -1.0", "norm"),
    ("support_epsilon = '0.5'", "support_epsilon = '0.5'\nnorm = inf", "norm"),
    ('path = "private.npz"', 'path = "public.npz"', "private"),
    ('path = "private.npz"', 'path = "nowhere.npz"', "private"),
    ("size = 300", "size = 299", "private"),
    ("size = 300", "size = -1", "size"),
    ('epsilon = "3"', 'epsilon = "1.5000001"', ""),
]


@pytest.mark.parametrize(("there", "instead", "named"), WORDS, ids=range(len(WORDS)))
def test_nonsense_in_the_file(tmp_path, capsys, monkeypatch, there, instead, named):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, selector="near-private", options=NEAR)
    text = file.read_text()
    assert there in text
    file.write_text(text.replace(there, instead))
    assert named in refused(["init", str(file)], capsys)
    assert not list(tmp_path.glob("keys-*"))


def private(rows, **arrays):
    return {"id": np.array([f"r{number}" for number in range(len(rows))]), "x": rows} | arrays


@pytest.mark.parametrize(
    "arrays",
    [
        private(np.zeros((300, 4), dtype=np.float32)),
        private(np.zeros((300, 5, 1), dtype=np.float32)),
        private(np.full((300, 5), "r17")),
        private(np.zeros((300, 5), dtype=np.float32), id=np.full(300, SECRET)),
        {"id": np.array(["r1"])},
    ],
    ids=["narrow", "deep", "words", "one id", "no rows"],
)
def test_private_records_that_are_none(tmp_path, capsys, monkeypatch, arrays):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, selector="near-private")
    np.savez(tmp_path / "private.npz", **arrays)
    assert "private" in refused(["init", str(file)], capsys)


def test_verbs_at_the_wrong_time(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = str(written(tmp_path))
    refused(["gallery", file], capsys)  # there is no campaign
    assert run(["init", file]) == 0
    capsys.readouterr()
    for arguments in (
        ["gallery", file],
        ["gallery", file, "--phase", "0"],
        ["gallery", file, "--phase", "-3"],
        ["gallery", file, "--out", "page.exe"],
        ["gallery", file, "--out", "nowhere/page.html"],
        ["gallery", file, "--out", "truth.csv"],
        ["export", file, "model", "--no-onnx"],
    ):
        refused(arguments, capsys)
    assert (tmp_path / "truth.csv").read_text().startswith("record")
