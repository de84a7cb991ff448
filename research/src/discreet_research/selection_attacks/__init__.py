"""Attacks on selections: how well they tell two neighbouring data sets apart, and the faults they must find."""

from discreet_research.selection_attacks.selection_attack import (
    PathLoss,
    SelectionAttack,
    SelectionClaim,
    Views,
    attack_selection,
    composed_claim,
    one_sided_claim,
)
from discreet_research.selection_attacks.selection_scenes import Scene, SelectorRuns

__all__ = [
    "PathLoss",
    "Scene",
    "SelectionAttack",
    "SelectionClaim",
    "SelectorRuns",
    "Views",
    "attack_selection",
    "composed_claim",
    "one_sided_claim",
]
