"""DeleteAcls."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.delete_acls import DeleteAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_security_is_disabled(version, count):
    asked = [DeleteAclsRequest.Filter(resource_type_filter=2)] * count
    found = BrokerHarness().ask(DeleteAclsRequest(filters=asked), version)
    assert [(each.error_code, each.matching_acls) for each in found.filter_results] == [
        (E.SECURITY_DISABLED, [])
    ] * count
