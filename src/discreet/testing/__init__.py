"""Contract suites and the record/replay kit, for your own parts and mechanisms as for ours."""

from discreet.testing.gates import check_gate
from discreet.testing.neighbours import Finding, NotPrivate, Report, check_neighbours
from discreet.testing.noise import check_source
from discreet.testing.oracles import check_oracle
from discreet.testing.pools import check_pool
from discreet.testing.predictors import check_predictor
from discreet.testing.scorers import check_scorer
from discreet.testing.selection_attack import (
    PathLoss,
    SelectionAttack,
    SelectionClaim,
    Views,
    attack_selection,
    composed_claim,
    one_sided_claim,
)
from discreet.testing.selection_scenes import Scene, SelectorRuns
from discreet.testing.selectors import check_selector
from discreet.testing.sinks import check_ledger_in, check_sink
from discreet.testing.storage import check_storage
from discreet.testing.trainers import check_trainer

__all__ = [
    "Finding",
    "NotPrivate",
    "PathLoss",
    "Report",
    "Scene",
    "SelectionAttack",
    "SelectionClaim",
    "SelectorRuns",
    "Views",
    "attack_selection",
    "check_gate",
    "check_ledger_in",
    "check_neighbours",
    "check_oracle",
    "check_pool",
    "check_predictor",
    "check_scorer",
    "check_selector",
    "check_sink",
    "check_source",
    "check_storage",
    "check_trainer",
    "composed_claim",
    "one_sided_claim",
]
