"""Whether the log of a new leader still has what was read from the old one.

Source: KIP-320, OffsetsForLeaderEpochClient of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kwire.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from mockbroker.client.by_leader import CONSUMER_REPLICA, By, ByLeader
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.parts import Parts

FOR_CONSUMERS = 3  # before, only brokers were allowed to ask


class EpochInquiry(ByLeader):
    """``epochs``: of the records read last. ``ended``: told of each partition the epoch and where it ended there."""

    key, where, lowest = OFFSET_FOR_LEADER_EPOCH.key, "OffsetForLeaderEpoch", FOR_CONSUMERS

    def __init__(
        self,
        epochs: Mapping[TopicPartition, int],
        ended: Callable[[TopicPartition, int, int], None],
        parts: Parts,
    ) -> None:
        super().__init__(epochs, parts)
        self._epochs, self._ended = dict(epochs), ended

    def request(self, version: int, asked: By) -> OffsetForLeaderEpochRequest:  # noqa: ARG002
        topics: dict[str, OffsetForLeaderEpochRequest.Topic] = {}
        for (name, number), leader in asked.items():
            topic = topics.setdefault(name, OffsetForLeaderEpochRequest.Topic(topic=name))
            topic.partitions.append(
                OffsetForLeaderEpochRequest.Topic.Partition(
                    partition=number,
                    current_leader_epoch=leader.epoch,
                    leader_epoch=self._epochs[name, number],
                )
            )
        return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA, topics=list(topics.values()))

    def lines(self, answer: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, Any]]:
        return (((topic.topic, line.partition), line) for topic in answer.topics for line in topic.partitions)

    def record_line(self, partition: TopicPartition, line: OffsetForLeaderEpochResponse.Topic.Partition) -> None:
        self._ended(partition, line.leader_epoch, line.end_offset)
