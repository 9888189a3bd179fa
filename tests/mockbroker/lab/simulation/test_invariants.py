"""The checkers of invariants, without a simulation: violations that they must report, and behavior that Kafka
allows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.classic.state import ClassicGroup, Member
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from mockbroker.groups.offsets import Committed
from mockbroker.lab.simulation.clients import plans
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.invariants.commits_kept import CommitsKept
from mockbroker.lab.simulation.invariants.generations import Generations
from mockbroker.lab.simulation.invariants.leadership import Leadership
from mockbroker.lab.simulation.invariants.one_owner import OneOwner
from mockbroker.lab.simulation.invariants.revocations import REASON, Revocations
from mockbroker.lab.simulation.invariants.sessions import Sessions
from mockbroker.lab.simulation.model import Model
from mockbroker.lab.simulation.watching import Broken, Watcher
from mockbroker.topics.model import Node

OFFSET_FETCH, JOIN_GROUP, SYNC_GROUP, END_TXN, TXN_OFFSET_COMMIT = 9, 11, 14, 26, 28
NOW = 0.0
TOPIC = UUID(int=1)


class Checked:
    """A checker, and the events of group g that the test reports to it."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.broker = Broker([Node(0, "127.0.0.1", 9092)], Settings(), Dice("test").uuid)
        self.calls = 0

    def note(self, event: EventKind, generation: int = -1) -> None:
        self.watcher.journaled(self.broker, Event(time_ms=0, event=event, group="g", generation=generation))

    def answer(self, key: int, request: Any, response: Any) -> tuple[Call[Any], Any]:
        """Report that the broker has made a response; ``acknowledge`` reports that it was sent."""
        self.calls += 1
        call = Call(Ticket(1, self.calls, key, 5), Client(0, "c", "/127.0.0.1"), request)
        self.watcher.before(self.broker, call, NOW)
        self.watcher.answered(self.broker, call, response, NOW)
        return call, response

    def join(self, generation: int) -> tuple[Call[Any], Any]:
        return self.answer(
            JOIN_GROUP, JoinGroupRequest(group_id="g"), JoinGroupResponse(generation_id=generation, member_id="m")
        )

    def sync(self, member_id: str, generation: int) -> tuple[Call[Any], Any]:
        share = plans.encoded_share(frozenset({("t", 0)}))
        return self.answer(
            SYNC_GROUP,
            SyncGroupRequest(group_id="g", member_id=member_id, generation_id=generation),
            SyncGroupResponse(protocol_type="consumer", assignment=share),
        )

    def acknowledge(self, answered: tuple[Call[Any], Any]) -> None:
        self.watcher.acknowledged(self.broker, *answered, NOW)


def test_session_timeout_after_a_load_and_a_downgrade():
    """A new coordinator starts all sessions with the timeout of consumer groups; a classic group uses the member's."""
    checked = Checked(Sessions())
    checked.broker.groups["g"] = ConsumerGroup(group_id="g")
    checked.answer(
        JOIN_GROUP, JoinGroupRequest(group_id="g", session_timeout_ms=10_000), JoinGroupResponse(member_id="m")
    )
    for time_ms, event in ((0, EventKind.LOAD), (1_000, EventKind.DOWNGRADE)):
        checked.watcher.journaled(checked.broker, Event(time_ms=time_ms, event=event, group="g", members=("m",)))
    group = checked.broker.groups["g"] = ClassicGroup(group_id="g", initial_delay=0.0)
    group.add_member(
        Member(
            member_id="m", client_id="c", client_host="/", session_timeout=10.0, rebalance_timeout=10.0, protocols=[]
        )
    )
    checked.watcher.inspect(checked.broker, 10.9)
    with pytest.raises(Broken, match=r"m of group g was not evicted after 10\.100 s .* session timeout of 10.0 s"):
        checked.watcher.inspect(checked.broker, 11.1)


def test_generation_falls_with_one_coordinator():
    checked = Checked(Generations())
    checked.acknowledge(checked.join(5))
    with pytest.raises(Broken, match="g returned generation 5, and later the lower generation 4"):
        checked.acknowledge(checked.join(4))


def test_generation_may_fall_with_the_next_coordinator():
    checked = Checked(Generations())
    checked.acknowledge(checked.join(5))
    checked.note(EventKind.UNLOAD)
    checked.note(EventKind.LOAD, 4)
    checked.acknowledge(checked.join(4))


def test_join_group_answers_may_be_sent_in_another_order():
    checked = Checked(Generations())
    first, second = checked.join(4), checked.join(5)
    checked.acknowledge(second)
    checked.acknowledge(first)


@pytest.mark.parametrize("loaded_before", [True, False], ids=["after the load", "before the load"])
def test_join_group_answer_of_a_former_coordinator(loaded_before):
    """A response that is sent late, because it waits for the disk while its coordinator stops, does not concern the
    next coordinator."""
    checked = Checked(Generations())
    checked.acknowledge(checked.join(4))
    late = checked.join(5)
    checked.note(EventKind.UNLOAD)
    if loaded_before:
        checked.note(EventKind.LOAD, 4)
    checked.acknowledge(late)
    if not loaded_before:
        checked.note(EventKind.LOAD, 4)
    checked.acknowledge(checked.join(4))
    checked.acknowledge(checked.join(5))
    with pytest.raises(Broken, match="g returned generation 5, and later the lower generation 4"):
        checked.acknowledge(checked.join(4))


