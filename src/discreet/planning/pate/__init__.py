"""What teachers' answers cost, before any is bought. Everything here follows from public numbers."""

from discreet.planning.pate.pricing import (
    AGGREGATORS,
    ConfidentPrice,
    NoisyMaxPrice,
    StablePrice,
    VotePrice,
    price_answers,
)
from discreet.planning.pate.vote_noise import answers_at, exact_multiplier, paper_multiplier

__all__ = [
    "AGGREGATORS",
    "ConfidentPrice",
    "NoisyMaxPrice",
    "StablePrice",
    "VotePrice",
    "answers_at",
    "exact_multiplier",
    "paper_multiplier",
    "price_answers",
]
