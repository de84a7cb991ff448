"""The contract of scores passes honest ones (the built-in ones: tests/contracts) and fails each planted mistake."""

from dataclasses import dataclass

import numpy as np
import pytest

from discreet.scorers import Entropy, OwnScore
from discreet.testing import NotPrivate, check_scorer


def test_honest_scores_pass():
    check_scorer(lambda: OwnScore(function=lambda p: 1 - p.max(axis=1), range=(0, 1)), classes=4)
    check_scorer(lambda: OwnScore(function=lambda e: np.linalg.norm(e, axis=1), range=(0, 9), needs="embedding"))
    check_scorer(lambda: OwnScore(function=lambda p: p[:, 1], range=(0, 1)), uncertainty=False)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A score with one thing wrong."""

    of: object
    range: tuple = (0.0, 1.0)
    name: str = "planted"
    needs: str = "proba"

    def score(self, values):
        return self.of(np.asarray(values, dtype=float))


def honest(p):
    return Entropy(classes=3).score(p)


def quoting(p):
    if p.shape[-1] != 3:
        raise ValueError(f"strange record {p.flat[0]}")
    return honest(p)


def quoting_behind(p):
    try:
        return quoting(p)
    except ValueError:
        raise TypeError("a strange record") from None if p.ndim > 9 else ValueError(str(p.flat[0]))


class Stateful:
    def __init__(self):
        self.seen = 0.0

    def __call__(self, p):
        self.seen += 1e-3
        return np.clip(honest(p) + self.seen, 0, 1) * (honest(p) > 0)


def writes(p):
    found = honest(p)
    p[..., :] = 0
    return found


STATE = Stateful()


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (lambda p: honest(p) + 0.5, "outside"),
        (lambda p: np.nan_to_num(honest(p) - 0.1), "outside"),
        (lambda p: 1 - honest(p), "null"),
        (lambda p: np.where(np.isnan(p).any(axis=1), 0, 1 - honest(p)), "certain come before"),
        (lambda p: honest(p) / max(honest(p).max(initial=0), 1e-9), "other records"),
        (lambda p: np.argsort(np.argsort(honest(p))) / max(len(p), 1) * (honest(p) > 0), "other records"),
        (lambda p: honest(p)[::-1] if len(p) == 20 else honest(p), "depends on the other|order"),
        (lambda p: honest(p).mean(), "an array|one number"),
        (lambda p: 1 - np.nanmax(np.where(np.isfinite(p), p, 1), axis=1, initial=0), "outside|null|no number"),
        (lambda p: honest(p) * (0.5 if len(p) == 1 else 1.0), "alone"),
        (STATE, "second time"),
        (writes, "writes into"),
        (quoting, "repeats a value"),
        (quoting_behind, "repeats a value"),
    ],
)
def test_a_planted_mistake_is_found(of, says):
    with pytest.raises((AssertionError, NotPrivate), match=says):
        check_scorer(lambda: Planted(of=of))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"range": (0.0, np.inf)}, "finite"),
        ({"range": (1.0, 0.0)}, "below"),
        ({"needs": "luck"}, "none of"),
        ({"name": ""}, "name"),
    ],
)
def test_what_it_declares_is_looked_at(changes, says):
    with pytest.raises(AssertionError, match=says):
        check_scorer(lambda: Planted(of=honest, **changes))
