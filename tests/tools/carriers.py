"""Members of classic groups that carry assignors, at a harness: real joins, real shares, in virtual time.

They do as consumers do, one request at a time; what each was told stands in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest

from kwire import ErrorCode as E
from kwire.assignors import (
    COOPERATIVE,
    Assignment,
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
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records.batch import batches
from mockbroker.api import records as inside

JOIN, SYNC, BEAT = 9, 5, 4  # versions


class Carriers(BrokerHarness):
    """A harness with such members; ``members``: those that are alive, in the order in which they came."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.members: list[Carrier] = []

    def carrier(
        self, name: str, *carries: str | Assignor, group: str = "g", topics: Sequence[str] = ("t",), **how: Any
    ) -> Carrier:
        """Somebody who has not joined yet. ``carries``: range, if nothing is said."""
        found = [assignor(each) if isinstance(each, str) else each for each in carries or ("range",)]
        made = Carrier(self, name, group, topics, found, **how)
        self.members.append(made)
        return made

    def settle(self) -> None:
        """Everybody does what is to be done, until all have a share and no one has to join again."""
        while self._step():
            pass
        assert [member.name for member in self.members if not member.settled] == []

    def live(self, seconds: float) -> None:
        """The same, while time passes: each beats every second."""
        end = self.now + seconds
        while self.now < end:
            self.wait(min(1.0, end - self.now))
            while self._step():
                pass

    def _step(self) -> bool:
        """Everybody's next thing; False if there is none."""
        return sum(member.step() for member in list(self.members)) > 0

    def shares(self, group: str = "g") -> dict[str, list[TopicPartition]]:
        """What each member believes that it has."""
        return {member.name: member.share for member in self.members if member.group == group}

    def fill(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        given = [inside.Record(value=value, partition=partition) for value in values]
        _, effects = inside.produce(self.broker, topic, given, 1_700_000_000_000)
        self._take(self.router.finish(effects, self.now))


class Carrier:
    """``share``: what it has by its last SyncGroup; ``heard``: answers with an error, and to what; ``led``: whether it
    led in the last generation; ``listed``: members that its last JoinGroup answer named."""

    def __init__(
        self,
        harness: Carriers,
        name: str,
        group: str,
        topics: Sequence[str],
        carried: Sequence[Assignor],
        *,
        session: float = 10.0,
        rebalance: float = 60.0,
    ) -> None:
        self.harness, self.name, self.group, self.topics = harness, name, group, list(topics)
        self.session, self.rebalance = session, rebalance
        self.carry(*carried)
        self.member_id, self.generation, self.led = "", -1, False
        self.protocol = ""
        self.share: list[TopicPartition] = []
        self.listed: list[str] = []
        self.heard: list[tuple[str, E]] = []
        self.positions: dict[TopicPartition, int] = {}
        self._knows: dict[str, int] = {}  # the leader's: partitions of all topics of the group
        self._again = True  # has to join
        self._joining: SentRequest | None = None
        self._syncing: SentRequest | None = None

    def carry(self, *carried: Assignor) -> None:
        """From the next JoinGroup on."""
        self.assignors = by_name(carried)
        self.cooperative = common_protocol(carried) == COOPERATIVE
        self._again = True

    def subscribe(self, *topics: str) -> None:
        """From the next JoinGroup on."""
        self.topics, self._again = list(topics), True

    @property
    def settled(self) -> bool:
        return not (self._again or self._joining or self._syncing)

    @property
    def node(self) -> int:
        return self.harness.broker.coordinator(self.group)

    def step(self) -> bool:
        """The next thing that it has to do, if it has not to wait for an answer; False: nothing."""
        if self._joining is not None:
            return not self._joining.parked and self._joined(self._joining)
        if self._syncing is not None:
            return not self._syncing.parked and self._synced(self._syncing)
        if self._again or self._has_to_join():
            self.send_join()
            return True
        return False

    # --- joining ---

    def _has_to_join(self) -> bool:
        grown = self.led and self._counts(self._knows) != self._knows
        return self.beat() != E.NONE or grown

    def send_join(self) -> None:
        subscription = {name: self._subscription(each) for name, each in self.assignors.items()}
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=round(self.session * 1000),
            rebalance_timeout_ms=round(self.rebalance * 1000),
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name=n, metadata=data) for n, data in subscription.items()],
        )
        self._again = False
        self._joining = self.harness.send(request, JOIN, node=self.node, client_id=self.name)

    def _subscription(self, carried: Assignor) -> bytes:
        """One that is eager says in each generation the same, as clients did before KIP-429."""
        owned = self.share if self.cooperative else []
        said = Subscription(self.topics, carried.user_data(self.topics), owned, self.generation)
        return encode_stored(write_subscription(said), 3 if self.cooperative else 0)

    def _joined(self, sent: SentRequest) -> bool:
        answer: Any = sent.answer
        self._joining = None
        if answer.error_code:
            self._refused("join", answer.error_code)
            if answer.error_code == E.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif answer.error_code == E.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            elif answer.error_code == E.INCONSISTENT_GROUP_PROTOCOL:  # which is for good
                self.fall_silent()
            return True
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.protocol, self.led = answer.protocol_name, answer.leader == answer.member_id
        self.listed = [member.member_id for member in answer.members]
        self._send_sync(self._plan(answer) if self.led else {})
        return True

    def _plan(self, answer: JoinGroupResponse) -> dict[str, Assignment]:
        members = {
            each.member_id: read_subscription(decode_stored(ConsumerProtocolSubscription, each.metadata)[0])
            for each in answer.members
        }
        self._knows = self._counts({topic for member in members.values() for topic in member.topics})
        topics, chosen = without_racks(self._knows), self.assignors[self.protocol]
        plan = dict(chosen.assign(topics, members))
        check(plan, topics, members, COOPERATIVE if self.cooperative else "eager")
        return plan

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        wanted = [MetadataRequest.Topic(name=topic) for topic in sorted(topics)]
        found = self.harness.ask(MetadataRequest(topics=wanted), 9).topics if wanted else []
        return {topic.name: len(topic.partitions) for topic in found}

    # --- syncing ---

    def _send_sync(self, plan: dict[str, Assignment]) -> None:
        kind = SyncGroupRequest.Assignment
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=[
                kind(member_id=m, assignment=encode_stored(write_assignment(given), 3)) for m, given in plan.items()
            ],
        )
        self._syncing = self.harness.send(request, SYNC, node=self.node, client_id=self.name)

    def _synced(self, sent: SentRequest) -> bool:
        answer: Any = sent.answer
        self._syncing = None
        if answer.error_code:
            self._refused("sync", answer.error_code)
            return True
        assignment = read_assignment(decode_stored(ConsumerProtocolAssignment, answer.assignment)[0])
        lost = set(self.share) - set(assignment.partitions)
        self.share = list(assignment.partitions)
        self.positions = {place: at for place, at in self.positions.items() if place in self.share}
        self.assignors[self.protocol].on_assignment(assignment, self.generation)
        self._again = self.cooperative and bool(lost)
        return True

    def _refused(self, what: str, error: int) -> None:
        self.heard.append((what, E(error)))
        self._again = True

    # --- while it is in ---

    def beat(self) -> E:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        error = E(self.harness.ask(request, BEAT, node=self.node, client_id=self.name).error_code)
        if error:
            self.heard.append(("beat", error))
            if error is E.UNKNOWN_MEMBER_ID:
                self.member_id, self.generation, self.share = "", -1, []
        return error

    def forget(self) -> None:
        """Its share, for which it asks again."""
        self.share = []
        self._send_sync({})

    def leave(self) -> None:
        """Say goodbye; the harness has it no more."""
        self.harness.members.remove(self)
        request = LeaveGroupRequest(
            group_id=self.group, members=[LeaveGroupRequest.Member(member_id=self.member_id, reason="has enough")]
        )
        answer = self.harness.ask(request, 5, node=self.node, client_id=self.name)
        assert [member.error_code for member in answer.members] == [E.NONE]

    def fall_silent(self) -> None:
        """Nothing is heard of it any more."""
        self.harness.members.remove(self)

    def read(self) -> list[tuple[int, bytes]]:
        """All that is there in its partitions, from where the group is on: partition and value."""
        found: list[tuple[int, bytes]] = []
        for topic, index in self.share:
            at = self.positions.get((topic, index), max(self.committed().get((topic, index), 0), 0))
            place = FetchRequest.Topic.Partition(partition=index, fetch_offset=at, partition_max_bytes=1 << 20)
            asked = FetchRequest(topics=[FetchRequest.Topic(topic=topic, partitions=[place])], max_bytes=1 << 20)
            answer = self.harness.ask(asked, 11, node=self.harness.leader(topic, index)).responses[0].partitions[0]
            assert answer.error_code == E.NONE
            records = [record for batch in batches(answer.records or b"") for record in batch.records()]
            found += [(index, record.value or b"") for record in records if record.offset >= at]
            self.positions[topic, index] = max([at, *(record.offset + 1 for record in records)])
        return found

    def commit(self) -> E:
        """Where it is in all its partitions; the first error, or NONE."""
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
        answer = self.harness.ask(request, 7, node=self.node, client_id=self.name)
        return E(max(place.error_code for topic in answer.topics for place in topic.partitions))

    def committed(self) -> dict[TopicPartition, int]:
        """Of its group."""
        answer = self.harness.ask(OffsetFetchRequest(group_id=self.group, topics=None), 5, node=self.node)
        return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}
