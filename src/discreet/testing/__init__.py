"""Contract suites and the record/replay kit, for your own parts and mechanisms as for ours."""

from discreet.testing.gates import check_gate
from discreet.testing.neighbours import NeighbourFinding, NeighbourReport, NotPrivate, check_neighbours
from discreet.testing.noise import check_source
from discreet.testing.oracles import check_oracle
from discreet.testing.pools import check_feature_map, check_pool
from discreet.testing.selectors import check_scorer, check_selector
from discreet.testing.storage import check_ledger_in, check_sink, check_storage
from discreet.testing.trainers import check_predictor, check_trainer

__all__ = [
    "NeighbourFinding",
    "NeighbourReport",
    "NotPrivate",
    "check_feature_map",
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
]
