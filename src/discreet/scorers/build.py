"""Scores by name, as a campaign's file names them."""

from __future__ import annotations

from typing import Any

from discreet.errors import BadInput, alternatives
from discreet.scorers.disagreement import BALD, PredictiveVariance, VariationRatio
from discreet.scorers.own import RandomScore
from discreet.scorers.score import Score
from discreet.scorers.several_labels import LeastCertainLabel, MeanLabelBALD, MeanLabelEntropy
from discreet.scorers.uncertainty import Entropy, LeastConfidence, LogitDifference, Margin

SCORES: dict[str, type[Score]] = {
    kind.name: kind
    for kind in (LeastConfidence, Margin, LogitDifference, Entropy, BALD, PredictiveVariance, VariationRatio)
}
SEVERAL: dict[str, type[Score]] = {kind.name: kind for kind in (LeastCertainLabel, MeanLabelEntropy, MeanLabelBALD)}
PAPER_CLIPS = {"entropy": 0.8, "bald": 0.5}
"""What the DP-AL paper clips at."""


def build_scorer(
    name: str, *, classes: int, several_labels: bool = False, clip: float | None = None, draws: int | None = None
) -> Score | RandomScore:
    """The score called ``name``, for ``classes`` classes, or as many labels at once."""
    if name == RandomScore.name:
        if clip is not None or draws is not None:
            raise BadInput("a random score with clip or draws", "it has neither", "Drop them")
        return RandomScore()
    known = SEVERAL if several_labels else SCORES
    if name not in known:
        raise BadInput(f"the score {name}", _why(name, several_labels), alternatives(name, [*known, "random"]))
    options: dict[str, Any] = {"classes": classes, "clip": clip}
    if draws is not None:
        if known[name].needs != "draws":
            raise BadInput(f"the score {name} with draws={draws}", "it reads one prediction", "Drop draws")
        options["draws"] = draws
    return known[name](**options)


def _why(name: str, several_labels: bool) -> str:
    if several_labels and name in SCORES:
        return "it has no form for several labels"
    return "there is no such score"
