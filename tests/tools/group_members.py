"""Scripted members of groups: a classic member, and a member of the consumer protocol.

The members join, own the partitions that they are assigned, send heartbeats, revoke partitions and rejoin, as consumers
do. They record their assignments and errors. A Transport sends their requests and has the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kwire import ErrorCode as E
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.sync_group import SyncGroupRequest

CLOSED = "closed"  # in place of an error: the connection was lost
Then = Callable[[Any], None]


class Transport(Protocol):
    """A sender of the members' requests, with a clock: a broker harness in virtual time, or in-process connections."""

    @property
    def now(self) -> float:
        """Return the current time, in seconds."""
        ...

    def request(self, member: GroupMember, request: Any, version: int, then: Then) -> None:
        """Send a request to the coordinator. ``then`` gets the response, None if the connection is lost."""
        ...

    def call_later(self, delay: float, action: Callable[[], None]) -> None: ...

    def partition_count(self, topic: str) -> int: ...

    def topic_id(self, name: str) -> UUID: ...


@dataclass(frozen=True)
class Timing:
    """Intervals and delays of a member, in seconds.

    ``think``: time from a response to the next step of a rebalance; ``slow``: time until a member rejoins or has
    revoked its partitions; ``jitter``: added to every delay, so that no two members act at the same time.
    """

    session: float = 45.0
    rebalance: float = 300.0
    heartbeat: float = 3.0
    think: float = 0.0
    slow: float = 0.0
    jitter: float = 0.0


class Assigned(NamedTuple):
    at: float  # seconds
    partitions: list[int]


class Failed(NamedTuple):
    at: float  # seconds
    api: str
    error: str


class GroupMember:
    """The base class of members of both protocols. A member with an ``instance`` is static.

    ``generation``: generation or member epoch; ``assignments``: all assignments, with their times; ``errors``: failed
    requests, with their times; ``joins``: number of JoinGroups, or of heartbeats with epoch 0; ``gone``: True after the
    member has left or stopped.
    """

    group_type: str

    def __init__(
        self,
        transport: Transport,
        name: str,
        *,
        instance: str | None = None,
        group: str = "g",
        topic: str = "t",
        timing: Timing | None = None,
    ) -> None:
        self.transport, self.name, self.instance = transport, name, instance
        self.group, self.topic = group, topic
        self.timing = timing or Timing()
        self.member_id, self.generation = "", -1
        self.assignments: list[Assigned] = []
        self.errors: list[Failed] = []
        self.joins = 0
        self.gone = False
        self._turn = 0  # number of the membership: steps of an earlier membership are dropped

    def start(self) -> None:
        """Join the group and remain a member."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop all requests, without leaving the group."""
        self.gone = True

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """Call a function after a delay, unless the membership has changed by then."""
        turn = self._turn
        self.transport.call_later(
            delay + self.timing.jitter, lambda: None if turn != self._turn or self.gone else action()
        )

    def think(self, action: Callable[[], None]) -> None:
        if self.timing.think:
            self.later(self.timing.think, action)
        else:
            action()

    def ask(self, request: Any, version: int, then: Then) -> None:
        """Send a request to the coordinator. Its response is ignored if the membership has changed in the meantime."""
        turn = self._turn

        def answered(response: Any) -> None:
            if self.gone or turn != self._turn:
                return
            error = CLOSED if response is None else error_name(response)
            if error and error != "MEMBER_ID_REQUIRED":
                self.errors.append(Failed(self.transport.now, type(request).__name__.removesuffix("Request"), error))
            then(response)

        self.transport.request(self, request, version, answered)

    def lost(self, response: Any, retry: Callable[[], None]) -> bool:
        """Return whether the coordinator has to be looked up again. If so, the lookup is started."""
        assert response is not None, f"{self.name} lost its connection"
        return False

    def assigned(self, partitions: list[int]) -> None:
        """Record an assignment, and own its partitions."""
        self.assignments.append(Assigned(self.transport.now, partitions))


