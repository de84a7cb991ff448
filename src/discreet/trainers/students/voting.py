"""A student as wide as its teachers: a vote of many simple models (the paper's Theorem 13).

Where no single model of the teachers' kind fits what they say together, the problem is realizable among votes of such
models.
"""

from __future__ import annotations

from typing import Any

from discreet.errors import BadInput


def voting_student(*, rounds: int, depth: int = 2) -> Any:
    """An estimator: AdaBoost of ``rounds`` trees of ``depth`` levels. Give it to any of the ways of asking."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    if type(rounds) is not int or rounds < 1 or type(depth) is not int or depth < 1:
        raise BadInput(
            f"a vote of {rounds} trees of depth {depth}", "both are whole numbers from 1", "Give such numbers"
        )
    return AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=rounds)
