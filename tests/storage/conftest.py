import pytest

from discreet.records import Question
from discreet.storage import open_storage


@pytest.fixture
def storage(tmp_path):
    with open_storage(tmp_path / "scan.db", patience=0.2) as storage:
        yield storage


@pytest.fixture
def store(storage):
    """Four records, three of them asked about."""
    store = storage.create("scans", config={}, simulation=True)
    store.add_records((f"record-{number}", b"code") for number in range(4))
    store.publish(0, [Question(id=f"q{place}", record=f"record-{place}", phase=0, place=place) for place in range(3)])
    return store
