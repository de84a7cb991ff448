"""Every form that the software writes names its format; what is read back is opened as each earlier version wrote it.

The formats are read off the source. One that is not in the tables here fails, and so does a version without its file in
`fixtures` (`make_fixtures.py` writes those of today).
"""

import json
import re
import shutil
from pathlib import Path

import make_fixtures
import numpy as np
import pytest

import discreet
import discreet_research
from discreet.errors import DiscreetError

SOURCES = (Path(discreet.__file__).parent, Path(discreet_research.__file__).parent)
FIXTURES = Path(__file__).parent / "fixtures"
TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"discreet\.([a-z][a-z-]+)/(\d+)")


def plan(path):
    from discreet.privacy.plan_files import read_plan

    return read_plan(path, certify=False).batch == 100


def ledger(path):
    from discreet.privacy.ledger import Ledger, MemorySink
    from discreet.privacy.ledger.sinks import read_lines

    with Ledger.open(MemorySink(read_lines(path))) as book:
        return len(book) == 1


def mark(path):
    from discreet.privacy.ledger.high_water_mark import HighWaterMark

    return HighWaterMark(path).read().lines == 3


def certificate(path):
    from discreet.privacy.certificate.statement import read_certificate

    return read_certificate(path.read_bytes())["claim"]["delta"] is not None


def key(path):
    from discreet.noise.keys import read_secret

    path.chmod(0o600)  # git keeps no such modes
    return read_secret(path, "fixture")["key"] == bytes(32)


def votes(path):
    from discreet.trainers.teachers import read_votes

    found = read_votes(path)
    return (found.teachers, found.unit) == (3, "person")


def stopping(path):
    from discreet.campaign.stopping_rules import Rule

    return Rule.from_json(json.loads(path.read_text())).count == 100


def model(path):
    from discreet import load_model

    return tuple(load_model(path).classes) == ("no", "yes")


def predictor(path):
    import torch

    from discreet.trainers.torch_predictor import TorchPredictor

    found = TorchPredictor.load(path, torch.nn.Linear(2, 2), device="cpu")
    return found.predict_proba(np.zeros((1, 2), dtype=np.float32)).shape == (1, 2)


def text_classifier(path):
    from discreet.trainers.text_classifier import TextClassifier

    return TextClassifier.from_bytes(path.read_bytes()).classes == ("a", "b")


def student(path):
    from discreet.trainers.students.stored import student_from_bytes

    return student_from_bytes(path.read_bytes(), estimator=None).predict_proba(np.zeros((1, 2)))[0, 1] == 1


def preparation(path):
    from discreet.stream.preparation import Preparation

    return Preparation.from_json(json.loads(path.read_text())).inputs == 2


def stream_model(path):
    from discreet.stream import StreamModel

    return StreamModel.from_json(json.loads(path.read_text())).weights is not None


def campaign(path):
    from discreet.config.campaign import read_campaign

    return bool(read_campaign(path).name)


def stream_file(path):
    from discreet.config.stream import StreamConfig

    return bool(StreamConfig.read(path).name)


OPENED = {
    "plan": plan,
    "ledger": ledger,
    "mark": mark,
    "certificate": certificate,
    "key": key,
    "votes": votes,
    "stopping": stopping,
    "model": model,
    "predictor": predictor,
    "text-classifier": text_classifier,
    "student": student,
    "preparation": preparation,
    "stream-model": stream_model,
    "campaign": campaign,
    "stream": stream_file,
}
"""How each is opened; true, if what was written is there."""

KEPT = {
    "access": "web/test_access_log.py",
    "campaign-state": "storage/test_migrations.py",
    "teachers-plan": "recipes/test_pate_campaign.py",
    "public-plan": "recipes/test_public_data.py",
    "checkpoint": "trainers/test_resume.py",
    "stream-journal": "stream/test_stream_keeping.py",
    "stream-state": "stream/test_states.py",
    "stream-facts": "stream/test_stream_keeping.py",
    "published-model": "stream/test_publishing.py",
    "embeddings": "research",
    "bench": "research",
    "evaluation": "campaign",
    "stop": "campaign",
}
"""Read back from inside a store, a folder of a run or a cache, and made and opened by tests there; all at version 1."""

