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
    asked = DescribeClientQuotasRequest(components=[Component(entity_type=kind, match_type=2)])
    found = BrokerHarness().ask(asked, version)
    assert (found.error_code, found.entries) == (E.NONE, [])


def test_unknown_entity_type():
    asked = DescribeClientQuotasRequest(components=[Component(entity_type="group", match_type=2)])
    found = BrokerHarness().ask(asked, 1)
    assert (found.error_code, found.entries) == (E.UNSUPPORTED_VERSION, None)
