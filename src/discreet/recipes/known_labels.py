"""Labels that were there before the campaign: phase 0 takes their records, and asks nobody about them.

The promise rests on how those records were chosen, which the owner declares: by lot, or by a public rule. Records that
were chosen by looking at them would have to be paid for. Guarantee: a file that does not fit the plan is refused before
anything is charged, with counts alone.
"""

from __future__ import annotations

from discreet.config import AnyCampaign, CampaignConfig
from discreet.oracles import AnswerWords, read_labels
from discreet.pools import Pool
from discreet.recipes.units import Units
from discreet.records import Value

MECHANISM = "imported"


def answer_words(config: AnyCampaign) -> AnswerWords:
    """How cells of answers and labels are written."""
    return AnswerWords() if config.oracle.separator is None else AnswerWords(separator=config.oracle.separator)


def labels_in(config: CampaignConfig, path: str, key: str) -> dict[str, Value]:
    """Labels by record of a file that ``key`` names, all of declared classes."""
    found = file_labels(config, path, key)
    known = set(config.task.classes)
    strange = sum(not set(value if isinstance(value, tuple) else (value,)) <= known for value in found.values())
    if strange:
        raise config.error(
            key, f"{strange} of its {len(found)} labels are outside the classes", "Declare the class, or correct them"
        )
    return found


def file_labels(config: AnyCampaign, path: str, key: str) -> dict[str, Value]:
    """Labels by record of a file that ``key`` names, whatever they say."""
    place = config.resolve(path)
    if not place.is_file():
        raise config.error(key, "there is no such file", "Name a CSV or JSONL file with columns record and label")
    with config.pointing(key):
        return read_labels(place, multilabel=config.task.kind == "multilabel", words=answer_words(config))


def known_labels(config: CampaignConfig) -> dict[str, Value]:
    """Of phase 0, by record; none where people are asked."""
    return {} if config.initial is None else labels_in(config, config.initial.path, "initial.path")


def known_units(config: CampaignConfig, pool: Pool, units: Units) -> list[str]:
    """The units whose labels are known, in the pool's order: exactly as many as the plan begins with."""
    found = known_labels(config)
    there = set(pool.ids)
    lost = {one for one in found if one not in there and pool.withdrew(one)}
    strange = sum(one not in there for one in found) - len(lost)
    if strange:
        raise config.error(
            "initial.path", f"{strange} of its {len(found)} records are not in the pool", "Use the pool's own ids"
        )
    if units.records is None:
        mine = [name for name in units.names if name in found]
    else:
        places = {place for place, one in enumerate(pool.ids) if one in found}
        mine = [name for name in units.names if not places.isdisjoint(units.records[name])]
    planned, each = config.plan.initial, units.records is None
    # without those that were withdrawn there are fewer: smaller batches, and the same promise
    if not planned - len(pool.withdrawn) <= len(mine) <= planned - (len(lost) if each else 0):
        raise config.error(
            "initial.path",
            f"it has labels of {len(mine)} {config.budget.unit}s, and plan.initial = {config.plan.initial}",
            f"Write initial = {len(mine)}, or bring as many labels as the plan says",
        )
    return mine
