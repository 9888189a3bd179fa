"""Common behavior of groups with epochs: the checks of members, and the metadata of subscribed topics."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness
from tools.group_harness import GroupHarness

from kwire import ErrorCode
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.group_type import Refused
from mockbroker.groups.modern_group import (
    MAX_SUBSCRIPTION,
    check_size,
    check_subscription,
    described_subscription,
    fenced_epoch,
    find_member,
)
from mockbroker.groups.offsets import Committed
from mockbroker.groups.share.state import (
    ShareGroup,
    ShareMember,
)

MEMBER = ShareMember(member_id="a", topics=frozenset({"t"}))


@pytest.fixture
def group() -> ShareGroup:
    group = ShareGroup(group_id="g")
    group.put_member(MEMBER)
    return group


def test_only_a_member_may_rejoin_a_full_group(group):
    check_size(group, 2, "b")
    check_size(group, 1, "a")
    for member_id in ("b", None):
        with pytest.raises(Refused, match="The share group has reached its maximum capacity of 1 members"):
            check_size(group, 1, member_id)


def test_member_is_found_by_its_id(group):
    assert find_member(group.members, "g", "a") is MEMBER
    with pytest.raises(Refused, match="Member b is not a member of group g"):
        find_member(group.members, "g", "b")


def test_subscription_has_a_maximum_size():
    for names in (None, [], ["t"] * MAX_SUBSCRIPTION):
        check_subscription(names)
    with pytest.raises(
        Refused, match="The subscription has 10001 topic names, the maximum is 10000: use several groups"
    ):
        check_subscription(["t"] * (MAX_SUBSCRIPTION + 1))


def test_subscription_is_described_in_the_order_of_a_hash_map():
    assert described_subscription(frozenset({"orders", "b", "a"})) == ("a", "b", "orders")
    assert described_subscription(frozenset({"Aa", "BB", "t"})) == ("Aa", "BB", "t")  # Aa and BB have one hash code


@pytest.mark.parametrize(("epoch", "size"), [(6, "greater"), (4, "smaller")])
def test_fenced_epoch_is_compared_with_that_of_the_member(epoch, size):
    refused = fenced_epoch("consumer", epoch, 5)
    assert refused.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert f"has a {size} member epoch ({epoch}) than the one known by the group coordinator (5)" in refused.message


def test_metadata_of_subscribed_topics_is_refreshed(group):
    cluster = BrokerHarness(topics={"v": 1}).broker.cluster
    assert not group.refresh_metadata(cluster, 1.0, 10.0)
    topic = cluster.create_topic("t", [[0]])
    cluster.create_topic("u", [[0]])
    assert group.refresh_metadata(cluster, 2.0, 10.0)
    assert group.topic_metadata == {"t": (topic.topic_id, 1)}
    assert (group.metadata_version, group.metadata_refresh_at) == (cluster.epoch, 12.0)
    assert not group.refresh_metadata(cluster, 3.0, 10.0)
    assert (group.generation, group.protocol_type) == (0, "share")


@pytest.mark.parametrize(
    ("group", "replaced_by"),
    [
        (ClassicGroup(group_id="g", initial_delay=0.0), {"consumer", "streams"}),
        (ShareGroup(group_id="g"), set()),
    ],
)
def test_empty_group_is_replaced_by_some_types(group, replaced_by):
    types = ("classic", "consumer", "share", "streams")
    assert {name for name in types if group.is_replaced_by(name)} == replaced_by


def test_group_with_members_is_not_replaced():
    harness = GroupHarness()
    harness.stable("a")
    assert not harness.group.is_replaced_by("consumer")


def test_only_a_group_without_members_may_be_deleted():
    harness = GroupHarness()
    assert harness.group.is_deletable
    harness.stable("a")
    assert not harness.group.is_deletable
    harness.leave("a")
    assert harness.group.is_deletable
    harness.ask_id("b")
    assert not harness.group.is_deletable


@pytest.mark.parametrize("group", [ConsumerGroup(group_id="g"), ClassicGroup(group_id="g", initial_delay=0.0)])
def test_offsets_of_a_transaction_are_unwritten_changes(group):
    group.changes.clear()
    assert not group.has_unwritten_changes
    group.offsets.store_transactional(7, 0, "t", 0, Committed(offset=5))
    assert group.has_unwritten_changes
    group.offsets.mark_written()
    assert not group.has_unwritten_changes
    group.offsets.store("t", 0, Committed(offset=5))
    assert group.has_unwritten_changes
