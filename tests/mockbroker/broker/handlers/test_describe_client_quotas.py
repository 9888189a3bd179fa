"""DescribeClientQuotas."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest

Component = DescribeClientQuotasRequest.Component


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("kind", ["user", "client-id", "ip"])
def test_no_quotas(version, kind):
    request = DescribeClientQuotasRequest(components=[Component(entity_type=kind, match_type=2)])
    response = BrokerHarness().ask(request, version)
    assert (response.error_code, response.entries) == (E.NONE, [])


def test_unknown_entity_type():
    request = DescribeClientQuotasRequest(components=[Component(entity_type="group", match_type=2)])
    response = BrokerHarness().ask(request, 1)
    assert (response.error_code, response.entries) == (E.UNSUPPORTED_VERSION, None)
