import pytest
import torch
from torch import nn


@pytest.fixture
def linear():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
