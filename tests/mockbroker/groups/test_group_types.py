"""A new group type needs only a folder and an entry in the table of group types."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tools.broker_harness import WALL, BrokerHarness, commit_without_member, committed, stable_member
from tools.group_records_check import check_group_records

from kwire import ErrorCode as E
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from mockbroker.api.snapshots import snapshot
from mockbroker.base.effects import Note, Reply, Ticket
from mockbroker.broker import failover
from mockbroker.groups import group_types
from mockbroker.groups.events import Evict
from mockbroker.groups.group_type import GroupTypes
from mockbroker.groups.share import declaration as share_declaration
from mockbroker.groups.share.group_type import SHARE_TYPE
from mockbroker.topics.model import OFFSETS_TOPIC
from tests.mockbroker.groups.toy import SESSION, TOY_TYPES, Hello, ToyGroup, Welcome

TICKETS = count(1 << 20)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(types=TOY_TYPES)


def hello(harness: BrokerHarness, member_id: str, group_id: str = "g", **how: Any) -> list[Welcome]:
    """Join or renew the session; return all responses that this causes, also to other members."""
    event = Hello(ticket=Ticket(next(TICKETS), 1, 0, 0), member_id=member_id, **how)
    effects = harness.broker.groups.receive(group_id, event, harness.now)
    for note in effects:
        if isinstance(note, Note):
            harness.journal.record(note, harness.now)
    harness.broker.write_changes(harness.now)
    check_group_records(harness.broker, WALL)
    return [effect.response for effect in effects if isinstance(effect, Reply)]


def toy(harness: BrokerHarness) -> ToyGroup:
    group = harness.broker.groups.get_as("g", ToyGroup)
    assert group is not None
    return group


def test_members_join(harness: BrokerHarness) -> None:
    assert hello(harness, "a") == [Welcome(1)]
    assert hello(harness, "b") == [Welcome(2)]
    assert hello(harness, "a") == [Welcome(2)]
    assert [(event.event, event.member_id) for event in harness.journal.events] == [("join", "a"), ("join", "b")]


def test_a_silent_member_expires(harness: BrokerHarness) -> None:
    hello(harness, "a")
    harness.wait(SESSION / 2)
    hello(harness, "b")
    harness.wait(SESSION * 0.75)
    assert list(toy(harness).members) == ["b"]
    check_group_records(harness.broker, WALL)


def test_an_evicted_member_is_removed_from_the_records(harness: BrokerHarness) -> None:
    hello(harness, "a")
    hello(harness, "b")
    harness.administer("g", Evict("a", "evicted by an administrator"))
    assert list(toy(harness).members) == ["b"]
    assert (harness.journal.events[-1].event, harness.journal.events[-1].reason) == (
        "expire",
        "evicted by an administrator",
    )
    check_group_records(harness.broker, WALL)


def test_the_group_is_listed(harness: BrokerHarness) -> None:
    hello(harness, "a")
    stable_member(harness, "classic")
    listed = harness.ask(ListGroupsRequest(types_filter=["toy"]), 5).groups
    assert [(each.group_id, each.group_type, each.protocol_type, each.group_state) for each in listed] == [
        ("g", "toy", "play", "Playing")
    ]
    assert {each.group_id for each in harness.ask(ListGroupsRequest(), 5).groups} == {"g", "classic"}


def test_the_group_is_described_by_the_api_of_its_type(harness: BrokerHarness) -> None:
    hello(harness, "a")
    (found,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (found.group_state, [each.member_id for each in found.members]) == ("Playing", ["a"])
    (found,) = harness.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (found.error_code, found.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")


def test_a_snapshot_shows_the_group(harness: BrokerHarness) -> None:
    hello(harness, "a")
    result = snapshot(harness.broker, "g")
    assert (result.group_type, result.state, result.generation, result.protocol) == ("toy", "Playing", 1, "toss")
    assert [(each.member_id, each.assignment) for each in result.members] == [("a", {"t": [0]})]


def test_the_group_fails_over() -> None:
    harness = BrokerHarness(types=TOY_TYPES, brokers=2, config={"offsets.topic.replication.factor": 2})
    hello(harness, "a")
    commit(harness, "a", 1)
    hello(harness, "b", wait=True)
    before = toy(harness)
    partition = harness.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    effects = failover.move_leader(harness.broker, partition, 1 - partition.leader, harness.now)
    replies = [effect.response for effect in effects if isinstance(effect, Reply)]
    assert replies == [Welcome(2, E.NOT_COORDINATOR)]
    after = toy(harness)
    assert after is not before
    assert (after.epoch, sorted(after.members), after.members["a"].client_id) == (2, ["a", "b"], "client")
    assert harness.broker.groups["g"].offsets.committed["t", 0].offset == 5
    harness.wait(SESSION + 1)
    assert toy(harness).empty


def test_the_group_is_restored_from_its_records(harness: BrokerHarness) -> None:
    hello(harness, "a")
    hello(harness, "b", client_id="another")
    restore(harness)
    assert {name: each.client_id for name, each in toy(harness).members.items()} == {"a": "client", "b": "another"}


def restore(harness: BrokerHarness) -> None:
    harness.broker.unload_group("g")
    harness.broker.load_groups(harness.broker.offsets_partition("g")[1], harness.now)


def test_the_group_is_deleted(harness: BrokerHarness) -> None:
    hello(harness, "a")
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NON_EMPTY_GROUP
    harness.wait(SESSION + 1)
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    check_group_records(harness.broker, WALL)
    harness.broker.load_groups(harness.broker.offsets_partition("g")[1], harness.now)
    assert harness.broker.groups == {}


def commit(harness: BrokerHarness, member_id: str, epoch: int) -> E:
    place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequest.Topic(name="t", partitions=[place])],
    )
    answer = harness.ask(request, 9, node=harness.broker.coordinator("g"))
    return E(answer.topics[0].partitions[0].error_code)


def test_commit_rules_of_the_type_apply(harness: BrokerHarness) -> None:
    hello(harness, "a")
    assert commit(harness, "b", 1) == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "a", 2) == E.STALE_MEMBER_EPOCH
    assert commit(harness, "a", 1) == E.NONE
    group = OffsetFetchRequest.Group(group_id="g", member_id="a", member_epoch=2)
    assert harness.ask(OffsetFetchRequest(groups=[group]), 9).groups[0].error_code == E.STALE_MEMBER_EPOCH


def test_offsets_of_subscribed_topics_are_not_deleted(harness: BrokerHarness) -> None:
    hello(harness, "a")
    commit(harness, "a", 1)
    kind = OffsetDeleteRequest.Topic
    request = OffsetDeleteRequest(group_id="g", topics=[kind(name="t", partitions=[kind.Partition(partition_index=0)])])
    for error in (E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE):
        assert harness.ask(request, 0).topics[0].partitions[0].error_code == error
        harness.wait(SESSION + 1)
    assert committed(harness, "g") == {}


def test_requests_of_other_types_are_rejected(harness: BrokerHarness) -> None:
    hello(harness, "a")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert harness.ask(HeartbeatRequest(group_id="g", member_id="a"), 3).error_code == E.UNKNOWN_MEMBER_ID
    assert harness.ask(BrokerHarness.join("g"), 3).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert harness.ask(beat, 1).error_code == E.GROUP_ID_NOT_FOUND
    assert list(toy(harness).members) == ["a"]


def test_an_empty_group_of_another_type_is_replaced(harness: BrokerHarness) -> None:
    commit_without_member(harness, "g")
    hello(harness, "a")
    restore(harness)
    assert (list(toy(harness).members), committed(harness, "g")) == (["a"], {("t", 0): 5})
    harness.wait(SESSION + 1)
    stable_member(harness, "g")
    check_group_records(harness.broker, WALL)
    restore(harness)
    assert (harness.broker.groups["g"].type_name, committed(harness, "g")) == ("classic", {("t", 0): 5})


def test_offsets_expire_by_the_rule_of_the_type(harness: BrokerHarness) -> None:
    hello(harness, "a")
    commit(harness, "a", 1)
    harness.wait(SESSION + 1)
    harness.now += harness.broker.settings.offsets_retention_minutes * 60.0
    harness.router.finish(harness.broker.groups.delete_expired_offsets(harness.now), harness.now)
    assert harness.broker.groups == {}


def test_no_product_file_names_the_type() -> None:
    product = Path(__file__).parents[3] / "mockbroker"
    assert [path for path in product.rglob("*.py") if "toy" in path.read_text("utf-8").lower().split()] == []


def test_group_types_without_conversions_convert_no_group() -> None:
    def conversion(*_: object) -> None:
        return None

    types = GroupTypes(TOY_TYPES.types)
    assert (types.conversions, types.types, types.default) == ({}, TOY_TYPES.types, TOY_TYPES.types[0])
    assert types.by_event == TOY_TYPES.by_event
    assert GroupTypes(TOY_TYPES.types, None, {"toy": conversion}).conversions == {"toy": conversion}  # type: ignore[dict-item]


def test_group_type_is_imported_with_its_first_method() -> None:
    group_type = group_types._later("share", share_declaration)
    assert (group_type.name, group_type.states) == ("share", share_declaration.STATES)
    assert (group_type.events, group_type.record_keys) == (share_declaration.EVENTS, share_declaration.RECORD_KEYS)
    assert group_type.new == SHARE_TYPE.new
    assert "new" in vars(group_type)


def test_handler_of_a_foreign_request_is_found_by_both_types() -> None:
    def handler(*_: object) -> list[object]:
        return []

    toy_type = next(each for each in TOY_TYPES.types if each.name == "toy")
    group: Any = SimpleNamespace(type_name="other")
    types = GroupTypes(TOY_TYPES.types, {("other", toy_type.name): handler})  # type: ignore[dict-item]
    assert types.cross_type_handler(group, toy_type) is handler
    assert types.cross_type_handler(SimpleNamespace(type_name=toy_type.name), toy_type) is None  # type: ignore[arg-type]
    assert GroupTypes(TOY_TYPES.types).cross_type_handler(group, toy_type) is None
    assert {types.of_record(type(name, (), {})()) for name in toy_type.record_keys} == {toy_type}
    assert types.of_record("unknown") is None
    assert types.of(SimpleNamespace(type_name="toy")) is toy_type  # type: ignore[arg-type]
