"""Lookups of offsets at partition leaders (ListOffsets and OffsetForLeaderEpoch).

A lookup sends one request to each leader. The requests are retried until all partitions have a result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from kwire.errorcodes import ErrorCode
from mockbroker.client.call import OutgoingCall
from mockbroker.client.components import Components
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.metadata import Leader, TopicPartition

CONSUMER_REPLICA = -1  # the replica id of a consumer
RETRIABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
Leaders = dict[TopicPartition, Leader]


class LeaderLookup(ABC):
    """The base class of lookups that ask the partition leaders for one value of each partition, such as an offset.

    Subclasses set ``key`` and ``api_name``, and define ``request``, ``response_partitions`` and ``record_partition``.

    Args:
        partitions: Topics and partition numbers.
        components: The components of the consumer.

    Attributes:
        key: API key of the requests.
        api_name: Name of the API, for error messages.
        min_version: Lowest request version that can be used.
        no_result_errors: Error codes of a partition that are a valid result: the partition has no value. They do not
            end the lookup.
        unanswered: Partitions without a result.
        error: The error that ended the lookup; None without an error.
    """

    key: int
    api_name: str
    min_version = 0
    no_result_errors: tuple[int, ...] = ()

    def __init__(self, partitions: Iterable[TopicPartition], components: Components) -> None:
        self.unanswered = set(partitions)
        self._network, self._metadata = components.network, components.metadata
        self._clock, self._backoff = components.clock, components.backoff
        self.error: ConsumerError | None = None
        self._in_flight: set[TopicPartition] = set()
        self._retry_at = 0.0
        self._failures = 0
        self._leaderless_version: int | None = None  # the metadata version in which a partition had no leader

    @property
    def topics(self) -> set[str]:
        """The names of the topics whose metadata is needed."""
        return {topic for topic, _ in self.unanswered}

    @property
    def done(self) -> bool:
        return not self.unanswered or self.error is not None

    def next_deadline(self) -> float:
        return float("inf") if self.done or self._in_flight >= self.unanswered else self._retry_at

    @abstractmethod
    def request(self, version: int, leaders: Leaders) -> object:
        """Return the request to one leader.

        Args:
            version: Version of the request.
            leaders: Leader of each partition in the request.
        """

    @abstractmethod
    def response_partitions(self, response: Any) -> Iterable[tuple[TopicPartition, Any]]:
        """Yield each partition of a response with its response element, which contains an ``error_code``."""

    @abstractmethod
    def record_partition(self, partition: TopicPartition, data: Any) -> None:
        """Store the result of a partition.

        Args:
            partition: Topic and partition number.
            data: The partition in the response; its error code is NONE or one of ``no_result_errors``.
        """

    def send_if_due(self) -> None:
        """Send a request to each available leader of a partition without a result.

        If a leader is not available, start a backoff, or set ``error`` if the metadata contains an error for the topic.
        During a backoff, nothing is sent until newer metadata arrives.
        """
        leaderless = self._leaderless_version
        new_metadata = leaderless is not None and leaderless < self._metadata.version
        if self.done or (self._retry_at > self._clock.now and not new_metadata):
            return
        self._leaderless_version = None
        by_node: dict[int, Leaders] = {}
        for partition in sorted(self.unanswered - self._in_flight):
            leader = self._metadata.leader(partition)
            node = self._network.broker(leader.node_id) if leader else None
            if leader is None or node is None or not self._network.can_send(node):
                if code := self._metadata.errors.get(partition[0]):
                    self.error = broker_error(code, f"Metadata request for topic {partition[0]} failed")
                    return
                if self._metadata.version:  # else the first Metadata request is in flight
                    self._metadata.retry_later()
                self._leaderless_version = self._metadata.version
                self._back_off()
            else:
                by_node.setdefault(leader.node_id, {})[partition] = leader
        for node_id, leaders in by_node.items():
            self._send(node_id, leaders)

    def _send(self, node_id: int, leaders: Leaders) -> None:
        node = self._network.broker(node_id)
        assert node
        self._in_flight |= set(leaders)
        self._network.send_request(
            node,
            self.key,
            lambda version: self.request(version, leaders),
            lambda call: self._handle_response(call, leaders),
            versions=(self.min_version, None),
        )

    def _handle_response(self, call: OutgoingCall, leaders: Leaders) -> None:
        self._in_flight -= set(leaders)
        if unsupported := call.unsupported:
            self.error = unsupported
            return
        if call.failure is not None:
            self._metadata.refresh()
            self._back_off()
            return
        missing = set(leaders) & self.unanswered
        for partition, data in self.response_partitions(call.response):
            if partition not in missing:
                continue  # not requested
            missing.discard(partition)
            code = data.error_code
            if not code or code in self.no_result_errors:
                self.unanswered.discard(partition)
                self.record_partition(partition, data)
            elif code in RETRIABLE:
                self._metadata.refresh()
                self._back_off()
            else:
                self.error = broker_error(code, f"{self.api_name} of {partition[0]}-{partition[1]} failed")
        if missing:
            self._back_off()

    def _back_off(self) -> None:
        if self._retry_at <= self._clock.now:
            self._retry_at = self._clock.now + self._backoff.after(self._failures)
            self._failures += 1
