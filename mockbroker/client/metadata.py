"""Cluster metadata: brokers, topics and partition leaders, and when to refresh them.

Source: org.apache.kafka.clients.Metadata and MetadataCache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from uuid import UUID

from kwire.assignors import Partition
from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.metadata import METADATA, MetadataRequest, MetadataResponse
from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import OutgoingCall
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.least_loaded import LeastLoadedRequest
from mockbroker.client.network import Network
from mockbroker.client.settings import ClientSettings

NO_ID = UUID(int=0)
TopicPartition = tuple[str, int]
FIRST_VERSION_WITH_AUTO_CREATION_FLAG = 4  # older requests always allow the broker to create topics
FATAL = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@dataclass(slots=True)
class Leader:
    """The leader and the replicas of a partition.

    Attributes:
        node_id: Node id of the leader; -1 while there is no leader.
        epoch: Leader epoch.
        replicas: Node ids of all replicas.
    """

    node_id: int
    epoch: int
    replicas: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Topic:
    """The metadata of a topic.

    Attributes:
        topic_id: Topic id; NO_ID if the broker does not support topic ids.
        partitions: Leaders in the order of the partition numbers.
        internal: Whether the topic is internal to Kafka.
    """

    topic_id: UUID
    partitions: list[Leader]
    internal: bool


class Metadata:
    """The cluster metadata of one consumer.

    Args:
        network: The connections.
        settings: Settings of the consumer.
        clock: The clock.
        backoff: Backoff of failed requests.
        creates_topics: Whether the broker may create topics that do not exist.

    Attributes:
        topics: Topics by name.
        topic_names: Topic names by topic id.
        racks: Racks of the brokers by node id; None for a broker without a rack.
        errors: Error codes that the user has to handle, by topic name.
        failure: The UnsupportedVersion error that the next poll raises, or None.
        version: Number of applied responses.
        required: Names of the topics that the consumer reads or, as the leader of a group, assigns.
        looked_up: Names of the topics that pending lookups of the user need, in addition to ``required``.
        pattern: The subscribed pattern; None without a pattern. With a pattern, the metadata of all topics is
            requested.
        has_all_topics: Whether the latest response lists all topics.
    """

    def __init__(
        self,
        network: Network,
        settings: ClientSettings,
        clock: Clock,
        backoff: Backoff,
        *,
        creates_topics: bool,
    ) -> None:
        self._network, self._settings, self._clock, self._backoff = network, settings, clock, backoff
        self._creates_topics = creates_topics
        self.topics: dict[str, Topic] = {}
        self.topic_names: dict[UUID, str] = {}
        self.racks: dict[int, str | None] = {}
        self.errors: dict[str, int] = {}
        self.failure: ConsumerError | None = None
        self.version = 0
        self.required: set[str] = set()
        self.looked_up: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self._refreshing = LeastLoadedRequest(network, METADATA.key, self._handle_response)
        self._requested_topics: tuple[str, ...] | None = None
        self._response_topics: frozenset[str] = frozenset()
        self.has_all_topics = False
        self._refresh_at = 0.0
        self._failures = 0

    def require_topics(self, topics: Iterable[str]) -> None:
        """Replace the topics whose metadata is requested. If one of them is new, call ``refresh``. The topics of
        pending lookups are requested in addition.
        """
        required = set(topics)
        if required - self.required:
            self.refresh()
        self.required = required

    def require_lookup_topics(self, topics: Iterable[str]) -> None:
        """Replace the topics whose metadata is requested for the user's pending lookups, in addition to the required
        topics.

        If one of these topics is new, call ``refresh``. An error of one of these topics is raised by the lookup, not by
        a poll.
        """
        looked_up = set(topics) - self.required
        if looked_up - self.looked_up:
            self.refresh()
        self.looked_up = looked_up

    def require_matching_topics(self, pattern: re.Pattern[str] | None) -> None:
        """Request the metadata of all topics, to find the topics that match ``pattern``; None to request only the
        required topics.
        """
        if pattern is not None:
            self.refresh()
        self.pattern = pattern

    def refresh(self) -> None:
        """Request metadata now; after a failed request or an incomplete response, wait for the backoff first."""
        self._refresh_at = min(
            self._refresh_at, self._clock.now + (self._backoff.after(self._failures - 1) if self._failures else 0)
        )

    def retry_later(self) -> None:
        """Request metadata after the backoff, because the current metadata is not sufficient."""
        self._refresh_at = min(self._refresh_at, self._clock.now + self._backoff.after(self._failures))

    def leader(self, partition: TopicPartition) -> Leader | None:
        """Return the leader of a partition; None if the partition is unknown or has no leader."""
        topic = self.topics.get(partition[0])
        if topic is None or partition[1] >= len(topic.partitions):
            return None
        leader = topic.partitions[partition[1]]
        return leader if leader.node_id >= 0 else None

    def topic_id(self, topic: str) -> UUID:
        """Return the id of a topic; NO_ID if the topic is unknown or the broker does not support ids."""
        known = self.topics.get(topic)
        return known.topic_id if known else NO_ID

    def partitions_and_racks(self, topics: Iterable[str]) -> dict[str, tuple[int, tuple[tuple[str, ...], ...]]]:
        """Return topic name -> number of partitions, and the racks of each partition's replicas.

        The leader of a classic group rejoins when this value changes. ``topics``: topic names; unknown topics are left
        out.
        """
        counts = {}
        for name in topics:
            if topic := self.topics.get(name):
                racks = tuple(tuple(sorted(str(self.racks.get(n)) for n in p.replicas)) for p in topic.partitions)
                counts[name] = (len(topic.partitions), racks)
        return counts

    def for_assignor(self, topics: Iterable[str]) -> Mapping[str, list[Partition]]:
        """Return topic name -> partitions, as assignors expect them. Unknown topics are left out."""
        by_name = {}
        for name in topics:
            if (topic := self.topics.get(name)) and topic.partitions:
                by_name[name] = [
                    Partition([self.racks.get(n) for n in p.replicas], self.racks.get(p.node_id))
                    for p in topic.partitions
                ]
        return by_name

    def matching(self) -> set[str]:
        """Return the names of the topics that match the pattern, without internal topics. Without a pattern, the result
        is empty.
        """
        pattern = self.pattern
        return {n for n, t in self.topics.items() if pattern and pattern.fullmatch(n) and not t.internal}

    def covers(self, topics: Iterable[str]) -> bool:
        """Return whether the latest response contains metadata or an error for each topic in ``topics``."""
        return self.has_all_topics or self._response_topics.issuperset(topics)

    def has_no_topic(self, topic: str) -> bool:
        """Return whether the latest response shows that the topic does not exist."""
        return self.covers((topic,)) and topic not in self.topics and topic not in self.errors

    def raise_errors(self) -> None:
        """Raise the pending failure, or the error of a required topic.

        Raises:
            UnsupportedVersion: No version of Metadata that the broker supports can carry the request.
            BrokerError: A topic that the user subscribed to or assigned is invalid or not authorized.
        """
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        for topic, code in self.errors.items():
            if topic in self.required:
                raise broker_error(code, f"Metadata request for topic {topic} failed")

    def update_leader(self, partition: TopicPartition, node_id: int, epoch: int) -> bool:
        """Apply the new leader of a partition from a Fetch response (KIP-951).

        Return False, without a change, if the partition or the broker is unknown, or if the leader epoch is not newer.

        Args:
            partition: The partition.
            node_id: Node id of the leader.
            epoch: Leader epoch.
        """
        topic = self.topics.get(partition[0])
        if topic is None or partition[1] >= len(topic.partitions) or self._network.broker(node_id) is None:
            return False
        known = topic.partitions[partition[1]]
        if epoch <= known.epoch:
            return False
        topic.partitions[partition[1]] = Leader(node_id, epoch, known.replicas)
        return True

    def next_deadline(self) -> float:
        """Return the time at which the next Metadata request is due, in seconds on the engine's clock."""
        return float("inf") if self._refreshing.in_flight else self._refresh_at

    def request_if_due(self) -> None:
        """Send a Metadata request if a refresh is due and no Metadata request is in flight."""
        if self._refreshing.in_flight or self._clock.now < self._refresh_at:
            return
        topics = tuple(sorted(self.required | self.looked_up)) if self.pattern is None else None
        self._requested_topics = topics
        self._refresh_at = self._clock.now + self._settings.metadata_max_age
        if not self._refreshing.send(lambda version: self._request(topics, version)):
            self._refresh_at = self._clock.now + self._backoff.after(0)

    def _request(self, topics: tuple[str, ...] | None, version: int) -> MetadataRequest:
        if version == 0 and topics == ():
            topics = ("__consumer_offsets",)  # v0 cannot request no topics; only the brokers are needed
        return MetadataRequest(
            topics=None
            if topics is None and version > 0
            else [MetadataRequest.Topic(name=name) for name in topics or ()],
            allow_auto_topic_creation=version < FIRST_VERSION_WITH_AUTO_CREATION_FLAG
            or (self._creates_topics and topics is not None),
        )

    def _handle_response(self, call: OutgoingCall) -> None:
        if call.failure is not None:
            self.failure = call.unsupported or self.failure
            self._retry()
            return
        response: MetadataResponse = call.response
        if not response.brokers:  # a broker that has just started lists none
            self._retry()
            return
        self.update(response)
        self._response_topics, self.has_all_topics = (
            frozenset(self._requested_topics or ()),
            self._requested_topics is None,
        )
        incomplete = any(
            topic.error_code not in (0, *FATAL) or any(p.leader_id < 0 for p in topic.partitions)
            for topic in response.topics
        )
        if incomplete:
            self._retry()
        else:
            self._failures = 0
        if self.pattern is None and (self.required | self.looked_up) - self._response_topics:
            self._refresh_at = self._clock.now

    def _retry(self) -> None:
        self._refresh_at = min(self._refresh_at, self._clock.now + self._backoff.after(self._failures))
        self._failures += 1

    def update(self, response: MetadataResponse) -> None:
        """Apply a Metadata response.

        If a leader in the response has an older leader epoch than the known leader, the known leader is kept, because
        the broker's metadata is outdated. A topic with a retriable error keeps its known metadata, unless the error is
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._network.update_brokers({b.node_id: (b.host, b.port) for b in response.brokers})
        self.racks = {broker.node_id: broker.rack for broker in response.brokers}
        before, self.topics, self.errors = self.topics, {}, {}
        for topic in response.topics:
            if topic.name is None:
                continue
            old = before.get(topic.name)
            if topic.error_code:
                if topic.error_code in FATAL:
                    self.errors[topic.name] = topic.error_code
                elif old and topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self.topics[topic.name] = old
                continue
            same = old if old and old.topic_id == topic.topic_id else None
            numbered = {partition.partition_index: partition for partition in topic.partitions}
            leaders = []
            for number in range(len(numbered)):
                if number not in numbered:
                    break  # partition numbers have no gaps: ignore the rest of an invalid response
                partition = numbered[number]
                leader = Leader(partition.leader_id, partition.leader_epoch, list(partition.replica_nodes))
                known = same.partitions[number] if same and number < len(same.partitions) else None
                leaders.append(known if known and -1 < leader.epoch < known.epoch else leader)
            self.topics[topic.name] = Topic(topic.topic_id, leaders, topic.is_internal)
        self.topic_names = {t.topic_id: name for name, t in self.topics.items() if t.topic_id != NO_ID}
        self.version += 1


class TopicLookup:
    """A lookup of the number of partitions of a topic.

    Args:
        topic: The topic name.
        metadata: The metadata of the cluster.

    Attributes:
        topics: The topic name, as a set.
        result: Number of partitions once ``done``; 0 if the topic does not exist.
        error: The error of the topic, or None.
        done: Whether the result or the error is known.
    """

    def __init__(self, topic: str, metadata: Metadata) -> None:
        self.topics = {topic}
        self._topic, self._metadata, self._since = topic, metadata, metadata.version
        self.result = 0
        self.error: ConsumerError | None = None
        self.done = False
        metadata.refresh()

    def next_deadline(self) -> float:
        return float("inf")  # Metadata, on which the lookup waits, has its own deadlines

    def send_if_due(self) -> None:
        """Set ``result`` or ``error`` if a Metadata response has arrived since the start of the lookup.

        This method sends no request, because ``Metadata`` sends all Metadata requests.
        """
        metadata = self._metadata
        if self.done or metadata.version == self._since or not metadata.covers(self.topics):
            return
        self.done = True
        if code := metadata.errors.get(self._topic):
            self.error = broker_error(code, f"Metadata request for topic {self._topic} failed")
        elif known := metadata.topics.get(self._topic):
            self.result = len(known.partitions)
