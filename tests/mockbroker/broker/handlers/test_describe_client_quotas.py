"""DescribeClientQuotas."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest
from mockbroker.quotas.entity import DEFAULT, Entity

Component = DescribeClientQuotasRequest.Component


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("kind", ["user", "client-id", "ip"])
def test_no_quotas(version, kind):
    request = DescribeClientQuotasRequest(components=[Component(entity_type=kind, match_type=2, match=None)])
    response = BrokerHarness().ask(request, version)
    assert (response.error_code, response.entries) == (E.NONE, [])


def test_unknown_entity_type():
    request = DescribeClientQuotasRequest(components=[Component(entity_type="group", match_type=2, match=None)])
    response = BrokerHarness().ask(request, 1)
    assert (response.error_code, response.entries) == (E.UNSUPPORTED_VERSION, None)


def test_quotas_that_match():
    harness = BrokerHarness()
    harness.broker.quotas.alter(Entity("ann", DEFAULT), {"producer_byte_rate": 5.0}, validate_only=False)
    harness.broker.quotas.alter(Entity(ip="::1"), {"connection_creation_rate": 1.0}, validate_only=False)
    parts = [
        Component(entity_type="user", match_type=0, match="ann"),
        Component(entity_type="client-id", match_type=1, match=None),
    ]
    (entry,) = harness.ask(DescribeClientQuotasRequest(components=parts, strict=True), 1).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("client-id", None), ("user", "ann")]
    assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 5.0)]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([Component(entity_type="", match_type=2, match=None)], "Invalid empty entity type."),
        (
            [Component(entity_type="user", match_type=2, match="ann")],
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
    ],
    ids=["no type", "a name"],
)
def test_invalid_filter_is_refused(parts, message):
    response = BrokerHarness().ask(DescribeClientQuotasRequest(components=parts), 1)
    assert (response.error_code, response.error_message) == (E.INVALID_REQUEST, message)
