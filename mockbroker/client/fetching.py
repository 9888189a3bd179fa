"""The fetcher of records: it sends Fetch requests to partition leaders, one at a time to each leader, and buffers the
responses.

A partition is not fetched while records of it are buffered, and a response is dropped unless it begins at the current
position. So a late response cannot cause a record to be returned twice.
Source: org.apache.kafka.clients.consumer.internals.Fetcher, FetchCollector and AbstractFetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.fetch import FETCH, FetchRequest, FetchResponse
from mockbroker.client.call import OutgoingCall
from mockbroker.client.components import Components
from mockbroker.client.errors import ConsumerError, NoOffset, broker_error
from mockbroker.client.fetch_session import FINAL_EPOCH, NO_SESSION, FetchSession, PartitionRequest
from mockbroker.client.leader_lookup import CONSUMER_REPLICA
from mockbroker.client.metadata import NO_ID, TopicPartition
from mockbroker.client.network import Node
from mockbroker.client.position_resolver import Resolver
from mockbroker.client.positions import Position
from mockbroker.client.records import ConsumerRecord, RecordReader

MIN_VERSION, LAST_TOPIC_NAME_VERSION = 4, 12
FIRST_SESSION_VERSION = 7
STALE_METADATA = (
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
RETRIABLE = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR)
PartitionData = FetchResponse.Topic.Partition


@dataclass(slots=True, eq=False)
class CompletedFetch:
    """One partition of a received Fetch response. Its records are returned to the user in portions.

    Attributes:
        partition: Topic and partition number.
        position: The ``Position`` of the partition at the time of the request. It is replaced if the partition is
            assigned again.
        offset: Fetch offset of the request.
        data: The partition element of the response.
        reader: Reader of the records; None until the first record is collected.
    """

    partition: TopicPartition
    position: Position
    offset: int
    data: PartitionData
    reader: RecordReader | None = None


class Fetcher:
    """The fetcher of records for one consumer.

    Args:
        components: The components of the consumer.
        resolver: The resolver of missing positions.

    Attributes:
        failure: The error that the next poll raises, or None.
        responses: Number of received responses.
        dropped: Number of responses that were dropped because they were invalid.
        latency: Seconds from the request to the response, for the latest response.
        throttled_ms: Throttle time in the latest response, in milliseconds.
    """

    def __init__(self, components: Components, resolver: Resolver) -> None:
        self._settings, self._network, self._metadata = components.settings, components.network, components.metadata
        self._positions, self._clock, self._backoff = components.positions, components.clock, components.backoff
        self._resolver = resolver
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: dict[int, OutgoingCall] = {}
        self._completed: deque[CompletedFetch] = deque()  # in the order of the responses
        self._current: CompletedFetch | None = None
        self._node_retry_at: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._partition_backoff: dict[TopicPartition, tuple[float, int]] = {}  # its end, failures in a row
        self.failure: ConsumerError | None = None
        self.responses = self.dropped = 0
        self.latency = 0.0
        self.throttled_ms = 0

    @property
    def buffered(self) -> set[TopicPartition]:
        """The partitions with buffered records: records that were fetched, but not returned to the user yet."""
        held = {fetched.partition for fetched in self._completed}
        if self._current:
            held.add(self._current.partition)
        return held

    def next_deadline(self) -> float:
        """Return the earliest end of a backoff of a node or partition, in seconds on the engine's clock; inf without a
        backoff.
        """
        now = self._clock.now
        at = min((at for at in self._node_retry_at.values() if at > now), default=float("inf"))
        if not self._partition_backoff:
            return at
        return min(at, min((until for until, _ in self._partition_backoff.values() if until > now), default=at))

    # Requests

    def fetchable(self) -> dict[TopicPartition, Position]:
        """Return the partitions to fetch.

        A partition is fetchable if it is neither paused nor being revoked, its position is valid, and no records of it
        are buffered.
        """
        held = self.buffered
        return {p: position for p, position in self._positions.items() if position.fetchable and p not in held}

    def send_fetches(self) -> int:
        """Send a Fetch request to each node with partitions to fetch, unless the node has a Fetch request in flight or
        is in backoff.

        Return the number of sent requests.
        """
        now = self._clock.now
        by_node: dict[int, dict[TopicPartition, PartitionRequest]] = {}
        for partition, position in self.fetchable().items():
            if (backoff := self._partition_backoff.get(partition)) and backoff[0] > now:
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
                    if until > now:  # the metadata lacks this replica
                        self._metadata.retry_later()
            if node_id in self._in_flight or self._node_retry_at.get(node_id, 0.0) > now:
                continue
            assert position.offset is not None
            topic_id = self._metadata.topic_id(partition[0])
            # A follower may not know the epoch yet, and would then return OFFSET_OUT_OF_RANGE.
            fetched_epoch = position.epoch if node_id == leader.node_id else -1
            request = PartitionRequest(position.offset, leader.epoch, fetched_epoch, topic_id)
            by_node.setdefault(node_id, {})[partition] = request
        sent = 0
        for node_id, requests in by_node.items():
            node = self._network.broker(node_id)
            if node is None or not self._network.can_send(node):
                self._metadata.retry_later()
                continue
            self._send_fetch(node, requests)
            sent += 1
        return sent

    def _send_fetch(self, node: Node, requests: dict[TopicPartition, PartitionRequest]) -> None:
        session = self._sessions.setdefault(node.id, FetchSession())
        positions = {partition: self._positions.of(partition) for partition in requests}
        ids = all(request.topic_id != NO_ID for request in requests.values())

        def build(version: int) -> FetchRequest:
            if version < FIRST_SESSION_VERSION:
                session.reset()
            return self._request(session, requests, version)

        call = self._network.send_request(
            node,
            FETCH.key,
            build,
            lambda call: self._handle_response(node, session, call, requests, positions),
            timeout=self._settings.request_timeout + self._settings.fetch_max_wait,
            versions=(MIN_VERSION, None if ids else LAST_TOPIC_NAME_VERSION),
        )
        if not call.done:
            self._in_flight[node.id] = call

    def _request(
        self, session: FetchSession, requests: Mapping[TopicPartition, PartitionRequest], version: int
    ) -> FetchRequest:
        settings = self._settings
        changed, forgotten = session.next_request(requests)
        by_id = version > LAST_TOPIC_NAME_VERSION
        topics: dict[str, FetchRequest.Topic] = {}
        for (name, number), request in changed.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchRequest.Topic()
                if by_id:
                    topic.topic_id = request.topic_id
                else:
                    topic.topic = name
            topic.partitions.append(
                FetchRequest.Topic.Partition(
                    partition=number,
                    current_leader_epoch=request.epoch,
                    fetch_offset=request.offset,
                    last_fetched_epoch=request.fetched_epoch if version >= LAST_TOPIC_NAME_VERSION else -1,
                    partition_max_bytes=settings.max_partition_fetch_bytes,
                )
            )
        forgotten_topics: dict[tuple[str, UUID], FetchRequest.ForgottenTopic] = {}
        for (name, number), known in forgotten:
            key = ("", known.topic_id) if by_id else (name, NO_ID)
            entry = forgotten_topics.setdefault(key, FetchRequest.ForgottenTopic(topic=key[0], topic_id=key[1]))
            entry.partitions.append(number)
        sessions = version >= FIRST_SESSION_VERSION and settings.fetch_sessions
        return FetchRequest(
            replica_id=CONSUMER_REPLICA,
            max_wait_ms=round(settings.fetch_max_wait * 1000),
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.isolation_level == "read_committed"),
            session_id=session.session_id if sessions else NO_SESSION,
            session_epoch=session.epoch if sessions else FINAL_EPOCH,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten_topics.values()),
            rack_id=settings.client_rack,
        )

    def close(self) -> list[OutgoingCall]:
        """Send requests that close the fetch sessions with connected brokers. Return these requests."""
        calls = []
        for node_id, session in self._sessions.items():
            node = self._network.broker(node_id)
            if node is None or not node.ready or session.session_id == NO_SESSION:
                continue
            calls.append(
                self._network.send_request(
                    node, FETCH.key, _close_session_request(session.session_id), versions=(FIRST_SESSION_VERSION, None)
                )
            )
        return calls

    # Responses

    def _handle_response(
        self,
        node: Node,
        session: FetchSession,
        call: OutgoingCall,
        requests: Mapping[TopicPartition, PartitionRequest],
        positions: Mapping[TopicPartition, Position],
    ) -> None:
        self._in_flight.pop(node.id, None)
        if call.failure is not None:
            session.start_new()
            self.failure = call.unsupported or self.failure
            for position in positions.values():
                position.replica = None
            self._metadata.refresh()
            self._back_off_node(node.id)
            return
        response: FetchResponse = call.response
        self.responses += 1
        self.latency, self.throttled_ms = self._clock.now - call.sent_at, response.throttle_time_ms
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                session.reset()
            else:
                session.start_new()
            if response.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                self._metadata.refresh()
                self._back_off_node(node.id)
            return
        partitions = self._response_partitions(response, call.version, requests)
        if partitions is None or not session.accepts({partition for partition, _ in partitions}):
            self.dropped += 1
            session.start_new()
            self._metadata.refresh()
            self._back_off_node(node.id)
            return
        if self._settings.fetch_sessions:
            session.handle_response(response.session_id)
        self._failures.pop(node.id, None)
        for partition, data in partitions:
            self._completed.append(CompletedFetch(partition, positions[partition], requests[partition].offset, data))

    @staticmethod
    def _response_partitions(
        response: FetchResponse, version: int, requests: Mapping[TopicPartition, PartitionRequest]
    ) -> list[tuple[TopicPartition, PartitionData]] | None:
        """Return the partitions of a response; None if a partition occurs twice or a topic was not requested.

        Args:
            response: The Fetch response.
            version: API version of the response.
            requests: The requested partitions.
        """
        by_partition: dict[TopicPartition, PartitionData] = {}
        names = {request.topic_id: topic for (topic, _), request in requests.items()}  # when the request was sent
        for topic in response.responses:
            name = topic.topic if version <= LAST_TOPIC_NAME_VERSION else names.get(topic.topic_id)
            for data in topic.partitions:
                if name is None or (name, data.partition_index) in by_partition:
                    return None
                by_partition[name, data.partition_index] = data
        return list(by_partition.items())

    def _back_off_partition(self, partition: TopicPartition) -> None:
        _, failures = self._partition_backoff.get(partition, (0.0, 0))
        self._partition_backoff[partition] = self._clock.now + self._backoff.after(failures), failures + 1

    def _back_off_node(self, node_id: int) -> None:
        failures = self._failures.get(node_id, 0)
        self._failures[node_id] = failures + 1
        self._node_retry_at[node_id] = self._clock.now + self._backoff.after(failures)

    # Records

    def collect_records(self, max_records: int) -> list[ConsumerRecord]:
        """Return up to ``max_records`` buffered records, and advance the positions past them.

        If records precede an error, these records are returned first. The next call raises the error, unless the user
        seeks first.

        Raises: ConsumerError if a fetch failed with an error that the application must handle, such as NoOffset.
        """
        records: list[ConsumerRecord] = []
        paused: list[CompletedFetch] = []
        try:
            while len(records) < max_records:
                if self._current is None:
                    if not self._completed:
                        break
                    self._current = self._completed.popleft()
                fetched = self._current
                position = fetched.position
                if self._positions.get(fetched.partition) is not position or position.revoking:
                    self._current = None  # the partition was revoked meanwhile
                elif position.paused:
                    self._current = None
                    paused.append(fetched)  # kept until it is resumed
                elif not self._is_current(fetched):
                    self._current = None
                else:
                    self._collect(fetched, max_records - len(records), records)
        except ConsumerError:
            if not records:
                self._current = None
                raise
        finally:
            self._completed.extendleft(reversed(paused))
        return records

    def _is_current(self, fetched: CompletedFetch) -> bool:
        """Return whether a completed fetch begins at the current position, so that its records can be returned.

        The first call applies the error and the offsets of the response, such as the high watermark, to the position.
        """
        position = fetched.position
        at = fetched.reader.next_offset if fetched.reader else fetched.offset
        if position.offset != at or position.validating:
            return False  # the user sought, or the log of a new leader may differ
        return fetched.reader is not None or self._initialize(fetched)

    def _collect(self, fetched: CompletedFetch, max_records: int, records: list[ConsumerRecord]) -> None:
        reader, position = fetched.reader, fetched.position
        assert reader
        try:
            portion = reader.next_records(max_records)
        finally:
            if reader.next_offset != position.offset:
                position.offset = reader.next_offset
                if reader.epoch >= 0:
                    position.epoch = reader.epoch
        records += portion
        if len(portion) < max_records and not reader.corrupt:
            self._current = None
            if reader.next_offset == fetched.offset:
                self._back_off_partition(fetched.partition)  # the next response may have no records either
            else:
                self._partition_backoff.pop(fetched.partition, None)

    def _initialize(self, fetched: CompletedFetch) -> bool:
        """Prepare the reading of a completed fetch: apply its error and offsets before the first record is returned.

        Return whether records can be returned: False after an error, for a truncated log, and for a response without
        records.
        """
        partition, position, data = fetched.partition, fetched.position, fetched.data
        if data.error_code:
            self._handle_error(fetched)
            return False
        diverging = data.diverging_epoch
        if diverging.end_offset >= 0 or diverging.epoch >= 0:
            self._resolver.handle_truncation(partition, position, diverging.epoch, diverging.end_offset)
            return False
        position.high_watermark = data.high_watermark
        if data.last_stable_offset >= 0:
            position.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            position.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            position.replica = data.preferred_read_replica, self._clock.now + self._settings.metadata_max_age
        if not data.records:
            self._partition_backoff.pop(partition, None)
            return False
        fetched.reader = RecordReader(
            partition,
            fetched.offset,
            data,
            read_committed=self._settings.isolation_level == "read_committed",
            check_crcs=self._settings.check_crcs,
        )
        return True

    def _handle_error(self, fetched: CompletedFetch) -> None:
        partition, position, data = fetched.partition, fetched.position, fetched.data
        code = data.error_code
        if code in STALE_METADATA:
            position.replica = None
            leader = data.current_leader
            if self._metadata.update_leader(partition, leader.leader_id, leader.leader_epoch):
                self._resolver.request_run()  # validate the position before the new leader is read
            else:
                self._metadata.retry_later()
                self._back_off_partition(partition)
        elif code in RETRIABLE:
            self._back_off_partition(partition)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if position.replica:
                position.replica = None  # the follower may lag: retry at the leader
            elif not self._resolver.reset(position):
                raise NoOffset({partition: fetched.offset})
        else:
            raise broker_error(code, f"Fetch of {partition[0]}-{partition[1]} from offset {fetched.offset} failed")

    def drop_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Discard the buffered records and the backoffs of partitions that the consumer does not read any more."""
        dropped = set(partitions)
        self._completed = deque(fetched for fetched in self._completed if fetched.partition not in dropped)
        self._partition_backoff = {
            partition: backoff for partition, backoff in self._partition_backoff.items() if partition not in dropped
        }
        if self._current and self._current.partition in dropped:
            self._current = None


def _close_session_request(session_id: int) -> Callable[[int], FetchRequest]:
    request = FetchRequest(replica_id=CONSUMER_REPLICA, session_id=session_id, session_epoch=FINAL_EPOCH)
    return lambda _: request
