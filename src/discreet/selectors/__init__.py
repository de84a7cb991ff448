"""Who is asked: ids and scores in, a selection out, for what its receipts were charged and no more."""

from discreet.selectors.hidden_threshold import HiddenThresholdSelector, without_asked
from discreet.selectors.k_centre import KCentreSelector
from discreet.selectors.near_private import NearPrivate, Support
from discreet.selectors.public_selectors import DiversePublic, GreedyKCentre, UncertainPublic, k_means_public
from discreet.selectors.quality import ExactTopK, RandomSelector, SelectionQuality, selection_quality
from discreet.selectors.registry import MECHANISMS, SELECTORS, selector_for
from discreet.selectors.selection_inputs import SelectorRequest, charge_selection, into_cohorts
from discreet.selectors.threshold_selector import ThresholdSelector
from discreet.selectors.top_k import ExponentialSelector, GaussianTopK, LaplaceTopK

__all__ = [
    "MECHANISMS",
    "SELECTORS",
    "DiversePublic",
    "ExactTopK",
    "ExponentialSelector",
    "GaussianTopK",
    "GreedyKCentre",
    "HiddenThresholdSelector",
    "KCentreSelector",
    "LaplaceTopK",
    "NearPrivate",
    "RandomSelector",
    "SelectionQuality",
    "SelectorRequest",
    "Support",
    "ThresholdSelector",
    "UncertainPublic",
    "charge_selection",
    "into_cohorts",
    "k_means_public",
    "selection_quality",
    "selector_for",
    "without_asked",
]
