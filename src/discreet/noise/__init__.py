"""The mechanisms: the only source of randomness. Each takes a receipt, and refuses a spent or foreign one."""

from discreet.noise.additive_noise import discrete_laplace, gamma_direction, gaussian, laplace
from discreet.noise.choice import SparseVector, exponential, noisy_winner
from discreet.noise.coins import (
    coins,
    highest,
    numerator,
    poisson_mask,
    random_coins,
    random_places,
    threshold_coins,
    threshold_places,
)
from discreet.noise.indexed_noise import IndexedCoins, IndexedCounts, IndexedNoise
from discreet.noise.keys import SecretKey, release_key
from discreet.noise.noisy_top import gaussian_top, laplace_top
from discreet.noise.replay_key import SealedPhase, charge_once
from discreet.noise.seeds import derived_seed, remembers_inputs, same_inputs, shared_secret, step_seal, step_seed
from discreet.noise.sources import OperatingSystem, RecordingSource, ReplayingSource, Seeded, Source, source_of
from discreet.noise.tuned import TunedRuns, tuned_runs

__all__ = [
    "IndexedCoins",
    "IndexedCounts",
    "IndexedNoise",
    "OperatingSystem",
    "RecordingSource",
    "ReplayingSource",
    "SealedPhase",
    "SecretKey",
    "Seeded",
    "Source",
    "SparseVector",
    "TunedRuns",
    "charge_once",
    "coins",
    "derived_seed",
    "discrete_laplace",
    "exponential",
    "gamma_direction",
    "gaussian",
    "gaussian_top",
    "highest",
    "laplace",
    "laplace_top",
    "noisy_winner",
    "numerator",
    "poisson_mask",
    "random_coins",
    "random_places",
    "release_key",
    "remembers_inputs",
    "same_inputs",
    "shared_secret",
    "source_of",
    "step_seal",
    "step_seed",
    "threshold_coins",
    "threshold_places",
    "tuned_runs",
]
