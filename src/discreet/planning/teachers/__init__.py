"""What teachers' answers cost, before any is bought: noise for votes, the paper's sizes, margins.

Everything here follows from public numbers, but for `margins`, which reads votes and is for the owner.
"""

from discreet.planning.teachers.gaussian_votes import answers_at, exact_multiplier, paper_multiplier
from discreet.planning.teachers.pricing import (
    AGGREGATORS,
    ConfidentPrice,
    NoisyMaxPrice,
    StablePrice,
    VotePrice,
    price_answers,
)
from discreet.planning.teachers.sizes import ActiveSizes, MarginSizes, active_sizes, margin_sizes, passive_sizes

__all__ = [
    "AGGREGATORS",
    "ActiveSizes",
    "ConfidentPrice",
    "MarginSizes",
    "NoisyMaxPrice",
    "StablePrice",
    "VotePrice",
    "active_sizes",
    "answers_at",
    "exact_multiplier",
    "margin_sizes",
    "paper_multiplier",
    "passive_sizes",
    "price_answers",
]
