"""DeleteAcls."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.delete_acls import DeleteAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_security_is_disabled(version, count):
    filters = [DeleteAclsRequest.Filter(resource_type_filter=2)] * count
    response = BrokerHarness().ask(DeleteAclsRequest(filters=filters), version)
    assert [(each.error_code, each.matching_acls) for each in response.filter_results] == [
        (E.SECURITY_DISABLED, [])
    ] * count
