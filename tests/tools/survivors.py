"""Members that outlive their coordinator, in virtual time: three brokers without sockets, and clients that do as real
ones do when a connection breaks, the coordinator is another one, or it is not there yet.

They find, join, sync, send heartbeats, read, commit and leave. What each was told stands in ``Member.heard``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest

from kwire import ErrorCode as E
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.broker import failover

GROUP, TOPIC, PARTITIONS, RECORDS = "g", "t", 6, 60
SESSION, REBALANCE = 3.0, 5.0  # seconds
BEAT, READ, COMMIT = 0.3, 0.1, 0.5  # seconds between two of each
THINK, REFUSED, AGAIN = 0.001, 0.001, 0.1  # seconds until an answer is acted upon; a connect fails; it is tried again
CLOSED = "closed"
LOST = (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE)
Then = Callable[[Any], None]


class World(BrokerHarness):
    """``acknowledged``: the highest offset of each partition of which a member heard that it is committed."""

    def __init__(self, noticed_after: float = 0.0, *, stale: bool = False, **config: Any) -> None:
        times = {
            "group.consumer.session.timeout.ms": round(SESSION * 1000),
            "group.consumer.heartbeat.interval.ms": round(BEAT * 1000),
        }
        super().__init__(brokers=3, topics={}, config={**times, **config})
        self.broker.cluster.create_topic(TOPIC, [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(PARTITIONS)])
        self.members: dict[str, Member] = {}
        self.acknowledged: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.struck_at = 0.0
        self._noticed_after, self._stale = noticed_after, stale
        self._away: set[int] = set()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._turns = count()
        self._open: list[tuple[SentRequest, Then]] = []
        self._soon: list[Callable[[], None]] = []

    # --- brokers: a Place of striking.py ---

    def coordinator_of(self, group: str) -> int:
        return self.broker.coordinator(group)

    def is_away(self, node: int) -> bool:
        return node in self._away

    def soon(self, what: Callable[[], None]) -> None:
        self._soon.append(what)

    def kill(self, node: int) -> None:
        """Its connections break; if metadata is to be stale, one of the others hears of it a second later."""
        self.struck_at = self.now
        self._away.add(node)
        for sent in self.sent.values():
            if sent.node == node and not sent.done:
                sent.done, sent.closed = True, CLOSED
                self.router.forget(sent.ticket)
        if self._stale:
            other = next(each for each in self.broker.cluster.nodes if each != node)
            self.broker.frozen[other] = self.broker.cluster.as_it_is()
            self.at(self.now + 1.0, self.broker.frozen.clear)
        self._take(self.router.finish(failover.kill(self.broker, node, self.now, self._noticed_after), self.now))

    def start(self, node: int) -> None:
        self._away.discard(node)
        self._take(self.router.finish(failover.start(self.broker, node, self.now), self.now))

    # --- members ---

    def member(self, name: str, kind: type[Member], instance: str | None = None) -> Member:
        """One that begins now."""
        made = self.members[name] = kind(self, name, instance)
        self.at(self.now, made.find)
        self.at(self.now, made.read)
        return made

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._turns), what))

    def request(self, node: int, name: str, request: Any, version: int, then: Then) -> None:
        """``then`` gets the answer, None if the connection breaks or is refused."""
        if node in self._away:
            self.at(self.now + REFUSED, lambda: then(None))
            return
        self._open.append((self.send(request, version, node=node, client_id=name), then))
        self._hear()

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen for so long, or until something holds."""
        end = self.now + seconds
        while (due := min(self.router.deadline(), self._due[0][0] if self._due else end)) < end and not until():
            if self._due and self._due[0][0] <= due:
                when, _, what = heapq.heappop(self._due)
                self.wait(max(when - self.now, 0.0))
                what()
            else:
                self.wait(due - self.now)
            self._hear()

    def _take(self, outcomes: Any) -> None:
        super()._take([each for each in outcomes if self.sent[each.ticket].closed is None])
        while self._soon:
            self._soon.pop()()

    def _hear(self) -> None:
        done = [one for one in self._open if one[0].done]
        self._open = [one for one in self._open if not one[0].done]
        for sent, then in done:
            self.at(self.now + THINK, partial(then, sent.answer))


