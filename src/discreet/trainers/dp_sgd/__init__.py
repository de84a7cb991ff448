"""DP-SGD by cohorts: Poisson sampling, clipping of single units, noise on the sum, a public normaliser."""

# ruff: noqa: E402 - what is missing is said before an import fails on it
from discreet.errors import require

require("torch", extra="torch", asked="training by DP-SGD")
require("safetensors", extra="torch", asked="training by DP-SGD")
from discreet.models.layers import replace_batch_norm
from discreet.noise.replay_key import charge_training
from discreet.trainers.dp_sgd.augmentation import RandomFlip, RandomShift
from discreet.trainers.dp_sgd.automatic import AutomaticSettings, automatic_settings
from discreet.trainers.dp_sgd.checks import check_layers
from discreet.trainers.dp_sgd.cohorts import MISSING, CohortRecords, PoissonCohortSampler, padded
from discreet.trainers.dp_sgd.distributed import Processes, join_processes
from discreet.trainers.dp_sgd.optimization import WeightedCrossEntropy, chexpert_targets, cross_entropy, multilabel_bce
from discreet.trainers.dp_sgd.settings import Settings
from discreet.trainers.dp_sgd.trainer import DPSGD

__all__ = [
    "DPSGD",
    "MISSING",
    "AutomaticSettings",
    "CohortRecords",
    "PoissonCohortSampler",
    "Processes",
    "RandomFlip",
    "RandomShift",
    "Settings",
    "WeightedCrossEntropy",
    "automatic_settings",
    "charge_training",
    "check_layers",
    "chexpert_targets",
    "cross_entropy",
    "join_processes",
    "multilabel_bce",
    "padded",
    "replace_batch_norm",
]
