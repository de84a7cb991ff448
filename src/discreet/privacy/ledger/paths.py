"""Which charges touch which path of a record.

A record is in one group after another: in the pool until it is asked, then in its cohort. A `Path` lists those stays;
a charge touches every path that stays in its group at its phase. What happens in a stay that ends in a choice (asked,
or missed to the end) comes *before* the path's last branch and counts as a pure loss; what happens in an open stay
follows the branch and composes in one PLD (docs/proofs/trajectories.md).

Without declared paths there is one, `everyone`, which every charge touches: always safe, never cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from discreet.errors import BadInput, InvalidLedger
from discreet.privacy.budget import exact_times
from discreet.privacy.events import BlockEvent, Event, Pure, Repeated, ThresholdResponse
from discreet.privacy.ledger.charges import BROKEN, MOST_PHASE, checked_count, checked_name
from discreet.privacy.trajectories import Branch, Trajectory

Choice = Literal["asked", "asked-below", "missed", "touched"]
ANYONE = "*"
"""A stay in every group: what the one path of a ledger without declared paths has."""


@dataclass(frozen=True, kw_only=True)
class PathSegment:
    """A record's time in the group ``who``, from phase ``first`` to phase ``last``.

    ``choice``: *asked* leaves at ``last`` by being asked, *asked-below* the same from below the threshold, *missed*
    was not asked, *touched* pays what happens here without being chosen by it. None: the path is decided, and what
    touches it here composes.
    """

    who: str
    first: int = 0
    last: int = MOST_PHASE
    choice: Choice | None = None

    def __post_init__(self) -> None:
        if self.who != ANYONE:
            checked_name(self.who, "the group")
        checked_count(self.first, "the first phase", least=0, largest=MOST_PHASE)
        checked_count(self.last, "the last phase", least=self.first, largest=MOST_PHASE)
        if self.choice is not None and self.choice not in get_args(Choice):
            raise BadInput("the choice of a stay", "it is not known", f"Use {', '.join(get_args(Choice))} or nothing")
        if self.choice in ("asked", "asked-below") and self.last == MOST_PHASE:
            raise BadInput("a stay that ends by being asked", "it has no last phase", "Say when it was asked")

    def touched(self, who: str, phase: int) -> bool:
        """Whether a charge to ``who`` in ``phase`` falls into this stay."""
        return self.who in (who, ANYONE) and self.first <= phase <= self.last

    def to_json(self) -> list[Any]:
        """who, first, last, choice."""
        return [self.who, self.first, self.last, self.choice]


@dataclass(frozen=True, kw_only=True)
class Path:
    """One way through the campaign."""

    name: str
    stays: tuple[PathSegment, ...]

    def __post_init__(self) -> None:
        checked_name(self.name, "the path's name")
        if not isinstance(self.stays, tuple) or not self.stays:
            raise BadInput(f"path {self.name}", "it stays nowhere", "Give at least one stay")
        open_stays = [stay.choice is None for stay in self.stays]
        if sorted(open_stays) != open_stays:
            raise BadInput(f"path {self.name}", "a choice follows an open stay", "List the stays in their order")

    def stay_of(self, who: str, phase: int) -> PathSegment | None:
        """The stay a charge falls into; where several would do, the one before the branch, which costs most."""
        return next((stay for stay in self.stays if stay.touched(who, phase)), None)

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        return {"name": self.name, "stays": [stay.to_json() for stay in self.stays]}

    @classmethod
    def from_json(cls, form: Any) -> Path:
        """The inverse of `to_json`."""
        if not isinstance(form, dict) or set(form) != {"name", "stays"} or not isinstance(form["stays"], list):
            raise InvalidLedger("reading a ledger", "a path is not in the one form we write", BROKEN)
        stays = []
        for row in form["stays"]:
            if not isinstance(row, list) or len(row) != 4 or not (row[3] is None or isinstance(row[3], str)):
                raise InvalidLedger("reading a ledger", "a stay is not in the one form we write", BROKEN)
            stays.append(PathSegment(who=row[0], first=row[1], last=row[2], choice=cast("Choice | None", row[3])))
        return cls(name=form["name"], stays=tuple(stays))


EVERYONE = (Path(name="everyone", stays=(PathSegment(who=ANYONE),)),)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One committed charge: ``count`` of ``event`` to ``who`` in ``phase``."""

    who: str
    phase: int = 0
    event: Event
    count: int = 1


def covers(committed: Event, event: Event) -> bool:
    """Whether ``event`` costs at most what ``committed`` does, by every accountant: the same mechanism with a rate
    that may only have fallen, noise that may only have risen, an epsilon that may only be smaller; of a release gate,
    more units to hide among, a smaller coin, fewer values.
    """
    if committed == event:
        return True
    if type(committed) is not type(event):
        return False
    return all(_no_dearer(name, committed, event) for name in vars(committed))


def _no_dearer(name: str, committed: Event, event: Event) -> bool:
    ours, theirs = getattr(event, name), getattr(committed, name)
    if name in ("epsilon", "asked", "missed", "sampling_rate", "beta", "values"):
        return bool(ours <= theirs)
    return bool(ours >= theirs) if name in ("noise_multiplier", "k") else bool(ours == theirs)


