"""Requests that the OpenAPI allows, and many that it does not, made up by schemathesis: every answer is as declared."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from web_parts import House, written

from discreet.web.access import Attempts

pytestmark = pytest.mark.thorough

SLOW = ("/certificate", "/report", "/verification", "/train", "/exposures", "/exposures.csv")
"""Seconds each, or, of exposures, with ids of records: who may see them is tried here, what they say elsewhere."""


def test_answers_are_as_declared(tmp_path):
    house = House(written(tmp_path, size=40, initial=30), names=frozenset({"127.0.0.1", "localhost", "testserver"}))
    house.campaign.due()
    schema = schemathesis.openapi.from_dict(house.app.openapi())
    schema.app = house.app
    met = {}

    def check(case, token):
        house.app.state.attempts = Attempts()  # each case tries wrong tokens, too
        response = case.call(
            headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"}, base_url="http://127.0.0.1"
        )
        met.setdefault(f"{case.method} {case.path}", set()).add(response.status_code)
        assert response.status_code < 500
        assert "record-" not in response.text
        case.validate_response(response)

    for found in schema.get_all_operations():
        operation = found.ok()
        who = "ada" if operation.path.endswith(SLOW) else "olga"
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            _tried(operation.as_strategy(generation_mode=mode), lambda case, who=who: check(case, house.tokens[who]))
    assert len(met) == len(list(schema.get_all_operations())) >= 10
    assert {200, 422} <= met["POST /api/v1/undo"]
    assert {404, 422} <= met["POST /api/v1/questions/{question}/answer"]
    assert met["GET /api/v1/owner/report"] <= {401, 403, 405}
    assert house.campaign.store.answers() == []


def _tried(cases, check):
    @settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def run(case):
        check(case)

    run()
