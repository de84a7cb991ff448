"""Every built-in part is in the table, with a contract and a replay; a new one without them fails here."""

from types import SimpleNamespace

import finding
import pytest
from entries import Cited, Free
from finding import drawing_modules, is_part, name_of, parts_in
from table import ALL_SCENES, TABLE

from discreet.features import FEATURES
from discreet.oracles.registry import ORACLES
from discreet.scorers import SCORERS
from discreet.selectors import SELECTORS


def missing(parts, table):
    return sorted(set(parts) - set(table))


def undrawn(drawing, scenes):
    """Modules that draw, and are in no scene."""
    return sorted(set(drawing) - {module for scene in scenes.values() for module in scene.modules})


def test_every_built_in_part_has_its_line():
    parts = parts_in()
    assert missing(parts, TABLE) == []
    assert sorted(set(TABLE) - set(parts)) == [], "the table names what is not there"
    assert len(parts) > 50


def test_registries_hold_nothing_that_is_not_counted():
    for registry in (SCORERS, SELECTORS, ORACLES, FEATURES):
        for kind in [kind for part in registry for kind in part.makes]:
            assert name_of(kind) in TABLE


def test_every_module_that_draws_is_in_a_scene():
    drawing = drawing_modules()
    assert {"selectors.top_k", "trainers.dp_sgd.trainer", "stream.learner_state"} <= set(drawing)
    assert undrawn(drawing, ALL_SCENES) == []


def test_a_planted_part_is_missed(monkeypatch):
    class Loudest:
        name, range, needs = "loudest", (0.0, 1.0), "proba"

        def score(self, values):
            return values.max(axis=1)

    Loudest.__module__, Loudest.__qualname__ = "discreet.scorers.planted", "Loudest"
    planted = SimpleNamespace(__name__="discreet.scorers.planted", Loudest=Loudest)
    assert is_part(Loudest) == "scorer"
    honest = finding.modules
    monkeypatch.setattr(finding, "modules", lambda room: [*honest(room), *([planted] if room == "scorers" else [])])
    assert missing(parts_in(), TABLE) == ["scorers.planted.Loudest"]


def test_a_planted_draw_is_missed(tmp_path):
    (tmp_path / "selectors").mkdir()
    (tmp_path / "selectors" / "new.py").write_text("from discreet.noise import numerator, laplace as hidden\n")
    (tmp_path / "selectors" / "free.py").write_text("from discreet.noise import numerator, random_places\n")
    found = drawing_modules(tmp_path)
    assert found == {"selectors.new": {"hidden"}}
    assert undrawn(found, ALL_SCENES) == ["selectors.new"]


@pytest.mark.parametrize("part", TABLE)
def test_what_a_line_cites_is_there(part):
    entry = TABLE[part]
    for cited in (entry.contract, entry.replay):
        if isinstance(cited, Cited):
            assert cited.problem(part) == ""
    if isinstance(entry.replay, Free):
        assert part.rpartition(".")[0] not in drawing_modules(), "it draws, and says that it is free"
    elif not isinstance(entry.replay, Cited):
        assert set(entry.replay) <= set(ALL_SCENES)
        assert entry.replay


@pytest.mark.parametrize(
    ("test", "kit", "says"),
    [
        ("selectors/test_nothing.py::test_it", "", "does not exist"),
        ("selectors/test_selectors.py::test_nothing", "", "has no"),
        ("selectors/test_selectors.py::test_prices", "check_selector", "does not call"),
        ("scorers/test_scores.py::test_known_answers", "", "does not name"),
    ],
)
def test_a_wrong_citation_is_found(test, kit, says):
    assert says in Cited(test, kit).problem("selectors.top_k.LaplaceTopK")
