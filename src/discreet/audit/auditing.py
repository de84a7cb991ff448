"""Audits of recipes: the twins of each, and the mistakes that can be planted into each.

    private-pool    `pool_audit`      selection, training, both
    public-data     `near_twin`       counts near private records, components of them, both
    crowd           `crowd_twin`      the release gate, by rows and by persons
    teachers        `teachers_twin`   every way of answering
    stream          `stream_twin`     ask bits, updates, both

A file says how its campaign chooses, answers, counts or asks, and twins do it that way; sizes, data and budget are
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from discreet.audit.audited import CANARIES, Audit, Audited, Audits, Told, check_canaries, twin_seed
from discreet.audit.crowd_mistakes import CROWD_PLANTS
from discreet.audit.near_mistakes import NEAR_PLANTS
from discreet.audit.planted import PLANTS
from discreet.audit.stream_mistakes import STREAM_PLANTS
from discreet.audit.teachers_mistakes import TEACHERS_PLANTS
from discreet.config import AnyCampaign, CampaignConfig, CrowdConfig, StreamConfig, TeachersConfig
from discreet.errors import BadInput

Subject = AnyCampaign | StreamConfig
Twins = Mapping[str, tuple[Callable[[str, Any, int], Audited], Any]]
PLANTS_OF: dict[str, tuple[str, ...]] = {
    "private-pool": PLANTS,
    "public-data": NEAR_PLANTS,
    "crowd": CROWD_PLANTS,
    "teachers": TEACHERS_PLANTS,
    "stream": STREAM_PLANTS,
}
"""Mistakes that can be planted into the twins of a recipe."""
RECIPES = tuple(PLANTS_OF)
"""Recipes that have twins."""


def audit(
    subject: Subject | None = None,
    *,
    recipe: str | None = None,
    plant: str | None = None,
    canaries: int = CANARIES,
    seed: int = 0,
    told: Told | None = None,
) -> Audits:
    """Audit the recipe of a file, or one by its name, or all; with a mistake, those in which it can be made."""
    check_canaries(canaries)
    wanted = _recipes(subject, recipe, plant)
    done = [_audited(name, subject, plant, canaries, seed, told) for name in wanted]
    return Audits(plant=plant, seed=seed, recipes=tuple(done))


def recipe_of(subject: Subject) -> str:
    """The name of a file's recipe."""
    return "stream" if isinstance(subject, StreamConfig) else str(subject.recipe.name)


def _recipes(subject: Subject | None, recipe: str | None, plant: str | None) -> tuple[str, ...]:
    if recipe is not None and recipe not in RECIPES:
        raise BadInput(f"an audit of {recipe}", "there is no such recipe", f"Choose one of {', '.join(RECIPES)}")
    own = None if subject is None else recipe_of(subject)
    if own is not None and recipe not in (None, own):
        raise BadInput(f"an audit of {recipe}", f"the file is of {own}", "Leave one of them out")
    name = own or recipe
    if name is not None and name not in RECIPES:
        raise BadInput(f"an audit of {name}", "it has no twins", f"Audit one of {', '.join(RECIPES)}")
    known = (name,) if name is not None else RECIPES
    if plant is None:
        return known
    found = tuple(one for one in known if plant in PLANTS_OF[one])
    if not found:
        names = sorted({each for one in known for each in PLANTS_OF[one]})
        raise BadInput(f"planting {plant}", "there is no such mistake", f"Choose one of {', '.join(names)}")
    return found


def _audited(
    recipe: str, subject: Subject | None, plant: str | None, canaries: int, seed: int, told: Told | None
) -> Audit:
    if recipe == "private-pool":
        from discreet.audit.pool_audit import audit_pool

        assert subject is None or isinstance(subject, CampaignConfig)
        return audit_pool(subject, plant=plant, canaries=canaries, seed=seed, told=told)  # type: ignore[arg-type]
    way, twins = _OF[recipe](subject)
    done = []
    for number, (name, (attack, twin)) in enumerate(twins.items()):
        if told is not None:
            told(recipe, number, len(twins))
        done.append(attack(name, replace(twin, canaries=canaries, plant=plant), twin_seed(seed, number)))
    if told is not None:
        told(recipe, len(twins), len(twins))
    return Audit(recipe=recipe, way=way, plant=plant, canaries=canaries, seed=seed, twins=tuple(done))