class Member:
    """What both protocols have. ``heard``: requests that were not answered well, and how, one after the other.

    ``owned``: partitions it believes to have, with the next offset to read, None until it knows; ``came``: when its
    membership last changed, in seconds.
    """

    asks: str

    def __init__(self, world: World, name: str, instance: str | None) -> None:
        self.world, self.name, self.instance = world, name, instance
        self.coordinator: int | None = None
        self.member_id = ""
        self.generation = 0
        self.owned: dict[int, int | None] = {}
        self.heard: list[tuple[str, str]] = []
        self.joins = 0
        self.came = 0.0
        self.gone = False
        self._next_broker = len(world.members)
        self._turn = 0  # what was begun before the latest change of mind is not gone on with
        self.records: list[tuple[int, int]] = []

    # --- asking ---

    def later(self, delay: float, what: Callable[[], None]) -> None:
        """Unless it has changed its mind by then."""
        turn = self._turn
        self.world.at(self.world.now + delay, lambda: None if turn != self._turn or self.gone else what())

    def ask(self, request: Any, version: int, then: Then) -> None:
        """Ask the coordinator."""
        name = type(request).__name__.removesuffix("Request")
        mine = self._turn

        def answered(answer: Any) -> None:
            if self.gone or mine != self._turn:
                return
            error = CLOSED if answer is None else E(_error(answer)).name if _error(answer) else ""
            if error and error != "MEMBER_ID_REQUIRED":
                self.heard.append((name, error))
            then(answer)

        assert self.coordinator is not None
        self.world.request(self.coordinator, self.name, request, version, answered)

    def find(self) -> None:
        """Ask one broker after the other who the coordinator is; then go on where it was."""
        self.coordinator = None
        self._turn += 1
        self._next_broker += 1
        request = FindCoordinatorRequest(coordinator_keys=[GROUP])
        turn = self._turn

        def found(answer: Any) -> None:
            if turn != self._turn or self.gone:
                return
            error = CLOSED if answer is None else E(answer.coordinators[0].error_code).name
            if answer is None or answer.coordinators[0].error_code:
                self.heard.append(("FindCoordinator", error))
                self.later(AGAIN, self.find)
                return
            self.coordinator = answer.coordinators[0].node_id
            self.go_on()

        self.world.request(self._next_broker % 3, self.name, request, 4, found)

    def failed(self, answer: Any, again: Callable[[], None]) -> bool:
        """True if the coordinator is another one or not ready; then it is found, or asked again."""
        error = E.NOT_COORDINATOR if answer is None else _error(answer)
        if error in LOST:
            self.later(AGAIN, self.find)
        elif error == E.COORDINATOR_LOAD_IN_PROGRESS:
            self.later(AGAIN, again)
        else:
            return False
        return True

    def go_on(self) -> None:
        raise NotImplementedError

    # --- reading and committing ---

    def own(self, partitions: set[int]) -> None:
        """Go on where the group is, in those that are new."""
        self.came = self.world.now
        kept = {each: at for each, at in self.owned.items() if each in partitions}
        self.owned = kept | dict.fromkeys(partitions - kept.keys())

    def read(self) -> None:
        """The next record of each partition, for as long as it lives."""
        if self.gone:
            return
        for index, at in self.owned.items():
            if at is not None and at < RECORDS:
                assert at >= self.world.acknowledged[index], f"{self.name} reads {index}:{at} again"
                self.records.append((index, at))
                self.owned[index] = at + 1
        self.world.at(self.world.now + READ, self.read)

    def positions(self) -> None:
        """Where the group is in partitions that are new."""
        new = [index for index, at in self.owned.items() if at is None]
        if not new or self.coordinator is None:
            return
        topic = OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=new)

        def told(answer: Any) -> None:
            if self.failed(answer, self.positions):
                return
            for place in answer.topics[0].partitions:
                if self.owned.get(place.partition_index, 0) is None:
                    self.owned[place.partition_index] = max(place.committed_offset, 0)
            self.commit_soon()

        self.ask(OffsetFetchRequest(group_id=GROUP, topics=[topic]), 5, told)

    def commit_soon(self) -> None:
        self.later(COMMIT, self.commit)

    def commit(self) -> None:
        places = {index: at for index, at in self.owned.items() if at is not None}
        if not places:
            return
        line = OffsetCommitRequest.Topic.Partition
        topic = OffsetCommitRequest.Topic(
            name=TOPIC, partitions=[line(partition_index=index, committed_offset=at) for index, at in places.items()]
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[topic],
        )

        def told(answer: Any) -> None:
            if self.failed(answer, self.commit):
                return
            if not _error(answer):
                for index, at in places.items():
                    self.world.acknowledged[index] = max(self.world.acknowledged[index], at)
            self.commit_soon()

        self.ask(request, 9, told)

    def stopped(self) -> None:
        self.gone = True
        self.owned = {}