def test_sync_group_answer_of_a_former_coordinator_is_durable():
    """The response was sent after its record was synced, so the next coordinator must know its generation."""
    checked = Checked(Generations())
    late = checked.sync("m", 5)
    checked.note(EventKind.UNLOAD)
    checked.acknowledge(late)
    with pytest.raises(Broken, match="group g was loaded in generation 4, but generation 5 was acknowledged"):
        checked.note(EventKind.LOAD, 4)


def test_partition_of_two_members_in_one_generation():
    checked = Checked(OneOwner())
    checked.acknowledge(checked.sync("a", 1))
    with pytest.raises(Broken, match="was assigned to both a and b"):
        checked.acknowledge(checked.sync("b", 1))


@pytest.mark.parametrize("checker", [OneOwner, Generations])
def test_response_of_a_deleted_group(checker):
    checked = Checked(checker())
    late = checked.sync("a", 3)
    checked.note(EventKind.DELETE)
    checked.acknowledge(late)
    checked.note(EventKind.LOAD, 1)
    checked.acknowledge(checked.sync("b", 3))


class Owned(Checked):
    """Partition 0 of one topic, in a KIP-848 group of members "a" and "b"."""

    def __init__(self) -> None:
        super().__init__(OneOwner())
        members = {name: ConsumerMember(member_id=name) for name in "ab"}
        self.broker.groups["g"] = ConsumerGroup(group_id="g", members=members)

    def report(self, member_id: str, *partitions: int) -> None:
        lines = [ConsumerGroupHeartbeatRequest.TopicPartition(topic_id=TOPIC, partitions=list(partitions))]
        self.watcher.before(self.broker, self.heartbeat(member_id, lines), NOW)

    def assign(self, member_id: str, *partitions: int) -> None:
        response = ConsumerGroupHeartbeatResponse(member_id=member_id)
        lines = [response.Assignment.TopicPartition(topic_id=TOPIC, partitions=list(partitions))]
        response.assignment = response.Assignment(topic_partitions=lines)
        self.watcher.acknowledged(self.broker, self.heartbeat(member_id, None), response, NOW)

    def heartbeat(self, member_id: str, lines: Any) -> Call[Any]:
        self.calls += 1
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, topic_partitions=lines)
        return Call(Ticket(1, self.calls, 68, 1), Client(0, "c", "/127.0.0.1"), request)


def test_partition_goes_to_a_member_while_another_owns_it():
    owned = Owned()
    owned.assign("a", 0)
    owned.report("a", 0)
    with pytest.raises(Broken, match=f"partition 0 of topic id {TOPIC} in group g is assigned to b, but a owns it"):
        owned.assign("b", 0)


def test_late_report_of_a_revoked_partition_is_ignored():
    """A member sent a full heartbeat before it had reconciled, and then reads the partition that this heartbeat gave
    up."""
    owned = Owned()
    owned.assign("a", 0)
    owned.report("a")
    owned.report("a", 0)
    owned.assign("b", 0)


class Led(Checked):
    """Leadership of a classic group, which member "a" has in generation 1."""

    def __init__(self) -> None:
        super().__init__(Leadership())
        self.broker.groups["g"] = ClassicGroup(group_id="g", initial_delay=0.0)
        self.begin(1, "a")

    def asks(self, member_id: str) -> Call[Any]:
        self.calls += 1
        request = JoinGroupRequest(group_id="g", member_id=member_id)
        call = Call(Ticket(1, self.calls, JOIN_GROUP, 5), Client(0, "c", "/127.0.0.1"), request)
        self.watcher.before(self.broker, call, NOW)
        return call

    def begin(self, generation: int, leader: str) -> None:
        event = Event(time_ms=0, event=EventKind.GENERATION, group="g", generation=generation, leader=leader)
        self.watcher.journaled(self.broker, event)


def test_joined_leader_must_stay_leader():
    led = Led()
    led.asks("a")
    with pytest.raises(
        Broken, match="b is the leader of generation 2 of g, but the previous leader a rejoined and should"
    ):
        led.begin(2, "b")


def test_replaced_join_group_is_not_pending():
    """Only the newer JoinGroup is answered, when its generation begins; in the next generation the leader is
    missing."""
    led = Led()
    led.asks("a")
    newer = led.asks("a")
    led.begin(2, "a")
    led.watcher.answered(led.broker, newer, JoinGroupResponse(generation_id=2), NOW)
    led.begin(3, "b")


