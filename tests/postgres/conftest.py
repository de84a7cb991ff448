import os
import shutil
import tempfile
from pathlib import Path

import pytest
from postgres_server import Server

from discreet.records import Question
from discreet.storage import open_storage

ASKED = [Question(id=f"q{place}", record=f"r{place}", phase=0, place=place) for place in range(3)]


@pytest.fixture(scope="session")
def server():
    memory = Path("/dev/shm")  # a disk makes each start after a crash take seconds
    # a short name, for that of a socket is limited; not below a private directory, for the server is another user
    place = Path(tempfile.mkdtemp(prefix="discreet-pg-", dir=memory if os.access(memory, os.W_OK) else None))
    place.chmod(0o755)
    found = None
    try:
        found = Server(place)
        yield found
    finally:
        if found is not None:
            found.stop("immediate")
        shutil.rmtree(place)


@pytest.fixture
def url(server):
    address = server.database()
    yield address
    server.drop(address)


@pytest.fixture
def storage(url, tmp_path):
    """One campaign, no simulation: four records, three of them asked about."""
    with open_storage(url, directory=tmp_path / "home", patience=30.0) as storage:
        store = storage.create("scans", config={}, simulation=False)
        store.add_records((f"r{number}", b"code") for number in range(4))
        store.publish(0, ASKED)
        yield storage


@pytest.fixture
def store(storage):
    return storage.load("scans")
