"""The ACLs that a filter selects. Source: Kafka's ResourcePatternFilter and AccessControlEntryFilter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mockbroker.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

LITERAL, PREFIXED, ANY, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH
ALL = AclFilter(ResourceType.ANY, ANY, None, None, None, Operation.ANY, Permission.ANY)


def acl(pattern: PatternType, name: str) -> Acl:
    return Acl(ResourceType.TOPIC, pattern, name, "User:alice", "*", Operation.READ, Permission.ALLOW)


NAMES = [  # pattern type and name of the filter, pattern of the ACL, whether it is selected
    (ANY, None, acl(LITERAL, "orders"), True),
    (ANY, "orders", acl(LITERAL, "orders"), True),
    (ANY, "orders", acl(PREFIXED, "orders"), True),
    (ANY, "orders", acl(LITERAL, "*"), False),
    (ANY, "orders", acl(PREFIXED, "ord"), False),
    (LITERAL, "orders", acl(LITERAL, "orders"), True),
    (LITERAL, "orders", acl(PREFIXED, "orders"), False),
    (LITERAL, None, acl(PREFIXED, "orders"), False),
    (PREFIXED, "orders", acl(PREFIXED, "orders"), True),
    (PREFIXED, "orders", acl(PREFIXED, "ord"), False),
    (MATCH, "orders", acl(LITERAL, "orders"), True),
    (MATCH, "orders", acl(LITERAL, "*"), True),
    (MATCH, "orders", acl(PREFIXED, "ord"), True),
    (MATCH, "orders", acl(PREFIXED, "orders-eu"), False),
    (MATCH, "orders", acl(LITERAL, "other"), False),
    (MATCH, None, acl(LITERAL, "other"), True),
]


@pytest.mark.parametrize(("pattern", "name", "stored", "selected"), NAMES)
def test_pattern_of_a_filter(pattern: PatternType, name: str | None, stored: Acl, selected: bool) -> None:
    assert replace(ALL, pattern_type=pattern, name=name).matches(stored) is selected


ENTRIES = [
    {"resource_type": ResourceType.GROUP},
    {"principal": "User:bob"},
    {"host": "10.0.0.1"},
    {"operation": Operation.WRITE},
    {"permission": Permission.DENY},
]


@pytest.mark.parametrize("changes", ENTRIES, ids=lambda changes: next(iter(changes)))
def test_each_field_of_a_filter_must_match(changes: dict[str, object]) -> None:
    stored = acl(LITERAL, "orders")
    (name,) = changes
    assert not replace(ALL, **changes).matches(stored)  # type: ignore[arg-type]
    assert replace(ALL, **{name: getattr(stored, name)}).matches(stored)
