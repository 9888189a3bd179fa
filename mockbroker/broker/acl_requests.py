"""The ACLs and filters in requests, and the errors for ACLs and filters that are not valid.

Source: Kafka's CreateAclsRequest, DeleteAclsRequest, AclApis and AclControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kwire import ErrorCode
from kwire.messages.create_acls import CreateAclsRequest
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.texts import shortened
from mockbroker.broker.broker import Broker
from mockbroker.security.acl import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType

NO_AUTHORIZER = "No Authorizer is configured."
MAX_TEXT = 1_000  # maximum characters of a resource name, principal or host; Kafka has no limit
UNKNOWN = 0  # in each enumeration; a Kafka broker closes the connection of a request that contains it
CLOSED = "the request contains UNKNOWN elements, as resource type, pattern type, operation or permission"

_RESOURCES, _PATTERNS = frozenset(map(int, ResourceType)), frozenset(map(int, PatternType))
_OPERATIONS, _PERMISSIONS = frozenset(map(int, Operation)), frozenset(map(int, Permission))

AclError = tuple[ErrorCode, str]


def begin_with_authorizer(
    broker: Broker, call: Call[Any], steps: Steps, refused: Callable[[ErrorCode, str], Any]
) -> Effects:
    """Do the first slice of an ACL request. If the cluster has no authorizer, respond with an error instead.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        steps: Generator that handles the request in slices (parts of limited size); the router handles other requests
            between two slices.
        refused: Function that returns the response for an error code and an error message.

    Returns: the effects, such as responses; they include the remaining work if slices remain.
    """
    if broker.authorizer is None:
        return [Reply(call.ticket, refused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))]
    return begin(call.ticket, steps)


class FilterFields(Protocol):
    """The fields of a filter: a DescribeAclsRequest, or a filter of a DeleteAclsRequest."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def acl_of(creation: CreateAclsRequest.Creation) -> Acl:
    """Return the ACL that an element of a CreateAcls request (``creation``) describes."""
    return Acl(
        creation.resource_type,
        creation.resource_pattern_type,
        creation.resource_name,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def filter_of(fields: FilterFields) -> AclFilter:
    """Return the ACL filter that the fields of a DescribeAcls or DeleteAcls request describe."""
    return AclFilter(
        fields.resource_type_filter,
        fields.pattern_type_filter,
        fields.resource_name_filter,
        fields.principal_filter,
        fields.host_filter,
        fields.operation,
        fields.permission_type,
    )


def has_unknown(elements: Iterable[Acl | AclFilter]) -> bool:
    """Return whether a field of an ACL or filter has the value UNKNOWN.

    The checked fields are the resource type, the pattern type, the operation and the permission.
    """
    return any(UNKNOWN in (each.resource_type, each.pattern_type, each.operation, each.permission) for each in elements)


def is_pattern(acl: Acl) -> bool:
    """Return whether a field of an ACL has a value that is allowed only in filters, such as ANY."""
    return (
        acl.resource_type == ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation == Operation.ANY
        or acl.permission == Permission.ANY
    )


def acl_error(acl: Acl) -> AclError | None:
    """Validate an ACL that a CreateAcls request creates.

    Returns: the error code and the error message; None if the ACL is valid.
    """
    text = _problem(acl)
    return None if text is None else (ErrorCode.INVALID_REQUEST, text)


def _problem(acl: Acl) -> str | None:
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    for value, known, what in (
        (acl.resource_type, _RESOURCES, "resourceType"),
        (acl.pattern_type, _PATTERNS, "patternType"),
        (acl.operation, _OPERATIONS, "operation"),
        (acl.permission, _PERMISSIONS, "permissionType"),
    ):
        if value not in known:
            return f"Invalid {what} UNKNOWN"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{shortened(acl.principal)}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    for name, text in (("resource name", acl.name), ("principal", acl.principal), ("host", acl.host)):
        if len(text) > MAX_TEXT:
            return f"the {name} has {len(text)} characters (limit: {MAX_TEXT}): use a shorter one"
    return None


def filter_error(acl_filter: AclFilter) -> AclError | None:
    """Validate a filter (``acl_filter``) of a DeleteAcls request.

    Returns: the error code and the error message; None if the filter is valid.
    """
    if acl_filter.resource_type not in _RESOURCES or acl_filter.pattern_type not in _PATTERNS:
        return ErrorCode.INVALID_REQUEST, "Unknown patternFilter."
    if acl_filter.operation not in _OPERATIONS or acl_filter.permission not in _PERMISSIONS:
        return ErrorCode.INVALID_REQUEST, "Unknown entryFilter."
    return None
