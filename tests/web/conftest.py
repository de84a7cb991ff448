import pytest
from web_parts import House, written


@pytest.fixture
def house(tmp_path):
    """Pictures, eight questions asked."""
    made = House(written(tmp_path))
    made.campaign.due()
    return made
