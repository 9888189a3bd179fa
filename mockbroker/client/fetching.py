"""Records from the leaders: one request under way with each, answers in a queue, handed out partition by partition.

A partition is not asked for while any of its records wait to be handed out, and no answer is used that is not one to
where the partition is now. So no record comes twice, whatever comes late.
Source: org.apache.kafka.clients.consumer.internals.Fetcher, FetchCollector and AbstractFetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kwire.errorcodes import ErrorCode
from kwire.messages.fetch import FETCH, FetchRequest, FetchResponse
from mockbroker.client.by_leader import CONSUMER_REPLICA
from mockbroker.client.call import OutgoingCall
from mockbroker.client.errors import ConsumerError, NoOffset, broker_error
from mockbroker.client.fetch_session import FINAL_EPOCH, NO_SESSION, Asked, FetchSession
from mockbroker.client.metadata import NO_ID, TopicPartition
from mockbroker.client.network import Node
from mockbroker.client.parts import Parts
from mockbroker.client.positions import Position
from mockbroker.client.records import ConsumerRecord, Reader
from mockbroker.client.resolving import Resolver

LOWEST, LAST_WITH_NAMES = 4, 12
SESSIONS = 7  # the first version with them
STALE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)
RETRIED = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR)
Line = FetchResponse.Topic.Partition


@dataclass(slots=True, eq=False)
class Fetched:
    """What one answer has of one partition. ``position``: whose it was; ``offset``: that was asked for."""

    partition: TopicPartition
    position: Position
    offset: int
    line: Line
    reader: Reader | None = None


class Fetcher:
    """``answered``: how many answers came; ``latency``: seconds that the last took; ``throttled_ms``: what it said."""

    def __init__(self, parts: Parts, resolver: Resolver) -> None:
        self._settings, self._network, self._metadata = parts.settings, parts.network, parts.metadata
        self._positions, self._time, self._backoff = parts.positions, parts.time, parts.backoff
        self._resolver = resolver
        self._sessions: dict[int, FetchSession] = {}
        self._pending: dict[int, OutgoingCall] = {}
        self._queue: deque[Fetched] = deque()  # answers, in the order in which they came
        self._draining: Fetched | None = None
        self._not_before: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._resting: dict[TopicPartition, tuple[float, int]] = {}  # until when, after how many failures in a row
        self.failure: ConsumerError | None = None
        self.answered = self.dropped = 0
        self.latency = 0.0
        self.throttled_ms = 0

    @property
    def buffered(self) -> set[TopicPartition]:
        """Partitions with records that are not handed out yet."""
        held = {fetched.partition for fetched in self._queue}
        if self._draining:
            held.add(self._draining.partition)
        return held

    def due(self) -> float:
        """When a node that failed can be asked again, or for a partition that failed."""
        now = self._time.now
        at = min((at for at in self._not_before.values() if at > now), default=float("inf"))
        return min((until for until, _ in self._resting.values() if until > now), default=at) if self._resting else at

    # Asking

    def fetchable(self) -> dict[TopicPartition, Position]:
        """Assigned, not paused, with a position that holds, and nothing buffered."""
        held = self.buffered
        return {p: position for p, position in self._positions.items() if position.fetchable and p not in held}

    def send(self) -> int:
        """Ask every leader that is not being asked already. Gives how many."""
        now = self._time.now
        by_node: dict[int, dict[TopicPartition, Asked]] = {}
        for partition, position in self.fetchable().items():
            if self._resting and self._resting.get(partition, (0.0, 0))[0] > now:
                continue
            leader = self._metadata.leader(partition)
            if leader is None:
                self._metadata.retry_later()
                continue
            node_id = leader.node_id
            if position.replica:
                replica, until = position.replica
                if until > now and self._network.broker(replica):
                    node_id = replica
                else:
                    position.replica = None
                    if until > now:  # nobody here knows it
                        self._metadata.retry_later()
            if node_id in self._pending or self._not_before.get(node_id, 0.0) > now:
                continue
            assert position.offset is not None
            topic_id = self._metadata.topic_id(partition[0])
            # A follower may not have heard of the epoch yet, and then calls the offset out of range.
            fetched_epoch = position.epoch if node_id == leader.node_id else -1
            asked = Asked(position.offset, leader.epoch, fetched_epoch, topic_id)
            by_node.setdefault(node_id, {})[partition] = asked
        sent = 0
        for node_id, wanted in by_node.items():
            node = self._network.broker(node_id)
            if node is None or not self._network.can_ask(node):
                self._metadata.retry_later()
                continue
            self._ask(node, wanted)
            sent += 1
        return sent

    def _ask(self, node: Node, wanted: dict[TopicPartition, Asked]) -> None:
        session = self._sessions.setdefault(node.id, FetchSession())
        positions = {partition: self._positions.of(partition) for partition in wanted}
        ids = all(asked.topic_id != NO_ID for asked in wanted.values())

        def build(version: int) -> FetchRequest:
            if version < SESSIONS or not self._settings.fetch_sessions:
                session.forget()
            return self._request(session, wanted, version)

        call = self._network.ask(
            node,
            FETCH.key,
            build,
            lambda call: self._answered(node, session, call, wanted, positions),
            timeout=self._settings.request_timeout + self._settings.fetch_max_wait,
            versions=(LOWEST, None if ids else LAST_WITH_NAMES),
        )
        if not call.done:
            self._pending[node.id] = call

    def _request(self, session: FetchSession, wanted: Mapping[TopicPartition, Asked], version: int) -> FetchRequest:
        settings = self._settings
        told, forgotten = session.ask(wanted)
        by_id = version > LAST_WITH_NAMES
        topics: dict[str, FetchRequest.Topic] = {}
        for (name, number), asked in told.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchRequest.Topic()
                if by_id:
                    topic.topic_id = asked.topic_id
                else:
                    topic.topic = name
            topic.partitions.append(
                FetchRequest.Topic.Partition(
                    partition=number,
                    current_leader_epoch=asked.epoch,
                    fetch_offset=asked.offset,
                    last_fetched_epoch=asked.fetched_epoch if version >= LAST_WITH_NAMES else -1,
                    partition_max_bytes=settings.max_partition_fetch_bytes,
                )
            )
        gone: dict[tuple[str, UUID], FetchRequest.ForgottenTopic] = {}
        for (name, number), known in forgotten:
            key = ("", known.topic_id) if by_id else (name, NO_ID)
            entry = gone.setdefault(key, FetchRequest.ForgottenTopic(topic=key[0], topic_id=key[1]))
            entry.partitions.append(number)
        sessions = version >= SESSIONS and settings.fetch_sessions
        return FetchRequest(
            replica_id=CONSUMER_REPLICA,
            max_wait_ms=round(settings.fetch_max_wait * 1000),
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.isolation_level == "read_committed"),
            session_id=session.session_id if sessions else NO_SESSION,
            session_epoch=session.epoch if sessions else FINAL_EPOCH,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
            rack_id=settings.client_rack,
        )

    def close(self) -> list[OutgoingCall]:
        """End the sessions with those that are connected."""
        calls = []
        for node_id, session in self._sessions.items():
            node = self._network.broker(node_id)
            if node is None or not node.ready or session.session_id == NO_SESSION:
                continue
            calls.append(self._network.ask(node, FETCH.key, _ending(session.session_id), versions=(SESSIONS, None)))
        return calls

    # Answers

    def _answered(
        self,
        node: Node,
        session: FetchSession,
        call: OutgoingCall,
        wanted: Mapping[TopicPartition, Asked],
        positions: Mapping[TopicPartition, Position],
    ) -> None:
        self._pending.pop(node.id, None)
        if call.failure is not None:
            session.begin_anew()
            self.failure = call.unsupported or self.failure
            for position in positions.values():
                position.replica = None
            self._metadata.refresh()
            self._rest(node.id)
            return
        answer: FetchResponse = call.answer
        self.answered += 1
        self.latency, self.throttled_ms = self._time.now - call.sent_at, answer.throttle_time_ms
        if answer.error_code:
            if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                session.forget()
            else:
                session.begin_anew()
            if answer.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                self._metadata.refresh()
                self._rest(node.id)
            return
        lines = self._lines(answer, call.version, wanted)
        if lines is None or not session.accepts({partition for partition, _ in lines}):
            self.dropped += 1
            session.begin_anew()
            self._metadata.refresh()
            self._rest(node.id)
            return
        if call.version >= SESSIONS and self._settings.fetch_sessions:
            session.answered(answer.session_id)
        self._failures.pop(node.id, None)
        for partition, line in lines:
            self._queue.append(Fetched(partition, positions[partition], wanted[partition].offset, line))

    @staticmethod
    def _lines(
        answer: FetchResponse, version: int, wanted: Mapping[TopicPartition, Asked]
    ) -> list[tuple[TopicPartition, Line]] | None:
        """The answer's partitions; None if it has one twice, or a topic nobody asked for."""
        found: dict[TopicPartition, Line] = {}
        names = {asked.topic_id: topic for (topic, _), asked in wanted.items()}  # as of when it was asked
        for topic in answer.responses:
            name = topic.topic if version <= LAST_WITH_NAMES else names.get(topic.topic_id)
            for line in topic.partitions:
                if name is None or (name, line.partition_index) in found:
                    return None
                found[name, line.partition_index] = line
        return list(found.items())

    def _rest_partition(self, partition: TopicPartition) -> None:
        _, failures = self._resting.get(partition, (0.0, 0))
        self._resting[partition] = self._time.now + self._backoff.after(failures), failures + 1

    def _rest(self, node_id: int) -> None:
        failures = self._failures.get(node_id, 0)
        self._failures[node_id] = failures + 1
        self._not_before[node_id] = self._time.now + self._backoff.after(failures)

    # Handing out

    def take_records(self, most: int) -> list[ConsumerRecord]:
        """Up to so many records; they count as handed out.

        Raises: ConsumerError, if no records came before it; else the next call does, unless somebody seeks.
        """
        records: list[ConsumerRecord] = []
        paused: list[Fetched] = []
        try:
            while len(records) < most:
                if self._draining is None:
                    if not self._queue:
                        break
                    self._draining = self._queue.popleft()
                fetched = self._draining
                position = fetched.position
                if self._positions.get(fetched.partition) is not position or position.revoking:
                    self._draining = None  # it was taken away meanwhile
                elif position.paused:
                    self._draining = None
                    paused.append(fetched)  # kept for when it goes on
                elif not self._fits(fetched):
                    self._draining = None
                else:
                    self._drain(fetched, most - len(records), records)
        except ConsumerError:
            if not records:
                self._draining = None
                raise
        finally:
            self._queue.extendleft(reversed(paused))
        return records

    def _fits(self, fetched: Fetched) -> bool:
        """True for an answer to where the partition is now, with records. What else it says is done."""
        position = fetched.position
        at = fetched.reader.next_offset if fetched.reader else fetched.offset
        if position.offset != at or not position.known or position.validating:
            return False  # somebody sought, or another leader may have another log
        return fetched.reader is not None or self._begin(fetched)

    def _drain(self, fetched: Fetched, most: int, records: list[ConsumerRecord]) -> None:
        reader, position = fetched.reader, fetched.position
        assert reader
        try:
            some = reader.next_records(most)
        finally:
            if reader.next_offset != position.offset:
                position.offset = reader.next_offset
                if reader.epoch >= 0:
                    position.epoch = reader.epoch
        records += some
        if len(some) < most and not reader.broken:
            self._draining = None
            if reader.next_offset == fetched.offset:
                self._rest_partition(fetched.partition)  # the next answer may have no more than this one
            else:
                self._resting.pop(fetched.partition, None)

    def _begin(self, fetched: Fetched) -> bool:
        """Look at an answer whose turn has come. False if there is nothing in it to hand out."""
        partition, position, line = fetched.partition, fetched.position, fetched.line
        if line.error_code:
            self._failed(fetched)
            return False
        diverging = line.diverging_epoch
        if diverging.end_offset >= 0 or diverging.epoch >= 0:
            self._resolver.truncated(partition, position, diverging.epoch, diverging.end_offset)
            return False
        position.high_watermark = line.high_watermark
        if line.last_stable_offset >= 0:
            position.last_stable_offset = line.last_stable_offset
        if line.log_start_offset >= 0:
            position.log_start_offset = line.log_start_offset
        if line.preferred_read_replica >= 0:
            position.replica = line.preferred_read_replica, self._time.now + self._settings.metadata_max_age
        if not line.records:
            self._resting.pop(partition, None)
            return False
        fetched.reader = Reader(
            partition,
            fetched.offset,
            line,
            committed=self._settings.isolation_level == "read_committed",
            check_crcs=self._settings.check_crcs,
        )
        return True

    def _failed(self, fetched: Fetched) -> None:
        partition, position, line = fetched.partition, fetched.position, fetched.line
        code = line.error_code
        if code in STALE:
            position.replica = None
            leader = line.current_leader
            if self._metadata.leader_is(partition, leader.leader_id, leader.leader_epoch):
                self._resolver.look_again()  # the new one's log is looked at before anything is read of it
            else:
                self._metadata.retry_later()
                self._rest_partition(partition)
        elif code in RETRIED:
            self._rest_partition(partition)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if position.replica:
                position.replica = None  # a follower that lags; the leader may have it
            elif not self._resolver.reset(position):
                raise NoOffset({partition: fetched.offset})
        else:
            raise broker_error(code, f"fetch of {partition[0]}-{partition[1]} at {fetched.offset}")

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what is buffered of these: they are no longer read."""
        gone = set(partitions)
        self._queue = deque(fetched for fetched in self._queue if fetched.partition not in gone)
        self._resting = {partition: rest for partition, rest in self._resting.items() if partition not in gone}
        if self._draining and self._draining.partition in gone:
            self._draining = None


def _ending(session_id: int) -> Callable[[int], FetchRequest]:
    request = FetchRequest(replica_id=CONSUMER_REPLICA, session_id=session_id, session_epoch=FINAL_EPOCH)
    return lambda _: request
