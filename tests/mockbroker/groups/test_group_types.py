"""A further type of groups is one folder and one entry of the table: everything else serves it as it is."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tools.desk import WALL, Desk, commit_simple, committed, member
from tools.written import check_written

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
from mockbroker.topics.model import OFFSETS_TOPIC
from tests.mockbroker.groups.toy import SESSION, TOY_TYPES, Hello, ToyGroup, Welcome

TICKETS = count(1 << 20)


@pytest.fixture
def desk() -> Desk:
    return Desk(types=TOY_TYPES)


def hello(desk: Desk, member_id: str, group_id: str = "g", **how: Any) -> list[Welcome]:
    """Join or stay alive; the answers that come of it, also to other members."""
    event = Hello(ticket=Ticket(next(TICKETS), 1, 0, 0), member_id=member_id, **how)
    effects = desk.broker.groups.receive(group_id, event, desk.now)
    for note in effects:
        if isinstance(note, Note):
            desk.journal.record(note, desk.now)
    desk.broker.write_changes(desk.now)
    check_written(desk.broker, WALL)
    return [effect.response for effect in effects if isinstance(effect, Reply)]


def toy(desk: Desk) -> ToyGroup:
    group = desk.broker.groups.typed("g", ToyGroup)
    assert group is not None
    return group


def test_members_join(desk: Desk) -> None:
    assert hello(desk, "a") == [Welcome(1)]
    assert hello(desk, "b") == [Welcome(2)]
    assert hello(desk, "a") == [Welcome(2)]
    assert [(event.event, event.member_id) for event in desk.journal.events] == [("join", "a"), ("join", "b")]


def test_a_member_without_a_sign_of_life_expires(desk: Desk) -> None:
    hello(desk, "a")
    desk.wait(SESSION / 2)
    hello(desk, "b")
    desk.wait(SESSION * 0.75)
    assert list(toy(desk).members) == ["b"]
    check_written(desk.broker, WALL)


def test_the_group_is_listed(desk: Desk) -> None:
    hello(desk, "a")
    member(desk, "classic")
    listed = desk.ask(ListGroupsRequest(types_filter=["toy"]), 5).groups
    assert [(each.group_id, each.group_type, each.protocol_type, each.group_state) for each in listed] == [
        ("g", "toy", "play", "Playing")
    ]
    assert {each.group_id for each in desk.ask(ListGroupsRequest(), 5).groups} == {"g", "classic"}


def test_the_group_is_described_by_the_api_of_its_type(desk: Desk) -> None:
    hello(desk, "a")
    (found,) = desk.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (found.group_state, [each.member_id for each in found.members]) == ("Playing", ["a"])
    (found,) = desk.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (found.error_code, found.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")


def test_a_snapshot_shows_the_group(desk: Desk) -> None:
    hello(desk, "a")
    found = snapshot(desk.broker, "g")
    assert (found.group_type, found.state, found.generation, found.protocol) == ("toy", "Playing", 1, "toss")
    assert [(each.member_id, each.assignment) for each in found.members] == [("a", {"t": [0]})]


def test_the_group_fails_over() -> None:
    desk = Desk(types=TOY_TYPES, brokers=2, config={"offsets.topic.replication.factor": 2})
    hello(desk, "a")
    commit(desk, "a", 1)
    hello(desk, "b", parked=True)
    before = toy(desk)
    partition = desk.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    effects = failover.move(desk.broker, partition, 1 - partition.leader, desk.now)
    replies = [effect.response for effect in effects if isinstance(effect, Reply)]
    assert replies == [Welcome(2, E.NOT_COORDINATOR)]
    after = toy(desk)
    assert after is not before
    assert (after.epoch, sorted(after.members), after.members["a"].client_id) == (2, ["a", "b"], "client")
    assert desk.broker.groups["g"].offsets.committed["t", 0].offset == 5
    desk.wait(SESSION + 1)
    assert toy(desk).empty


def test_the_group_is_restored_from_its_records(desk: Desk) -> None:
    hello(desk, "a")
    hello(desk, "b", client_id="another")
    restore(desk)
    assert {name: each.client_id for name, each in toy(desk).members.items()} == {"a": "client", "b": "another"}


def restore(desk: Desk) -> None:
    desk.broker.unload_group("g")
    desk.broker.load_groups(desk.broker.offsets_partition("g")[1], desk.now)


def test_the_group_is_deleted(desk: Desk) -> None:
    hello(desk, "a")
    assert desk.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NON_EMPTY_GROUP
    desk.wait(SESSION + 1)
    assert desk.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    check_written(desk.broker, WALL)
    desk.broker.load_groups(desk.broker.offsets_partition("g")[1], desk.now)
    assert desk.broker.groups == {}


def commit(desk: Desk, member_id: str, epoch: int) -> E:
    place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequest.Topic(name="t", partitions=[place])],
    )
    answer = desk.ask(request, 9, node=desk.broker.coordinator("g"))
    return E(answer.topics[0].partitions[0].error_code)


def test_its_own_rules_decide_on_commits(desk: Desk) -> None:
    hello(desk, "a")
    assert commit(desk, "b", 1) == E.UNKNOWN_MEMBER_ID
    assert commit(desk, "a", 2) == E.STALE_MEMBER_EPOCH
    assert commit(desk, "a", 1) == E.NONE
    asked = OffsetFetchRequest.Group(group_id="g", member_id="a", member_epoch=2)
    assert desk.ask(OffsetFetchRequest(groups=[asked]), 9).groups[0].error_code == E.STALE_MEMBER_EPOCH


def test_offsets_of_topics_that_members_read_are_kept(desk: Desk) -> None:
    hello(desk, "a")
    commit(desk, "a", 1)
    kind = OffsetDeleteRequest.Topic
    request = OffsetDeleteRequest(group_id="g", topics=[kind(name="t", partitions=[kind.Partition(partition_index=0)])])
    for error in (E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE):
        assert desk.ask(request, 0).topics[0].partitions[0].error_code == error
        desk.wait(SESSION + 1)
    assert committed(desk, "g") == {}


def test_other_protocols_find_no_group_of_theirs(desk: Desk) -> None:
    hello(desk, "a")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert desk.ask(HeartbeatRequest(group_id="g", member_id="a"), 3).error_code == E.UNKNOWN_MEMBER_ID
    assert desk.ask(Desk.join("g"), 3).error_code == E.UNKNOWN_MEMBER_ID
    assert desk.ask(beat, 1).error_code == E.GROUP_ID_NOT_FOUND
    assert list(toy(desk).members) == ["a"]


def test_an_empty_group_of_another_type_is_replaced(desk: Desk) -> None:
    commit_simple(desk, "g")
    hello(desk, "a")
    restore(desk)
    assert (list(toy(desk).members), committed(desk, "g")) == (["a"], {("t", 0): 5})
    desk.wait(SESSION + 1)
    member(desk, "g")
    check_written(desk.broker, WALL)
    restore(desk)
    assert (desk.broker.groups["g"].type_name, committed(desk, "g")) == ("classic", {("t", 0): 5})


def test_offsets_expire_by_the_rule_of_the_type(desk: Desk) -> None:
    hello(desk, "a")
    commit(desk, "a", 1)
    desk.wait(SESSION + 1)
    desk.now += desk.broker.settings.offsets_retention_minutes * 60.0
    desk.router.finish(desk.broker.groups.sweep(desk.now), desk.now)
    assert desk.broker.groups == {}


def test_no_product_file_names_it() -> None:
    product = Path(__file__).parents[3] / "mockbroker"
    assert [path for path in product.rglob("*.py") if "toy" in path.read_text("utf-8").lower().split()] == []
