from __future__ import annotations

import golden
import pytest

from kwire.headers import request_header_version, response_header_version
from kwire.messages import APIS, MODULES


@pytest.mark.parametrize("stem", MODULES.values())
def test_header_version_is_kafkas(stem: str) -> None:
    for line in golden.frames("fixtures", stem, "request"):
        assert request_header_version(APIS[line["api_key"]], line["api_version"]) == line["header_version"]
    for line in golden.frames("fixtures", stem, "response"):
        assert response_header_version(APIS[line["api_key"]], line["api_version"]) == line["header_version"]


def test_controlled_shutdown_alone_has_a_request_header_of_v0() -> None:
    assert [request_header_version(APIS[7], version) for version in range(4)] == [0, 1, 1, 2]
    assert [key for key in APIS if request_header_version(APIS[key], 0) == 0] == [7]


def test_only_api_versions_keeps_response_header_v0() -> None:
    assert [response_header_version(APIS[18], version) for version in range(5)] == [0, 0, 0, 0, 0]
    assert [response_header_version(APIS[12], version) for version in range(5)] == [0, 0, 0, 0, 1]
