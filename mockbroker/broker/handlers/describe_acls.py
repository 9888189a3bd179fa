"""The handler of DescribeAcls v0-3. Without an authorizer, the broker responds with SECURITY_DISABLED."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from mockbroker.base.effects import Call, Close, Effects, Reply, Steps, begin
from mockbroker.broker import acl_requests
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks

TEXT = "No Authorizer is configured on the broker"
Resource = DescribeAclsResponse.Resource
ACL = 30  # approximate bytes of an ACL in a response, without its texts


def handle(broker: Broker, call: Call[DescribeAclsRequest], now: float) -> Effects:  # noqa: ARG001
    if broker.authorizer is None:
        return [Reply(call.ticket, DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=TEXT))]
    return begin(call.ticket, _describe(broker, call))


def _describe(broker: Broker, call: Call[DescribeAclsRequest]) -> Steps:
    acl_filter = acl_requests.filter_of(call.request)
    if acl_requests.has_unknown([acl_filter]):
        return [Close(call.ticket, f"DescribeAcls: {acl_requests.CLOSED}")]
    room = broker.response_room()
    resources: dict[tuple[int, int, str], Resource] = {}
    for number, chunk in enumerate(chunks(list(broker.cluster.acls), broker.slice_size)):
        if number:
            yield []
        for acl in filter(acl_filter.matches, chunk):
            room.reserve(ACL + len(acl.name) + len(acl.principal) + len(acl.host))
            pattern = acl.resource_type, acl.pattern_type, acl.name
            if pattern not in resources:
                resources[pattern] = Resource(
                    resource_type=acl.resource_type, resource_name=acl.name, pattern_type=acl.pattern_type
                )
            described = Resource.Acl(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            resources[pattern].acls.append(described)
    return [Reply(call.ticket, DescribeAclsResponse(error_message="", resources=list(resources.values())))]
