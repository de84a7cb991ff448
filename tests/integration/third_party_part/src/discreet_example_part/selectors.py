"""Noisy top-k on the upper part of the range of scores, as another package declares it."""

from dataclasses import replace

from discreet.checks import number
from discreet.parts import Option, Part
from discreet.selectors import LaplaceTopK, SelectorRequest


def build(request: SelectorRequest) -> LaplaceTopK:
    """Scores below ``keep`` of the range count as the bottom of what is left."""
    bottom, top = request.range
    low = bottom + request.options.get("keep", 0.5) * (top - bottom)
    return LaplaceTopK(epsilon=request.epsilon, range=(low, top), name="halved-laplace")


PART = Part(
    kind="selector",
    name="halved-laplace",
    summary="noisy top-k on the upper part of the range",
    build=build,
    options=(
        Option(
            name="keep", check=number(0, 0.9, such_as="0.5"), type="number", default="0.5", meaning="where it begins"
        ),
    ),
    prices=("paper",),
    mechanism="laplace",
    one_query=True,
)
SHADOW = replace(PART, name="random")
