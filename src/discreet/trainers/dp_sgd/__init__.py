"""DP-SGD by cohorts: Poisson sampling, clipping of single units, noise on the sum, a public normaliser."""

import discreet.trainers.dp_sgd.needs_torch  # noqa: F401 - first, for the words of its error
from discreet.models.mixing import replace_batch_norm
from discreet.trainers.charging import charge_training
from discreet.trainers.dp_sgd.augmentation import RandomFlip, RandomShift
from discreet.trainers.dp_sgd.cohorts import MISSING, CohortRecords, PoissonCohortSampler
from discreet.trainers.dp_sgd.layers import check_layers
from discreet.trainers.dp_sgd.losses import chexpert_targets, cross_entropy, multilabel_bce
from discreet.trainers.dp_sgd.padding import padded
from discreet.trainers.dp_sgd.processes import Processes, join_processes
from discreet.trainers.dp_sgd.settings import Settings
from discreet.trainers.dp_sgd.trainer import DPSGD

__all__ = [
    "DPSGD",
    "MISSING",
    "CohortRecords",
    "PoissonCohortSampler",
    "Processes",
    "RandomFlip",
    "RandomShift",
    "Settings",
    "charge_training",
    "check_layers",
    "chexpert_targets",
    "cross_entropy",
    "join_processes",
    "multilabel_bce",
    "padded",
    "replace_batch_norm",
]
