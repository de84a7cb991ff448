"""Every built-in part runs its contract and the replay kit, both ways; and each scene is shown to be able to fail."""

import sys
from dataclasses import replace

import pytest
from entries import Cited
from table import ALL_SCENES, TABLE

from discreet.noise import RecordingSource, ReplayingSource
from discreet.testing import NotPrivate, neighbours
from discreet.testing.comparison import excess, same

pytestmark = pytest.mark.thorough

SLOW = {"trainers.dp_sgd.trainer.DPSGD", "selectors.near_private.NearPrivate", "gates.gate.CrowdGate"}
NO_DISTANCE = {"gate"}
"""Its coins hang on a key that is drawn, nothing is hidden by a distance. Its contract compares what is released."""


def thorough(name, slow):
    return pytest.param(name, marks=[pytest.mark.thorough] if slow else [])


CONTRACTS = [name for name, entry in TABLE.items() if not isinstance(entry.contract, Cited)]


@pytest.mark.parametrize("part", [thorough(name, name in SLOW) for name in CONTRACTS])
def test_the_contract_holds(part):
    TABLE[part].contract()


def callers():
    """The modules of the house that are on the stack."""
    frame, found = sys._getframe(2), set()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("discreet."):
            found.add(name.removeprefix("discreet."))
        frame = frame.f_back
    return found


@pytest.mark.parametrize("name", [thorough(name, scene.slow) for name, scene in ALL_SCENES.items()])
def test_the_replay_kit_finds_nothing(name, monkeypatch):
    """And the neighbours do move what is hidden, in the modules that the scene is for."""
    through, moved, honest = set(), [], RecordingSource.perform

    def perform(self, call, sampler):
        through.update(callers())
        return honest(self, call, sampler)

    def watched(left, right):
        moved.append(not same(left.inputs, right.inputs))
        return excess(left, right)

    monkeypatch.setattr(RecordingSource, "perform", perform)
    monkeypatch.setattr(neighbours, "excess", watched)
    report = ALL_SCENES[name].check()
    assert report.releases
    assert set(ALL_SCENES[name].drawn_in or ALL_SCENES[name].modules) <= through
    assert any(moved) != (name in NO_DISTANCE)


LOUD = ("l1", "l2", "linf", "linf-up")


@pytest.mark.parametrize("name", [thorough(name, True) for name in ALL_SCENES if name not in NO_DISTANCE])
def test_a_sensitivity_that_is_declared_too_small_is_found(name, monkeypatch):
    """A thousandth of it; where no number is declared (votes, one record's coin), one record moves those of all."""

    def planted(kind):
        honest = kind.perform

        def perform(self, call, sampler):
            inputs = call.inputs
            if inputs is not None and call.measure not in LOUD and kind is ReplayingSource:
                inputs = inputs + type(inputs.flat[0])(3) if hasattr(inputs, "flat") else inputs + 3
            small = replace(call, sensitivity=call.sensitivity / 1000, inputs=inputs)
            return honest(self, small, sampler)

        return perform

    for kind in (RecordingSource, ReplayingSource):
        monkeypatch.setattr(kind, "perform", planted(kind))
    with pytest.raises(NotPrivate) as found:
        ALL_SCENES[name].check()
    assert "sensitivity" in {finding.kind for finding in found.value.findings}
