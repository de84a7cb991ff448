"""The state of a learner as plain data: JSON values and numpy arrays, no pickle. Exact to the bit.

It holds records that wait for their labels, and the sum of labels that came: private, for the owner alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.stream.settings import StreamSettings
from discreet.stream.slabs import slab_from_json

if TYPE_CHECKING:
    from discreet.stream.learner import StreamLearner

FORMAT = "discreet.stream-state/1"
_COUNTERS = (
    "arrived",
    "asked",
    "labelled",
    "updates",
    "noises",
    "resets",
    "checks",
    "window_asked",
    "arrivals_left",
    "asks_left",
    "watch_left",
    "mistakes",
)


def state_of(learner: StreamLearner) -> dict[str, Any]:
    """Everything to go on with."""
    learner._waiting.forget(learner.arrived)
    persons = {"persons": learner._persons.to_json()} if learner._persons.capped else {}
    return {
        "format": FORMAT,
        "audience": "owner",
        "settings": learner.settings.to_json(),
        "slab": learner.slab.to_json(),
        "ledger": learner._receipt.ledger_id,
        "entry": learner._receipt.entry.sequence,
        "counters": {name: int(getattr(learner, f"_{name}")) for name in _COUNTERS},
        "due": learner._due,
        "weights": learner._linear.flat.copy(),
        "sums": learner._sums.whole.copy(),
        "waiting": learner._waiting.to_json(learner.settings.size),
        **persons,
    }


def settings_of(state: Mapping[str, Any]) -> StreamSettings:
    """The settings a state was made with."""
    if not isinstance(state, Mapping) or state.get("format") != FORMAT:
        raise InvalidCheckpoint("the state of a stream", f"it is not one of {FORMAT}", "Restore the file")
    try:
        return StreamSettings.from_json(state["settings"])
    except (BadInput, KeyError) as error:
        raise InvalidCheckpoint("the state of a stream", "its settings cannot be read", "Restore the file") from error


def restore(learner: StreamLearner, state: Mapping[str, Any]) -> None:
    """Bring a new learner to where the state was taken."""
    receipt = learner._receipt
    if not receipt.simulation and (state.get("ledger"), state.get("entry")) != (
        receipt.ledger_id,
        receipt.entry.sequence,
    ):
        raise InvalidCheckpoint(
            "going on with a stream", "its state belongs to another ledger or entry", "Open the ledger it was made with"
        )
    try:
        _read(learner, state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        raise InvalidCheckpoint("the state of a stream", "a part is missing or broken", "Restore the file") from None


def _read(learner: StreamLearner, state: Mapping[str, Any]) -> None:
    weights = np.array(state["weights"], dtype=np.float64)
    sums = np.array(state["sums"], dtype=np.int64)
    if weights.shape != learner._linear.flat.shape or sums.shape != learner._sums.whole.shape:
        raise ValueError
    counters = {name: state["counters"][name] for name in _COUNTERS}
    if not all(type(value) is int for value in counters.values()) or type(state["due"]) is not bool:
        raise ValueError
    slab = slab_from_json(state["slab"])
    learner._waiting.read(state["waiting"])
    if learner._persons.capped:
        learner._persons.read(state["persons"])
    for name, value in counters.items():
        setattr(learner, f"_{name}", value)
    learner._due = state["due"]
    learner._sums.whole[:] = sums
    learner._linear.set(weights)
    learner.change_slab(slab)
