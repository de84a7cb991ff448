"""The state of a learner: one value that asking, learning, updates and batches take and change.

It holds records that wait for their labels, and the sum of labels that came: private, for the owner alone. Its stored
form is plain data, JSON values and numpy arrays without pickle, exact to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.errors import BadInput, InvalidCheckpoint, ReceiptRefused
from discreet.noise import IndexedCoins, IndexedCounts, IndexedNoise, SealedPhase, Seeded
from discreet.privacy.budget import Budget, Unit
from discreet.privacy.ledger import Ledger, MemorySink, Receipt
from discreet.stream.ask_rules import Ends
from discreet.stream.linear_model import Ball, Floats, Label, Linear, RecordReader
from discreet.stream.losses import Hinge
from discreet.stream.optimizer import ModelUpdate
from discreet.stream.pending_labels import Key, PersonCounts, UpdateSum, WaitingRecords
from discreet.stream.schedules import ENDLESS, Slab, slab_from_json
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import ARRIVING, ASKED, COUNTED, charge_stream, stream_charges, stream_price, stream_terms

FORMAT = "discreet.stream-state/1"
NO_RECORD: Any = object()
"""Stands for the last asked record where it was not asked by itself."""
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


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class LearnerState:
    """Settings, model, draws, pending labels and counters of one learner. Everything that is asked, taught or updated
    changes this value and nothing else.

    by_score      whether a record is asked with one of two chances, by its score: from ``low_score`` to ``high_score``
                  the high chance, else the low one
    plain_hinge   whether labels teach by the hinge loss and no mistakes are counted
    numbered      whether classes are 0, 1, ...
    """

    settings: StreamSettings
    receipt: Receipt
    reader: RecordReader
    ball: Ball
    linear: Linear
    model_update: ModelUpdate
    coins: IndexedCoins
    noise: IndexedNoise
    count_noise: IndexedCounts | None
    codes: dict[Label, int]
    waiting: WaitingRecords
    persons: PersonCounts
    sums: UpdateSum
    slab: Slab
    by_score: bool
    plain_hinge: bool
    numbered: bool
    last_record: Any = NO_RECORD
    latest: list[Key] = field(default_factory=list)
    arrived: int = 0
    asked: int = 0
    labelled: int = 0
    updates: int = 0
    noises: int = 0
    resets: int = 0
    checks: int = 0
    due: bool = False
    window_asked: int = 0
    arrivals_left: int = 0
    asks_left: int = 0
    watch_left: int = 0
    mistakes: int = 0
    ends: Ends | None = None
    low_chance: int = 0
    high_chance: int = 0
    low_score: float = 0.0
    high_score: float = 0.0
    widths: tuple[float, ...] = ()
    width_array: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.begin_window()
        self.begin_watch()
        self.set_widths()

    def begin_window(self) -> None:
        """Nobody arrived in this window yet."""
        self.due, self.window_asked = False, 0
        self.arrivals_left, self.asks_left = self.settings.window.room(0, 0)

    def begin_watch(self) -> None:
        """No mistakes were counted yet."""
        self.watch_left = ENDLESS if self.settings.drift is None else self.settings.drift.window
        self.mistakes = 0

    def count_asked(self, count: int) -> None:
        """So many more records were asked."""
        self.asked += count
        self.window_asked += count
        self.asks_left -= count
        self.watch_left -= count

    def change_slab(self, slab: Slab) -> None:
        """Another slab from now on."""
        self.settings.asking.check(slab, classes=len(self.settings.classes), radius=self.settings.radius)
        self.slab = slab
        self.set_widths()

    def set_widths(self) -> None:
        """Compute what follows from the slab and the number of updates."""
        asking = self.settings.asking
        self.widths = self.slab.widths(self.updates, len(self.settings.classes))
        self.width_array = np.array(self.widths)
        if self.ends is None or asking.follows_slab:
            self.ends = asking.ends(min(self.widths), self.settings.radius)
            self.low_chance, self.high_chance = self.ends.low, self.ends.high
            self.coins.check(self.low_chance, self.high_chance)
        self.set_scores()

    def set_scores(self) -> None:
        """Compute what follows from the widths and the model."""
        if self.by_score:
            self.low_score = -self.linear.edge(self.widths[0])
            self.high_score = self.linear.edge(self.widths[1])


def new_state(settings: StreamSettings, receipt: Receipt) -> LearnerState:
    """The state of a learner before its first record."""
    ball, model_ball = Ball(settings.radius, settings.size), Ball(settings.ball, settings.weights)
    coins = IndexedCoins(receipt, who=ARRIVING)
    noise = IndexedNoise(receipt, size=settings.weights, sensitivity=settings.reach, who=ASKED)
    return LearnerState(
        settings=settings,
        receipt=receipt,
        reader=RecordReader(settings.features),
        ball=ball,
        linear=Linear(model_ball, ball, settings.rows),
        model_update=ModelUpdate(
            model_ball, step=settings.step, regularization=settings.regularization, lattice_step=noise.step
        ),
        coins=coins,
        noise=noise,
        count_noise=None if settings.drift is None else IndexedCounts(receipt, who=COUNTED),
        codes={label: code for code, label in enumerate(settings.classes)},
        waiting=WaitingRecords(settings.patience),
        persons=PersonCounts(settings.person_records),
        sums=UpdateSum(settings.rows, settings.size),
        slab=settings.slab,
        by_score=settings.asking.two_valued and settings.rows == 1,
        plain_hinge=isinstance(settings.loss, Hinge) and settings.drift is None,
        numbered=settings.classes == tuple(range(len(settings.classes))),
    )


# -- what pays for it


def paid_receipt(settings: StreamSettings, receipt: Receipt | None, ledger: Ledger | SealedPhase | None) -> Receipt:
    """The receipt of a stream with these settings: one that was charged, or of a ledger that is charged now."""
    if (receipt is None) == (ledger is None):
        raise BadInput("a stream learner", "exactly one of receipt and ledger pays for it", "Give one of them")
    if receipt is None:
        assert ledger is not None
        _check_unit(settings, ledger.unit if isinstance(ledger, SealedPhase) else ledger.terms.budget.unit)
        return charge_stream(ledger, **settings.paid)
    if type(receipt) is not Receipt:
        raise ReceiptRefused("a stream learner", "there is no receipt for it", "Use charge_stream")
    _check_unit(settings, receipt.unit)
    if {*receipt.entry.charges} != {*stream_charges(**settings.paid)}:
        raise ReceiptRefused(
            "a stream learner", "its receipt was charged for something else", "Charge with the same settings"
        )
    return receipt


def _check_unit(settings: StreamSettings, unit: Unit) -> None:
    if unit != settings.unit:
        raise ReceiptRefused(
            f"a stream learner for the unit {settings.unit}",
            f"its ledger protects the unit {unit}",
            "Set person_records to protect persons, and nothing to protect records",
        )


def simulated_receipt(settings: StreamSettings, *, seed: int, delta: str = "1e-6") -> Receipt:
    """Of a ledger in memory whose draws come from ``seed``, with a budget of exactly what the stream costs."""
    pure = settings.noise.event().pure_epsilon() is not None
    price = stream_price(delta=0 if pure else delta, **settings.paid)
    terms = stream_terms(Budget(epsilon=price.epsilon, delta=price.delta, unit=settings.unit), **settings.paid)
    return charge_stream(Ledger.create(MemorySink(), terms, source=Seeded(seed)), **settings.paid)


# -- its stored form


def stored_form(state: LearnerState, *, pending: bool = True) -> dict[str, Any]:
    """Everything to go on with. Without ``pending``: but for records that wait for labels, and persons."""
    form = {
        "format": FORMAT,
        "audience": "owner",
        "settings": state.settings.to_json(),
        "slab": state.slab.to_json(),
        "ledger": state.receipt.ledger_id,
        "entry": state.receipt.entry.sequence,
        "counters": {name: int(getattr(state, name)) for name in _COUNTERS},
        "due": state.due,
        "weights": state.linear.flat.copy(),
        "sums": state.sums.steps.copy(),
    }
    if pending:
        state.waiting.forget(state.arrived)
        form["waiting"] = state.waiting.to_json(state.settings.size)
        if state.persons.capped:
            form["persons"] = state.persons.to_json()
    return form


def stored_settings(form: Mapping[str, Any]) -> StreamSettings:
    """The settings of a stored state."""
    if not isinstance(form, Mapping) or form.get("format") != FORMAT:
        raise InvalidCheckpoint("the state of a stream", f"it is not one of {FORMAT}", "Restore the file")
    try:
        return StreamSettings.from_json(form["settings"])
    except (BadInput, KeyError) as error:
        raise InvalidCheckpoint("the state of a stream", "its settings cannot be read", "Restore the file") from error


def restore(state: LearnerState, form: Mapping[str, Any]) -> None:
    """Bring a new state to what was stored."""
    receipt = state.receipt
    owner = (receipt.ledger_id, receipt.entry.sequence)
    if not receipt.simulation and (form.get("ledger"), form.get("entry")) != owner:
        raise InvalidCheckpoint(
            "going on with a stream", "its state belongs to another ledger or entry", "Open the ledger it was made with"
        )
    try:
        _read(state, form)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        raise InvalidCheckpoint("the state of a stream", "a part is missing or broken", "Restore the file") from None


def _read(state: LearnerState, form: Mapping[str, Any]) -> None:
    weights: Floats = np.array(form["weights"], dtype=np.float64)
    sums = np.array(form["sums"], dtype=np.int64)
    if weights.shape != state.linear.flat.shape or sums.shape != state.sums.steps.shape:
        raise ValueError
    counters = {name: form["counters"][name] for name in _COUNTERS}
    if not all(type(value) is int for value in counters.values()) or type(form["due"]) is not bool:
        raise ValueError
    slab = slab_from_json(form["slab"])
    state.waiting.read(form["waiting"])
    if state.persons.capped:
        state.persons.read(form["persons"])
    for name, value in counters.items():
        setattr(state, name, value)
    state.due = form["due"]
    state.sums.steps[:] = sums
    state.linear.set(weights)
    state.change_slab(slab)
