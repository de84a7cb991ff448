"""One thread: the layers here are too small for more, and threads that wait for each other are slow."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
