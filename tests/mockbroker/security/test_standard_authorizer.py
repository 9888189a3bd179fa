"""Decisions of the authorizer. Those of a real broker are in fixtures/conversations/4.2.0/acl_matching.json.gz."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.security.acl import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from mockbroker.security.acls import Acls
from mockbroker.security.standard_authorizer import SUPPORTED, Access, StandardAuthorizer

READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str = "orders",
    operation: int = READ,
    permission: int = ALLOW,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = WILDCARD,
    resource_type: int = TOPIC,
) -> Acl:
    return Acl(resource_type, pattern, name, principal, host, operation, permission)


def access(acls: Iterable[Acl], *, everyone: bool = False, principal: str = "User:alice") -> Access:
    stored = Acls()
    stored.add(acls)
    authorizer = StandardAuthorizer(stored, ["User:root"], everyone_without_acl=everyone)
    return authorizer.access_of(principal, "10.0.0.1")


CASES = [  # description, ACLs, whether alice at 10.0.0.1 may read topic orders
    ("no ACL", [], False),
    ("another topic", [acl("order")], False),
    ("another resource type", [acl(resource_type=GROUP)], False),
    ("another operation", [acl(operation=WRITE)], False),
    ("another principal", [acl(principal="User:bob")], False),
    ("another host", [acl(host="10.0.0.2")], False),
    ("the host", [acl(host="10.0.0.1")], True),
    ("all principals", [acl(principal="User:*")], True),
    ("all operations", [acl(operation=ALL)], True),
    ("all names", [acl("*")], True),
    ("a prefix", [acl("ord", pattern=PREFIXED)], True),
    ("the name as a prefix", [acl("orders", pattern=PREFIXED)], True),
    ("a longer prefix", [acl("orders-", pattern=PREFIXED)], False),
    ("a prefix that is a wildcard only if literal", [acl("*", pattern=PREFIXED)], False),
    ("DENY of the operation", [acl(), acl(permission=DENY)], False),
    ("DENY of all operations", [acl(), acl(operation=ALL, permission=DENY)], False),
    ("DENY of a prefix", [acl(), acl("o", pattern=PREFIXED, permission=DENY)], False),
    ("DENY of an implied operation", [acl(), acl(operation=DESCRIBE, permission=DENY)], True),
    ("DENY of another host", [acl(), acl(host="10.0.0.2", permission=DENY)], True),
]


@pytest.mark.parametrize(("acls", "allowed"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_acls_that_match_decide(acls: list[Acl], allowed: bool) -> None:
    assert access(acls).allows(READ, TOPIC, "orders") is allowed


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER])
def test_operations_imply_describe(operation: Operation) -> None:
    assert access([acl(operation=operation)]).allows(DESCRIBE, TOPIC, "orders")


def test_alter_configs_implies_describe_configs() -> None:
    allowed = access([acl(operation=Operation.ALTER_CONFIGS)])
    assert allowed.allows(Operation.DESCRIBE_CONFIGS, TOPIC, "orders")
    assert not allowed.allows(DESCRIBE, TOPIC, "orders")


def test_super_user_may_do_what_is_denied() -> None:
    denied = acl(operation=ALL, permission=DENY, principal="User:*")
    assert access([denied], principal="User:root").allows(READ, TOPIC, "orders")


def test_resource_without_acl_is_open_if_configured() -> None:
    about_orders = access([acl(principal="User:bob")], everyone=True)
    assert not about_orders.allows(READ, TOPIC, "orders")
    assert about_orders.allows(READ, TOPIC, "payments")


def test_changed_acl_changes_the_decision() -> None:
    stored = Acls()
    alice = StandardAuthorizer(stored, [], everyone_without_acl=False).access_of("User:alice", "10.0.0.1")
    for change, expected in ((stored.add, True), (stored.remove, False)):
        assert alice.allows(READ, TOPIC, "orders") is not expected
        change([acl()])
        assert alice.allows(READ, TOPIC, "orders") is expected


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("x")], False),
        ([acl("x", WRITE)], True),
        ([acl("x", ALL)], True),
        ([acl("*", WRITE)], True),
        ([acl("x", WRITE), acl("x", WRITE, DENY)], False),
        ([acl("x", WRITE), acl("x", ALL, DENY)], False),
        ([acl("x-1", WRITE), acl("x", WRITE, DENY, PREFIXED)], False),
        ([acl("x", WRITE, pattern=PREFIXED), acl("x", WRITE, DENY)], True),
        ([acl("x", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("*", WRITE), acl("x", WRITE, DENY, PREFIXED)], True),
        ([acl("x", WRITE, resource_type=GROUP)], False),
    ],
)
def test_write_on_any_topic(acls: list[Acl], allowed: bool) -> None:
    assert access(acls).allows_any(WRITE, TOPIC) is allowed


def test_authorized_operations_are_those_that_are_allowed() -> None:
    allowed = access([acl(), acl(operation=Operation.CLUSTER_ACTION)])
    assert allowed.operations(TOPIC, "orders", SUPPORTED[TOPIC]) == 1 << READ | 1 << DESCRIBE
    assert allowed.operations(TOPIC, "payments", SUPPORTED[TOPIC]) == 0


NAMES = st.text("ab*", min_size=1, max_size=3)
ACLS = st.builds(
    acl,
    NAMES,
    st.sampled_from([READ, WRITE, ALL]),
    st.sampled_from([ALLOW, DENY]),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:*", "User:bob"]),
)


def expected(acls: Iterable[Acl], name: str) -> bool:
    """Return whether alice may read a topic. Every ACL is compared with the topic."""
    matching = [
        each
        for each in acls
        if (each.name in (name, WILDCARD) if each.pattern_type == LITERAL else name.startswith(each.name))
        and each.principal != "User:bob"
        and each.operation != WRITE
    ]
    return bool(matching) and all(each.permission == ALLOW for each in matching)


@given(st.lists(ACLS, max_size=8), st.lists(ACLS, max_size=4), NAMES)
def test_index_finds_the_acls_of_every_name(added: list[Acl], removed: list[Acl], name: str) -> None:
    stored = Acls()
    stored.add(added)
    stored.remove(removed)
    alice = StandardAuthorizer(stored, [], everyone_without_acl=False).access_of("User:alice", "10.0.0.1")
    assert alice.allows(READ, TOPIC, name) is expected(set(added) - set(removed), name)
    assert set(stored) == set(added) - set(removed)
