"""What a campaign or a stream does, as events for a log. An event is one of the types below; its fields are public.

Guarantee: by construction no event can hold an id, a label, an answer, a value of a record, or how many were asked,
answered or skipped: there is no field for it, no field takes free text, and every field is checked when an event is
made. A label that is *planned* is a number of the plan. What is measured is what was paid for, or is public.

Not in an event: when it happened. Whoever writes a log adds that, and how long work takes was not paid for: times are
the owner's (docs/howto/keep-a-log.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self, get_args

from discreet.campaign.state import CampaignState, Step
from discreet.errors import BadInput

Level = Literal["info", "error"]
Work = Literal["enrolling", "scoring", "features", "training", "working"]
_WORK: tuple[Work, ...] = get_args(Work)
_WORDS = 100
"""The longest name: of a campaign, a hash, an error."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened. ``name`` is from a fixed list: `EVENTS`."""

    name: ClassVar[str]
    level: ClassVar[Level] = "info"

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            is_name = isinstance(value, str) and len(value) <= _WORDS and value.isprintable()
            if not (is_name or value is None or isinstance(value, (bool, int, float))):
                raise BadInput(f"an event {self.name}", f"{part.name} is not a number or a name", "Leave it out")

    def facts(self) -> dict[str, Any]:
        """The declared fields that are set."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


Journal = Callable[[Event], None]


def unlogged(event: Event) -> None:
    """Nobody writes it down."""


@dataclass(frozen=True, kw_only=True)
class Begun(Event):
    """A command began."""

    verb: str
    version: str
    name: ClassVar[str] = "begun"


@dataclass(frozen=True, kw_only=True)
class Opened(Event):
    """A campaign was opened, or created. ``step``: what comes next in ``phase``."""

    campaign: str
    simulation: bool
    phase: int
    phases: int
    step: Step
    name: ClassVar[str] = "opened"

    @classmethod
    def of(cls, campaign: str, *, simulation: bool, now: CampaignState, phases: int) -> Self:
        """Where a campaign stands."""
        return cls(campaign=campaign, simulation=simulation, phase=now.phase, phases=phases, step=now.step)


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """So many percent of something, in tens. Not of how much: how many records are left is nobody's business."""

    what: Work
    percent: int
    name: ClassVar[str] = "progress"


@dataclass(frozen=True, kw_only=True)
class Asked(Event):
    """The query of a phase was charged, drawn and stored. How many fell is the owner's; this is what was planned."""

    phase: int
    labels_planned: int
    name: ClassVar[str] = "asked"


@dataclass(frozen=True, kw_only=True)
class TrainingBegun(Event):
    """Training of a phase begins, or goes on."""

    phase: int
    name: ClassVar[str] = "training"


@dataclass(frozen=True, kw_only=True)
class Trained(Event):
    """A phase is trained. ``model``: the hash of the file. What was measured, if it is public or was paid for.

    ``low`` and ``high`` are of ``accuracy``, and ``majority`` is its baseline; ``price`` is the epsilon of all of it.
    """

    phase: int
    model: str
    evaluation: Literal["public", "paid"] | None = None
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    majority: float | None = None
    balanced_accuracy: float | None = None
    auc: float | None = None
    average_precision: float | None = None
    f1: float | None = None
    log_loss: float | None = None
    calibration_error: float | None = None
    price: float | None = None
    name: ClassVar[str] = "trained"

    @classmethod
    def of(cls, phase: int, model: str, measured: Mapping[str, Any] | None) -> Self:
        """``measured``: an evaluation's form."""
        if not measured:
            return cls(phase=phase, model=model)
        low, high = measured["interval"]
        values = {name.replace("-", "_"): metric["value"] for name, metric in measured["metrics"].items()}
        return cls(
            phase=phase,
            model=model,
            evaluation=measured["kind"],
            low=low,
            high=high,
            majority=measured["metrics"]["accuracy"]["baseline"],
            price=float(measured["epsilon"]) if measured["kind"] == "paid" else None,
            **values,
        )


@dataclass(frozen=True, kw_only=True)
class StreamOpened(Event):
    """A stream was opened, or begun."""

    stream: str
    simulation: bool
    name: ClassVar[str] = "stream"


@dataclass(frozen=True, kw_only=True)
class Published(Event):
    """A model of a stream was published. ``model``: the hash of the file."""

    version: int
    model: str
    name: ClassVar[str] = "published"


@dataclass(frozen=True, kw_only=True)
class Ended(Event):
    """A command ended without an error."""

    code: int = 0
    name: ClassVar[str] = "ended"


@dataclass(frozen=True, kw_only=True)
class Failed(Event):
    """A command ended otherwise. ``error``: its type alone; the message is on standard error."""

    code: int
    error: str
    name: ClassVar[str] = "failed"
    level: ClassVar[Level] = "error"


OF_CAMPAIGNS: tuple[type[Event], ...] = (Opened, Progress, Asked, TrainingBegun, Trained)
OF_STREAMS: tuple[type[Event], ...] = (StreamOpened, Published)
EVENTS: tuple[type[Event], ...] = (Begun, *OF_CAMPAIGNS, *OF_STREAMS, Ended, Failed)


def work_of(what: str) -> Work:
    """The word for a kind of work, whatever a recipe calls it."""
    return next((word for word in _WORK if word == what), "working")
