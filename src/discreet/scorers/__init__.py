"""What is worth asking: scores of records, higher = ask first, each with a declared range."""

from discreet.scorers.acquisition_functions import (
    BALD,
    SCORERS,
    Entropy,
    LeastCertainLabel,
    LeastConfidence,
    LogitDifference,
    Margin,
    MeanLabelBALD,
    MeanLabelEntropy,
    OwnScore,
    PredictiveVariance,
    RandomScore,
    VariationRatio,
    build_scorer,
)
from discreet.scorers.score import EmbeddedRows, Score, from_logits, pool_scores, probabilities_of

__all__ = [
    "BALD",
    "SCORERS",
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
