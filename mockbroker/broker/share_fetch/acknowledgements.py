"""Acknowledgements in ShareFetch and ShareAcknowledge requests. Source: Kafka's KafkaApis.handleAcknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kwire import ErrorCode
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.share.acknowledge import RENEW, AcknowledgeError, AcknowledgementBatch, AcknowledgeType, acknowledge
from mockbroker.share.sessions import PartitionKey, SessionKey
from mockbroker.share.share_partitions import RELOADED_AFTER, reported_error
from mockbroker.share.state import StateKey

RENEW_SINCE = 2  # first version with renewals (KIP-1222)
Acknowledgements = dict[PartitionKey, AcknowledgeError | None]
_INVALID = AcknowledgeError(ErrorCode.INVALID_REQUEST, "")
_UNKNOWN_ID = AcknowledgeError(ErrorCode.UNKNOWN_TOPIC_ID, "")
_UNKNOWN_PARTITION = AcknowledgeError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
_NOT_LOADED = AcknowledgeError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, OF_ERRORS[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])


def acknowledge_all(
    broker: Broker,
    topics: Iterable[Any],
    member: SessionKey,
    node: int,
    *,
    lock_end: float,
    renew: bool,
    version: int,
    now: float,
) -> tuple[Acknowledgements, list[StateKey]]:
    """Acknowledge records in several partitions.

    Args:
        broker: the state of the cluster.
        topics: the topics of the request, with their partitions and acknowledgement batches.
        member: group id and member id of the sender.
        node: id of the broker that received the request.
        lock_end: new end of the acquisition locks that the request renews, in seconds of the broker's time.
        renew: whether the request may renew locks (``is_renew_ack``).
        version: version of the request.
        now: the broker's time in seconds.

    Returns:
        (topic id, partition index) -> error, or None after success; and the share partitions for which the request
        contains acknowledgements.
    """
    results: Acknowledgements = {}
    keys: list[StateKey] = []
    empty: Acknowledgements = {}  # returned only if there are acknowledgements of other partitions, as in Kafka
    for topic in topics:
        known = broker.cluster.by_id.get(topic.topic_id)
        for partition in topic.partitions:
            place = topic.topic_id, partition.partition_index
            if known is None:
                results[place] = _UNKNOWN_ID
                continue
            batches = [
                AcknowledgementBatch(each.first_offset, each.last_offset, each.acknowledge_types)
                for each in partition.acknowledgement_batches
            ]
            if not _is_valid(batches, renew=renew, version=version):
                results[place] = _INVALID
            elif known.partition(partition.partition_index) is None:
                results[place] = _UNKNOWN_PARTITION
            elif not batches:
                empty[place] = None
            else:
                key = StateKey(member.group_id, *place)
                keys.append(key)
                results[place] = _acknowledge(broker, key, member.member_id, node, batches, lock_end, now)
    return results | empty if keys else results, keys


def _is_valid(batches: Sequence[AcknowledgementBatch], *, renew: bool, version: int) -> bool:
    """Return whether the acknowledgement batches of a partition are in the order of their offsets and have valid types.

    Args:
        batches: The batches.
        renew: Whether the request may renew locks.
        version: Version of the request.
    """
    previous = -1
    most = max(AcknowledgeType) if version >= RENEW_SINCE else AcknowledgeType.REJECT
    for first, last, types in batches:
        if first > last or first < previous or not types:
            return False
        if len(types) > 1 and len(types) != last - first + 1:
            return False
        if not all(0 <= each <= most for each in types) or (RENEW in types and not renew):
            return False
        previous = last
    return True


def _acknowledge(
    broker: Broker,
    key: StateKey,
    member_id: str,
    node: int,
    batches: Sequence[AcknowledgementBatch],
    lock_end: float,
    now: float,
) -> AcknowledgeError | None:
    partition = broker.cluster.by_id[key.topic_id].partitions[key.partition]
    share = broker.share_partitions.loaded.get(key)
    if share is None or partition.leader != node:
        return _NOT_LOADED
    error = acknowledge(share, member_id, batches, lock_end, now)
    broker.share_partitions.schedule(share)
    if error is None or error.message:
        return error
    code = reported_error(error.error)
    if code in RELOADED_AFTER:
        broker.share_partitions.unload(key)
    return AcknowledgeError(code, f"Error in write state RPC. {OF_ERRORS.get(error.error, '')}")
