"""Requests for log offsets by timestamp (ListOffsets), including the beginning and the end of a log.

Source: OffsetFetcher of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.list_offsets import LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse
from mockbroker.client.components import Components
from mockbroker.client.leader_lookup import CONSUMER_REPLICA, LeaderLookup, Leaders
from mockbroker.client.metadata import TopicPartition

FIRST_TIMESTAMP_VERSION, FIRST_ISOLATION_VERSION = 1, 2


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """An offset with the timestamp of the record at this offset.

    Attributes:
        offset: The offset.
        timestamp: Milliseconds since 1970; -1 for the beginning or the end of a log.
        leader_epoch: Leader epoch of the record; -1 if unknown.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


class LogLookup(LeaderLookup):
    """A lookup of log offsets by timestamp (ListOffsets), retried until all partitions have a result.

    Args:
        components: The components of the consumer.

    Attributes:
        timestamps: Timestamps by partition, in milliseconds since 1970, or Kafka's negative values (-1 latest, -2
            earliest).
        result: Offset by partition: the offset of the first record with the timestamp or a later timestamp; None
            without such a record.
    """

    key, api_name = LIST_OFFSETS.key, "ListOffsets"
    no_result_errors = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,)  # records of format v0 have no timestamps

    def __init__(self, timestamps: Mapping[TopicPartition, int], components: Components) -> None:
        super().__init__(timestamps, components)
        self._isolation_level = int(components.settings.isolation_level == "read_committed")
        self._timeout_ms = round(components.settings.request_timeout * 1000)
        if self._isolation_level:
            self.min_version = FIRST_ISOLATION_VERSION
        elif any(timestamp >= 0 for timestamp in timestamps.values()):
            self.min_version = FIRST_TIMESTAMP_VERSION
        self.timestamps = dict(timestamps)
        self.result: dict[TopicPartition, OffsetAndTimestamp | None] = {}

    def request(self, version: int, leaders: Leaders) -> ListOffsetsRequest:  # noqa: ARG002
        topics: dict[str, ListOffsetsRequest.Topic] = {}
        for (name, number), leader in leaders.items():
            topic = topics.setdefault(name, ListOffsetsRequest.Topic(name=name))
            topic.partitions.append(
                ListOffsetsRequest.Topic.Partition(
                    partition_index=number,
                    current_leader_epoch=leader.epoch,
                    timestamp=self.timestamps[name, number],
                )
            )
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=self._isolation_level,
            topics=list(topics.values()),
            timeout_ms=self._timeout_ms,
        )

    def response_partitions(self, response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, Any]]:
        return (((topic.name, data.partition_index), data) for topic in response.topics for data in topic.partitions)

    def record_partition(self, partition: TopicPartition, data: ListOffsetsResponse.Topic.Partition) -> None:
        if data.error_code:
            self.result[partition] = None
            return
        offset = data.old_style_offsets[0] if data.old_style_offsets else data.offset
        if offset < 0 and self.timestamps[partition] < 0:
            self.unanswered.add(partition)  # every log has a beginning and an end: retry
            self._back_off()
            return
        self.result[partition] = OffsetAndTimestamp(offset, data.timestamp, data.leader_epoch) if offset >= 0 else None
