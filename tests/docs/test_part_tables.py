"""The tables of options and prices on the reference pages are those that the parts declare.

After a change of a declaration, rewrite them with `python tests/docs/test_part_tables.py` and read the diff.
"""

import re
from pathlib import Path

import pytest

from discreet.features import FEATURES
from discreet.models.build import MODELS, TIMM
from discreet.oracles import ORACLES
from discreet.pools.columns import OPTIONS
from discreet.scorers import SCORERS
from discreet.selectors import SELECTORS
from discreet.trainers.augmentations import AUGMENTATIONS

REFERENCE = Path(__file__).parents[2] / "docs/reference"
REGISTRIES = {registry.kind: registry for registry in (SELECTORS, SCORERS, ORACLES)}
FREE = "any, without a price"


def words(names):
    return ", ".join(f"`{name}`" for name in names)


def options_of(registry):
    """A row for each option: which parts have it, and what it means."""
    yield "| key | type | default | of | meaning |"
    yield "|---|---|---|---|---|"
    for name, option in registry.options().items():
        yield f"| `{name}` | {option.type} | {option.default} | {words(registry.having(name))} | {option.meaning} |"


def parts_of(registry, recipe):
    """A row for each part that the recipe supports."""
    parts = [part for part in registry if recipe in part.recipes]
    if registry is SELECTORS and recipe == "private-pool":
        yield "| selector | `selection` in `[plan]` | what it does, and what a record pays |"
        yield "|---|---|---|"
        for part in parts:
            yield f"| `{part.name}` | {words(part.prices) or FREE} | {part.summary} |"
        return
    yield f"| {registry.kind} | what it is |"
    yield "|---|---|"
    for part in parts:
        yield f"| `{part.name}` | {part.summary} |"


def schema_columns():
    """A row for each key of a column, by the types that have it."""
    yield "| type | key | takes | default | meaning |"
    yield "|---|---|---|---|---|"
    for kind, options in OPTIONS.items():
        for option in options.values():
            yield f"| `{kind}` | `{option.name}` | {option.type} | {option.default} | {option.meaning} |"


def models():
    """A row for each model."""
    yield "| model | what it is | options |"
    yield "|---|---|---|"
    for part in (*MODELS, TIMM):
        options = "; ".join(f"`{option.name}` ({option.default}): {option.meaning}" for option in part.options)
        yield f"| `{part.name}` | {part.summary} | {options} |"


def features():
    """A row for each feature map."""
    yield "| map | what it is | options |"
    yield "|---|---|---|"
    for part in FEATURES:
        options = "; ".join(f"`{option.name}` ({option.default}): {option.meaning}" for option in part.options)
        yield f"| `{part.name}` | {part.summary} | {options} |"


def feature_options():
    """A row for each option: maps may call different things by one name."""
    yield "| key | type | default | of | meaning |"
    yield "|---|---|---|---|---|"
    homes = {}
    for part in FEATURES:
        for option in part.options:
            row = option.name, option.type, option.default, option.meaning
            homes.setdefault(row, []).append(part.name)
    for (name, kind, default, meaning), names in homes.items():
        yield f"| `{name}` | {kind} | {default} | {words(names)} | {meaning} |"


TABLES = {
    "features options": feature_options(),
    "selector options": options_of(SELECTORS),
    "selector private-pool": parts_of(SELECTORS, "private-pool"),
    "selector public-data": parts_of(SELECTORS, "public-data"),
    "scorer options": options_of(SCORERS),
    "scorer private-pool": parts_of(SCORERS, "private-pool"),
    "augmentation options": options_of(AUGMENTATIONS),
    "oracle options": options_of(ORACLES),
    "oracle private-pool": parts_of(ORACLES, "private-pool"),
    "schema columns": schema_columns(),
    "models": models(),
    "features": features(),
}
TABLES = {name: "\n".join(rows) for name, rows in TABLES.items()}


def page(name):
    return REFERENCE / (f"{name}.md" if name in ("models", "features") else "campaign-file.md")


def block(name):
    return re.compile(rf"(<!-- declared: {name} -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_what_is_declared(name):
    found = block(name).search(page(name).read_text(encoding="utf-8"))
    assert found, f"the page has no table {name}"
    assert found[2] == TABLES[name], f"rewrite it: python {Path(__file__).name}"


if __name__ == "__main__":
    for name, table in TABLES.items():
        text = page(name).read_text(encoding="utf-8")
        text = block(name).sub(lambda match, table=table: match[1] + table + match[3], text)
        page(name).write_text(text, encoding="utf-8")