def trajectory_of(path: Path, lines: Iterable[Line], apart: BlockEvent | None = None) -> Trajectory:
    """``path`` as a trajectory: what these lines do to a record that takes it.

    ``apart``: the block of all lines before a branch that are not pure. A path that meets one of them pays it whole.
    """
    known = list(lines)
    reading = PathReading(path, known)
    selection: list[Branch] = []
    training: dict[Event, int] = {}
    for line in known:
        if path.stay_of(line.who, line.phase) is None:
            continue
        if reading.composes(line.who, line.phase):
            training[line.event] = training.get(line.event, 0) + line.count
        elif apart is None or line.event.pure_epsilon() is not None:
            selection += reading.branches(line)
        elif Branch(event=apart) not in selection:
            selection.append(Branch(event=apart))
    return Trajectory(
        name=path.name,
        selection=tuple(selection),
        training=tuple(Repeated(event=event, count=count) for event, count in training.items()),
    )


class PathReading:
    """How one path reads charges, given all the lines that may be charged: before its branch, or after it."""

    def __init__(self, path: Path, lines: Iterable[Line]) -> None:
        self._path = path
        self._responses: dict[int, int] = {}
        decided = [stay.last for stay in path.stays if stay.choice in ("asked", "asked-below")]
        for line in lines:
            stay = path.stay_of(line.who, line.phase)
            if stay is None or stay.choice is None:
                continue
            if isinstance(line.event, ThresholdResponse):
                self._responses[line.phase] = self._responses.get(line.phase, 0) + line.count
            if stay.choice == "missed":  # by whatever mechanism: its outcome is what keeps the record here
                decided.append(line.phase)
        self._decided = max(decided, default=-1)

    def composes(self, who: str, phase: int) -> bool:
        """Whether a charge follows the path's last branch, and so composes.

        What touches the record earlier, in whatever group, must be a pure loss: its output may be what decides. In
        the deciding phase itself the choice comes first, for groups that are entered then (``PathSegment.first``).
        """
        stay = self._path.stay_of(who, phase)
        if stay is None or stay.choice is not None:
            return False
        return phase > self._decided or (phase == self._decided and stay.first >= phase)

    def branches(self, line: Line) -> Iterator[Branch]:
        """The pure losses of a charge before the path's last branch."""
        stay = self._path.stay_of(line.who, line.phase)
        if not isinstance(line.event, ThresholdResponse):
            yield Branch(event=line.event if line.count == 1 else Repeated(event=line.event, count=line.count))
        elif stay is None or stay.choice in (None, "touched") or self._crowded(stay, line.phase):
            # which of several responses asked it is not known: both caps, in both directions
            yield Branch(event=Repeated(event=Pure(epsilon=line.event.pure_epsilon()), count=line.count))
        elif stay.choice == "missed" or line.phase < stay.last:
            missed = exact_times(line.event.missed, line.count)
            yield Branch(event=ThresholdResponse(asked=line.event.asked, missed=missed), asked=False)
        else:
            yield Branch(event=line.event, asked=True, below=stay.choice == "asked-below")

    def _crowded(self, stay: PathSegment, phase: int) -> bool:
        return stay.choice in ("asked", "asked-below") and phase == stay.last and self._responses.get(phase, 0) > 1


def check_outcomes(paths: Sequence[Path], lines: Sequence[Line]) -> None:
    """A claim is the worst of *all* paths: for every path, and every choice on it, there must be a path that went the
    same way until then and the other way there. And a response that decides between paths never composes with what
    follows it (docs/proofs/trajectories.md): each stay it touches says how it was chosen.
    """
    occasions = sorted({(line.phase, line.who) for line in lines})
    histories = {path.name: [_outcome(path, who, phase) for phase, who in occasions] for path in paths}
    for line in lines:
        stays = [stay for stay in (path.stay_of(line.who, line.phase) for path in paths) if stay is not None]
        if isinstance(line.event, ThresholdResponse) and len(paths) > 1 and any(s.choice is None for s in stays):
            raise BadInput(
                f"a choice among {line.who} in phase {line.phase}",
                "a path that stays there does not say how it was chosen",
                "Give its stay a choice: asked, asked-below or missed",
            )
    for name, history in histories.items():
        for position, outcome in enumerate(history):
            for needed in _OTHERS.get(outcome, ()):
                if not any(other[: position + 1] == [*history[:position], needed] for other in histories.values()):
                    phase, who = occasions[position]
                    raise BadInput(
                        f"a choice among {who} in phase {phase}",
                        f"no declared path goes the way of {name} until then and is {needed} there",
                        "Declare a path for every outcome: the one left out could be the worst",
                    )


_OTHERS: dict[str, tuple[str, ...]] = {"asked": ("missed",), "asked-below": ("asked", "missed"), "missed": ("asked",)}


def _outcome(path: Path, who: str, phase: int) -> str:
    """What a choice among ``who`` in ``phase`` did to ``path``: nothing, or asked, asked-below, missed."""
    stay = path.stay_of(who, phase)
    if stay is None or stay.choice in (None, "touched"):
        return ""
    return "missed" if stay.choice == "missed" or phase < stay.last else str(stay.choice)