class Classic(Member):
    """A member of the classic protocol; with an instance a static one."""

    asks = "classic"
    stage = "join"  # what to go on with once the coordinator is known

    def go_on(self) -> None:
        getattr(self, self.stage)()
        if self.stage == "beat":
            self.positions()
            self.commit_soon()

    def join(self) -> None:
        self._turn += 1
        self.stage = "join"
        self.owned = {}  # an eager member gives up everything
        self.joins += 1
        subscription = encode_stored(ConsumerProtocolSubscription(topics=[TOPIC]), 1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=round(SESSION * 1000),
            rebalance_timeout_ms=round(REBALANCE * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=subscription)],
        )
        self.ask(request, 7, self.joined)

    def joined(self, answer: Any) -> None:
        if self.failed(answer, self.join):
            return
        if answer.error_code:
            self.refused(answer)
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.sync([member.member_id for member in answer.members])

    def sync(self, members: list[str]) -> None:
        plan: dict[str, list[int]] = {member_id: [] for member_id in sorted(members)}
        for index in range(PARTITIONS if plan else 0):
            list(plan.values())[index % len(plan)].append(index)
        lines = [SyncGroupRequest.Assignment(member_id=each, assignment=_share(share)) for each, share in plan.items()]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=lines,
        )
        self.ask(request, 5, self.synced)

    def synced(self, answer: Any) -> None:
        if self.failed(answer, self.join):
            return  # it begins with JoinGroup again, as the Java client does
        if answer.error_code:
            self.refused(answer)
            return
        share, _ = decode_stored(ConsumerProtocolAssignment, answer.assignment)
        self.own({index for line in share.assigned_partitions for index in line.partitions})
        self.stage = "beat"
        self.positions()
        self.later(BEAT, self.beat)

    def beat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )

        def beaten(answer: Any) -> None:
            if self.failed(answer, self.beat):
                return
            if answer.error_code:
                self.refused(answer)
            else:
                self.later(BEAT, self.beat)

        self.ask(request, 4, beaten)

    def refused(self, answer: Any) -> None:
        assert answer.error_code != E.FENCED_INSTANCE_ID, "nobody took its name"
        if answer.error_code == E.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code == E.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._turn += 1
        self.stage = "join"
        self.later(THINK, self.join)

    def leave(self) -> None:
        """It says so once and goes, whatever comes of it."""
        leaving = LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance)
        self.ask(LeaveGroupRequest(group_id=GROUP, members=[leaving]), 4, lambda _: None)
        self.stopped()


class Consumer(Member):
    """A member of the consumer protocol (KIP-848); with an instance a static one."""

    asks = "consumer"

    def __init__(self, world: World, name: str, instance: str | None) -> None:
        super().__init__(world, name, instance)
        self.member_id = f"id-of-{name}"
        self.acked: set[int] | None = None  # what it last said that it has
        self.full = True

    def go_on(self) -> None:
        self.full = True  # who lost a connection says everything again
        self.beat()
        if self.generation:
            self.positions()
            self.commit_soon()

    def beat(self) -> None:
        joins = self.generation == 0
        self.joins += joins
        has = set(self.owned)
        tells = self.full or has != self.acked
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.instance,
            rebalance_timeout_ms=round(REBALANCE * 1000) if self.full else -1,
            subscribed_topic_names=[TOPIC] if self.full else None,
            topic_partitions=self._lines(has) if tells else None,
        )

        def beaten(answer: Any) -> None:
            if self.failed(answer, self.beat):
                self.full = True
                return
            if answer.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH):
                self.generation, self.owned, self.full = 0, {}, True
                self._turn += 1
                self.later(THINK, self.beat)
                return
            if answer.error_code == E.UNRELEASED_INSTANCE_ID:  # real clients give up; this one is started again
                self.later(BEAT, self.beat)
                return
            assert not answer.error_code, answer
            self.acked, self.full = has, False
            if answer.member_epoch != self.generation:
                self.generation, self.came = answer.member_epoch, self.world.now
            if answer.assignment is not None:
                wanted = {index for line in answer.assignment.topic_partitions for index in line.partitions}
                if wanted != has:
                    self.own(wanted)
                    self.positions()
                    self.later(THINK, self.beat)
                    return
            self.later(BEAT, self.beat)

        self.ask(request, 1, beaten)

    def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=-1, instance_id=self.instance
        )
        self.ask(request, 1, lambda _: None)
        self.stopped()

    def _lines(self, indexes: set[int]) -> list[ConsumerGroupHeartbeatRequest.TopicPartition]:
        line = ConsumerGroupHeartbeatRequest.TopicPartition
        return [line(topic_id=self.world.topic_id(TOPIC), partitions=sorted(indexes))] if indexes else []


def _share(indexes: list[int]) -> bytes:
    line = ConsumerProtocolAssignment.TopicPartition(topic=TOPIC, partitions=indexes)
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=[line] if indexes else []), 1)


def _error(answer: Any) -> int:
    """The first error in an answer."""
    codes = [getattr(answer, "error_code", 0)]
    codes += [place.error_code for topic in getattr(answer, "topics", ()) for place in topic.partitions]
    return next((code for code in codes if code), 0)
