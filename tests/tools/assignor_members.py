"""Members of classic groups with kwire's assignors, in a broker harness. Tests call each step of a member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest
from tools.group_members import ClassicMember, Failed, GroupMember, Then, Timing

from kwire import ErrorCode as E
from kwire.assignors import (
    COOPERATIVE,
    Assignor,
    Subscription,
    TopicPartition,
    assignor,
    by_name,
    check,
    common_protocol,
    read_assignment,
    read_subscription,
    without_racks,
    write_assignment,
    write_subscription,
)
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.fetch import FetchRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.records.batch import batches
from mockbroker.api import records


class AssignorHarness(BrokerHarness):
    """A broker harness with members that use assignors. ``members``: the running members, in the order of creation."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.members: list[AssignorMember] = []
        self.pending: dict[GroupMember, tuple[SentRequest, Then]] = {}

    def member(
        self,
        name: str,
        *assignors: str | Assignor,
        group: str = "g",
        topics: Sequence[str] = ("t",),
        session: float = 10.0,
        rebalance: float = 60.0,
    ) -> AssignorMember:
        """Return a member that has not joined yet. ``assignors``: its assignors, by default range."""
        member_assignors = [assignor(each) if isinstance(each, str) else each for each in assignors or ("range",)]
        timing = Timing(session=session, rebalance=rebalance)
        made = AssignorMember(self, name, member_assignors, topics, group=group, timing=timing)
        made.start()
        self.members.append(made)
        return made

    def settle(self) -> None:
        """Let all members act until all have an assignment and none has to rejoin."""
        while self._step():
            pass
        assert [member.name for member in self.members if not member.settled] == []

    def live(self, seconds: float) -> None:
        """Let all members act while time passes: each sends a heartbeat every second."""
        end = self.now + seconds
        while self.now < end:
            self.wait(min(1.0, end - self.now))
            while self._step():
                pass

    def _step(self) -> bool:
        return sum(member.step() for member in list(self.members)) > 0

    def shares(self, group: str = "g") -> dict[str, list[TopicPartition]]:
        """Return the partitions that each member owns from its own view."""
        return {member.name: member.share for member in self.members if member.group == group}

    def fill(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        given = [records.Record(value=value, partition=partition) for value in values]
        _, effects = records.produce(self.broker, topic, given, 0.0)
        self._take(self.router.finish(effects, self.now))

    # --- the transport of the members ---

    def request(self, member: GroupMember, request: Any, version: int, then: Then) -> None:
        """Send a request. The next step of the member handles its response."""
        node = self.broker.coordinator(member.group)
        self.pending[member] = self.send(request, version, node=node, client_id=member.name), then

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        raise NotImplementedError("members act step by step")

    def partition_count(self, topic: str) -> int:
        return len(self.broker.cluster.topics[topic].partitions)


class AssignorMember(ClassicMember):
    """A member of a classic group.

    ``share``: assignment of its last SyncGroup; ``led``: whether it was the leader of the last generation; ``listed``:
    members in its last JoinGroup response; ``positions``: next offsets of its partitions."""

    transport: AssignorHarness

    def __init__(
        self, transport: AssignorHarness, name: str, assignors: Sequence[Assignor], topics: Sequence[str], **how: Any
    ) -> None:
        super().__init__(transport, name, **how)
        self.topics, self.led = list(topics), False
        self.share: list[TopicPartition] = []
        self.listed: list[str] = []
        self.positions: dict[TopicPartition, int] = {}
        self._counts_seen: dict[str, int] = {}  # if it leads: number of partitions of each topic of the group
        self.carry(*assignors)

    def carry(self, *assignors: Assignor) -> None:
        """Set the assignors for the next JoinGroup and later ones."""
        self.assignors = by_name(assignors)
        self.cooperative = common_protocol(assignors) == COOPERATIVE
        self._next: Callable[[], None] | None = self.join

    def subscribe(self, *topics: str) -> None:
        """Set the topics for the next JoinGroup and later ones."""
        self.topics, self._next = list(topics), self.join

    # --- acting ---

    def start(self) -> None:
        """Start the member, which joins in its first step."""
        self._next = self.join

    def later(self, delay: float, action: Callable[[], None]) -> None:
        self._next = action

    @property
    def settled(self) -> bool:
        return self._next is None and self not in self.transport.pending

    @property
    def node(self) -> int:
        return self.transport.broker.coordinator(self.group)

    def step(self) -> bool:
        """Take the next step, unless a response is pending; return whether there was a step."""
        if self in self.transport.pending:
            sent, then = self.transport.pending[self]
            if sent.parked:
                return False
            del self.transport.pending[self]
            then(sent.answer)
            return True
        if self._next is None and self._has_to_join():
            self._next = self.join
        if self._next is None:
            return False
        action, self._next = self._next, None
        action()
        return True

    def _has_to_join(self) -> bool:
        grown = self.led and self._counts(self._counts_seen) != self._counts_seen
        return self.heartbeat() != E.NONE or grown

    # --- joining ---

    def protocols(self) -> list[JoinGroupRequest.Protocol]:
        kind = JoinGroupRequest.Protocol
        return [kind(name=name, metadata=self._subscription(each)) for name, each in self.assignors.items()]

    def _subscription(self, carried: Assignor) -> bytes:
        """Return the subscription. An eager member sends the same in each generation, as clients did before KIP-429."""
        owned = self.share if self.cooperative else []
        subscription = Subscription(self.topics, carried.user_data(self.topics), owned, self.generation)
        return encode_stored(write_subscription(subscription), 3 if self.cooperative else 0)

    def _joined(self, response: Any) -> None:
        if not response.error_code:
            self.led = response.leader == response.member_id
            self.listed = [member.member_id for member in response.members]
        super()._joined(response)

    def plan(self, joined: Any) -> dict[str, bytes]:
        members = {
            each.member_id: read_subscription(decode_stored(ConsumerProtocolSubscription, each.metadata)[0])
            for each in joined.members
        }
        self._counts_seen = self._counts({topic for member in members.values() for topic in member.topics})
        topics = without_racks(self._counts_seen)
        plan = dict(self.assignors[self.protocol].assign(topics, members))
        check(plan, topics, members, COOPERATIVE if self.cooperative else "eager")
        return {member: encode_stored(write_assignment(given), 3) for member, given in plan.items()}

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        wanted = [MetadataRequest.Topic(name=topic) for topic in sorted(topics)]
        result = self.transport.ask(MetadataRequest(topics=wanted), 9).topics if wanted else []
        return {topic.name: len(topic.partitions) for topic in result}

    def accept(self, data: bytes) -> None:
        received = read_assignment(decode_stored(ConsumerProtocolAssignment, data)[0])
        revoked = set(self.share) - set(received.partitions)
        self.share = list(received.partitions)
        self.positions = {place: at for place, at in self.positions.items() if place in self.share}
        self.assignors[self.protocol].on_assignment(received, self.generation)
        if self.cooperative and revoked:
            self._next = self.join

    def _refused(self, response: Any, delay: float) -> None:
        if response.error_code == E.INCONSISTENT_GROUP_PROTOCOL:  # a permanent error
            self.stop()
        else:
            super()._refused(response, delay)

    # --- while it is a member ---

    def heartbeat(self) -> E:
        """Send a heartbeat; return its error."""
        request = self.heartbeat_request()
        error = E(self.transport.ask(request, 4, node=self.node, client_id=self.name).error_code)
        if error:
            self.errors.append(Failed(self.transport.now, "Heartbeat", error.name))
            if error is E.UNKNOWN_MEMBER_ID:
                self.member_id, self.generation, self.share = "", -1, []
        return error

    def forget(self) -> None:
        """Drop the assignment, and send SyncGroup for it again."""
        self.share = []
        self.sync({})

    def leave(self) -> None:
        request = LeaveGroupRequest(
            group_id=self.group, members=[LeaveGroupRequest.Member(member_id=self.member_id, reason="has enough")]
        )
        answer = self.transport.ask(request, 5, node=self.node, client_id=self.name)
        assert [member.error_code for member in answer.members] == [E.NONE]
        self.stop()

    def stop(self) -> None:
        super().stop()
        self.transport.members.remove(self)

    # --- reading and committing ---

    def read(self) -> list[tuple[int, bytes]]:
        """Return partition and value of all records of its partitions, beginning at its positions."""
        records: list[tuple[int, bytes]] = []
        for topic, index in self.share:
            at = self.positions.get((topic, index), max(self.committed().get((topic, index), 0), 0))
            place = FetchRequest.Topic.Partition(partition=index, fetch_offset=at, partition_max_bytes=1 << 20)
            request = FetchRequest(topics=[FetchRequest.Topic(topic=topic, partitions=[place])], max_bytes=1 << 20)
            leader = self.transport.leader(topic, index)
            answer = self.transport.ask(request, 11, node=leader).responses[0].partitions[0]
            assert answer.error_code == E.NONE
            fetched = [record for batch in batches(answer.records or b"") for record in batch.records()]
            records += [(index, record.value or b"") for record in fetched if record.offset >= at]
            self.positions[topic, index] = max([at, *(record.offset + 1 for record in fetched)])
        return records

    def commit(self) -> E:
        """Commit its positions; return the first error, or NONE."""
        kind = OffsetCommitRequest.Topic
        topics = [
            kind(name=topic, partitions=[kind.Partition(partition_index=index, committed_offset=offset)])
            for (topic, index), offset in self.positions.items()
        ]
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=topics,
        )
        answer = self.transport.ask(request, 7, node=self.node, client_id=self.name)
        return E(max(place.error_code for topic in answer.topics for place in topic.partitions))

    def committed(self) -> dict[TopicPartition, int]:
        """Return the committed offsets of its group."""
        answer = self.transport.ask(OffsetFetchRequest(group_id=self.group, topics=None), 5, node=self.node)
        return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}
