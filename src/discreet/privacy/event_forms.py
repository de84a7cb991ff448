"""The stored form of events: a closed, versioned registry. A file can name only kinds that are written here.

`to_json` and `from_json` round-trip exactly (decimals as text, floats by their shortest form). Reading is strict:
unknown kinds, versions, keys or types are `InvalidEvent`, never a class looked up by a stored name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from typing import Any

from discreet.errors import InvalidEvent, UnsupportedEvent
from discreet.privacy.events import (
    BlockEvent,
    BoundedRange,
    Composed,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    PmfFamily,
    PoissonSampledGaussian,
    Pure,
    ReleaseGate,
    Repeated,
    Stated,
    ThresholdResponse,
)
from discreet.privacy.tuned import RunLaw, Tuned, law_from_json

REGISTRY: dict[tuple[str, int], type[Event]] = {
    (cls.kind, cls.version): cls
    for cls in (
        BlockEvent,
        BoundedRange,
        Composed,
        DiscreteLaplace,
        Gaussian,
        Laplace,
        PmfFamily,
        PoissonSampledGaussian,
        Pure,
        ReleaseGate,
        Repeated,
        Stated,
        ThresholdResponse,
        Tuned,
    )
}
MAX_DEPTH = 16
"""Compositions nest; a stored file that nests deeper than this is not one of ours."""


def to_json(event: Event) -> dict[str, Any]:
    """A plain form of ``event`` that `from_json` reads back to an equal value."""
    form: dict[str, Any] = {"kind": event.kind, "version": event.version}
    for field in fields(event):
        form[field.name] = _value_form(getattr(event, field.name))
    return form


def _value_form(value: Any) -> Any:
    if isinstance(value, Event):
        return to_json(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, RunLaw):
        return value.to_json()
    if isinstance(value, tuple):
        return [_value_form(item) for item in value]
    return value


def from_json(form: Any, depth: int = 0) -> Event:
    """The event a stored form names."""
    if not isinstance(form, dict) or depth > MAX_DEPTH:
        raise InvalidEvent("a stored event", "it is not an object, or nests too deep", "Restore the file")
    kind, version = form.get("kind"), form.get("version")
    cls = REGISTRY.get((kind, version)) if isinstance(kind, str) and type(version) is int else None
    if cls is None:
        raise InvalidEvent(
            "a stored event", "its kind or version is not in the registry", "Upgrade discreet, or restore the file"
        )
    names = {field.name for field in fields(cls)}
    if set(form) != names | {"kind", "version"}:
        raise InvalidEvent(f"a stored {cls.kind} event", f"its keys are not {sorted(names)}", "Restore the file")
    return cls(**{name: _read_value(cls, name, form[name], depth) for name in names})


def _read_value(cls: type[Event], name: str, value: Any, depth: int) -> Any:
    if cls in (Repeated, BlockEvent) and name == "event":
        return from_json(value, depth + 1)
    if cls is Tuned and name == "runs":
        return law_from_json(value)
    if cls in (Composed, Tuned):
        return tuple(from_json(item, depth + 1) for item in _list_of(value))
    if cls is PmfFamily:
        return tuple(tuple(_list_of(row)) for row in _list_of(value))
    if isinstance(value, (list, dict)):
        raise InvalidEvent(f"a stored {cls.kind} event", f"{name} is not a number", "Restore the file")
    return value


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidEvent("a stored event", "a list was expected", "Restore the file")
    return value


def flatten(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """The elementary events of ``event`` with how often each happens."""
    if isinstance(event, Repeated):
        yield from flatten(event.event, count * event.count)
    elif isinstance(event, Composed):
        for part in event.events:
            yield from flatten(part, count)
    elif count:
        yield event, count


def to_dp_accounting(event: Event) -> Any:
    """The same mechanism as a `dp_accounting` event (imported here, not before).

    Pure, bounded-range and threshold-response events become the two-valued randomized response of the same epsilon,
    which dominates every epsilon-DP mechanism. A pmf family, a release gate or a stated promise has no counterpart.
    """
    import math

    import dp_accounting as dpa

    match event:
        case Gaussian():
            return dpa.GaussianDpEvent(event.noise_multiplier)
        case PoissonSampledGaussian():
            return dpa.PoissonSampledDpEvent(event.sampling_rate, dpa.GaussianDpEvent(event.noise_multiplier))
        case Laplace() if event.epsilon > 0:
            return dpa.LaplaceDpEvent(1 / float(event.epsilon))
        case DiscreteLaplace() if event.epsilon > 0:
            return dpa.dp_event.DiscreteLaplaceDpEvent(float(event.epsilon) / event.sensitivity, event.sensitivity)
        case Repeated():
            return dpa.SelfComposedDpEvent(to_dp_accounting(event.event), event.count)
        case Composed():
            return dpa.ComposedDpEvent([to_dp_accounting(part) for part in event.events])
    epsilon = event.pure_epsilon()
    if epsilon is None:
        raise UnsupportedEvent(f"converting a {event.kind} event", "dp_accounting has no such event", "")
    if epsilon == 0:
        return dpa.NoOpDpEvent()
    return dpa.RandomizedResponseDpEvent(noise_parameter=2 / (1 + math.exp(float(epsilon))), num_buckets=2)
