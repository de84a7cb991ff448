"""From what a stream's file declares to its parts: the preparation of records, and the settings of the learner."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from discreet.config import StreamConfig
from discreet.privacy.exact import exact_minus, exact_sum, exact_times
from discreet.stream.asking import AskEverything, Asking, BernoulliAsking, ExponentialAsking, OneSidedAsking
from discreet.stream.columns import ChoiceColumn, NumberColumn, Schema
from discreet.stream.drift import DriftWatch
from discreet.stream.lines import LineForm
from discreet.stream.preparation import Preparation
from discreet.stream.private_components import second_moment_event
from discreet.stream.settings import StreamSettings
from discreet.stream.slabs import Slab, slab_from_json
from discreet.stream.steps import step_from_json
from discreet.stream.terms import gaussian_noise_for, preparation_loss
from discreet.stream.update_noise import GammaNoise, GaussianNoise, UpdateNoise
from discreet.stream.windows import Immediate, MiniBatch, SlidingWindow, Window

MOST_PREPARATION = 1 << 28
_ROOM = Decimal("0.0001")


def preparation_of(config: StreamConfig) -> Preparation:
    """How a record becomes a vector: as declared in the file, or as stored in the one it names."""
    table = config.records
    if table.preparation is not None:
        return _stored_preparation(config, table.preparation)
    centers, scales = (_each(value, len(table.columns)) for value in (table.center, table.scale))
    with config.pointing("records"):
        numbers = [
            NumberColumn(name=name, center=center, scale=scale)
            for name, center, scale in zip(table.columns, centers, scales, strict=True)
        ]
        words = [ChoiceColumn(name=name, values=table.choices[name]) for name in sorted(table.choices)]
        return Preparation(schema=Schema(columns=(*numbers, *words)), radius=table.radius)


def _each(value: float | tuple[float, ...], count: int) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,) * count


def _stored_preparation(config: StreamConfig, path: str) -> Preparation:
    file = config.resolve(path)
    where = "records.preparation"
    try:
        if file.stat().st_size > MOST_PREPARATION:
            raise config.error(where, "the file is larger than any preparation", "Check the path")
        form = json.loads(file.read_bytes())
    except OSError:
        raise config.error(where, "the file cannot be read", "Write it with Preparation.to_json") from None
    except (ValueError, RecursionError):
        raise config.error(where, "it is not JSON", "Write it with Preparation.to_json") from None
    with config.pointing(where):
        found = Preparation.from_json(form)
    if found.schema is None:
        raise config.error(where, "it has no declared columns, and lines have names", "Make it with a schema")
    names = {column.name for column in found.schema.columns}
    if names & {config.records.id, config.records.label, config.records.person}:
        raise config.error(
            where,
            "a column has the name of the id, the label or the person",
            "Name them in [records] id, label, person",
        )
    return found


def line_form(config: StreamConfig, preparation: Preparation) -> LineForm:
    """How lines are read."""
    assert preparation.schema is not None
    features = [column.name for column in preparation.schema.columns]
    table = config.records
    return LineForm(id=table.id, label=table.label, features=features, classes=config.task.classes, person=table.person)


def preparation_events(config: StreamConfig) -> dict[str, Any]:
    """What a paid preparation costs, as `stream_terms` and its kin take it; nothing, if there is none."""
    table = config.preparation
    if table is None:
        return {}
    event = second_moment_event(table.noise_multiplier)
    if table.records == "held-out":
        return {"preparation": (event,), "prepared": "held-out"}
    delta = config.budget.delta / 2 if table.delta is None else table.delta
    return {"preparation": (event,), "prepared": "arriving", "preparation_delta": delta}


def leaves_noise_open(config: StreamConfig) -> bool:
    """Whether Gaussian noise is searched for; a stream that began keeps what was found then."""
    return config.noise.name == "gaussian" and config.noise.noise_multiplier is None


def settings_of(
    config: StreamConfig, preparation: Preparation, *, found: GaussianNoise | None = None
) -> StreamSettings:
    """Everything that is fixed before the first record. What the file leaves open follows from the budget.

    ``found``: the Gaussian noise that was found when the stream began. Another version of an accountant may find other
    noise, and a stream goes on as it was paid for.
    """
    learning = config.learning
    with config.pointing("asking"):
        asking = _asking(config)
    with config.pointing("noise"):
        noise = found if found is not None and leaves_noise_open(config) else _noise(config, asking)
    with config.pointing("slab"):
        slab = _slab(config)
        return StreamSettings(
            features=preparation.width if config.preparation is None else config.preparation.components,
            classes=config.task.classes,
            asking=asking,
            noise=noise,
            slab=slab,
            window=_window(config),
            loss=learning.loss,
            step=step_from_json({"step": learning.step, "size": learning.step_size}),
            radius=preparation.radius,
            regularization=learning.regularization,
            ball=learning.ball,
            drift=_drift(config),
            patience=learning.patience,
            person_records=config.budget.records,
        )


def _drift(config: StreamConfig) -> DriftWatch | None:
    table = config.drift
    if table is None:
        return None
    with config.pointing("drift"):
        return DriftWatch(epsilon=table.epsilon, window=table.window, most=table.most)


def _asking(config: StreamConfig) -> Asking:
    table = config.asking
    if table.name == "everything":
        return AskEverything()
    if table.name == "bernoulli":
        assert table.epsilon is not None  # checked with the file
        return BernoulliAsking(epsilon=table.epsilon)
    if table.name == "exponential":
        assert table.epsilon is not None
        return ExponentialAsking(epsilon=table.epsilon, form=table.form or "ours", missed=table.missed)  # type: ignore[arg-type]
    each = config.budget.records
    asked = config.budget.epsilon / (2 * (each or 1)) if table.asked is None else table.asked
    most = config.budget.epsilon if each is None else asked  # a person pays for either as often
    missed = most if table.missed is None and table.low is None else table.missed
    return OneSidedAsking(asked=asked, missed=missed, low=table.low)


def _noise(config: StreamConfig, asking: Asking) -> UpdateNoise:
    table, drift = config.noise, _drift(config)
    if table.name == "gaussian":
        if table.noise_multiplier is not None:
            return GaussianNoise(noise_multiplier=table.noise_multiplier)
        return gaussian_noise_for(
            config.budget.budget(),
            asking=asking,
            drift=drift,
            person_records=config.budget.records,
            **preparation_events(config),
        )
    epsilon = table.epsilon
    if epsilon is None:
        spent = exact_sum([_bits(config, asking), _prepared_for(config), *([] if drift is None else [drift.epsilon])])
        epsilon = exact_minus(config.budget.epsilon, spent)
        if epsilon <= 0:
            raise config.error(
                "budget.epsilon",
                f"what comes before it costs {spent} of {config.budget.epsilon}, and nothing is left for the update",
                "Raise it, or lower [asking]",
            )
    return GammaNoise(epsilon=epsilon)


def _bits(config: StreamConfig, asking: Asking) -> Decimal:
    """What bits cost whoever is taught: a record is asked once, a person's records are asked or missed each."""
    price, each = asking.price(), config.budget.records
    return price.asked if each is None else exact_times(price.pure_epsilon(), each)


def _prepared_for(config: StreamConfig) -> Decimal:
    """What a preparation costs whoever arrives, with a little room for the certificate, which rounds up."""
    events = preparation_events(config)
    if events.get("prepared") != "arriving":
        return Decimal(0)
    return exact_sum([preparation_loss(events["preparation"], events["preparation_delta"]), _ROOM])


def _slab(config: StreamConfig) -> Slab:
    table = config.slab
    form: dict[str, Any] = {"slab": table.name, "width": table.width}
    extra = {"power": table.power, "least": table.least, "strength": table.strength}
    form |= {name: value for name, value in extra.items() if value is not None}
    if table.shares is not None:
        form["shares"] = list(table.shares)
    return slab_from_json(form)


def _window(config: StreamConfig) -> Window:
    table = config.window
    if table.name == "immediate":
        return Immediate()
    if table.name == "sliding":
        assert table.arrivals is not None
        return SlidingWindow(table.arrivals)
    assert table.asked is not None
    return MiniBatch(table.asked)
