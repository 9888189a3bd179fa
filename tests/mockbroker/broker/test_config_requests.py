"""The division of large requests for many resources."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire.messages.alter_configs import AlterConfigsRequest
from mockbroker.broker.config_requests import split

Resource = AlterConfigsRequest.Resource


@pytest.mark.parametrize(
    ("names", "parts"),
    [("abcde", ["ab", "cd", "e"]), ("ab", []), ("abca", [])],
    ids=["large", "small", "a resource twice"],
)
def test_resources_are_divided(names: str, parts: list[str]) -> None:
    harness = BrokerHarness()
    harness.broker.slice_size = 2
    request = AlterConfigsRequest(resources=[Resource(resource_type=2, resource_name=name) for name in names])
    slices = split(harness.broker, request)
    assert ["".join(resource.resource_name for resource in part.resources) for part in slices] == parts


def test_resource_is_its_type_and_name() -> None:
    harness = BrokerHarness()
    harness.broker.slice_size = 1
    resources = [Resource(resource_type=kind, resource_name="a") for kind in (2, 4)]
    assert len(split(harness.broker, AlterConfigsRequest(resources=resources))) == 2
