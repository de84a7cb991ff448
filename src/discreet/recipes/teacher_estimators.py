"""Teachers and students by the name in a campaign's file, or somebody's own: anything with fit, predict, get_params."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from discreet.config import TeachersConfig
from discreet.errors import BadInput


def teacher_of(config: TeachersConfig) -> Any:
    """The estimator that each teacher is a copy of."""
    return _built(config, "teachers", {"max_iter": 1000})


def student_of(config: TeachersConfig) -> Any:
    """The estimator that the student is."""
    return _built(config, "student", {"C": 0.1, "max_iter": 1000})


def is_flat(config: TeachersConfig, table: str) -> bool:
    """Whether records are rows of numbers to it; one's own estimator takes them in their shape."""
    return ":" not in getattr(config, table).name


def estimator_named(name: str, options: Mapping[str, Any]) -> Any:
    """By its name, or ``module:callable``, with its options."""
    maker = _maker(name)
    try:
        return maker(**options)
    except (TypeError, ValueError) as problem:
        raise BadInput(
            f"the estimator {name}", f"it does not take these options ({type(problem).__name__})", "Check their names"
        ) from None


def _built(config: TeachersConfig, table: str, usual: dict[str, Any]) -> Any:
    said = getattr(config, table)
    options = dict(said.options)
    with config.pointing(f"{table}.options" if options else f"{table}.name"):
        return estimator_named(said.name, usual | options if said.name == "logistic" else options)


def _maker(name: str) -> Callable[..., Any]:
    if ":" in name:
        try:
            found: Callable[..., Any] = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError):
            raise BadInput(f"the estimator {name}", "it cannot be imported", "Put its module on PYTHONPATH") from None
        return found
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    from discreet.trainers.students import voting_student

    known: dict[str, Callable[..., Any]] = {
        "logistic": LogisticRegression,
        "tree": DecisionTreeClassifier,
        "forest": RandomForestClassifier,
        "voting": lambda **options: voting_student(**{"rounds": 100, **options}),
    }
    return known[name]
