"""The stored form of stopping rules: a closed registry. A file can name only kinds that are written here.

    {"format": "discreet.stopping/1", "kind": "any", "rules": [{"kind": "labels", "count": 5000}, ...]}

Reading is strict: `rule_from_json` accepts what `rule_to_json` writes, and nothing else. No class is looked up by a
stored name, and nothing is unpickled.
"""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any, cast

from discreet.campaign.stopping import AllOf, AnyOf, Labels, Never, Phases, Plateau, Rule, SpentBudget
from discreet.errors import BadInput
from discreet.privacy.exact import json_number

FORMAT = "discreet.stopping/1"
REGISTRY: dict[str, type[Rule]] = {
    cls.kind: cls for cls in cast("list[type[Rule]]", [AllOf, AnyOf, Labels, Never, Phases, Plateau, SpentBudget])
}
MAX_DEPTH = 16
"""Rules nest; a stored one that nests deeper than this is not one of ours."""


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """A plain form that `rule_from_json` reads back to an equal rule."""
    return {"format": FORMAT} | _form(rule, MAX_DEPTH)


def rule_from_json(form: Any) -> Rule:
    """The rule a stored form names, or `BadInput`."""
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise _broken(f"it is not a form of {FORMAT}")
    try:
        rule = _read({key: value for key, value in form.items() if key != "format"}, MAX_DEPTH)
    except BadInput as error:
        raise _broken(error.fact) from None
    if rule_to_json(rule) != form:
        raise _broken("it is not in the one form we write")
    return rule


def _form(rule: Rule, depth: int) -> dict[str, Any]:
    if REGISTRY.get(getattr(rule, "kind", "")) is not type(rule) or depth == 0:
        raise BadInput("storing a stopping rule", "it nests too deep, or is of a kind of your own", "Use those we have")
    form: dict[str, Any] = {"kind": rule.kind}
    for field in fields(rule):  # type: ignore[arg-type]
        value = getattr(rule, field.name)
        if isinstance(value, tuple):
            form[field.name] = [_form(part, depth - 1) for part in value]
        else:
            form[field.name] = json_number(value) if isinstance(value, Decimal) else value
    return form


def _read(form: Any, depth: int) -> Rule:
    kind = form.get("kind") if isinstance(form, dict) else None
    cls = REGISTRY.get(kind) if isinstance(kind, str) else None
    if cls is None or depth == 0:
        raise _broken("its kind is not in the registry, or it nests too deep")
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    if set(form) != names | {"kind"}:
        raise _broken(f"the keys of {kind} are not {sorted(names)}")
    return cls(**{name: _value(form[name], depth) for name in names})


def _value(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        return tuple(_read(part, depth - 1) for part in value)
    if not isinstance(value, (int, float, str)):
        raise _broken("a part is of the wrong type")
    return value


def _broken(fact: str) -> BadInput:
    return BadInput("a stored stopping rule", fact, "Restore the file, or upgrade discreet")
