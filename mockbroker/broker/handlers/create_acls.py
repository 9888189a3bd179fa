"""The handler of CreateAcls v0-3. Without an authorizer, each ACL gets SECURITY_DISABLED.

If the cluster would have more than ``mockbroker.max.acls``, the new ACLs get POLICY_VIOLATION.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire import ErrorCode
from kwire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from mockbroker.base.effects import Call, Close, Effects, Reply, Steps
from mockbroker.broker import acl_requests
from mockbroker.broker.acl_requests import AclError
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.security.acl import Acl

Result = CreateAclsResponse.Result


def handle(broker: Broker, call: Call[CreateAclsRequest], now: float) -> Effects:  # noqa: ARG001
    def refused(code: ErrorCode, text: str) -> CreateAclsResponse:
        result = Result(error_code=code, error_message=text)
        return CreateAclsResponse(results=[result for _ in call.request.creations])

    return acl_requests.begin_with_authorizer(broker, call, _create(broker, call), refused)


def _create(broker: Broker, call: Call[CreateAclsRequest]) -> Steps:
    """Create the valid ACLs.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    If a field of one ACL has a value that is allowed only in filters, such as ANY, all ACLs of the request get an
    error.

    If a field of one ACL has the value UNKNOWN, the connection is closed.
    """
    acls = [acl_requests.acl_of(creation) for creation in call.request.creations]
    if acl_requests.has_unknown(acls):
        return [Close(call.ticket, f"CreateAcls: {acl_requests.CLOSED}")]
    if any(map(acl_requests.is_pattern, acls)):
        failed = Result(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None)
        return [Reply(call.ticket, CreateAclsResponse(results=[failed for _ in acls]))]
    results: list[Result] = []
    for number, chunk in enumerate(chunks(acls, broker.slice_size)):
        if number:
            yield []
        errors = [acl_requests.acl_error(acl) for acl in chunk]
        results += _add(broker, chunk, errors)
    return [Reply(call.ticket, CreateAclsResponse(results=results))]


def _add(broker: Broker, acls: Sequence[Acl], errors: list[AclError | None]) -> list[Result]:
    """Add the ACLs that have no error, and return a result for every ACL.

    If the cluster would have more than ``mockbroker.max.acls``, no ACL is added, and each new ACL gets
    POLICY_VIOLATION.

    Args:
        broker: the state of the cluster.
        acls: the ACLs of the request.
        errors: the error of each ACL; None for a valid ACL.
    """
    stored, limit = broker.cluster.acls, broker.settings.mockbroker_max_acls
    new = {acl for acl, error in zip(acls, errors, strict=True) if error is None and acl not in stored}
    room = limit - len(stored)
    if len(new) > room:
        text = f"the cluster would have {len(stored) + len(new)} ACLs (limit: {limit}): raise mockbroker.max.acls"
        errors = [
            (ErrorCode.POLICY_VIOLATION, text) if acl in new else error for acl, error in zip(acls, errors, strict=True)
        ]
    elif new:
        stored.add(acl for acl in acls if acl in new)
        broker.cluster.changed()
    return [
        Result(error_message="") if error is None else Result(error_code=error[0], error_message=error[1])
        for error in errors
    ]
