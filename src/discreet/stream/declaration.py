"""From what a stream's file declares to its parts: the preparation of records, and the settings of the learner."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from discreet.components import second_moment_event
from discreet.config import FeaturesConfig, StreamConfig
from discreet.errors import BadInput
from discreet.features import FeatureMap, feature_map_from_json
from discreet.pools.file_columns import table_columns
from discreet.pools.opening import kind_of
from discreet.pools.schema_proposal import same_content
from discreet.privacy.budget import exact_minus, exact_sum, exact_times
from discreet.privacy.files import write_whole
from discreet.stream.ask_rules import AskEverything, Asking, BernoulliAsking, ExponentialAsking, OneSidedAsking
from discreet.stream.columns import ChoiceColumn, NumberColumn, RecordSchema
from discreet.stream.lines import LineForm
from discreet.stream.optimizer import GammaNoise, GaussianNoise, UpdateNoise, step_from_json
from discreet.stream.preparation import Preparation
from discreet.stream.schedules import DriftWatch, slab_from_json, window_from_json
from discreet.stream.settings import StreamSettings
from discreet.stream.terms import gaussian_noise_for, preparation_loss

MOST_PREPARATION = 1 << 28
FEATURES = "features.json"
"""The stored feature map of a stream, in its directory."""
_ROOM = Decimal("0.0001")


def preparation_of(config: StreamConfig) -> Preparation:
    """How a record becomes a vector: as declared in the file, or as stored in the one it names. The feature map of a
    stream that began is the stored one, whatever its public file says now.
    """
    table = config.records
    if config.features is not None:
        with config.pointing("features"):
            feature_map = _stored_map(config) or _built(config, config.features)
            bound = 1.0 if feature_map.norm_bound is None else feature_map.norm_bound
            return Preparation(features=feature_map, text=table.text, radius=table.radius or bound)
    if table.preparation is not None:
        return _stored_preparation(config, table.preparation)
    count = len(table.columns)
    centers, scales = (value if isinstance(value, tuple) else (value,) * count for value in (table.center, table.scale))
    with config.pointing("records"):
        numbers = [
            NumberColumn(name=name, center=center, scale=scale)
            for name, center, scale in zip(table.columns, centers, scales, strict=True)
        ]
        words = [ChoiceColumn(name=name, values=table.choices[name]) for name in sorted(table.choices)]
        return Preparation(schema=RecordSchema(columns=(*numbers, *words)), radius=table.radius or 1.0)


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
        preparation = Preparation.from_json(form)
    if not preparation.columns:
        raise config.error(where, "it has no declared columns, and lines have names", "Make it with a schema")
    if set(preparation.columns) & {config.records.id, config.records.label, config.records.person}:
        raise config.error(
            where,
            "a column has the name of the id, the label or the person",
            "Name them in [records] id, label, person",
        )
    return preparation


def keep_features(config: StreamConfig, preparation: Preparation) -> None:
    """Store the map that [features] declares beside the journal: what was fitted to public rows stays as it is."""
    if preparation.features is None or config.features is None or _stored_map(config) is not None:
        return
    form = {"declared": _declared_map(config), "features": preparation.features.identity()}
    write_whole(config.directory / FEATURES, json.dumps(form, indent=1) + "\n")


def _stored_map(config: StreamConfig) -> FeatureMap | None:
    """The map that was stored for what the file declares; None, if it declares another one now."""
    file = config.directory / FEATURES
    if not file.exists():
        return None
    try:
        form = json.loads(file.read_bytes())
        if form["declared"] != _declared_map(config):
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise BadInput(f"reading {file.name}", "it is not as it was stored", "Restore it from a copy") from None
    assert config.features is not None  # who declares none has stored none
    return config.features.located(feature_map_from_json(form["features"]), config.resolve(""))


def _declared_map(config: StreamConfig) -> Any:
    """Everything that the map was declared by but where public rows are, as JSON has it."""
    form = {key: value for key, value in config.to_json()["features"].items() if key != "public"}
    schema = None if config.records.schema is None else config.records.schema.to_json()
    return json.loads(json.dumps({"features": form, "schema": schema}))


def _built(config: StreamConfig, table: FeaturesConfig) -> FeatureMap:
    public, schema = None, config.records.schema
    if table.public is not None:
        path = config.resolve(table.public)
        with config.pointing("features.public"):
            paid = config.preparation
            if paid is not None and same_content(config.resolve(paid.path), path):
                fact = "it is the file of preparation.path, whose records are private: edges would tell of them"
                raise BadInput(f"fitting features on {path.name}", fact, "Name public rows, or leave it out")
            assert schema is not None  # checked with the file
            public = table_columns(path, kind_of(path, None), schema.names)
    return table.resolved().build(schema=schema, public=public, directory=config.resolve(""))


def line_form(config: StreamConfig, preparation: Preparation) -> LineForm:
    """How lines are read."""
    table, columns = config.records, preparation.columns
    return LineForm(id=table.id, label=table.label, features=columns, classes=config.task.classes, person=table.person)


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
    config: StreamConfig, preparation: Preparation, *, charged: GaussianNoise | None = None
) -> StreamSettings:
    """Everything that is fixed before the first record. What the file leaves open follows from the budget.

    ``charged``: the Gaussian noise that was charged when the stream began. Another version of an accountant may find
    other noise, and a stream goes on as it was paid for.
    """
    learning = config.learning
    with config.pointing("asking"):
        asking = _asking(config)
    with config.pointing("noise"):
        noise = charged if charged is not None and leaves_noise_open(config) else _noise(config, asking)
    with config.pointing("slab"):
        options = _options(config.slab, "power", "least", "strength", "shares")
        slab = slab_from_json({"slab": config.slab.name, "width": config.slab.width, **options})
        return StreamSettings(
            features=preparation.width if config.preparation is None else config.preparation.components,
            classes=config.task.classes,
            asking=asking,
            noise=noise,
            slab=slab,
            window=window_from_json({"window": config.window.name, **_options(config.window, "arrivals", "asked")}),
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


def _options(table: Any, *names: str) -> dict[str, Any]:
    """Those of a table's keys that the file has."""
    return {name: getattr(table, name) for name in names if getattr(table, name) is not None}


def _asking(config: StreamConfig) -> Asking:
    table, each = config.asking, config.budget.records
    if table.name != "one-sided":
        kinds: dict[str, type[BernoulliAsking | ExponentialAsking | AskEverything]] = {
            "everything": AskEverything,
            "bernoulli": BernoulliAsking,
            "exponential": ExponentialAsking,
        }
        return kinds[table.name](**_options(table, "epsilon", "form", "missed"))
    asked = config.budget.epsilon / (2 * (each or 1)) if table.asked is None else table.asked
    limit = config.budget.epsilon if each is None else asked  # a person pays for either as often
    missed = limit if table.missed is None and table.low is None else table.missed
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
