"""Parts that a user would write: named in a campaign's file as ``own_parts:name``."""

import torch
from torch import nn

NOT_A_FUNCTION = 3


def halves(values):
    """A score: how near the first class is to one half."""
    return 0.5 - abs(values[:, 0] - 0.5)


def length(values):
    """A score of embeddings."""
    return (values**2).sum(axis=1)


def of_the_pool(values):
    """No score: one number for all."""
    return values.max()


def failing(values):
    raise ValueError(f"unmistakable {values[0, 0]}")


def small(*, inputs, classes, hidden=4):
    return nn.Sequential(nn.Linear(inputs[0], hidden), nn.Tanh(), nn.Linear(hidden, classes))


def mixing(*, inputs, classes):
    return nn.Sequential(nn.BatchNorm1d(inputs[0]), nn.Linear(inputs[0], classes))


def wrong_width(*, inputs, classes):
    return nn.Linear(inputs[0], classes + 1)


def focal(outputs, target):
    """A loss of one record."""
    found = nn.functional.cross_entropy(outputs, target.expand(outputs.shape[0]))
    return (1 - torch.exp(-found)) ** 2 * found


def no_number(outputs, target):
    return "large"