def _crowd(subject: Any) -> tuple[str, Twins]:
    from discreet.audit.crowd_twin import CrowdTwin, audit_crowd_twin

    assert subject is None or isinstance(subject, CrowdConfig)
    rows, persons = CrowdTwin(persons=False, k=40, beta=0.4), CrowdTwin()
    if subject is None:
        return "the gate", {"rows": (audit_crowd_twin, rows), "persons": (audit_crowd_twin, persons)}
    unit = "rows" if subject.log.person is None else "persons"
    return f"the gate, by {unit}", {unit: (audit_crowd_twin, rows if unit == "rows" else persons)}


def _teachers(subject: Any) -> tuple[str, Twins]:
    from discreet.audit.teachers_twin import TeachersTwin, audit_teachers_twin

    assert subject is None or isinstance(subject, TeachersConfig)
    twins = {
        "gaussian": TeachersTwin(),
        "laplace": TeachersTwin(aggregator="laplace"),
        "confident answers": TeachersTwin(aggregator="confident"),
        "confident checks": TeachersTwin(aggregator="confident", check_share=0.8, confident_share=0.6),
        "sparse": TeachersTwin(aggregator="sparse"),
    }
    if subject is None:
        return "all aggregators", {name: (audit_teachers_twin, twin) for name, twin in twins.items()}
    named = subject.answers.aggregator
    mine = {name: twin for name, twin in twins.items() if twin.aggregator == named}
    if not mine:  # the paper's calibration of one of them
        mine = {named: replace(twins[named.removesuffix("-paper")], aggregator=named)}
    return named, {name: (audit_teachers_twin, twin) for name, twin in mine.items()}


def _stream(subject: Any) -> tuple[str, Twins]:
    from discreet.audit.stream_twin import StreamTwin, audit_stream_twin

    assert subject is None or isinstance(subject, StreamConfig)
    usual = StreamTwin()
    if subject is not None:
        usual = replace(usual, rule=subject.asking.name, noise=subject.noise.name)  # type: ignore[arg-type]
    updates = replace(usual, rule="everything", asked="0")
    twins = {"updates": updates}
    if subject is None:
        twins["gaussian updates"] = replace(updates, noise="gaussian")
    if usual.rule != "everything":
        twins |= {"asking": replace(usual, asked="0.9"), "both": usual}
    way = f"asking {usual.rule}, {usual.noise} noise"
    return way, {name: (audit_stream_twin, twin) for name, twin in twins.items()}


def _public(subject: Any) -> tuple[str, Twins]:
    from discreet.audit.near_twin import NearTwin, audit_near_twin

    assert subject is None or isinstance(subject, CampaignConfig)
    if subject is not None and subject.selector.name != "near-private":
        raise BadInput(
            f"an audit of public-data by {subject.selector.name}",
            "it reads no private record: its price is that of its checkpoint",
            "Audit the campaign that made the checkpoint",
        )
    twins = {"components": NearTwin(support="0.1"), "counts": NearTwin(support="0.9"), "both": NearTwin()}
    return "near-private", {name: (audit_near_twin, twin) for name, twin in twins.items()}


_OF: dict[str, Callable[[Any], tuple[str, Twins]]] = {
    "crowd": _crowd,
    "teachers": _teachers,
    "stream": _stream,
    "public-data": _public,
}


def twins_by_default(recipe: str) -> Twins:
    """The twins of a recipe without a file, each with what attacks it."""
    if recipe == "private-pool":
        from discreet.audit.pool_audit import audit_pool_twin, twins_of

        return {name: (audit_pool_twin, twin) for name, twin in twins_of().items()}
    return _OF[recipe](None)[1]
