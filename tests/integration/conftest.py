import pytest
from label_studio_server import copied


@pytest.fixture(scope="session")
def label_studio(tmp_path_factory):
    """One server for all; each test has projects of its own."""
    running = copied(tmp_path_factory.mktemp("label-studio") / "data").start()
    yield running
    running.stop()
