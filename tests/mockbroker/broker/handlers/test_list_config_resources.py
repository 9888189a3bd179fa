"""ListConfigResources."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.list_config_resources import ListConfigResourcesRequest

TOPICS = [("__consumer_offsets", 2), ("t", 2)]
BROKERS, LOGGERS = [("0", 4), ("1", 4)], [("0", 8), ("1", 8)]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [([], TOPICS + BROKERS + LOGGERS), ([2], TOPICS), ([4], BROKERS), ([8, 4], BROKERS + LOGGERS), ([16, 32], [])],
)
def test_resources_by_type(kinds, expected):
    response = BrokerHarness(brokers=2).ask(ListConfigResourcesRequest(resource_types=kinds), 1)
    assert [(each.resource_name, each.resource_type) for each in response.config_resources] == expected


def test_v0_lists_client_metrics():
    assert BrokerHarness().ask(ListConfigResourcesRequest(), 0).config_resources == []


@pytest.mark.parametrize("kind", [0, 1, 3, 99])
def test_unknown_resource_type(kind):
    response = BrokerHarness().ask(ListConfigResourcesRequest(resource_types=[2, kind]), 1)
    assert (response.error_code, response.config_resources) == (E.UNSUPPORTED_VERSION, [])