class Revoking(Checked):
    """A static member that left while it had partitions to revoke; the next coordinator has loaded its group."""

    def __init__(self) -> None:
        super().__init__(Revocations())
        self.group = ConsumerGroup(group_id="g")
        self.broker.groups["g"] = self.group
        self.put("old", MemberState.UNREVOKED_PARTITIONS, -2)
        self.note(EventKind.LOAD, 1)

    def put(self, member_id: str, state: MemberState, epoch: int) -> None:
        self.group.members = {
            member_id: ConsumerMember(
                member_id=member_id, instance_id="i", state=state, epoch=epoch, rebalance_timeout=20.0
            )
        }

    def heartbeat(self, member_id: str) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id)
        call = Call(Ticket(1, 1, 68, 1), Client(0, "c", "/127.0.0.1"), request)
        self.watcher.handled(self.broker, call, 5.0)

    def fence(self, member_id: str, at: float) -> None:
        event = Event(
            time_ms=round(at * 1000), event="expire", group="g", member_id=member_id, reason=f"{REASON} in time"
        )
        self.watcher.journaled(self.broker, event)


def test_partitions_are_not_given_up_in_the_rebalance_timeout():
    revoking = Revoking()
    revoking.watcher.inspect(revoking.broker, 20.0)
    with pytest.raises(Broken, match="member old of group g did not revoke its partitions for 21"):
        revoking.watcher.inspect(revoking.broker, 21.0)


def test_absent_static_member_is_fenced_after_a_load():
    """Heartbeats of other members do not end its rebalance timeout."""
    revoking = Revoking()
    revoking.heartbeat("other")
    with pytest.raises(Broken, match="member old of group g was fenced after only 19"):
        revoking.fence("old", 19.0)
    revoking = Revoking()
    revoking.heartbeat("other")
    revoking.fence("old", 20.0)


def test_static_member_that_left_has_no_revocation_timeout():
    revoking = Revoking()
    revoking.put("old", MemberState.UNREVOKED_PARTITIONS, 1)
    revoking.heartbeat("old")
    revoking.put("old", MemberState.UNREVOKED_PARTITIONS, -2)
    revoking.heartbeat("other")
    with pytest.raises(Broken, match="old of group g was fenced, but had no partitions to revoke"):
        revoking.fence("old", 25.0)


def test_returned_static_member_has_no_old_revocation():
    revoking = Revoking()
    revoking.put("new", MemberState.STABLE, 1)
    revoking.heartbeat("new")
    revoking.watcher.inspect(revoking.broker, 21.0)


def test_downgraded_group_has_no_revocations():
    revoking = Revoking()
    revoking.note(EventKind.DOWNGRADE, 1)
    revoking.watcher.inspect(revoking.broker, 21.0)


class Undecided(Checked):
    """Producer 1 was committing offset 5 when the process crashed, and the marker was lost; group g has no
    coordinator."""

    def __init__(self) -> None:
        super().__init__(CommitsKept(Model()))
        group = self.broker.groups["g"] = ClassicGroup(group_id="g", initial_delay=0.0)
        self.offsets = group.offsets
        requested = TxnOffsetCommitRequest.Topic(
            name="t", partitions=[TxnOffsetCommitRequest.Topic.Partition(committed_offset=5)]
        )
        topic = TxnOffsetCommitResponse.Topic(name="t", partitions=[TxnOffsetCommitResponse.Topic.Partition()])
        request = TxnOffsetCommitRequest(group_id="g", producer_id=1, topics=[requested])
        self.acknowledge(self.answer(TXN_OFFSET_COMMIT, request, TxnOffsetCommitResponse(topics=[topic])))
        self.answer(END_TXN, EndTxnRequest(producer_id=1, committed=True), EndTxnResponse())
        self.watcher.crashed(self.broker, NOW)
        self.offsets.store_transactional(1, 0, "t", 0, Committed(offset=5))
        self.watcher.restarted(self.broker, NOW)
        self.note("unload")

    def fetch(self, offset: int) -> None:
        """Report that the broker answers an OffsetFetch with this offset."""
        place = OffsetFetchResponse.Group.Topic.Partition(partition_index=0, committed_offset=offset)
        group = OffsetFetchResponse.Group(
            group_id="g", topics=[OffsetFetchResponse.Group.Topic(name="t", partitions=[place])]
        )
        request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g")])
        self.answer(OFFSET_FETCH, request, OffsetFetchResponse(groups=[group]))


@pytest.mark.parametrize(("committed", "offset"), [(True, 5), (False, -1)], ids=["committed", "aborted"])
def test_transaction_ends_while_its_group_has_no_coordinator(committed, offset):
    """The next coordinator reads the marker with the rest of the log."""
    undecided = Undecided()
    undecided.offsets.end_transaction(1, committed=committed)
    undecided.note("load")
    undecided.fetch(offset)
    with pytest.raises(Broken, match=r"returned offset 4 for partition .* of group g"):
        undecided.fetch(4)


def test_transaction_that_is_open_when_its_group_is_loaded():
    undecided = Undecided()
    undecided.note("load")
    undecided.fetch(-1)
    undecided.watcher.journaled(
        undecided.broker, Event(time_ms=0, event="commit", group="g", offsets={"t": {0: 5}}, reason="a transaction")
    )
    undecided.fetch(5)
