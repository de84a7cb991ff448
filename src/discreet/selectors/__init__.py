"""Who is asked: ids and scores in, a selection out, for what its receipts were charged and no more."""

from discreet.selectors.cohorts import into_cohorts
from discreet.selectors.diverse_public import DiversePublic, GreedyKCentre, UncertainPublic, k_means_public
from discreet.selectors.hidden import HiddenThresholdSelector, without_asked
from discreet.selectors.k_centre import KCentreSelector
from discreet.selectors.named import MECHANISMS, selector_for
from discreet.selectors.near_private import NearPrivate, Support
from discreet.selectors.noisy_top import GaussianTopK, LaplaceTopK
from discreet.selectors.plain import ExactTopK, RandomSelector
from discreet.selectors.quality import SelectionQuality, selection_quality
from discreet.selectors.receipts import charge_selection
from discreet.selectors.responding import ThresholdSelector
from discreet.selectors.sequential import ExponentialSelector

__all__ = [
    "MECHANISMS",
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
