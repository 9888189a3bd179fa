"""Members whose coordinator is killed, in virtual time, on three brokers without sockets.

The members behave as consumers do when a connection is lost, the coordinator has moved, or it is not available yet.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from tools.broker_harness import BrokerHarness, SentRequest
from tools.group_members import (
    CLOSED,
    ClassicMember,
    ConsumerMember,
    Failed,
    GroupMember,
    Then,
    Timing,
    error_name,
    first_error,
)

from kwire import ErrorCode as E
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from mockbroker.broker import failover

GROUP, TOPIC, PARTITIONS, RECORDS = "g", "t", 6, 60
SESSION, REBALANCE = 3.0, 5.0  # seconds
BEAT, READ, COMMIT = 0.3, 0.1, 0.5  # seconds between heartbeats, reads and commits
THINK, REFUSED, AGAIN = 0.001, 0.001, 0.1  # seconds until the next step, a refusal, a retry
TIMING = Timing(session=SESSION, rebalance=REBALANCE, heartbeat=BEAT, think=THINK)
LOST = (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE)


class FailoverWorld(BrokerHarness):
    """Three brokers in virtual time. ``acknowledged``: partition -> highest offset in a successful commit."""

    def __init__(self, noticed_after: float = 0.0, *, stale: bool = False, **config: Any) -> None:
        times = {
            "group.consumer.session.timeout.ms": round(SESSION * 1000),
            "group.consumer.heartbeat.interval.ms": round(BEAT * 1000),
        }
        super().__init__(brokers=3, topics={}, config={**times, **config})
        self.broker.cluster.create_topic(TOPIC, [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(PARTITIONS)])
        self.members: dict[str, FailoverMember] = {}
        self.acknowledged: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.struck_at = 0.0
        self._noticed_after, self._stale = noticed_after, stale
        self._away: set[int] = set()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._turns = count()
        self._open: list[tuple[SentRequest, Then]] = []
        self._soon: list[Callable[[], None]] = []

    # --- brokers: KillableBrokers of coordinator_kill.py ---

    def coordinator_of(self, group: str) -> int:
        return self.broker.coordinator(group)

    def is_away(self, node: int) -> bool:
        return node in self._away

    def soon(self, what: Callable[[], None]) -> None:
        self._soon.append(what)

    def kill(self, node: int) -> None:
        """Kill a broker and close its connections. With ``stale``, another broker serves old metadata for a second."""
        self.struck_at = self.now
        self._away.add(node)
        for sent in self.sent.values():
            if sent.node == node and not sent.done:
                sent.done, sent.closed = True, CLOSED
                self.router.forget(sent.ticket)
        if self._stale:
            other = next(each for each in self.broker.cluster.nodes if each != node)
            self.broker.frozen_metadata[other] = self.broker.cluster.snapshot()
            self.at(self.now + 1.0, self.broker.frozen_metadata.clear)
        self._take(self.router.finish(failover.kill_broker(self.broker, node, self.now, self._noticed_after), self.now))

    def start(self, node: int) -> None:
        self._away.discard(node)
        self._take(self.router.finish(failover.start_broker(self.broker, node, self.now), self.now))

    # --- members ---

    def member(self, name: str, kind: type[FailoverMember], instance: str | None = None) -> FailoverMember:
        """Return a member that starts now."""
        made = self.members[name] = kind(self, name, instance=instance, group=GROUP, topic=TOPIC, timing=TIMING)
        self.at(self.now, made.find)
        self.at(self.now, made.read)
        return made

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._turns), what))

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def partition_count(self, topic: str) -> int:
        return len(self.broker.cluster.topics[topic].partitions)

    def request(self, member: GroupMember, request: Any, version: int, then: Then) -> None:
        node = self.members[member.name].coordinator
        assert node is not None
        self.request_from(node, member.name, request, version, then)

    def request_from(self, node: int, name: str, request: Any, version: int, then: Then) -> None:
        """Send a request to a broker. ``then`` gets the response, None if the connection is lost or refused."""
        if node in self._away:
            self.at(self.now + REFUSED, lambda: then(None))
            return
        self._open.append((self.send(request, version, node=node, client_id=name), then))
        self._hear()

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Process events for a time, or until a condition holds."""
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


