"""DescribeAcls."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_acls import DescribeAclsRequest
from mockbroker.lab.conform.foreign import EVERY_ACL
from mockbroker.security.acl import Acl


@pytest.mark.parametrize("version", [1, 2, 3])
def test_security_is_disabled(version):
    response = BrokerHarness().ask(DescribeAclsRequest(resource_type_filter=2, operation=1, permission_type=1), version)
    assert (response.error_code, response.resources) == (E.SECURITY_DISABLED, [])
    assert "Authorizer" in response.error_message


def test_large_response_closes_the_connection() -> None:
    limit = {"mockbroker.response.max.bytes": 10_000}
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    harness = BrokerHarness(config=authorizer | limit)
    request = DescribeAclsRequest(**EVERY_ACL)
    acls = [Acl(2, 3, "x" * 100, f"User:{number}", "*", 3, 3) for number in range(200)]
    harness.broker.cluster.acls.add(acls[:10])
    assert len(harness.ask(request, 3).resources[0].acls) == 10
    harness.broker.cluster.acls.add(acls)
    assert "mockbroker.response.max.bytes" in (harness.send(request, 3).closed or "")
