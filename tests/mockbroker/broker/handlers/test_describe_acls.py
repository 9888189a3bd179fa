"""DescribeAcls."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_acls import DescribeAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
def test_security_is_disabled(version):
    response = BrokerHarness().ask(DescribeAclsRequest(resource_type_filter=2, operation=1, permission_type=1), version)
    assert (response.error_code, response.resources) == (E.SECURITY_DISABLED, [])
    assert "Authorizer" in response.error_message
