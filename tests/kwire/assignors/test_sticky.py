"""sticky and cooperative-sticky, compared with Kafka's class list by list; more in tests/interop/test_assignors.py."""

from __future__ import annotations

import client_groups
import pytest

from kwire.assignors import COOPERATIVE, EAGER, Assignment, Subscription, assignor, without_racks
from kwire.assignors.sticky import claim, cooperative_claim, share_out, share_out_cooperatively
from kwire.assignors.sticky_history import Claim

V1 = bytes.fromhex("00000001 0001 74 00000001 00000000 00000005")  # t-0 in generation 5
ONE = without_racks({"t": 1})


@pytest.mark.parametrize(
    ("name", "release", "count"),
    [
        ("sticky", "4.2.0", 644),
        ("sticky", "3.9.1", 283),
        ("cooperative-sticky", "4.2.0", 604),
        ("cooperative-sticky", "3.9.1", 236),
    ],
)
def test_as_java(name: str, release: str, count: int) -> None:
    groups = client_groups.groups(name, release)
    assert len(groups) == count
    assert [problem for group in groups for problem in group.problems()] == []


def test_the_example_of_two_releases() -> None:
    """C1 leaves a group of three: the same partitions move to other members since 2.4."""
    group = client_groups.named("sticky-after-C1-leaves", "sticky")
    before = {name: [tuple(p) for p in listed] for name, listed in group.line["document_expected"].items()}
    first = client_groups.shares(assignor("sticky-0.11").assign(group.topics, group.members))
    assert first == before
    assert group.assigned() == group.expected != before


@pytest.mark.parametrize(
    ("user_data", "said"),
    [
        (None, Claim()),
        (b"", Claim()),
        (V1, Claim([("t", 0)], 5)),
        (V1[:-4], Claim([("t", 0)])),
        (V1[:-6], Claim((), -1)),
    ],
)
def test_owned_partitions_in_sticky_user_data(user_data: bytes | None, said: Claim) -> None:
    assert claim(Subscription(["t"], user_data, owned=[("t", 9)], generation=7)) == said


@pytest.mark.parametrize(
    ("user_data", "generation", "said"),
    [
        (None, 3, 3),
        (b"\0\0\0\x05", 3, 3),
        (b"\0\0\0\x05", -1, 5),
        (None, -1, None),
        (b"", -1, -1),
        (b"\0\0\x05", -1, -1),
    ],
)
def test_owned_partitions_in_cooperative_subscriptions(
    user_data: bytes | None, generation: int, said: int | None
) -> None:
    member = Subscription(["t"], user_data, [("t", 0)], generation)
    assert cooperative_claim(member) == Claim([("t", 0)], said)


def test_user_data() -> None:
    sticky = assignor("sticky")
    assert sticky.user_data({"t"}) is None
    sticky.on_assignment(Assignment([("t", 0)]), 5)
    assert sticky.user_data({"t"}) == V1
    cooperative = assignor("cooperative-sticky")
    assert cooperative.user_data({"t"}) == b"\xff\xff\xff\xff"
    cooperative.on_assignment(Assignment([("t", 0)]), 5)
    assert cooperative.user_data({"t"}) == b"\0\0\0\x05"


def test_protocols() -> None:
    assert assignor("sticky").protocols == (EAGER,)
    assert assignor("cooperative-sticky").protocols == (COOPERATIVE, EAGER)


def test_no_members_and_no_topics() -> None:
    assert share_out(ONE, {}) == {}
    assert share_out({}, {"a": Subscription(["t"]), "b": Subscription([])}) == {"a": [], "b": []}


def test_deleted_partitions_are_not_owned() -> None:
    """Java assigns such a partition, or assigns others twice."""
    owned = [("t", 0), ("t", 1), ("gone", 0), ("t", -1)]
    for b in (["t"], ["t", "u"]):  # homogeneous and heterogeneous
        members = {"a": Subscription(["t"], None, owned, 1), "b": Subscription(b, generation=1)}
        assert share_out_cooperatively(ONE, members) == {"a": [("t", 0)], "b": []}


def test_former_owner_without_subscription_is_ignored() -> None:
    """Java ends with a NullPointerException: b owned t-0 before the newest generation and has no subscription now."""
    topics = without_racks({"t": 3, "u": 1})
    members = {
        "a": Subscription(["t"], None, [("t", 0), ("t", 1), ("t", 2)], 5),
        "b": Subscription([], None, [("t", 0)], 4),
        "c": Subscription(["t", "u"], generation=5),
    }
    shares = share_out_cooperatively(topics, members)
    assert shares == {"a": [("t", 1), ("t", 2)], "b": [], "c": [("u", 0)]}  # t-0 moves to c, a generation later


def test_cooperative_withholds_moving_partitions() -> None:
    two = without_racks({"t": 2})
    before = {"a": Subscription(["t"], None, [("t", 0), ("t", 1)], 1), "b": Subscription(["t"])}
    assert share_out_cooperatively(two, before) == {"a": [("t", 0)], "b": []}
    after = {"a": Subscription(["t"], None, [("t", 0)], 2), "b": Subscription(["t"], generation=2)}
    assert share_out_cooperatively(two, after) == {"a": [("t", 0)], "b": [("t", 1)]}
