"""Who is asked: ids and scores in, a selection out, for what its receipts were charged and no more."""

from discreet.selectors.noisy_top import GaussianTopK, LaplaceTopK
from discreet.selectors.plain import ExactTopK, RandomSelector
from discreet.selectors.responding import ThresholdSelector

__all__ = ["ExactTopK", "GaussianTopK", "LaplaceTopK", "RandomSelector", "ThresholdSelector"]
