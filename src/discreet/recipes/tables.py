"""A recipe in Python: the tables of a campaign's file, with the defaults that most campaigns want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.privacy.budget import Number
from discreet.selectors import SELECTORS

Tables = dict[str, dict[str, Any]]


def private_pool(
    *,
    classes: Sequence[str],
    initial: int,
    queries: Sequence[int] = (),
    batch: int | None = None,
    epochs: int | None = None,
    task: str = "multiclass",
    selection_epsilon: Number = 0,
    threshold_epsilon: Number | None = None,
    scorer: str | None = None,
    selector: str | None = None,
    model: str = "linear",
    model_options: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    per_question: int = 1,
    **tables: Mapping[str, Any],
) -> Tables:
    """Tables of the private-pool recipe, as docs/reference/campaign-file.md explains them.

    Without ``batch``, ``epochs`` and a learning rate in ``trainer`` they follow from public numbers. Without
    ``selection_epsilon`` records are asked at random, with it by threshold response on the entropy. ``plan``,
    ``trainer`` and any other table by its name (``evaluation``, ``simulation``, ``scorer_options`` ...) take what a
    file would say there.
    """
    paid = str(selection_epsilon) != "0"
    chosen = selector or ("threshold-response" if paid else "random")
    threshold = threshold_epsilon if threshold_epsilon is not None or chosen != "threshold-response" else "0.05"
    usual: Tables = {
        "task": {"kind": task, "classes": list(classes)},
        "recipe": {"name": "private-pool"},
        "plan": {
            "initial": initial,
            "queries": list(queries),
            **{name: count for name, count in (("batch", batch), ("epochs", epochs)) if count is not None},
            "selection_epsilon": str(selection_epsilon),
            **(plan or {}),
        },
        "scorer": {"name": scorer or ("random" if chosen == "random" else "entropy")},
        "selector": {"name": chosen} | ({} if threshold is None else {"threshold_epsilon": str(threshold)}),
        "oracle": {"name": "files", "per_question": per_question},
        "model": {"name": model, "options": dict(model_options or {})},
        "trainer": dict(trainer or {}),
    }
    return usual | {name: {**usual.get(name, {}), **table} for name, table in tables.items()}


def public_data(
    *,
    classes: Sequence[str],
    checkpoint: Mapping[str, Any],
    queries: Sequence[int],
    batch: int = 64,
    epochs: int = 20,
    task: str = "multiclass",
    selector: str | None = None,
    scorer: str | None = None,
    private: Mapping[str, Any] | None = None,
    support_epsilon: Number | None = None,
    model: str = "linear",
    model_options: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    per_question: int = 1,
    **tables: Mapping[str, Any],
) -> Tables:
    """Tables of the public-data recipe, as docs/reference/campaign-file.md explains them.

    Without ``private`` records are chosen by diverse-public, which is free; with it by near-private, whose counts cost
    ``support_epsilon``. ``checkpoint``: its path, and what it guaranteed.
    """
    chosen = selector or ("diverse-public" if private is None else "near-private")
    part = SELECTORS.find(chosen)
    unscored = part is not None and "scores" not in part.reads
    price = {} if support_epsilon is None else {"support_epsilon": str(support_epsilon)}
    usual: Tables = {
        "task": {"kind": task, "classes": list(classes)},
        "recipe": {"name": "public-data"},
        "checkpoint": dict(checkpoint),
        "plan": {"initial": 0, "queries": list(queries), "batch": batch, "epochs": epochs},
        "scorer": {"name": scorer or ("random" if unscored else "entropy")},
        "selector": {"name": chosen} | price,
        "oracle": {"name": "files", "per_question": per_question},
        "model": {"name": model, "options": dict(model_options or {})},
        "trainer": {"learning_rate": 0.05} | dict(trainer or {}),
    }
    if private is not None:
        usual["private"] = dict(private)
    return usual | {name: {**usual.get(name, {}), **table} for name, table in tables.items()}
