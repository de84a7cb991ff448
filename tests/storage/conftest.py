import shutil

import pytest

from discreet.records import Question
from discreet.storage import open_storage


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """A store with one campaign: four records, three of them asked about. Copying one is quicker than making it."""
    place = tmp_path_factory.mktemp("made") / "scan.db"
    with open_storage(place) as storage:
        store = storage.create("scans", config={}, simulation=True)
        store.add_records((f"record-{number}", b"code") for number in range(4))
        asked = [Question(id=f"q{place}", record=f"record-{place}", phase=0, place=place) for place in range(3)]
        store.publish(0, asked)
    return place


@pytest.fixture
def storage(made_once, tmp_path):
    shutil.copy(made_once, tmp_path)
    shutil.copytree(f"{made_once}.files", tmp_path / f"{made_once.name}.files")
    with open_storage(tmp_path / made_once.name, patience=0.2) as storage:
        yield storage


@pytest.fixture
def store(storage):
    return storage.load("scans")
