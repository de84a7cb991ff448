import pytest
import torch
from torch import nn

if not torch.accelerator.is_available():
    # torch.manual_seed leaves each absent device a message with a copy of the stack, deep under pytest: a third of
    # the time of small runs. The CPU's own generator is seeded as ever.
    for absent in (torch.cuda, torch.xpu, torch.mtia):
        absent.manual_seed_all = lambda seed: None


@pytest.fixture
def linear():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
