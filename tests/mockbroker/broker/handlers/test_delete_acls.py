"""DeleteAcls."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.delete_acls import DeleteAclsRequest
from mockbroker.broker.handlers.delete_acls import MAX_FILTERS


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_security_is_disabled(version, count):
    filters = [DeleteAclsRequest.Filter(resource_type_filter=2)] * count
    response = BrokerHarness().ask(DeleteAclsRequest(filters=filters), version)
    assert [(each.error_code, each.matching_acls) for each in response.filter_results] == [
        (E.SECURITY_DISABLED, [])
    ] * count


def test_number_of_filters_is_limited() -> None:
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    filters = [DeleteAclsRequest.Filter(resource_type_filter=1, operation=1, permission_type=1)] * (MAX_FILTERS + 1)
    response = BrokerHarness(config=config).ask(DeleteAclsRequest(filters=filters), 3)
    assert {each.error_code for each in response.filter_results} == {E.INVALID_REQUEST}
    expected = f"the request has {len(filters)} filters (limit: {MAX_FILTERS}): use several requests"
    assert response.filter_results[0].error_message == expected
