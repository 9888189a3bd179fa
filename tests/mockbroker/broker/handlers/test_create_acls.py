"""CreateAcls."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.create_acls import CreateAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_security_is_disabled(version, count):
    creations = [CreateAclsRequest.Creation(resource_type=2, resource_name="t", principal="User:x", host="*")] * count
    response = BrokerHarness().ask(CreateAclsRequest(creations=creations), version)
    assert [each.error_code for each in response.results] == [E.SECURITY_DISABLED] * count
