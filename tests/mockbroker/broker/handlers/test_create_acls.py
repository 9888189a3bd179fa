"""CreateAcls: limits that Kafka does not have, and brokers without an authorizer. Conversations have other cases."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.create_acls import CreateAclsRequest
from mockbroker.broker.acl_requests import MAX_TEXT

STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def creation(name: str = "t", principal: str = "User:x", host: str = "*") -> CreateAclsRequest.Creation:
    return CreateAclsRequest.Creation(
        resource_type=2, resource_name=name, principal=principal, host=host, operation=3, permission_type=3
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_security_is_disabled(version: int, count: int) -> None:
    response = BrokerHarness().ask(CreateAclsRequest(creations=[creation()] * count), version)
    assert [each.error_code for each in response.results] == [E.SECURITY_DISABLED] * count


@pytest.mark.parametrize("version", [1, 2, 3])
def test_repeated_acls_are_created_once(version: int) -> None:
    harness = BrokerHarness(config=STANDARD)
    for _ in range(2):
        response = harness.ask(CreateAclsRequest(creations=[creation(), creation()]), version)
        assert [each.error_code for each in response.results] == [E.NONE] * 2
    assert len(harness.broker.cluster.acls) == 1


def test_number_of_acls_is_limited() -> None:
    harness = BrokerHarness(config=STANDARD | {"mockbroker.max.acls": 2})
    assert not harness.ask(CreateAclsRequest(creations=[creation("a")]), 3).results[0].error_code
    results = harness.ask(CreateAclsRequest(creations=[creation("a"), creation("b"), creation("c")]), 3).results
    assert [each.error_code for each in results] == [E.NONE, E.POLICY_VIOLATION, E.POLICY_VIOLATION]
    assert results[1].error_message == "the cluster would have 3 ACLs (limit: 2): raise mockbroker.max.acls"
    assert not harness.ask(CreateAclsRequest(creations=[creation("b")]), 3).results[0].error_code


@pytest.mark.parametrize("field", ["resource name", "principal", "host"])
def test_length_of_names_is_limited(field: str) -> None:
    long = "User:" + "x" * MAX_TEXT
    acl = creation(**{{"resource name": "name"}.get(field, field): long})
    (result,) = BrokerHarness(config=STANDARD).ask(CreateAclsRequest(creations=[acl]), 3).results
    assert result.error_code == E.INVALID_REQUEST
    assert result.error_message == f"the {field} has {len(long)} characters (limit: {MAX_TEXT}): use a shorter one"


def test_many_acls_are_created_in_slices() -> None:
    harness = BrokerHarness(config=STANDARD)
    creations = [creation(f"t-{number}") for number in range(2_500)]
    response = harness.ask(CreateAclsRequest(creations=creations), 3)
    assert {each.error_code for each in response.results} == {E.NONE}
    assert len(harness.broker.cluster.acls) == len(response.results) == 2_500