class FailoverMember(GroupMember):
    """The base class of members of both protocols: how they find a lost coordinator, read and commit.

    ``owned``: partition -> next offset to read, None if unknown; ``changed_at``: time of the last assignment, in
    seconds; ``records``: partition and offset of each record that was read.
    """

    transport: FailoverWorld

    def __init__(self, transport: FailoverWorld, name: str, **how: Any) -> None:
        super().__init__(transport, name, **how)
        self.coordinator: int | None = None
        self.owned: dict[int, int | None] = {}
        self.changed_at = 0.0
        self.records: list[tuple[int, int]] = []
        self._next_broker = len(transport.members)

    # --- the coordinator ---

    def find(self) -> None:
        """Look up the coordinator, at each broker in turn; then resume."""
        self.coordinator = None
        self._turn += 1
        self._next_broker += 1
        turn = self._turn

        def found(response: Any) -> None:
            if turn != self._turn or self.gone:
                return
            error = CLOSED if response is None else error_name(response.coordinators[0])
            if error:
                self.errors.append(Failed(self.transport.now, "FindCoordinator", error))
                self.later(AGAIN, self.find)
                return
            self.coordinator = response.coordinators[0].node_id
            self.resume()

        request = FindCoordinatorRequest(coordinator_keys=[GROUP])
        self.transport.request_from(self._next_broker % 3, self.name, request, 4, found)

    def lost(self, response: Any, retry: Callable[[], None]) -> bool:
        error = E.NOT_COORDINATOR if response is None else first_error(response)
        if error in LOST:
            self.later(AGAIN, self.find)
        elif error == E.COORDINATOR_LOAD_IN_PROGRESS:
            self.later(AGAIN, retry)
        else:
            return False
        return True

    def resume(self) -> None:
        """Continue after the coordinator was found."""
        raise NotImplementedError

    def stop(self) -> None:
        super().stop()
        self.owned = {}

    # --- reading and committing ---

    def assigned(self, partitions: list[int]) -> None:
        super().assigned(partitions)
        self.changed_at = self.transport.now
        kept = {each: at for each, at in self.owned.items() if each in partitions}
        self.owned = kept | dict.fromkeys(set(partitions) - kept.keys())
        self.fetch_positions()

    def read(self) -> None:
        """Read the next record of each partition, repeatedly until the member stops."""
        if self.gone:
            return
        for index, at in self.owned.items():
            if at is not None and at < RECORDS:
                assert at >= self.transport.acknowledged[index], f"{self.name} reads {index}:{at} again"
                self.records.append((index, at))
                self.owned[index] = at + 1
        self.transport.call_later(READ, self.read)

    def fetch_positions(self) -> None:
        """Fetch the committed offsets of newly assigned partitions."""
        new = [index for index, at in self.owned.items() if at is None]
        if not new or self.coordinator is None:
            return
        topic = OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=new)

        def fetched(response: Any) -> None:
            if self.lost(response, self.fetch_positions):
                return
            for place in response.topics[0].partitions:
                if self.owned.get(place.partition_index, 0) is None:
                    self.owned[place.partition_index] = max(place.committed_offset, 0)
            self.later(COMMIT, self.commit)

        self.ask(OffsetFetchRequest(group_id=GROUP, topics=[topic]), 5, fetched)

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

        def committed(response: Any) -> None:
            if self.lost(response, self.commit):
                return
            if not first_error(response):
                for index, at in places.items():
                    self.transport.acknowledged[index] = max(self.transport.acknowledged[index], at)
            self.later(COMMIT, self.commit)

        self.ask(request, 9, committed)


class FailoverClassicMember(FailoverMember, ClassicMember):
    """A member of a classic group whose coordinator may be killed."""

    join_version = 7
    _stable = False

    def join(self) -> None:
        self._stable = False
        self.owned = {}
        super().join()

    def assigned(self, partitions: list[int]) -> None:
        self._stable = True
        super().assigned(partitions)

    def resume(self) -> None:
        if not self._stable:
            self.join()
            return
        self.beat()
        self.fetch_positions()
        self.later(COMMIT, self.commit)


class FailoverConsumerMember(FailoverMember, ConsumerMember):
    """A member of the consumer protocol whose coordinator may be killed."""

    def resume(self) -> None:
        self.full = True  # after a lost connection, the next heartbeat has all fields
        self.beat()
        if self.generation:
            self.fetch_positions()
            self.later(COMMIT, self.commit)

    def begin_again(self) -> None:
        self.owned = {}
        super().begin_again()

    def reached(self, epoch: int) -> None:
        super().reached(epoch)
        self.changed_at = self.transport.now
