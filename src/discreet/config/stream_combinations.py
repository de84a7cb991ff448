"""Keys of a stream's file that must agree with one another. Each rule says which key to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from discreet.config.combinations import at
from discreet.config.schema import Rule
from discreet.config.stream_tables import (
    AskingConfig,
    LearningConfig,
    NoiseConfig,
    PreparationConfig,
    RecordsConfig,
    RedisConfig,
    SlabConfig,
    StreamBudgetConfig,
    StreamTaskConfig,
    WindowConfig,
)
from discreet.config.table_reading import Problem

Problems = Iterator[Problem]
_ASKING = {"one-sided": ("asked", "missed", "low"), "bernoulli": ("epsilon",)}
_ASKING |= {"exponential": ("epsilon", "form", "missed"), "everything": ()}
_SLABS = {"fixed": (), "shrinking": ("power", "least"), "balanced": ("shares", "strength")}
_WINDOWS = {"mini-batch": ("asked",), "sliding": ("arrivals",), "immediate": ()}
_NOISES = {"gamma": ("epsilon",), "gaussian": ("noise_multiplier",)}
_OF_TWO = ("hinge", "logistic")


def _options(table: str, value: Any, known: Mapping[str, tuple[str, ...]]) -> Problems:
    """Options that the chosen one does not have."""
    for name in sorted({option for options in known.values() for option in options}):
        if getattr(value, name) is not None and name not in known[value.name]:
            homes = ", ".join(home for home, options in known.items() if name in options)
            yield at(f"{table}.{name}", f"{value.name} has no such option", f"Leave it out; it is for {homes}")


def _records(records: RecordsConfig) -> Problems:
    declared = bool(records.columns or records.choices)
    if not declared and records.preparation is None:
        yield at("records.columns", "nothing says what a record is", "Name columns, choices, or a preparation")
    if records.preparation is not None:
        spare = {"columns": records.columns, "choices": records.choices}
        for name, value in spare.items():
            if value:
                yield at(f"records.{name}", "the preparation says what a record is", "Leave one of them out")
        return
    for name in ("center", "scale"):
        value = getattr(records, name)
        if isinstance(value, tuple) and len(value) != len(records.columns):
            fact = f"it has {len(value)} numbers for {len(records.columns)} columns"
            yield at(f"records.{name}", fact, "Give one each")
        if name == "scale" and min(value if isinstance(value, tuple) else (value,)) <= 0:
            yield at("records.scale", "a scale is not above 0", "Give positive numbers")
    both = [name for name in records.choices if name in records.columns]
    if both:
        yield at("records.choices", "a column is declared twice", "Declare it as numbers, or by its words")
    for name in ("id", "label", "person"):
        if getattr(records, name) in (*records.columns, *records.choices):
            yield at(f"records.{name}", "a feature has this name", "Call it otherwise in your lines")
    if records.id == records.label:
        yield at("records.label", "the id has this name", "Call it otherwise in your lines")
    if records.person in (records.id, records.label):
        yield at("records.person", "the id or the label has this name", "Call it otherwise in your lines")


def _unit(records: RecordsConfig, budget: StreamBudgetConfig) -> Problems:
    if budget.unit == "record":
        if budget.records is not None:
            yield at("budget.records", "it is for the unit person", "Leave it out, or write unit = 'person'")
        if records.person is not None:
            fact = "records are protected, and a person with many would lose as many times as much"
            yield at("records.person", fact, "Leave it out, or write [budget] unit = 'person' and records = 5")
        return
    if budget.records is None:
        yield at(
            "budget.records", "it is missing: a person's price grows with each of their records", "Add records = 5"
        )
    if records.person is None:
        yield at("records.person", "nothing says whose a record is", "Name the field: person = 'customer'")


def _preparation(preparation: PreparationConfig, budget: StreamBudgetConfig) -> Problems:
    if budget.unit == "person":
        fact = "a person's records could be on both sides of it, and their number in it is not bounded"
        yield at("preparation.path", fact, "Use public or declared constants to protect persons")
    if budget.delta == 0:
        yield at("budget.delta", "a paid preparation has no promise at delta 0", "Write delta = '1e-6'")
    elif preparation.delta is not None and preparation.delta >= budget.delta:
        yield at("preparation.delta", f"it is not below [budget] delta, {budget.delta}", "Write about half of that")
    if preparation.delta is not None and preparation.records == "held-out":
        yield at("preparation.delta", "held-out records may use all of it", "Leave it out")


def _asking(asking: AskingConfig) -> Problems:
    yield from _options("asking", asking, _ASKING)
    if asking.name in ("bernoulli", "exponential") and asking.epsilon is None:
        yield at("asking.epsilon", "it is missing", "Add a line such as epsilon = '1'")
    if asking.form == "paper" and asking.missed is not None:
        yield at("asking.missed", "the paper's form has none of its own", "Leave it out, or use form = 'ours'")


def _slab(slab: SlabConfig, task: StreamTaskConfig) -> Problems:
    yield from _options("slab", slab, _SLABS)
    if slab.name == "balanced" and len(slab.shares or ()) != len(task.classes):
        yield at("slab.shares", f"there are {len(task.classes)} classes", "Declare a share for each, in their order")
    if slab.least is not None and slab.least > slab.width:
        yield at("slab.least", "it is above the width", "Give a smaller one")


def _window(window: WindowConfig) -> Problems:
    yield from _options("window", window, _WINDOWS)
    for name in _WINDOWS[window.name]:
        if getattr(window, name) is None:
            yield at(f"window.{name}", "it is missing", f"Add a line such as {name} = 10")


def _noise(noise: NoiseConfig, budget: StreamBudgetConfig) -> Problems:
    yield from _options("noise", noise, _NOISES)
    if noise.name == "gaussian" and budget.delta == 0:
        yield at("budget.delta", "Gaussian noise has no promise at delta 0", "Write delta = '1e-6', or use gamma")


def _learning(learning: LearningConfig, task: StreamTaskConfig) -> Problems:
    if learning.loss in _OF_TWO and len(task.classes) != 2:
        yield at("learning.loss", f"{learning.loss} is for two classes", "Use softmax or multiclass-hinge")


def _redis(redis: RedisConfig) -> Problems:
    named = [getattr(redis, name) for name in ("records", "labels", "decisions")]
    given = [name for name in named if name is not None]
    if len(set(given)) != len(given):
        yield at("redis.decisions", "two of the streams have one name", "Name each otherwise")


RULES: tuple[Rule, ...] = (
    (("records",), _records),
    (("records", "budget"), _unit),
    (("preparation", "budget"), _preparation),
    (("asking",), _asking),
    (("slab", "task"), _slab),
    (("window",), _window),
    (("noise", "budget"), _noise),
    (("learning", "task"), _learning),
    (("redis",), _redis),
)
