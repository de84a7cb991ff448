"""What is worth asking: scores of records, higher = ask first, each with a declared range."""

from discreet.scorers.build import PAPER_CLIPS, build_scorer
from discreet.scorers.disagreement import BALD, PredictiveVariance, VariationRatio
from discreet.scorers.embedded import EmbeddedRows
from discreet.scorers.own import OwnScore, RandomScore
from discreet.scorers.score import Score
from discreet.scorers.several_labels import LeastCertainLabel, MeanLabelBALD, MeanLabelEntropy
from discreet.scorers.streaming import from_logits, pool_scores, probabilities_of
from discreet.scorers.uncertainty import Entropy, LeastConfidence, LogitDifference, Margin

__all__ = [
    "BALD",
    "PAPER_CLIPS",
    "EmbeddedRows",
    "Entropy",
    "LeastCertainLabel",
    "LeastConfidence",
    "LogitDifference",
    "Margin",
    "MeanLabelBALD",
    "MeanLabelEntropy",
    "OwnScore",
    "PredictiveVariance",
    "RandomScore",
    "Score",
    "VariationRatio",
    "build_scorer",
    "from_logits",
    "pool_scores",
    "probabilities_of",
]
