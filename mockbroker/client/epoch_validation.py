"""Validation of positions: the check that the log of a new leader contains the records that the consumer has read from
the old leader.

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
from mockbroker.client.components import Components
from mockbroker.client.leader_lookup import CONSUMER_REPLICA, LeaderLookup, Leaders
from mockbroker.client.metadata import TopicPartition

FIRST_CONSUMER_VERSION = 3  # older versions are for brokers only


class EpochLookup(LeaderLookup):
    """A lookup of the end offsets of leader epochs (OffsetForLeaderEpoch), retried until all partitions have a result.

    Args:
        epochs: Leader epoch of the last record read, by partition.
        ended: Callback that is called once for each partition. Its arguments are the partition; the newest leader epoch
            in the leader's log that is not above the requested epoch; and the end offset of that leader epoch. Epoch
            and offset are -1 if unknown.
        components: The components of the consumer.
    """

    key, api_name, min_version = OFFSET_FOR_LEADER_EPOCH.key, "OffsetForLeaderEpoch", FIRST_CONSUMER_VERSION

    def __init__(
        self,
        epochs: Mapping[TopicPartition, int],
        ended: Callable[[TopicPartition, int, int], None],
        components: Components,
    ) -> None:
        super().__init__(epochs, components)
        self._epochs, self._ended = dict(epochs), ended

    def request(self, version: int, leaders: Leaders) -> OffsetForLeaderEpochRequest:  # noqa: ARG002
        topics: dict[str, OffsetForLeaderEpochRequest.Topic] = {}
        for (name, number), leader in leaders.items():
            topic = topics.setdefault(name, OffsetForLeaderEpochRequest.Topic(topic=name))
            topic.partitions.append(
                OffsetForLeaderEpochRequest.Topic.Partition(
                    partition=number,
                    current_leader_epoch=leader.epoch,
                    leader_epoch=self._epochs[name, number],
                )
            )
        return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA, topics=list(topics.values()))

    def response_partitions(self, response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, Any]]:
        return (((topic.topic, data.partition), data) for topic in response.topics for data in topic.partitions)

    def record_partition(self, partition: TopicPartition, data: OffsetForLeaderEpochResponse.Topic.Partition) -> None:
        self._ended(partition, data.leader_epoch, data.end_offset)
