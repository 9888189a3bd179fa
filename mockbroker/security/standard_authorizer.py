"""The decisions of Kafka's StandardAuthorizer: super users, DENY before ALLOW, and implied operations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mockbroker.base.settings import Settings
from mockbroker.security.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from mockbroker.security.acls import Acls

MAX_CLIENTS = 10_000  # principals at one address whose decisions are cached
MAX_DECISIONS = 200_000  # cached decisions of all of them
_ALL, _DENY = int(Operation.ALL), int(Permission.DENY)
# Operations that an ACL must allow, if not the operation itself: an allowed one implies it.
_IMPLIED_BY: Mapping[int, frozenset[int]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}


class StandardAuthorizer:
    """The authorizer of a cluster, with the rules of Kafka's StandardAuthorizer.

    Args:
        acls: the ACLs of the cluster.
        super_users: principals that are allowed everything (``super.users``).
        everyone_without_acl: whether all clients may use a resource without a matching ACL
            (``allow.everyone.if.no.acl.found``).

    Attributes:
        decided: number of cached decisions, about all clients.
    """

    def __init__(self, acls: Acls, super_users: Iterable[str], *, everyone_without_acl: bool) -> None:
        self.acls = acls
        self.super_users = frozenset(super_users)
        self.everyone_without_acl = everyone_without_acl
        self.decided = 0
        self._access: dict[tuple[str, str], Access] = {}

    @classmethod
    def configured(cls, settings: Settings, acls: Acls) -> StandardAuthorizer | None:
        """Return the authorizer that the settings configure; None if ``authorizer.class.name`` is empty."""
        if not settings.authorizer_class_name:
            return None
        super_users = (name.strip() for name in settings.super_users.split(";"))
        everyone = settings.allow_everyone_if_no_acl_found
        return cls(acls, filter(None, super_users), everyone_without_acl=everyone)

    def access_of(self, principal: str, host: str) -> Access:
        """Return the permissions of a client. All connections with the same principal and address share the object.

        Args:
            principal: the principal, such as ``User:alice``.
            host: address of the client, without port.
        """
        access = self._access.get((principal, host))
        if access is None:
            if len(self._access) >= MAX_CLIENTS:
                self.forget_decisions()
                self._access.clear()
            access = self._access[principal, host] = Access(self, principal, host)
        return access

    def forget_decisions(self) -> None:
        """Clear the cached decisions about all clients."""
        self.decided = 0
        for access in self._access.values():
            access.forget_decisions()


class Access:
    """The permissions of a principal at one address. Decisions are cached until the ACLs change.

    Args:
        authorizer: the authorizer that decides.
        principal: the principal, such as ``User:alice``.
        host: address of the client, without port.

    Attributes:
        is_super_user: whether the principal is in ``super.users`` and therefore allowed everything.
    """

    __slots__ = ("_acls", "_authorizer", "_decisions", "_host", "_principal", "_version", "is_super_user")

    def __init__(self, authorizer: StandardAuthorizer, principal: str, host: str) -> None:
        self._authorizer, self._acls = authorizer, authorizer.acls
        self._principal, self._host = principal, host
        self.is_super_user = principal in authorizer.super_users
        self._version = -1
        self._decisions: dict[tuple[int, int, str], bool] = {}

    def allows(self, operation: int, resource_type: int, name: str) -> bool:
        """Return whether an operation on a resource is allowed.

        Args:
            operation: the operation, an Operation.
            resource_type: type of the resource, a ResourceType.
            name: name of the resource.
        """
        if self.is_super_user:
            return True
        decisions = self._decisions
        if self._version != self._acls.version:
            decisions.clear()
            self._version = self._acls.version
        key = (operation, resource_type, name)
        decision = decisions.get(key)
        if decision is None:
            if self._authorizer.decided >= MAX_DECISIONS:
                self._authorizer.forget_decisions()
            self._authorizer.decided += 1
            decision = decisions[key] = self._decide(operation, resource_type, name)
        return decision

    def forget_decisions(self) -> None:
        """Clear the cached decisions about this principal and address."""
        self._decisions.clear()

    def _decide(self, operation: int, resource_type: int, name: str) -> bool:
        has_acls = allowed = False
        implied_by = _IMPLIED_BY.get(operation, frozenset())
        for acl in self._acls.matching(resource_type, name):
            has_acls = True
            if not self._is_subject_of(acl):
                continue
            if acl.permission == _DENY:
                if acl.operation in (operation, _ALL):
                    return False
            elif acl.operation in (operation, _ALL) or acl.operation in implied_by:
                allowed = True
        return allowed or (not has_acls and self._authorizer.everyone_without_acl)

    def allows_any(self, operation: int, resource_type: int) -> bool:
        """Return whether the client may perform an operation on at least one possible name of a resource type.

        A resource with this name need not exist. Source: Kafka's Authorizer.authorizeByResourceType, which ignores
        implied operations.

        Args:
            operation: the operation, an Operation.
            resource_type: type of the resource, a ResourceType.
        """
        if self.allows(operation, resource_type, "hardcode"):  # as Kafka, for super users
            return True
        acls = [
            acl
            for acl in self._acls.of_type(resource_type)
            if self._is_subject_of(acl) and acl.operation in (operation, _ALL)
        ]
        denied = {(acl.pattern_type, acl.name) for acl in acls if acl.permission == _DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(acl.permission != _DENY and not _is_dominated(acl, denied) for acl in acls)

    def operations(self, resource_type: int, name: str, supported: int) -> int:
        """Return the allowed operations on a resource as bits, as in the field ``authorized_operations``.

        Args:
            resource_type: type of the resource, a ResourceType.
            name: name of the resource.
            supported: the operations to check, as bits: bit n is the operation with Kafka's number n.
        """
        return sum(
            1 << operation
            for operation in range(Operation.READ, supported.bit_length())
            if supported >> operation & 1 and self.allows(operation, resource_type, name)
        )

    def _is_subject_of(self, acl: Acl) -> bool:
        return acl.principal in (self._principal, WILDCARD_PRINCIPAL) and acl.host in (self._host, WILDCARD)


def _is_dominated(acl: Acl, denied: Collection[tuple[int, str]]) -> bool:
    """Return whether a single DENY pattern covers every resource name to which an ALLOW ACL applies.

    The caller must have excluded a DENY ACL for every name (WILDCARD).

    Args:
        acl: the ACL, which allows an operation.
        denied: pattern type and name of each ACL that denies the same operation.
    """
    if acl.pattern_type == PatternType.LITERAL:
        if acl.name == WILDCARD:
            return False
        if (PatternType.LITERAL, acl.name) in denied:
            return True
    return any((PatternType.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1))


def bits(*operations: Operation) -> int:
    """Return operations as bits, as in the field ``authorized_operations``: bit n is the operation with Kafka's number
    n.
    """
    return sum(1 << operation for operation in operations)


# The operations of each resource type. Source: Kafka's AclEntry.
_O = Operation
_CONFIGS = _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS
SUPPORTED: Mapping[int, int] = {
    ResourceType.TOPIC: bits(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, *_CONFIGS),
    ResourceType.GROUP: bits(_O.READ, _O.DELETE, _O.DESCRIBE, *_CONFIGS),
    ResourceType.CLUSTER: bits(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.IDEMPOTENT_WRITE, *_CONFIGS),
}
