"""ACLs, and the filters of DescribeAcls and DeleteAcls. Source: Kafka's AclBinding and AclBindingFilter."""

from __future__ import annotations

from enum import IntEnum

from kwire.lazy_dataclass import dataclass

WILDCARD = "*"  # every resource name, or every host
WILDCARD_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"  # the only name of a cluster resource


class ResourceType(IntEnum):
    """A type of resource that ACLs protect, such as TOPIC. The values are Kafka's numbers.

    Only filters use ANY, which matches every type.
    """

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The pattern type of an ACL or of a filter. It determines how resource names are compared.

    Attributes:
        ANY: only in filters: every pattern type.
        MATCH: only in filters: all ACLs that apply to a resource name.
        LITERAL: the name of one resource, or WILDCARD for all names.
        PREFIXED: all names that begin with the name in the ACL.
    """

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation that an ACL can allow or deny, such as READ; ALL means every operation. The values are Kafka's
    numbers.

    Only filters use ANY, which matches every operation. Source: Kafka's AclOperation.
    """

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """The permission of an ACL: whether it allows or denies its operation. The values are Kafka's numbers.

    Only filters use ANY, which matches both permissions. Source: Kafka's AclPermissionType.
    """

    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL. The numbers are values of the enumerations in this module.

    Attributes:
        resource_type: type of the resource, a ResourceType.
        pattern_type: LITERAL or PREFIXED.
        name: name of the resource with LITERAL, prefix of the name with PREFIXED. WILDCARD with LITERAL means every
            name.
        principal: the principal, such as ``User:alice``; WILDCARD_PRINCIPAL means every user.
        host: address of the client; WILDCARD means every address.
        operation: the operation, an Operation; ALL means every operation.
        permission: ALLOW or DENY.
    """

    resource_type: int
    pattern_type: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs, as in DescribeAcls and DeleteAcls. A field with the number ANY or the value None matches every
    ACL.

    Attributes:
        resource_type: type of the resource, a ResourceType.
        pattern_type: LITERAL or PREFIXED for ACLs with this pattern type and exactly ``name``; MATCH for all ACLs that
            apply to the resource ``name``.
        name: name of the resource. For PREFIXED, the prefix in the ACL.
        principal: principal in the ACL.
        host: host in the ACL.
        operation: operation in the ACL, an Operation.
        permission: permission in the ACL, ALLOW or DENY.
    """

    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter selects an ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)
