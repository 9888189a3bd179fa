"""Handlers of OffsetCommit v0 and OffsetFetch v0, which store offsets in ZooKeeper, as Kafka did until 0.8.

Later versions of these requests use ``__consumer_offsets``, even on the same broker. In ZooKeeper an offset is the node
``/consumers/[group]/offsets/[topic]/[partition]``, without metadata. The broker does not check whether the client is a
member. A lookup of an offset that was never committed returns an error.
Source: handleOffsetCommitRequest and handleOffsetFetchRequest of KafkaApis, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.handlers.handler import Handler
from mockbroker.groups.offsets import is_metadata_too_large
from mockbroker.lab.history.scheme import BROKER
from mockbroker.lab.history.watching import CONSUMERS
from mockbroker.lab.history.zookeeper import Asking, Session, ZooKeeper, carry_out

NOTHING = -1  # offset in a partition response with an error


def offset_of(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


class OldOffsets:
    """The handlers of all APIs for a broker that stores the offsets of OffsetCommit v0 and OffsetFetch v0 in
    ZooKeeper.

    Args:
        zookeeper: the simulated ZooKeeper.
        timeout: session timeout of the broker, seconds.
        answer: function that is called with the effects (the response) after ZooKeeper has responded.

    Attributes:
        handlers: API key -> handler. All requests except OffsetCommit v0 and OffsetFetch v0 are handled as usual.
    """

    def __init__(self, zookeeper: ZooKeeper, timeout: float, answer: Callable[[Effects], None]) -> None:
        self._session = zookeeper.connect(BROKER, 0, timeout, _granted, _expired)
        self._answer = answer
        self.handlers: Mapping[int, Handler] = {
            **HANDLERS,
            ApiKey.OFFSET_COMMIT: self._before(ApiKey.OFFSET_COMMIT, self._commits),
            ApiKey.OFFSET_FETCH: self._before(ApiKey.OFFSET_FETCH, self._fetches),
        }

    def _before(self, api_key: int, old: Callable[[Broker, Call[Any]], Asking]) -> Handler:
        usual = HANDLERS[api_key]

        def handle(broker: Broker, call: Call[Any], now: float) -> Effects:
            if call.version:
                return usual.handle(broker, call, now)
            carry_out(old(broker, call), lambda: True)
            return []

        return Handler(usual.versions, handle, usual.adapt_response)

    def _commits(self, broker: Broker, call: Call[OffsetCommitRequest]) -> Asking:
        limit, group = broker.settings.offset_metadata_max_bytes, call.request.group_id
        topics: list[OffsetCommitResponse.Topic] = []
        for asked in call.request.topics:
            topic = OffsetCommitResponse.Topic(name=asked.name)
            for line in asked.partitions:
                error = ErrorCode.NONE
                if broker.cluster.partition(asked.name, line.partition_index) is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif is_metadata_too_large(line.committed_metadata, limit):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    path, data = offset_of(group, asked.name, line.partition_index), str(line.committed_offset)
                    answer = yield partial(self._session.put, path, data)
                    if answer.error:
                        yield partial(self._session.create, path, data=data)
                partition = OffsetCommitResponse.Topic.Partition(partition_index=line.partition_index, error_code=error)
                topic.partitions.append(partition)
            topics.append(topic)
        self._answer([Reply(call.ticket, OffsetCommitResponse(topics=topics))])
        return True

    def _fetches(self, broker: Broker, call: Call[OffsetFetchRequest]) -> Asking:
        topics: list[OffsetFetchResponse.Topic] = []
        for asked in call.request.topics or ():
            topic = OffsetFetchResponse.Topic(name=asked.name)
            for index in asked.partition_indexes:
                offset, error = NOTHING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if broker.cluster.partition(asked.name, index) is not None:
                    path = offset_of(call.request.group_id, asked.name, index)
                    answer = yield partial(self._session.read, path)
                    if not answer.error:
                        offset, error = int(answer.data), ErrorCode.NONE
                kind = OffsetFetchResponse.Topic.Partition
                topic.partitions.append(kind(partition_index=index, committed_offset=offset, error_code=error))
            topics.append(topic)
        self._answer([Reply(call.ticket, OffsetFetchResponse(topics=topics))])
        return True


def _granted(session: Session) -> None:
    """Do nothing. ZooKeeper calls this function when it has accepted the session of the broker."""


def _expired() -> None:
    raise AssertionError("the broker's ZooKeeper session expired while the broker was running")
