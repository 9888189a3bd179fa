"""Many groups, many members and rebalance storms are served at a bounded cost, and leave no state.

Cost is measured in calls of Python functions, which do not depend on the machine, and in bytes of allocated memory.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from effort import amount
from tools.broker_harness import BrokerHarness
from tools.consumer_group_harness import ConsumerGroupHarness
from tools.counting import counted
from tools.streams_group_harness import WORD_COUNT, StreamsGroupHarness

from kwire import ErrorCode as E
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records.batch import Record, build_batch
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.groups.classic.state import State

GROUPS = MEMBERS = amount(1_000, 10_000)
WIDE = amount(250, 1_000)  # members of the largest group of a newer protocol
SESSION = 10.0  # session timeout of the members of BrokerHarness, in seconds


def form(harness: BrokerHarness, group: str, size: int) -> list[str]:
    """Let members form a Stable group; return their ids, the leader first."""
    parked = [harness.send(harness.join(group), 3) for _ in range(size)]
    first = parked[0].answer
    if size > 1:  # its first generation began without the others, so it rejoins
        parked[0] = harness.send(harness.join(group, first.member_id), 3)
    ids = [sent.answer.member_id for sent in parked]
    generation, leader = parked[0].answer.generation_id, parked[0].answer.leader
    shares = [SyncGroupRequest.Assignment(member_id=each, assignment=b"") for each in ids]
    for member_id in reversed(ids):
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            assignments=shares if member_id == leader else [],
        )
        harness.send(sync, 1)
    assert harness.broker.groups[group].state is State.STABLE
    assert {sent.answer.generation_id for sent in parked} == {generation}
    return ids


def beat(harness: BrokerHarness, group: str, member_id: str) -> int:
    request = HeartbeatRequest(
        group_id=group, generation_id=harness.broker.groups[group].generation, member_id=member_id
    )
    return harness.ask(request, 3).error_code


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.watched = 0  # count only the calls of the broker
    return harness


def test_a_heartbeat_costs_the_same_in_a_group_of_any_size(harness):
    costs = []
    for size in (10, 100, 1_000):
        ids = form(harness, f"g{size}", size)
        beat(harness, f"g{size}", ids[-1])
        with counted() as calls:
            assert beat(harness, f"g{size}", ids[-1]) == E.NONE
        costs.append(calls.count)
    assert max(costs) == min(costs)


def test_thousands_of_members_in_one_group(harness):
    with counted() as calls:
        ids = form(harness, "g", MEMBERS)
    assert calls.count < 300 * MEMBERS
    assert harness.broker.groups["g"].generation == 2
    assert all(beat(harness, "g", member_id) == E.NONE for member_id in ids[::100])
    with counted() as calls:
        harness.wait(SESSION + 1)  # no member sends a request any more
    assert calls.count < 100 * MEMBERS
    group = harness.broker.groups["g"]
    assert (group.state, group.members, len(group.timers), len(group.supported_protocols)) == (State.EMPTY, {}, 0, 0)


def test_thousands_of_groups(harness):
    for number in range(GROUPS):
        form(harness, f"g{number}", 1)
    assert len(harness.broker.groups) == GROUPS
    with counted() as calls:
        for number in range(0, GROUPS, 100):
            (member_id,) = harness.broker.groups[f"g{number}"].members
            assert beat(harness, f"g{number}", member_id) == E.NONE
    assert calls.count < GROUPS // 100 * 200
    harness.wait(2 * SESSION)
    harness.broker.groups.schedule_offset_expiration(harness.now)
    harness.wait(601.0)
    assert harness.broker.groups == {}
    assert len(harness.broker.deadlines) == 1  # the next sweep


def test_a_group_takes_so_many_bytes(harness):
    form(harness, "first", 10)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100):
            form(harness, f"g{number}", 10)
        harness.router.requests.restart(0.0)
        harness.journal.restart(0.0)
        harness.sent.clear()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held < 1_000 * 3_000  # for each member, as in docs/limits.md


def test_a_thousand_members_leave_one_by_one(harness):
    ids = form(harness, "g", 1_000)
    with counted() as calls:
        for member_id in ids:
            left = harness.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 2)
            assert left.error_code == E.NONE
    assert calls.count < 200 * 1_000
    assert harness.broker.groups["g"].state is State.EMPTY


def test_storm_of_joins_and_leaves_is_one_rebalance(harness):
    ids = form(harness, "g", 100)
    generation = harness.broker.groups["g"].generation
    storm = [harness.send(harness.join("g"), 3) for _ in range(1_000)]
    assert not any(sent.done for sent in storm)
    for member_id in list(harness.broker.groups["g"].members)[100:]:
        harness.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 2)
    assert all(sent.answer.error_code == E.UNKNOWN_MEMBER_ID for sent in storm)
    back = [harness.send(harness.join("g", member_id), 3) for member_id in ids]
    assert {sent.answer.generation_id for sent in back} == {generation + 1}
    group = harness.broker.groups["g"]
    assert (len(group.members), len(group.pending_members), group.pending_join_count) == (100, 0, 0)


def test_unused_member_ids_are_forgotten(harness):
    for _ in range(5_000):
        assert harness.ask(harness.join("g"), 5).error_code == E.MEMBER_ID_REQUIRED
    group = harness.broker.groups["g"]
    assert len(group.pending_members) == 5_000
    harness.wait(SESSION)
    assert (len(group.pending_members), len(group.timers)) == (0, 0)


def test_repeated_metadata_costs_the_same_in_any_cluster(harness):
    costs = []
    for more in (0, 100, 5_000):
        for number in range(more):
            harness.broker.cluster.create_topic(f"t{more}-{number}", [[0]])
        request = MetadataRequest(topics=None)
        harness.send(request, 9)
        call = Call(Ticket(0, 1, 3, 9), Client(0, "c", "/"), request, b"")
        with counted() as calls:
            (reply,) = harness.router.step(call, harness.now)
        assert len(reply.response.topics) >= more
        costs.append(calls.count)
    assert max(costs) <= min(costs) + 1  # the size of an answer that was never sent


def test_record_completes_only_fetches_of_its_topic(harness):
    harness.broker.cluster.create_topic("other", [[0]])

    def fetch(topic: str) -> Any:
        partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=100)
        topics = [FetchRequest.Topic(topic=topic, partitions=[partition])]
        return harness.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=100, topics=topics), 11)

    def produce() -> int:
        data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name="t", partition_data=[data])]
        with counted() as calls:
            harness.ask(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 7)
        return calls.count

    fetch("other")
    produce()
    alone = produce()
    others = [fetch("other") for _ in range(2_000)]
    assert produce() == alone
    assert not any(sent.done for sent in others)


def consumers(size: int) -> ConsumerGroupHarness:
    """Return a group ``g`` of the consumer protocol in which all members have their assignment."""
    harness = ConsumerGroupHarness()
    harness.watched = 0
    harness.broker.cluster.create_topic("wide", [[0]] * 1_000)
    for number in range(size):
        harness.join(f"m{number}", topics=("wide",))
    harness.settle()
    return harness


def test_consumer_group_heartbeat_cost_is_independent_of_size():
    costs = []
    for size in (5, 50, WIDE):
        harness = consumers(size)
        assert harness.group.state_name == "Stable"
        with counted() as calls:
            harness.beat("m1", member_epoch=harness.group.epoch)
        costs.append(calls.count)
    assert max(costs) == min(costs)


def test_consumer_group_join_cost_is_independent_of_size():
    costs = []
    for size in (70, 600):  # neither join changes the share of each member or the buckets of Kafka's map
        harness = ConsumerGroupHarness()
        harness.watched = 0
        harness.broker.cluster.create_topic("narrow", [[0]] * 10)
        for number in range(size):
            harness.join(f"m{number}", topics=("narrow",))
        with counted() as calls:
            harness.join("new", topics=("narrow",))
        costs.append(calls.count)
    assert costs[1] <= 1.05 * costs[0]


def test_streams_group_join_cost_is_independent_of_size():
    costs = []
    for size in (70, 600):
        harness = StreamsGroupHarness(topics={"t": 10})
        harness.watched = 0
        for number in range(size):
            harness.join(f"m{number}", process_id=f"p{number}")
        with counted() as calls:
            harness.join("new", process_id="new")
        costs.append(calls.count)
    assert costs[1] <= 1.05 * costs[0]


def test_a_storm_of_joins_and_leaves_of_the_consumer_protocol():
    """In the end, the remaining members have their assignment, and there is no state of members that left, expired or
    were replaced."""
    harness = consumers(50)
    for number in range(300):
        harness.join(f"storm{number % 150}", topics=("wide",))
        if number % 3 == 0:
            harness.beat(f"storm{number % 150}", member_epoch=-1)
    for number in range(150):
        if f"storm{number}" in harness.group.members and number % 3 == 1:
            harness.beat(f"storm{number}", member_epoch=-1)
    for _ in range(12):  # 60 s, in which only the first 50 members send heartbeats
        harness.wait(5.0)
        for number in range(50):
            harness.poll(f"m{number}")
    group = harness.group
    assert set(group.members) == set(group.target) == {f"m{number}" for number in range(50)}
    assert group.state_name == "Stable"
    assert len(group.partition_epochs) == 1_000
    assert {wait[1] for wait in group.timers._at} <= set(group.members) | {""}


def streams_members(size: int) -> tuple[StreamsGroupHarness, int]:
    """Return a streams group in which each member has one active task, and the number of calls that this took."""
    harness = StreamsGroupHarness(
        config={"group.streams.initial.rebalance.delay.ms": 3_000}, topics={"t": max(size // 2, 1)}
    )
    harness.watched = 0
    with counted() as calls:
        for number in range(size):
            harness.join(f"m{number}", WORD_COUNT, process_id=f"p{number // 4}")
        harness.wait(3.1)
        harness.settle()
    return harness, calls.count


def test_forming_a_streams_group_is_not_quadratic():
    costs = {size: streams_members(size)[1] / size for size in (50, WIDE)}
    assert costs[WIDE] < 1.5 * costs[50]


def test_streams_group_heartbeat_cost_is_independent_of_size():
    costs = []
    for size in (10, 50, WIDE):
        harness, _ = streams_members(size)
        name = "m1"
        with counted() as calls:
            harness.poll(name)
        costs.append(calls.count)
        assert harness.group.state_name == "Stable"
    assert max(costs) == min(costs)
    with counted() as calls:
        harness.wait(50)  # all sessions expire
    assert harness.group.empty
    assert calls.count < 500 * WIDE


def test_a_generation_of_thousands_is_an_event_without_names(harness):
    form(harness, "g", 1_001)
    sizes = [len(event.members) for event in harness.journal.events if event.event == "generation"]
    assert sizes[-1] == 0
    assert max(sizes) <= 1_000


def test_thousands_of_consumer_groups_are_served(harness):
    def ask(number: int, epoch: int, topics: list[str] | None = None) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"g{number}",
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if topics is None else 60_000,
            subscribed_topic_names=topics,
            topic_partitions=None if topics is None else [],
        )
        return harness.ask(request, 1)

    for number in range(GROUPS):
        assert ask(number, 0, ["t"]).member_epoch == 1
    with counted() as calls:
        assert all(ask(number, 1).error_code == E.NONE for number in range(0, GROUPS, 100))
    assert calls.count < GROUPS // 100 * 300
    harness.wait(60.0)  # no member sends a request any more
    assert all(group.empty for group in harness.broker.groups.values())