PRINTED = {
    *(
        "access-log",
        "answers",
        "answers-price",
        "answers-prices",
        "audit",
        "bench-comparison",
        "created",
        "error",
        "example",
        "export",
        "exposure",
    ),
    *("extended", "gallery", "keys", "labelstudio-pull", "labelstudio-push", "labelstudio-remove"),
    *("labelstudio-status", "labelstudio-sync", "ledger-summary", "ledger-view", "log", "plan-comparison"),
    *("pool-check", "predictions", "price", "question", "questions", "release", "release-table", "replan", "report"),
    *("run", "selection", "selection-quality", "serving", "simulated", "status", "storage", "storage-abandon"),
    *("schema", "storage-copy", "storage-upgrade", "stream-summary", "told", "trained", "tuning-price"),
    *("tuning-prices", "user", "users", "verdict", "verification", "withdrawal", "work"),
}
"""Told to whoever asked, by `--json`, a page or a report: nothing here reads them back. All are at version 1."""


def formats(*roots):
    """{name: highest version} in the source."""
    found = {}
    for path in (path for root in roots or SOURCES for path in sorted(root.rglob("*.py"))):
        for name, version in NAMED.findall(path.read_text(encoding="utf-8")):
            found[name] = max(found.get(name, 0), int(version))
    return found


def unknown(found):
    return sorted(set(found) - OPENED.keys() - KEPT.keys() - PRINTED)


def fixtures(name, version):
    return sorted(one for one in FIXTURES.iterdir() if re.fullmatch(rf"{name}-{version}([.-].*)?", one.name))


def test_every_format_is_known():
    found = formats()
    assert unknown(found) == []
    assert len(found) > 70
    gone = {*OPENED, *KEPT, *PRINTED} - set(found)
    assert sorted(gone) == [], "formats that nobody writes"


def test_a_new_format_is_missed(tmp_path):
    (tmp_path / "new.py").write_text('FORMAT = "discreet.novelty/3"\n')
    assert unknown(formats(tmp_path)) == ["novelty"]


def test_nothing_has_a_second_version_before_the_first_release():
    assert [name for name, version in formats().items() if version > 1] == []


@pytest.mark.parametrize("name", OPENED)
def test_every_version_is_opened(name, tmp_path):
    for version in range(1, formats()[name] + 1):
        found = fixtures(name, version)
        assert found, f"there is no file of discreet.{name}/{version}"
        for fixture in found:
            copied = tmp_path / fixture.name
            (shutil.copytree if fixture.is_dir() else shutil.copy)(fixture, copied)
            assert OPENED[name](copied), fixture.name


TEXTS = sorted(
    one.name for one in FIXTURES.iterdir() if one.suffix in (".json", ".jsonl", ".toml") or one.name == "key-1"
)


@pytest.mark.parametrize("fixture", TEXTS)
def test_a_later_version_is_refused_in_words(fixture, tmp_path):
    name = re.match(r"[a-z-]+(?=-\d)", fixture)[0]
    text = (FIXTURES / fixture).read_text(encoding="utf-8")
    assert f"discreet.{name}/1" in text
    path = tmp_path / fixture
    path.write_text(text.replace(f"discreet.{name}/1", f"discreet.{name}/9"), encoding="utf-8")
    with pytest.raises(DiscreetError):
        OPENED[name](path)


def test_tests_of_what_is_kept_elsewhere_are_there():
    for place in KEPT.values():
        assert (TESTS / place).exists(), place


def test_what_makes_the_fixtures_makes_all_of_them():
    assert {one.name for one in FIXTURES.iterdir()} == set(make_fixtures.MAKES)
