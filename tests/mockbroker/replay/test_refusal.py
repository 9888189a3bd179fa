from __future__ import annotations

from typing import Any

import pytest

from kwire import encode
from kwire.json.expanded import error_of
from kwire.messages import APIS
from mockbroker.replay.refusal import REFUSED, refusal

WHOLE = ["Heartbeat", "JoinGroup", "SyncGroup", "FindCoordinator", "InitProducerId", "ListGroups", "ApiVersions"]


@pytest.mark.parametrize("name", WHOLE)
def test_a_refusal_is_an_error_of_the_whole_request(name: str) -> None:
    api = next(api for api in APIS.values() if api.name == name)
    version = api.versions.last
    assert version is not None
    request: Any = api.request()
    if name == "FindCoordinator":
        request.coordinator_keys = ["g"]
    response = refusal(request, version)
    assert response is not None
    assert error_of(response, version) == REFUSED
    encode(response, version)


def test_a_request_without_an_error_field_has_no_refusal() -> None:
    assert refusal(APIS[3].request(), 9) is None
