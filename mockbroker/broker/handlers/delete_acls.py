"""The handler of DeleteAcls v0-3. The number of filters in a request is limited.

Without an authorizer, the broker responds with SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from kwire import ErrorCode
from kwire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from mockbroker.base.effects import Call, Close, Effects, Reply, Steps
from mockbroker.base.response_limit import Room
from mockbroker.broker import acl_requests
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.security.acl import Acl, AclFilter

Result = DeleteAclsResponse.FilterResult
MAX_FILTERS = 1_000  # of a request: each is compared with all ACLs
ACL = 40  # approximate bytes of an ACL in a response, without its texts


def handle(broker: Broker, call: Call[DeleteAclsRequest], now: float) -> Effects:  # noqa: ARG001
    return acl_requests.begin_with_authorizer(broker, call, _delete(broker, call), partial(_refused, call))


def _refused(call: Call[DeleteAclsRequest], code: ErrorCode, text: str) -> DeleteAclsResponse:
    result = Result(error_code=code, error_message=text)
    return DeleteAclsResponse(filter_results=[result for _ in call.request.filters])


def _delete(broker: Broker, call: Call[DeleteAclsRequest]) -> Steps:
    """Find the ACLs of all filters, then delete the ACLs. If two filters match an ACL, it is in the results of both.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    If a field of one filter has the value UNKNOWN, the connection is closed. A request with more than MAX_FILTERS
    filters gets an error.
    """
    filters = [acl_requests.filter_of(each) for each in call.request.filters]
    if acl_requests.has_unknown(filters):
        return [Close(call.ticket, f"DeleteAcls: {acl_requests.CLOSED}")]
    if len(filters) > MAX_FILTERS:
        text = f"the request has {len(filters)} filters (limit: {MAX_FILTERS}): use several requests"
        return [Reply(call.ticket, _refused(call, ErrorCode.INVALID_REQUEST, text))]
    room = broker.response_room()
    deleted: dict[Acl, None] = {}
    results: list[Result] = []
    for acl_filter in filters:
        if error := acl_requests.filter_error(acl_filter):
            results.append(Result(error_code=error[0], error_message=error[1]))
            continue
        matching = yield from _matching(broker, acl_filter, room)
        deleted |= dict.fromkeys(matching)
        results.append(Result(error_message=None, matching_acls=[_described(acl) for acl in matching]))
    if deleted:
        broker.cluster.acls.remove(deleted)
        broker.cluster.changed()
    return [Reply(call.ticket, DeleteAclsResponse(filter_results=results))]


def _matching(broker: Broker, acl_filter: AclFilter, room: Room) -> Generator[Effects, float, list[Acl]]:
    """Return the ACLs that match a filter.

    After each slice (part of limited size) of the ACLs, the generator yields [] (no effects), so that the router
    handles other requests.

    Args:
        broker: The state of the cluster.
        acl_filter: The filter.
        room: Counter of the size of the response. The sizes of the ACLs are added to it.

    Raises: ResponseTooLargeError if the response would be too large.
    """
    matching: list[Acl] = []
    for chunk in chunks(list(broker.cluster.acls), broker.slice_size):
        selected = list(filter(acl_filter.matches, chunk))
        matching += selected
        room.reserve(sum(ACL + len(acl.name) + len(acl.principal) + len(acl.host) for acl in selected))
        if len(chunk) == broker.slice_size:
            yield []
    return matching


def _described(acl: Acl) -> Result.MatchingAcl:
    return Result.MatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
