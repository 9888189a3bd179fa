"""Groups after their only broker was killed and restarted: the same stories are played on Kafka and on mockbroker.

A story is a generator that yields when the broker is to be killed. Each response is recorded as a line; tests compare
the lines.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from kwire import ErrorCode, decode_response, encode_request
from kwire.frames import pack
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest

TOPIC = "probe"
PATIENCE = 20.0  # seconds
SOON = 0.1  # seconds after which the broker has read a sent request
RANGE = b"\0\1\0\0\0\1\0\5probe\xff\xff\xff\xff\0\0\0\0"
NOT_YET = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
Story = Callable[["Teller"], Iterator[None]]
STORIES: dict[str, tuple[Story, tuple[str, ...]]] = {}
NEW, OLD = "4.2.0", "3.9.1"


def story(*releases: str) -> Callable[[Story], Story]:
    def keep(play: Story) -> Story:
        STORIES[play.__name__] = play, releases or (NEW, OLD)
        return play

    return keep


class Teller:
    """The recorder of one story: its group and the recorded lines. ``at``: host and port of the broker."""

    def __init__(self, name: str, at: tuple[str, int]) -> None:
        self.group = f"g-{name}"
        self.at = at
        self.lines: list[str] = []
        self.names: dict[str, str] = {}  # by member id
        self.peers: list[Peer] = []
        self.topic_id = UUID(int=0)

    def say(self, text: str) -> None:
        self.lines.append(text)


class Peer:
    """A member, or a client that joins, with its own connection, which is opened again after it was closed."""

    def __init__(self, teller: Teller, name: str, instance: str | None = None, session: int = 30_000) -> None:
        self.teller, self.name, self.instance, self.session = teller, name, instance, session
        self.member_id = ""
        self.generation = -1
        self._socket: socket.socket | None = None
        teller.peers.append(self)

    def send(self, request: Any, version: int) -> int:
        """Send a request, and do not wait for the response."""
        if self._socket is None:
            self._socket = socket.create_connection(self.teller.at, timeout=PATIENCE)
        frame = encode_request(request, version, correlation_id=1, client_id=self.name)
        self._socket.sendall(pack(frame))
        return int.from_bytes(frame[:2], "big")

    def read(self, key: int, version: int) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(self._exactly(size), key, version).body

    def ask(self, request: Any, version: int) -> Any:
        return self.read(self.send(request, version), version)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, f"{self.name}: the broker closed the connection"
            data += more
        return data

    def say(self, what: str, answer: Any, *more: object) -> None:
        error = ErrorCode(answer if isinstance(answer, int) else answer.error_code).name
        self.teller.say(" ".join([f"{self.name}: {what}: {error}", *map(str, more)]))

    # --- the classic protocol ---

    def joining(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.teller.group,
            session_timeout_ms=self.session,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=RANGE)],
        )

    def get_id(self) -> None:
        self.member_id = self.ask(self.joining(), 9).member_id
        self.teller.names[self.member_id] = self.name

    def start_join(self) -> int:
        """Send JoinGroup, with a member id that is requested before if needed; ``joined`` waits for the response."""
        if not self.member_id and self.instance is None:
            self.get_id()
        key = self.send(self.joining(), 9)
        time.sleep(SOON)
        return key

    def joined(self, key: int) -> None:
        answer = self.read(key, 9)
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.teller.names[self.member_id] = self.name
        leads = "leads" if answer.leader == answer.member_id and not answer.error_code else "follows"
        self.say("JoinGroup", answer, "generation", answer.generation_id, leads, "of", len(answer.members))

    def join(self) -> None:
        self.joined(self.start_join())

    def sync(self, *others: Peer, generation: int | None = None) -> None:
        """Send SyncGroup, with assignments of these members from the leader, or with none from a follower."""
        self.synced(self.start_sync(*others, generation=generation))

    def start_sync(self, *others: Peer, generation: int | None = None) -> int:
        plan = [
            SyncGroupRequest.Assignment(member_id=peer.member_id, assignment=f"share of {peer.name}".encode())
            for peer in others
        ]
        request = SyncGroupRequest(
            group_id=self.teller.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=plan,
        )
        return self.send(request, 5)

    def synced(self, key: int) -> None:
        answer = self.read(key, 5)
        self.say("SyncGroup", answer, repr(answer.assignment.decode()))

    def stable(self, *others: Peer) -> None:
        """Form a stable group with these members, of which this one is the leader."""
        self.join()
        self.sync(self)
        if others:
            waiting = [(peer, peer.start_join()) for peer in others]
            self.join()
            for peer, key in waiting:
                peer.joined(key)
            self.sync(self, *others)
            for peer in others:
                peer.sync()

    def beat(self, generation: int | None = None) -> None:
        request = HeartbeatRequest(
            group_id=self.teller.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.say(f"Heartbeat in {request.generation_id}", self.ask(request, 4))

    def leave(self) -> None:
        leaving = LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance)
        answer = self.ask(LeaveGroupRequest(group_id=self.teller.group, members=[leaving]), 5)
        self.say("LeaveGroup", answer.error_code or answer.members[0].error_code)

    def commit(self, offset: int, index: int = 0) -> None:
        place = OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.teller.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[OffsetCommitRequest.Topic(name=TOPIC, partitions=[place])],
        )
        self.say(f"OffsetCommit {offset}", self.ask(request, 9).topics[0].partitions[0])

    def offset(self, index: int = 0, *, stable: bool = False) -> None:
        topic = OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=[index])
        answer = self.ask(OffsetFetchRequest(group_id=self.teller.group, topics=[topic], require_stable=stable), 7)
        place = answer.topics[0].partitions[0]
        self.say(f"OffsetFetch{' stable' * stable}", answer.error_code or place.error_code, place.committed_offset)

    def describe(self) -> None:
        described = self.ask(DescribeGroupsRequest(groups=[self.teller.group]), 5).groups[0]
        members = sorted(self.teller.names.get(member.member_id, "?") for member in described.members)
        self.say("DescribeGroups", described, described.group_state, *members)

    # --- the consumer protocol ---

    def tell(self, epoch: int | None = None, *, owned: list[int] | None = None, full: bool = False) -> None:
        """Send ConsumerGroupHeartbeat. ``full``: with all fields."""
        joins = epoch == 0
        line = ConsumerGroupHeartbeatRequest.TopicPartition
        lines = None if owned is None else [line(topic_id=self.teller.topic_id, partitions=owned)] if owned else []
        self.member_id = self.member_id or f"id-{self.name}-{self.teller.group}"
        self.teller.names[self.member_id] = self.name
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.teller.group,
            member_id=self.member_id,
            member_epoch=self.generation if epoch is None else epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=60_000 if joins or full else -1,
            subscribed_topic_names=[TOPIC] if joins or full else None,
            topic_partitions=[] if joins else lines,
        )
        answer = self.ask(request, 1)
        if not answer.error_code:
            self.generation = answer.member_epoch
        share = None
        if answer.assignment is not None:
            share = sorted(index for each in answer.assignment.topic_partitions for index in each.partitions)
        self.say(f"heartbeat in {request.member_epoch}", answer, "epoch", answer.member_epoch, "share", share)

    def describe_consumer(self) -> None:
        described = self.ask(ConsumerGroupDescribeRequest(group_ids=[self.teller.group]), 1).groups[0]
        members = sorted(f"{self.teller.names.get(m.member_id, '?')} in {m.member_epoch}" for m in described.members)
        self.say(
            "ConsumerGroupDescribe",
            described,
            described.group_state,
            described.group_epoch,
            described.assignment_epoch,
            *members,
        )


def wait_until_served(at: tuple[str, int], groups: list[str]) -> dict[str, set[str]]:
    """Wait until the broker serves these groups; return the errors that it returned until then, by API."""
    seen: dict[str, set[str]] = {}
    until = time.monotonic() + 60
    while time.monotonic() < until:
        peer = Peer(Teller("ready", at), "ready")
        try:
            coordinators = peer.ask(FindCoordinatorRequest(coordinator_keys=groups), 4).coordinators
            errors = {ErrorCode(each.error_code) for each in coordinators}
            seen.setdefault("FindCoordinator", set()).update(error.name for error in errors)
            requested = [OffsetFetchRequest.Group(group_id=group, topics=[]) for group in groups]
            loaded = {ErrorCode(each.error_code) for each in peer.ask(OffsetFetchRequest(groups=requested), 8).groups}
            seen.setdefault("OffsetFetch", set()).update(error.name for error in loaded)
            if not (errors | loaded) & NOT_YET:
                return seen
        except (OSError, AssertionError):
            pass
        finally:
            peer.close()
        time.sleep(0.005)
    raise AssertionError(f"the broker does not serve: {seen}")


def tell_all(at: tuple[str, int], release: str, die_and_return: Callable[[], None]) -> dict[str, list[str]]:
    """Play all stories of a release; return the recorded lines by the name of the story."""
    tellers = {name: Teller(name, at) for name, (_, releases) in STORIES.items() if release in releases}
    wait_until_served(at, [teller.group for teller in tellers.values()])
    asker = Peer(Teller("topic", at), "topic")
    topic_id = asker.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)]), 12).topics[0].topic_id
    asker.close()
    running = []
    for name, teller in tellers.items():
        teller.topic_id = topic_id
        running.append(STORIES[name][0](teller))
    for each in running:
        next(each)
    for teller in tellers.values():
        teller.say("--- the broker dies and is back")
    die_and_return()
    wait_until_served(at, [teller.group for teller in tellers.values()])
    for each in running:
        next(each, None)
    for teller in tellers.values():
        again(*teller.peers)
    return {name: teller.lines for name, teller in tellers.items()}


# --- the stories -------------------------------------------------------------------------------------------------


@story()
def stable(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a"), Peer(t, "b")
    a.stable(b)
    a.commit(5)
    yield
    again(a, b)
    a.describe()
    b.beat(1)
    a.beat()
    b.beat()
    b.sync()
    a.offset()
    a.commit(6)
    b.join()
    b.join()
    b.beat()


@story()
def the_leader_joins_again(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a"), Peer(t, "b")
    a.stable(b)
    yield
    again(a, b)
    joining = a.start_join()
    b.beat()
    b.join()
    a.joined(joining)


@story()
def preparing(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a"), Peer(t, "b")
    a.stable()
    b.start_join()
    a.beat()
    yield
    again(a, b)
    a.describe()
    a.beat()
    b.beat(1)
    b.join()


@story()
def completing(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a"), Peer(t, "b")
    a.stable()
    joining = b.start_join()
    a.join()
    b.joined(joining)
    yield
    again(a, b)
    a.describe()
    a.sync(a, b)
    b.sync()
    a.beat()
    a.beat(1)
    b.beat()


@story()
def completing_for_the_first_time(t: Teller) -> Iterator[None]:
    a = Peer(t, "a")
    a.join()
    yield
    again(a)
    a.describe()
    a.sync(a)
    a.beat()
    a.join()


@story()
def the_leader_has_synced(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a"), Peer(t, "b")
    a.stable()
    joining = b.start_join()
    a.join()
    b.joined(joining)
    a.sync(a, b)
    yield
    again(a, b)
    a.describe()
    b.beat()
    b.sync()
    a.beat()


@story()
def an_id_was_given(t: Teller) -> Iterator[None]:
    a = Peer(t, "a")
    a.get_id()
    yield
    again(a)
    a.join()


@story()
def static(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a", "one"), Peer(t, "b", "two")
    a.stable(b)
    yield
    again(a, b)
    a.describe()
    a.beat()
    b.beat()
    old = b.member_id
    b.member_id = ""
    b.join()
    b.sync()
    b.member_id = old
    b.beat()


@story()
def an_unwritten_generation_is_forgotten(t: Teller) -> Iterator[None]:
    """Both members get generation 3 from JoinGroup; the next coordinator is in generation 2, and assigns 3 again."""
    a, b = Peer(t, "a", "one"), Peer(t, "b", "two")
    a.stable(b)
    joining = a.start_join()
    b.join()
    a.joined(joining)
    yield
    again(a, b)
    a.describe()
    a.beat(3)
    a.beat(2)
    b.member_id = ""
    b.join()
    joining = a.start_join()
    b.join()
    a.joined(joining)


@story()
def static_of_whom_nothing_is_written(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a", "one"), Peer(t, "b", "two")
    a.stable()
    joining = b.start_join()
    a.join()
    b.joined(joining)
    yield
    again(a, b)
    b.beat()
    b.sync()
    b.join()


@story()
def one_of_two_has_left(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a"), Peer(t, "b")
    a.stable(b)
    b.leave()
    yield
    again(a, b)
    a.describe()
    a.beat()
    b.beat()


@story()
def the_last_has_left(t: Teller) -> Iterator[None]:
    a = Peer(t, "a")
    a.stable()
    a.commit(5)
    a.leave()
    yield
    again(a)
    a.describe()
    a.offset()
    a.member_id = ""
    a.join()


@story()
def nobody_was_ever_in(t: Teller) -> Iterator[None]:
    a = Peer(t, "a")
    a.commit(5)
    yield
    again(a)
    a.describe()
    a.offset()
    a.commit(6)


@story()
def an_open_transaction(t: Teller) -> Iterator[None]:
    a = Peer(t, "a")
    a.commit(5)
    producer = open_transaction(t, a)
    hold(t, a, producer, 50)
    a.offset()
    a.offset(stable=True)
    yield
    again(a)
    a.offset()
    a.offset(stable=True)
    end(t, a, producer, committed=True)
    a.offset(stable=True)


@story()
def an_open_transaction_is_aborted(t: Teller) -> Iterator[None]:
    a = Peer(t, "a")
    producer = open_transaction(t, a)
    hold(t, a, producer, 50)
    yield
    again(a)
    a.offset(stable=True)
    end(t, a, producer, committed=False)
    a.offset(stable=True)


@story(NEW)
def consumers(t: Teller) -> Iterator[None]:
    a, b = both(t)
    yield
    again(a, b)
    a.describe_consumer()
    a.tell()
    b.tell(owned=[2], full=True)
    b.tell(1)
    a.tell()


@story(NEW)
def a_consumer_whose_join_was_not_answered(t: Teller) -> Iterator[None]:
    a, b = both(t)
    c = Peer(t, "c")
    c.tell(0)
    yield
    again(a, b, c)
    c.tell(0)
    a.describe_consumer()
    a.tell(owned=[0, 1])
    a.tell(owned=[0])
    c.tell()
    c.tell(owned=[])


@story(NEW)
def a_static_consumer_whose_join_was_not_answered(t: Teller) -> Iterator[None]:
    a = Peer(t, "a", "one")
    a.tell(0)
    yield
    again(a)
    a.tell(0)
    a.tell(1)


@story(NEW)
def a_consumer_that_has_to_revoke(t: Teller) -> Iterator[None]:
    a, b = Peer(t, "a"), Peer(t, "b")
    a.tell(0)
    a.tell(owned=[0, 1, 2])
    b.tell(0)
    a.tell()
    yield
    again(a, b)
    a.describe_consumer()
    b.tell()
    a.tell(owned=[0, 1])
    b.tell()


@story(NEW)
def a_consumer_has_left(t: Teller) -> Iterator[None]:
    a, b = both(t)
    b.tell(-1)
    yield
    again(a, b)
    a.describe_consumer()
    b.tell(2)
    a.tell(owned=[0, 1])


@story(NEW)
def a_static_consumer_is_away(t: Teller) -> Iterator[None]:
    a = Peer(t, "a", "one")
    a.tell(0)
    a.tell(owned=[0, 1, 2])
    a.tell(-2)
    yield
    again(a)
    a.member_id = f"another-{t.group}"
    a.tell(0)


@story(NEW)
def a_consumer_commits(t: Teller) -> Iterator[None]:
    a, _ = both(t)
    a.commit(5)
    yield
    again(a)
    a.offset()
    a.commit(6)
    a.generation = 1
    a.commit(7)
    a.offset()


# --- common steps ------------------------------------------------------------------------------------------------


def again(*peers: Peer) -> None:
    for peer in peers:
        peer.close()


def both(t: Teller) -> tuple[Peer, Peer]:
    """Return two stable members of the consumer protocol: the first has partitions 0 and 1, the second has 2."""
    a, b = Peer(t, "a"), Peer(t, "b")
    a.tell(0)
    a.tell(owned=[0, 1, 2])
    b.tell(0)
    a.tell()
    a.tell(owned=[0, 1])
    b.tell()
    b.tell(owned=[2])
    return a, b


def open_transaction(t: Teller, peer: Peer) -> tuple[int, int]:
    """Begin a transaction with offsets of the group; return producer id and epoch."""
    name = f"txn-{t.group}"
    until = time.monotonic() + PATIENCE
    while True:
        peer.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4)  # the first creates the log
        response = peer.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
        if response.error_code not in NOT_YET or time.monotonic() > until:
            break
        time.sleep(0.05)
    assert not response.error_code, response
    added = peer.ask(
        AddOffsetsToTxnRequest(
            transactional_id=name,
            producer_id=response.producer_id,
            producer_epoch=response.producer_epoch,
            group_id=t.group,
        ),
        3,
    )
    peer.say("AddOffsetsToTxn", added)
    return response.producer_id, response.producer_epoch


def hold(t: Teller, peer: Peer, producer: tuple[int, int], offset: int) -> None:
    place = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id=f"txn-{t.group}",
        group_id=t.group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequest.Topic(name=TOPIC, partitions=[place])],
    )
    peer.say(f"TxnOffsetCommit {offset}", peer.ask(request, 3).topics[0].partitions[0])


def end(t: Teller, peer: Peer, producer: tuple[int, int], *, committed: bool) -> None:
    request = EndTxnRequest(
        transactional_id=f"txn-{t.group}", producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )
    until = time.monotonic() + PATIENCE
    while (answer := peer.ask(request, 3)).error_code in NOT_YET and time.monotonic() < until:
        time.sleep(0.05)
    peer.say("EndTxn", answer)
    time.sleep(0.5)  # the markers are written after the response
