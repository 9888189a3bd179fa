"""Offsets of the log by time: where it begins, where it ends, where an hour ago was.

Source: OffsetFetcher of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kwire.errorcodes import ErrorCode
from kwire.messages.list_offsets import LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse
from mockbroker.client.by_leader import CONSUMER_REPLICA, By, ByLeader
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.parts import Parts

TIMES, ISOLATION = 1, 2  # versions that look up records by time, and that know what is committed


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """``timestamp``: of the record, in ms; -1 where only an offset was asked for."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


class LogInquiry(ByLeader):
    """``wanted``: timestamps in ms, or questions below zero. ``found``: None where no record is that young."""

    key, where = LIST_OFFSETS.key, "ListOffsets"
    nothing = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,)  # records from before there were timestamps

    def __init__(self, wanted: Mapping[TopicPartition, int], parts: Parts) -> None:
        super().__init__(wanted, parts)
        self._isolation_level = int(parts.settings.isolation_level == "read_committed")
        self._timeout_ms = round(parts.settings.request_timeout * 1000)
        if self._isolation_level:
            self.lowest = ISOLATION
        elif any(timestamp >= 0 for timestamp in wanted.values()):
            self.lowest = TIMES
        self.wanted = dict(wanted)
        self.found: dict[TopicPartition, OffsetAndTimestamp | None] = {}

    def request(self, version: int, asked: By) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsRequest.Topic] = {}
        for (name, number), leader in asked.items():
            topic = topics.setdefault(name, ListOffsetsRequest.Topic(name=name))
            topic.partitions.append(
                ListOffsetsRequest.Topic.Partition(
                    partition_index=number,
                    current_leader_epoch=leader.epoch,
                    timestamp=self.wanted[name, number],
                )
            )
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=self._isolation_level if version >= ISOLATION else 0,
            topics=list(topics.values()),
            timeout_ms=self._timeout_ms,
        )

    def lines(self, answer: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, Any]]:
        return (((topic.name, line.partition_index), line) for topic in answer.topics for line in topic.partitions)

    def record_line(self, partition: TopicPartition, line: ListOffsetsResponse.Topic.Partition) -> None:
        offset = -1 if line.error_code else line.old_style_offsets[0] if line.old_style_offsets else line.offset
        if offset < 0 and not line.error_code and self.wanted[partition] < 0:
            self.open.add(partition)  # every log begins and ends somewhere
            self._later()
            return
        self.found[partition] = OffsetAndTimestamp(offset, line.timestamp, line.leader_epoch) if offset >= 0 else None
