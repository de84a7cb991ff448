"""How randomness is drawn: the only door to it. Every mechanism takes a receipt and refuses a spent or foreign one."""

from discreet.noise.chance import random_coins, random_places
from discreet.noise.choice import SparseVector, exponential
from discreet.noise.coins import coins, highest, numerator, poisson_mask, threshold_coins, threshold_places
from discreet.noise.endless import EndlessCoins, EndlessCounts, EndlessNoise
from discreet.noise.gaussian import gamma_direction, gaussian
from discreet.noise.keyed import SecretKey, release_key
from discreet.noise.laplace import discrete_laplace, laplace
from discreet.noise.repeating import charge_once
from discreet.noise.sealed import SealedPhase
from discreet.noise.seeds import derived_seed, remembers_inputs, same_inputs, shared_secret, step_seal, step_seed
from discreet.noise.sources import OperatingSystem, Recording, Replaying, Seeded, Source
from discreet.noise.top import gaussian_top, laplace_top
from discreet.noise.tuned import TunedRuns, tuned_runs
from discreet.noise.votes import noisy_winner

__all__ = [
    "EndlessCoins",
    "EndlessCounts",
    "EndlessNoise",
    "OperatingSystem",
    "Recording",
    "Replaying",
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
    "step_seal",
    "step_seed",
    "threshold_coins",
    "threshold_places",
    "tuned_runs",
]
