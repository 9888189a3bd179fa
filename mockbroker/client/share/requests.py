"""The ShareFetch and ShareAcknowledge requests of a share consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from mockbroker.client.metadata import Metadata, TopicPartition
from mockbroker.client.share.acknowledgements import Types, batches_of
from mockbroker.client.share.session import FINAL_EPOCH, PartitionKey, ShareSession
from mockbroker.client.share.settings import RECORD_LIMIT, ShareSettings

FetchTopic = ShareFetchRequest.Topic
AckTopic = ShareAcknowledgeRequest.Topic
B = TypeVar("B")


class ShareRequests:
    """The builder of the ShareFetch and ShareAcknowledge requests of one consumer.

    Args:
        group: Group id.
        member_id: Member id.
        settings: The settings of the consumer.
        metadata: The metadata, for topic ids.
    """

    def __init__(self, group: str, member_id: str, settings: ShareSettings, metadata: Metadata) -> None:
        self._group, self._member_id, self._settings, self._metadata = group, member_id, settings, metadata

    def fetch(
        self, session: ShareSession, wanted: set[PartitionKey], acks: Mapping[TopicPartition, Types]
    ) -> ShareFetchRequest:
        """Return the next ShareFetch request to a broker: it adds and removes partitions of the session, and
        acknowledges records.

        Args:
            session: the session with the broker.
            wanted: all partitions to read from the broker, as topic id and partition number.
            acks: acknowledgements of earlier records: partition -> offset -> type.
        """
        settings = self._settings
        topics: dict[UUID, FetchTopic] = {}
        partitions: dict[PartitionKey, FetchTopic.Partition] = {}

        def partition(key: PartitionKey) -> FetchTopic.Partition:
            if key not in partitions:
                partitions[key] = FetchTopic.Partition(partition_index=key[1])
                topics.setdefault(key[0], FetchTopic(topic_id=key[0])).partitions.append(partitions[key])
            return partitions[key]

        added, removed = session.changes(wanted)
        for key in added:
            partition(key)
        kind = FetchTopic.Partition.AcknowledgementBatch
        for (name, number), types in acks.items():
            partition((self._metadata.topic_id(name), number)).acknowledgement_batches = _batches(kind, types)
        forgotten: dict[UUID, list[int]] = {}
        for topic_id, number in removed:
            forgotten.setdefault(topic_id, []).append(number)
        return ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=round(settings.fetch_max_wait * 1000),
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_records=settings.max_poll_records,
            batch_size=settings.max_poll_records,
            share_acquire_mode=int(settings.share_acquire_mode == RECORD_LIMIT),
            topics=list(topics.values()),
            forgotten_topics_data=[
                ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in forgotten.items()
            ],
        )

    def acknowledge(
        self, session: ShareSession, acks: Mapping[TopicPartition, Types], *, renews: bool, final: bool
    ) -> ShareAcknowledgeRequest:
        """Return a ShareAcknowledge request to a broker.

        Args:
            session: the session with the broker.
            acks: the acknowledgements: partition -> offset -> type.
            renews: whether acquisition locks are renewed.
            final: whether the request ends the session.
        """
        kind = AckTopic.Partition.AcknowledgementBatch
        topics: dict[UUID, AckTopic] = {}
        for (name, number), types in acks.items():
            topic_id = self._metadata.topic_id(name)
            partition = AckTopic.Partition(partition_index=number, acknowledgement_batches=_batches(kind, types))
            topics.setdefault(topic_id, AckTopic(topic_id=topic_id)).partitions.append(partition)
        return ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if final else session.epoch,
            is_renew_ack=renews,
            topics=list(topics.values()),
        )


def _batches(kind: Callable[..., B], types: Types) -> list[B]:
    """Return acknowledgements as AcknowledgementBatch elements of a request.

    Args:
        kind: Class of the element.
        types: Offset -> acknowledgement type.
    """
    return [
        kind(first_offset=each.first, last_offset=each.last, acknowledge_types=list(each.types))
        for each in batches_of(types)
    ]
