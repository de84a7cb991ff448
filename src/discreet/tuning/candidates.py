"""The settings of a search: a public list, written before data is touched.

A grid ``{"learning_rate": [0.1, 0.5], "clip": [0.5, 1.0]}`` is every combination; a list of dicts is itself. Names are
fields of `discreet.trainers.dp_sgd.Settings`, or ``batch``, ``epochs``, ``model``, ``model_options`` of `DPClassifier`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sklearn.base import clone

from discreet.classifier import DPClassifier
from discreet.errors import BadInput

OF_THE_CLASSIFIER = ("batch", "epochs", "model", "model_options")
MOST = 10_000
Setting = dict[str, Any]


def settings_of(candidates: Any) -> tuple[Setting, ...]:
    """Every setting, in order."""
    if isinstance(candidates, Mapping):
        lists = {name: _values(name, values) for name, values in candidates.items()}
        found = [dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values())]
    elif isinstance(candidates, Sequence) and not isinstance(candidates, str):
        if not all(isinstance(one, Mapping) for one in candidates):
            raise _refusal()
        found = [dict(one) for one in candidates]
    else:
        raise _refusal()
    if not 1 <= len(found) <= MOST:
        raise BadInput(f"a search over {len(found)} settings", f"it needs 1 to {MOST}", "Give a shorter list")
    return tuple(found)


def _values(name: str, values: Any) -> list[Any]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Sequence) or not values:
        raise BadInput(f"the settings of {name}", "they are not a list", "Give a list of values to try")
    return list(values)


def _refusal() -> BadInput:
    return BadInput(
        "the settings of a search", "they are neither a grid nor a list of dicts", 'Try {"learning_rate": [0.1, 0.5]}'
    )


def with_setting(estimator: DPClassifier, setting: Setting) -> DPClassifier:
    """A copy of ``estimator`` that has this setting."""
    from discreet.trainers.dp_sgd import Settings

    names = {field.name for field in fields(Settings)}
    for name in setting:
        if name not in names and name not in OF_THE_CLASSIFIER:
            raise BadInput(
                f"searching over {name}",
                "it is not a setting that a search may change",
                f"Choose of {', '.join((*OF_THE_CLASSIFIER, *sorted(names)))}",
            )
    changed: DPClassifier = clone(estimator)
    changed.set_params(**{name: value for name, value in setting.items() if name in OF_THE_CLASSIFIER})
    of_training = {name: value for name, value in setting.items() if name in names}
    if of_training:
        changed.set_params(settings=replace(changed.settings or Settings(), **of_training))
    return changed