class ClassicMember(GroupMember):
    """An eager member of a classic group, whose protocol is range."""

    group_type = "classic"
    join_version = 9
    protocol = ""  # of the generation

    def start(self) -> None:
        self.join()

    def join(self) -> None:
        self._turn += 1
        self.joins += 1
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=round(self.timing.session * 1000),
            rebalance_timeout_ms=round(self.timing.rebalance * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=self.protocols(),
        )
        self.ask(request, self.join_version, self._joined)

    def protocols(self) -> list[JoinGroupRequest.Protocol]:
        """Return the protocols of a JoinGroup, with the subscription."""
        subscription = encode_stored(ConsumerProtocolSubscription(topics=[self.topic]), 1)
        return [JoinGroupRequest.Protocol(name="range", metadata=subscription)]

    def _joined(self, response: Any) -> None:
        if self.lost(response, self.join):
            return
        if response.error_code:
            self._refused(response, self.timing.think)
            return
        self.member_id, self.generation = response.member_id, response.generation_id
        self.protocol = response.protocol_name
        plan = self.plan(response) if response.members and not response.skip_assignment else {}
        self.think(lambda: self.sync(plan))

    def plan(self, joined: Any) -> dict[str, bytes]:
        """Return the assignments of all members, as their leader."""
        shares = in_turns([each.member_id for each in joined.members], self.transport.partition_count(self.topic))
        return {member_id: assignment(self.topic, share) for member_id, share in shares.items()}

    def sync(self, plan: Mapping[str, bytes]) -> None:
        """Send SyncGroup. ``plan``: assignments by member id, from the leader."""
        kind = SyncGroupRequest.Assignment
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=[kind(member_id=each, assignment=data) for each, data in plan.items()],
        )
        self.ask(request, 5, self._synced)

    def _synced(self, response: Any) -> None:
        if self.lost(response, self.join):
            return  # it begins with JoinGroup again, as the Java client does
        if response.error_code:
            self._refused(response, self.timing.think)
            return
        self.accept(response.assignment)

    def accept(self, data: bytes) -> None:
        """Own the assigned partitions, and begin to send heartbeats."""
        share, _ = decode_stored(ConsumerProtocolAssignment, data)
        self.assigned([index for line in share.assigned_partitions for index in line.partitions])
        self.later(self.timing.heartbeat, self.beat)

    def beat(self) -> None:
        self.ask(self.heartbeat_request(), 4, self._beaten)

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )

    def _beaten(self, response: Any) -> None:
        if self.lost(response, self.beat):
            return
        if response.error_code:
            self._refused(response, self.timing.slow or self.timing.think)
        else:
            self.later(self.timing.heartbeat, self.beat)

    def _refused(self, response: Any, delay: float) -> None:
        """Rejoin after an error: as a new member if the group does not know the member id."""
        assert response.error_code != E.FENCED_INSTANCE_ID, "no other member has its instance id"
        if response.error_code == E.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code == E.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._turn += 1
        self.later(delay, self.join)

    def leave(self) -> None:
        """Leave the group, and ignore the response."""
        leaving = LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance)
        self.ask(LeaveGroupRequest(group_id=self.group, members=[leaving]), 4, lambda _: None)
        self.stop()


class ConsumerMember(GroupMember):
    """A member of a group of the consumer protocol (KIP-848)."""

    group_type = "consumer"

    def __init__(self, transport: Transport, name: str, **how: Any) -> None:
        super().__init__(transport, name, **how)
        self.member_id, self.generation = f"id-of-{name}", 0
        self.partitions: list[int] = []
        self._acknowledged: list[int] | None = None
        self._interval = self.timing.heartbeat
        self.full = True  # the next heartbeat has all fields

    def start(self) -> None:
        self.beat()

    def beat(self) -> None:
        self.joins += self.generation == 0
        owned = self.partitions
        line = ConsumerGroupHeartbeatRequest.TopicPartition
        lines = [line(topic_id=self.transport.topic_id(self.topic), partitions=owned)] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.instance,
            rebalance_timeout_ms=round(self.timing.rebalance * 1000) if self.full else -1,
            subscribed_topic_names=[self.topic] if self.full else None,
            topic_partitions=lines if self.full or owned != self._acknowledged else None,
        )
        self.ask(request, 1, lambda response: self._beaten(response, owned))

    def _beaten(self, response: Any, owned: list[int]) -> None:
        if self.lost(response, self.beat):
            self.full = True
            return
        if response.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH):
            self.begin_again()
            return
        if response.error_code == E.UNRELEASED_INSTANCE_ID:  # real clients fail here; this one is started again
            self.later(self._interval, self.beat)
            return
        assert not response.error_code, response
        self._acknowledged, self.full = owned, False
        self._interval = response.heartbeat_interval_ms / 1000
        if response.member_epoch != self.generation:
            self.reached(response.member_epoch)
        if response.assignment is not None:
            wanted = sorted(index for line in response.assignment.topic_partitions for index in line.partitions)
            if wanted != owned:
                delay = self.timing.slow if set(owned) - set(wanted) else 0.0
                self._reconcile(wanted, delay)
                return
        self.later(self._interval, self.beat)

    def begin_again(self) -> None:
        """Join with epoch 0, and own nothing."""
        self.generation, self.partitions, self.full = 0, [], True
        self._turn += 1
        self.later(self.timing.think, self.beat)

    def reached(self, epoch: int) -> None:
        self.generation = epoch

    def _reconcile(self, wanted: list[int], delay: float) -> None:
        """Revoke and take over partitions, and acknowledge the new assignment at once."""

        def reconciled() -> None:
            self.partitions = wanted
            self.assigned(wanted)
            self.think(self.beat)

        if delay:
            self.later(delay, reconciled)
        else:
            reconciled()

    def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=-1, instance_id=self.instance
        )
        self.ask(request, 1, lambda _: None)
        self.stop()


def in_turns(member_ids: list[str], partitions: int) -> dict[str, list[int]]:
    """Return the partitions of each member: assigned in turn, in the order of the member ids."""
    ids = sorted(member_ids)
    return {member_id: list(range(partitions))[turn :: len(ids)] for turn, member_id in enumerate(ids)}


def assignment(topic: str, partitions: list[int]) -> bytes:
    """Return the assignment of a classic member, with partitions of one topic."""
    line = ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=[line] if partitions else []), 1)


def first_error(response: Any) -> int:
    """Return the first error code in a response, of the whole or of a partition."""
    codes = [getattr(response, "error_code", 0)]
    codes += [each.error_code for topic in getattr(response, "topics", ()) for each in topic.partitions]
    return next((code for code in codes if code), 0)


def error_name(response: Any) -> str:
    """Return the name of the first error in a response; an empty text if there is none."""
    code = first_error(response)
    return E(code).name if code else ""
