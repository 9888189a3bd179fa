"""Failover of group coordinators and partition leaders, from the clients' point of view."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from tools.assignor_members import AssignorHarness
from tools.broker_harness import WALL, BrokerHarness, commit_without_member, stable_member
from tools.durable_broker_harness import DurableBrokerHarness
from tools.group_records_check import check_group_records
from tools.producer import Producer

from kwire import ErrorCode as E
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records.batch import Batch, Record, build_batch, read_batch
from kwire.records.control import ControlType, control_records
from mockbroker.api import snapshots
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.release import RELEASES
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.groups.offsets import Committed
from mockbroker.share.state import ShareState, StateKey
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ClusterState, Partition, Topic
from mockbroker.transactions.state import Identity

LOAD = {"mockbroker.coordinator.load.ms": 1_000}


class FailoverHarness(BrokerHarness):
    """A cluster of three brokers, whose brokers and leaders the tests change."""

    def __init__(self, **how: Any) -> None:
        super().__init__(brokers=3, topics={}, **how)
        cluster = self.broker.cluster
        cluster.create_topic("t", [[0, 1, 2], [1, 2, 0]], {"min.insync.replicas": "2"})
        cluster.create_topic("alone", [[0]])

    def apply(self, action: Any, *args: Any) -> None:
        """Call a function of failover.py with the broker state, these arguments and the time."""
        self._take(self.router.finish(action(self.broker, *args, now=self.now), self.now))

    @property
    def coordinator(self) -> int:
        return self.broker.coordinator("g")

    @property
    def other(self) -> int:
        return next(node for node in self.broker.cluster.nodes if node != self.coordinator)

    def move(self) -> None:
        partition = self.broker.cluster.partition(*self.broker.offsets_partition("g"))
        self.apply(failover.move_leader, partition, self.other)

    def kill(self, node: int, noticed_after: float = 0.0) -> None:
        self._take(self.router.finish(failover.kill_broker(self.broker, node, self.now, noticed_after), self.now))

    def heartbeat(self, member_id: str, generation: int = 1, node: int | None = None) -> E:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        return E(self.ask(request, 3, node=self.coordinator if node is None else node).error_code)

    def find(self, node: int) -> tuple[E, int]:
        coordinator = self.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4, node=node).coordinators[0]
        return E(coordinator.error_code), coordinator.node_id

    def leaders(self, node: int, topic: str = "t") -> tuple[list[int], list[int], list[list[int]], list[list[int]]]:
        """Return from the metadata of a broker: brokers; leaders, in-sync and offline replicas of each partition."""
        response = self.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 9, node=node)
        partitions = response.topics[0].partitions
        return (
            [each.node_id for each in response.brokers],
            [each.leader_id for each in partitions],
            [each.isr_nodes for each in partitions],
            [each.offline_replicas for each in partitions],
        )


@pytest.fixture
def harness() -> FailoverHarness:
    return FailoverHarness()


# --- failover of groups ------------------------------------------------------------------------------------------------


def test_group_continues_on_the_new_coordinator(harness):
    member_id = stable_member(harness, "g")
    old = harness.coordinator
    harness.move()
    assert harness.coordinator != old
    assert harness.heartbeat(member_id, node=old) == E.NOT_COORDINATOR
    assert harness.heartbeat(member_id) == E.NONE
    assert {harness.find(node) for node in range(3)} == {(E.NONE, harness.coordinator)}


def test_new_coordinator_takes_over_all_tasks():
    """The new coordinator answers SyncGroup and OffsetFetch, keeps the generation, and expires sessions."""
    harness = AssignorHarness(brokers=3, topics={"t": 6}, config={"group.initial.rebalance.delay.ms": 500})
    for name in "abc":
        harness.member(name)
    for index in range(6):
        harness.fill("t", [b"v"] * (index + 1), index)
    harness.live(3.0)
    before = harness.shares()
    for each in harness.members:
        each.read()
        assert each.commit() == E.NONE
    lost = harness.broker.coordinator("g")
    harness._take(harness.router.finish(failover.kill_broker(harness.broker, lost, harness.now, 0.0), harness.now))
    assert harness.broker.coordinator("g") != lost
    first, *others = harness.members
    assert first.committed() == {("t", index): index + 1 for index in range(6)}
    for each in harness.members:
        assert each.heartbeat() == E.NONE
        each.forget()
    harness.settle()  # the members sync again
    assert harness.shares() == before
    assert {each.generation for each in harness.members} == {1}
    first.stop()
    harness.live(11.0)
    harness.settle()
    assert [event.client for event in harness.journal.events if event.event == "expire"] == ["a"]
    assert {name: [index for _, index in share] for name, share in harness.shares().items()} == {
        "b": [0, 1, 2],
        "c": [3, 4, 5],
    }
    assert others[0].committed() == {("t", index): index + 1 for index in range(6)}


def test_requests_while_the_coordinator_loads(harness):
    harness = FailoverHarness(config=LOAD)
    member_id = stable_member(harness, "g")
    harness.move()
    node = harness.coordinator
    harness.wait(0.9)
    assert harness.heartbeat(member_id) == E.NONE  # the load must not make members rejoin
    assert harness.heartbeat("unknown", 77) == E.NONE
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
    assert harness.ask(sync, 3, node=node).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.ask(ListGroupsRequest(), 4, node=node).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    described = harness.ask(DescribeGroupsRequest(groups=["g"]), 5, node=node).groups[0]
    assert described.error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    requested = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequest.Topic(name="t", partitions=[requested])])
    response = harness.ask(request, 7, node=node)
    assert response.topics[0].partitions[0].error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.send(BrokerHarness.join("g"), 5, node=node).answer.error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    harness.wait(0.2)
    assert harness.heartbeat(member_id) == E.NONE
    assert [event.event for event in harness.journal.events][-2:] == ["unload", "load"]


def test_leader_change_of_another_topic_loads_no_groups():
    harness = FailoverHarness(config=LOAD)
    for partition in harness.broker.cluster.topics["t"].partitions:
        harness.apply(failover.move_leader, partition, partition.replicas[1])
    assert not harness.broker.loading


def test_sync_while_loading_is_rebalance_before_4_0():
    harness = FailoverHarness(config=LOAD, release=RELEASES["3.9"])
    member_id = stable_member(harness, "g")
    harness.move()
    assert harness.heartbeat(member_id) == E.NONE
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
    assert harness.ask(sync, 3, node=harness.coordinator).error_code == E.REBALANCE_IN_PROGRESS


def test_pending_join_gets_not_coordinator(harness):
    node = harness.coordinator
    member_id = stable_member(harness, "g")
    joining = harness.send(BrokerHarness.join("g"), 3, node=node)
    assert joining.parked
    harness.move()
    assert joining.answer.error_code == E.NOT_COORDINATOR
    assert harness.heartbeat(member_id) == E.NONE


def test_pending_sync_gets_not_coordinator(harness):
    node = harness.coordinator
    first = harness.send(BrokerHarness.join("g"), 3, node=node).answer.member_id
    second = harness.send(BrokerHarness.join("g"), 3, node=node)
    harness.send(BrokerHarness.join("g", first), 3, node=node)
    sync = SyncGroupRequest(group_id="g", generation_id=2, member_id=second.answer.member_id)
    waiting = harness.send(sync, 3, node=node)
    assert waiting.parked
    harness.move()
    assert waiting.answer.error_code == E.NOT_COORDINATOR
    group = harness.broker.groups["g"]  # the group was never Stable, so its record contains only its existence
    assert (group.state_name, group.generation, group.members) == ("Empty", 0, {})


def test_unsynced_group_is_lost_before_4_0():
    harness = FailoverHarness(release=RELEASES["3.9"])
    harness.send(BrokerHarness.join("g"), 3, node=harness.coordinator)
    harness.move()
    assert "g" not in harness.broker.groups


def test_group_with_only_a_pending_member_is_written(harness):
    node = harness.coordinator
    harness.send(BrokerHarness.join("g"), 4, node=node)  # a pending member
    harness.move()
    assert harness.broker.groups["g"].has_record
    deleted = harness.ask(DeleteGroupsRequest(groups_names=["g"]), 1, node=harness.coordinator)
    assert [each.error_code for each in deleted.results] == [E.NONE]
    harness.move()
    assert "g" not in harness.broker.groups


def test_failover_restarts_session_timeouts(harness):
    member_id = stable_member(harness, "g")
    harness.wait(9.0)
    harness.move()
    harness.wait(9.9)
    assert harness.heartbeat(member_id) == E.NONE
    harness.move()
    harness.wait(10.1)
    assert harness.heartbeat(member_id) == E.UNKNOWN_MEMBER_ID


def test_members_above_group_max_size_after_failover(harness):
    member_id = stable_member(harness, "g")
    object.__setattr__(harness.broker.settings, "group_max_size", 0)
    harness.move()
    (event,) = [
        each for each in harness.journal.events if each.event == EventKind.REBALANCE and "max.size" in each.reason
    ]
    assert event.reason == "1 members are more than group.max.size 0"
    assert harness.heartbeat(member_id) == E.REBALANCE_IN_PROGRESS


def test_loaded_group_that_is_too_large_completes_its_rebalance(harness):
    """The rebalance timeout starts with the load, even if no member sends a request."""
    node = harness.coordinator
    request = replace(BrokerHarness.join("g"), session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
    joined = harness.ask(request, 3, node=node)
    sync = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    assert harness.ask(sync, 3, node=node).error_code == E.NONE
    object.__setattr__(harness.broker.settings, "group_max_size", 0)
    harness.move()
    harness.wait(4.9)
    assert joined.member_id in harness.broker.groups["g"].members
    harness.wait(0.1)
    assert not harness.broker.groups["g"].members


def test_groups_of_other_coordinators_are_unaffected(harness):
    member_id = stable_member(harness, "h")
    before = harness.broker.groups["h"]
    harness.move()
    assert harness.broker.groups["h"] is before
    assert before.members.keys() == {member_id}


# --- brokers -----------------------------------------------------------------------------------------------------


def test_loss_of_a_broker(harness):
    member_id = stable_member(harness, "g")
    harness.kill(0)
    assert harness.leaders(1) == ([1, 2], [1, 1], [[1, 2], [1, 2]], [[0], [0]])
    assert harness.leaders(1, "alone") == ([1, 2], [-1], [[0]], [[0]])
    harness.apply(failover.start_broker, 0)
    assert harness.leaders(1) == ([0, 1, 2], [1, 1], [[0, 1, 2], [1, 2, 0]], [[], []])
    assert harness.leaders(1, "alone") == ([0, 1, 2], [0], [[0]], [[]])
    assert harness.heartbeat(member_id) == E.NONE


def test_loss_that_is_not_yet_noticed(harness):
    member_id = stable_member(harness, "g")
    old = harness.coordinator
    other = harness.other
    harness.kill(old, 9.0)
    assert harness.find(other) == (E.NONE, old)
    assert harness.heartbeat(member_id, node=other) == E.NOT_COORDINATOR
    harness.wait(8.9)
    assert harness.coordinator == old
    harness.wait(0.2)
    assert harness.coordinator != old
    harness.wait(9.7)
    assert harness.heartbeat(member_id) == E.NONE  # the session of the member begins when the group is loaded


def test_broker_restarts_before_its_loss_is_noticed(harness):
    member_id = stable_member(harness, "g")
    old = harness.coordinator
    before = harness.leaders(old)
    harness.kill(old, 9.0)
    harness.wait(1.0)
    harness.apply(failover.start_broker, old)
    assert harness.coordinator == old
    assert harness.leaders(old) == before
    assert harness.heartbeat(member_id) == E.NONE
    harness.wait(9.0)
    assert old in harness.broker.cluster.nodes


@pytest.mark.parametrize("noticed_after", [0.5, 9.0])
def test_only_groups_of_a_killed_coordinator_are_unloaded(harness, noticed_after):
    for group in "gh":
        stable_member(harness, group)
    assert harness.broker.coordinator("g") != harness.broker.coordinator("h")
    kept = harness.broker.groups["h"]
    harness.kill(harness.coordinator, noticed_after)
    assert harness.broker.groups["h"] is kept
    assert [event.group for event in harness.journal.events if event.event == EventKind.UNLOAD] == ["g"]
    assert len(harness.broker.cluster.nodes) == 3
    harness.wait(noticed_after)
    assert len(harness.broker.cluster.nodes) == 2


def test_stop_of_a_killed_broker_is_noticed_once(harness):
    """A loss that is noticed later must not apply to the restarted broker."""
    harness.kill(0, 5.0)
    harness.apply(failover.stop_broker, 0)
    assert harness.leaders(1)[0] == [1, 2]
    harness.apply(failover.start_broker, 0)
    harness.wait(6.0)
    assert harness.leaders(1)[0] == [0, 1, 2]


@pytest.mark.parametrize("end", ["stop", "kill", "kill unnoticed"])
def test_share_sessions_of_a_lost_broker_are_removed(harness, end):
    for node in (0, 1):
        harness.broker.share_sessions(node)
    if end == "stop":
        harness.apply(failover.stop_broker, 0)
    else:
        harness.kill(0, 9.0 if end == "kill unnoticed" else 0.0)
    assert [node for node, _ in harness.broker.all_share_sessions()] == [1]


def test_metadata_without_a_broker_that_led_no_partition(harness):
    """The brokers in the metadata change, although no leader changes."""
    for partition in harness.broker.cluster.partitions():
        if partition.leader == 2:
            harness.apply(failover.move_leader, partition, next(node for node in partition.replicas if node != 2))
    assert harness.leaders(0)[0] == [0, 1, 2]
    harness.apply(failover.stop_broker, 2)
    assert harness.leaders(0)[0] == [0, 1]
    harness.apply(failover.start_broker, 2)
    assert harness.leaders(0)[0] == [0, 1, 2]


def test_leader_lost_while_the_coordinator_loads():
    """The next leader loads the groups of a partition without a leader, and loads them once."""
    harness = FailoverHarness(config=LOAD)
    member_id = stable_member(harness, "g")
    partition = harness.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    partition.replicas = [0]
    harness.apply(failover.move_leader, partition, 0)
    harness.wait(2.0)
    loads = [event.event for event in harness.journal.events].count(EventKind.LOAD)
    harness.apply(failover.lead, partition, 0)
    harness.wait(0.5)
    harness.kill(0)
    harness.wait(2.0)
    assert [event.event for event in harness.journal.events].count(EventKind.LOAD) == loads
    harness.apply(failover.start_broker, 0)
    harness.wait(0.9995)
    assert E(harness.ask(ListGroupsRequest(), 4, node=0).error_code) == E.COORDINATOR_LOAD_IN_PROGRESS
    harness.wait(0.2)
    assert [event.event for event in harness.journal.events].count(EventKind.LOAD) == loads + 1
    assert harness.heartbeat(member_id) == E.NONE


def test_started_broker_leads_none_of_the_others_partitions(harness):
    for node in (0, 1):
        harness.kill(node)
    harness.apply(failover.start_broker, 1)
    assert harness.leaders(1, "alone") == ([1, 2], [-1], [[0]], [[0]])


def test_no_live_replica_no_coordinator(harness):
    member_id = stable_member(harness, "g")
    for node in (0, 1):
        harness.kill(node)
    assert harness.find(2) == (E.NONE, 2)
    assert harness.heartbeat(member_id) == E.NONE
    cluster = harness.broker.cluster
    partition = cluster.partition(*harness.broker.offsets_partition("g"))
    partition.replicas = [0]
    harness.apply(failover.start_broker, 0)
    harness.apply(failover.move_leader, partition, 0)
    harness.kill(0)
    assert harness.find(2) == (E.COORDINATOR_NOT_AVAILABLE, -1)
    harness.apply(failover.start_broker, 0)
    assert harness.find(2) == (E.NONE, 0)
    assert harness.heartbeat(member_id) == E.NONE


def test_invalid_actions_are_rejected(harness):
    partition = harness.broker.cluster.partition("alone", 0)
    with pytest.raises(
        failover.FailoverError, match=r"broker 1 is not an in-sync replica of alone-0 \(in-sync: \[0\]\)"
    ):
        failover.move_leader(harness.broker, partition, 1, 0.0)
    with pytest.raises(failover.FailoverError, match="broker 0 is already running"):
        failover.start_broker(harness.broker, 0, 0.0)
    for action in (failover.stop_broker, failover.start_broker):
        with pytest.raises(failover.UnknownBrokerError, match=r"broker 7 does not exist \(broker ids: 0, 1, 2\)"):
            action(harness.broker, 7, 0.0)
    harness.kill(1, 5.0)
    with pytest.raises(failover.FailoverError, match="broker 1 is not running"):
        failover.kill_broker(harness.broker, 1, 0.0, 0.0)
    harness.kill(2)
    with pytest.raises(failover.FailoverError, match="broker 2 is not running"):
        failover.kill_broker(harness.broker, 2, 0.0, 5.0)
    assert failover.move_leader(harness.broker, partition, 0, 0.0) == []


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [(8, -1, E.NOT_LEADER_OR_FOLLOWER), (11, 0, E.FENCED_LEADER_EPOCH)],
)
def test_leader_change_completes_a_delayed_fetch(harness, version, epoch, error):
    requested = FetchRequest.Topic.Partition(
        partition=0, fetch_offset=0, current_leader_epoch=epoch, partition_max_bytes=1_000
    )
    topics = [FetchRequest.Topic(topic="t", partitions=[requested])]
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
    waiting = harness.send(request, version, node=0)
    assert waiting.parked
    harness.apply(failover.move_leader, harness.broker.cluster.partition("t", 0), 1)
    assert waiting.answer.responses[0].partitions[0].error_code == error


def test_unclean_leader_lacks_the_last_records(harness):
    partition = harness.broker.cluster.partition("t", 0)
    for _ in range(4):
        partition.append(read_batch(build_batch([Record(value=b"v")])))
    requested = FetchRequest.Topic.Partition(
        partition=0, fetch_offset=4, partition_max_bytes=1_000, last_fetched_epoch=0
    )
    request = FetchRequest(max_wait_ms=0, topics=[FetchRequest.Topic(topic="t", partitions=[requested])])
    harness.apply(failover.elect_unclean, partition, 3)
    assert (partition.leader, partition.leader_epoch, partition.log.end) == (1, 1, 1)
    assert partition.epochs.entries == [(0, 0), (1, 1)]
    result = harness.ask(request, 12, node=1).responses[0].partitions[0]
    assert (result.error_code, result.diverging_epoch.epoch, result.diverging_epoch.end_offset) == (E.NONE, 0, 1)
    requested.last_fetched_epoch = -1
    assert harness.ask(request, 11, node=1).responses[0].partitions[0].error_code == E.OFFSET_OUT_OF_RANGE


def test_unclean_leader_forgets_producers_of_lost_records(harness):
    partition = harness.broker.cluster.partition("t", 0)
    for sequence in range(2):
        partition.append(
            read_batch(build_batch([Record(value=b"v")], producer_id=7, producer_epoch=0, base_sequence=sequence))
        )
    harness.apply(failover.elect_unclean, partition, 1)
    assert [producer.last_sequence for producer in partition.producers] == [0]
    harness.apply(failover.elect_unclean, partition, 9)
    assert (list(partition.producers), partition.log.end) == ([], 0)


def test_unclean_leader_without_another_live_replica(harness):
    harness.kill(1)
    harness.kill(2)
    partition = harness.broker.cluster.partition("t", 0)
    epoch = partition.leader_epoch
    harness.apply(failover.elect_unclean, partition, 1)
    assert (partition.leader, partition.leader_epoch) == (0, epoch + 1)


@pytest.mark.parametrize(("unclean", "leader"), [("false", -1), ("true", 1)])
def test_replica_outside_of_the_isr_leads_only_if_allowed(harness, unclean, leader):
    """This is KIP-106: unclean.leader.election.enable is false by default."""
    cluster = harness.broker.cluster
    cluster.create_topic("u", [[0, 1]], {"unclean.leader.election.enable": unclean})
    partition = cluster.partition("u", 0)
    partition.catching_up = frozenset({1})
    harness.kill(0)
    assert partition.leader == leader


@pytest.mark.parametrize(("unclean", "leader"), [("false", -1), ("true", 1)])
def test_started_replica_outside_of_the_isr_leads_if_allowed(harness, unclean, leader):
    cluster = harness.broker.cluster
    cluster.create_topic("u", [[0, 1]], {"unclean.leader.election.enable": unclean})
    partition = cluster.topics["u"].partitions[0]
    partition.catching_up = frozenset({1})
    harness.kill(1)
    harness.kill(0)
    assert partition.leader == -1
    harness.apply(failover.start_broker, 1)
    assert partition.leader == leader


def test_acks_all_requires_min_insync_replicas(harness):
    def write(acks: int) -> E:
        records = build_batch([Record(value=b"v")])
        data = ProduceRequest.Topic.Partition(index=1, records=records)
        request = ProduceRequest(
            acks=acks, timeout_ms=1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[data])]
        )
        return E(harness.ask(request, 9, node=1).responses[0].partition_responses[0].error_code)

    assert write(-1) == E.NONE
    harness.kill(0)
    assert write(-1) == E.NONE
    harness.kill(2)
    assert write(-1) == E.NOT_ENOUGH_REPLICAS
    assert write(1) == E.NONE


LEAST = [  # min.insync.replicas of the broker, stopped brokers, error of acks=all in a partition with 2 replicas
    (1, [0], E.NONE),
    (2, [], E.NONE),
    (2, [2], E.NONE),
    (2, [0], E.NOT_ENOUGH_REPLICAS),
    (3, [], E.NONE),
    (3, [0], E.NOT_ENOUGH_REPLICAS),
]


@pytest.mark.parametrize(("minimum", "stopped", "error"), LEAST)
def test_min_insync_replicas_of_the_broker(minimum, stopped, error):
    """The minimum is limited to the number of replicas, as recorded with a cluster of one broker and a setting of 2."""
    harness = FailoverHarness(config={"min.insync.replicas": minimum})
    harness.broker.cluster.create_topic("two", [[1, 0]])
    for node in stopped:
        harness.kill(node)
    data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
    request = ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=[ProduceRequest.Topic(name="two", partition_data=[data])]
    )
    assert E(harness.ask(request, 9, node=1).responses[0].partition_responses[0].error_code) == error


def test_preferred_leader_election(harness):
    member_id = stable_member(harness, "g")
    harness.kill(0)

    def elect(kind: int = 0, topics: Iterable[str] = ("t",)) -> list[Any]:
        places = [ElectLeadersRequest.TopicPartition(topic=name, partitions=[0]) for name in topics]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=places)
        results = harness.ask(request, 2, node=1).replica_election_results
        return [E(each.error_code) for topic in results for each in topic.partition_result]

    assert elect() == [E.PREFERRED_LEADER_NOT_AVAILABLE]
    assert elect(1) == [E.ELECTION_NOT_NEEDED]
    assert elect(1, ["alone"]) == [E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    harness.apply(failover.start_broker, 0)
    assert harness.leaders(1)[1] == [1, 1]
    assert elect() == [E.NONE]
    assert harness.leaders(1)[1] == [0, 1]
    results = harness.ask(ElectLeadersRequest(topic_partitions=None), 2, node=1).replica_election_results
    moved = {topic.topic: [each.error_code for each in topic.partition_result] for topic in results}
    assert set(moved[OFFSETS_TOPIC]) == {E.NONE}
    assert not moved["t"]
    assert harness.heartbeat(member_id) == E.NONE


# --- stale metadata ----------------------------------------------------------------------------------------------


def test_broker_with_frozen_metadata(harness):
    member_id = stable_member(harness, "g")
    old, stale = harness.coordinator, harness.other
    harness.broker.frozen_metadata[stale] = harness.broker.cluster.snapshot()
    before = harness.leaders(stale)
    harness.kill(old)
    fresh = harness.coordinator if harness.coordinator != stale else harness.other
    assert harness.find(stale) == (E.NONE, old)
    assert harness.find(fresh) == (E.NONE, harness.coordinator)
    assert harness.leaders(stale) == before != harness.leaders(fresh)
    assert harness.heartbeat(member_id) == E.NONE
    harness.broker.frozen_metadata.clear()
    assert harness.find(stale) == (E.NONE, harness.coordinator)


def test_frozen_metadata_without_transaction_log(harness):
    stale = harness.other
    harness.broker.frozen_metadata[stale] = harness.broker.cluster.snapshot()
    request = FindCoordinatorRequest(coordinator_keys=["p"], key_type=1)
    assert harness.ask(request, 4, node=harness.coordinator).coordinators[0].error_code == E.NONE
    assert harness.ask(request, 4, node=stale).coordinators[0].error_code == E.COORDINATOR_NOT_AVAILABLE


# --- recovery from the logs ---------------------------------------------------------------------------------------------


def test_pending_transactional_offsets_survive_a_failover(harness):
    node = harness.coordinator
    commit_without_member(harness, "g", node=node)
    group = harness.broker.groups["g"]
    producer = harness.broker.transactions
    producer.hold(group, Identity(7, 0), "t", 0, Committed(offset=50))
    harness.router.finish([], harness.now)
    harness.move()
    check_group_records(harness.broker, 1_700_000_000.0)
    assert offsets(harness) == {("t", 0): 5}
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    error, _ = producer.write_marker(partition, Identity(7, 0), committed=True, coordinator_epoch=0, now=harness.now)
    assert not error
    assert offsets(harness) == {("t", 0): 50}
    harness.move()
    assert offsets(harness) == {("t", 0): 50}


@pytest.mark.parametrize("committed", [True, False])
def test_transaction_marker_lost_in_a_crash_is_rewritten(committed):
    harness = BrokerHarness()
    producer = Producer(harness, "p")
    assert (producer.init(), producer.commit("g", 7), producer.end(committed=committed)) == (E.NONE, E.NONE, E.NONE)
    after = recovered(harness, lambda batch: not batch.control)
    assert snapshots.committed(after, "g") == ({("t", 0): 7} if committed else {})
    assert not any(group.offsets.pending_transactional for group in after.groups.values())
    assert not any(each.producers.first_unstable for each in after.cluster.partitions())


def test_share_state_and_retention_after_a_restart():
    harness = DurableBrokerHarness(topics={})
    topic = harness.broker.cluster.create_topic("t", [[0]], {"retention.ms": "1000"})
    key = StateKey("g", topic.topic_id, 0)
    assert harness.broker.share_states.initialize(key, 1, 7, 0.0) == E.NONE
    timestamp = round(WALL * 1_000)
    topic.partitions[0].append(read_batch(build_batch([Record(value=b"v", timestamp=timestamp)])))
    harness.restart()
    state = harness.broker.share_states.read(key, 0, harness.now)
    assert isinstance(state, ShareState)
    assert state.start_offset == 7
    harness.wait(600.0)
    assert harness.broker.cluster.topics["t"].partitions[0].log.start == 1


@pytest.mark.parametrize("transactions", [1, 2])
def test_producer_of_a_transaction_without_begin_is_fenced(transactions):
    """Otherwise, a retry of an aborted batch would succeed, and the producer would commit without the batch."""
    harness = BrokerHarness(topics={"t": 1})
    producer = Producer(harness, "p", new=True)
    assert producer.init() == E.NONE
    for number in range(transactions):
        if number:
            assert producer.end(committed=True) == E.NONE
        assert producer.produce(b"tea") == E.NONE
    *_, begin = harness.broker.cluster.topics[TRANSACTIONS_TOPIC].partition_of("p").log.batches()
    after = recovered(harness, lambda batch: batch != begin)
    *_, marker = after.cluster.topics["t"].partitions[0].log.batches()
    assert marker.control
    assert (marker.producer_id, marker.producer_epoch) == (producer.producer_id, producer.epoch + 1)


@pytest.mark.parametrize("committed", [True, False])
def test_partition_missing_in_an_ongoing_transaction_is_added(committed):
    """A retry of its producer succeeds, so the producer does not know that the partition was not stored."""
    harness = BrokerHarness(topics={"t": 2})
    producer = Producer(harness, "p", new=True)
    assert (producer.init(), producer.produce(b"tea"), producer.produce(b"rum", 1)) == (E.NONE, E.NONE, E.NONE)
    *_, added = harness.broker.cluster.topics[TRANSACTIONS_TOPIC].partition_of("p").log.batches()
    after = recovered(harness, lambda batch: batch != added)
    owner = after.transactions["p"]
    after.transactions.end("p", owner.identity, committed=committed, kip890=True, now=harness.now)
    for partition in after.cluster.topics["t"].partitions:
        assert partition.producers.first_unstable is None
        assert control_type(partition) == (ControlType.COMMIT if committed else ControlType.ABORT)


def control_type(partition: Partition) -> ControlType:
    """Return the type of the last batch, which must be a marker."""
    *_, marker = partition.log.batches()
    (record,) = control_records(marker)
    return record.type


def recovered(harness: BrokerHarness, keeps: Callable[[Batch], bool]) -> Broker:
    """Return a broker recovered after a crash. ``keeps``: whether a batch is still on disk after the crash."""
    old = harness.broker.cluster
    topics = []
    for topic in old.topics.values():
        partitions = []
        for each in topic.partitions:
            batches = [batch for batch in each.log.batches() if keeps(batch)]
            partition = Partition(each.topic, each.index, each.replicas)
            partition.restore(batches, 0, batches[-1].last_offset + 1 if batches else 0)
            partitions.append(partition)
        topics.append(Topic(topic.name, topic.topic_id, partitions))
    nodes = list(old.nodes.values())
    cluster = ClusterState(nodes, lambda: old.cluster_id)
    cluster.restore(old.cluster_id, topics, 0)
    broker = Broker(nodes, harness.broker.settings, lambda: old.cluster_id, cluster=cluster)
    Router(broker, Journal(0.0)).finish(failover.recover(broker, harness.now), harness.now)
    return broker


def offsets(harness: FailoverHarness) -> dict[tuple[str, int], int]:
    response = harness.ask(OffsetFetchRequest(group_id="g", topics=None), 5, node=harness.coordinator)
    return {(t.name, p.partition_index): p.committed_offset for t in response.topics for p in t.partitions}
