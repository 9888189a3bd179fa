"""Topic names by id, and end offsets of partitions, from calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kwire.apikeys import ApiKey
from kwire.capture.calls.model import Call
from kwire.capture.calls.topic_names import topics_in
from kwire.json.objects import uuid_text
from kwire.lazy_dataclass import dataclass

_LATEST = -1
# APIs whose responses name existing topics.
_NAMING: set[int] = {
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}


def topic_names(call: Call) -> dict[str, str]:
    """Return the topic names in a response; a key is the text ``id:`` followed by the topic id.

    The result is empty for an API that is not in ``_NAMING``, and if the response was not captured.
    """
    if call.api_key not in _NAMING or call.response is None:
        return {}
    return {topic_key("", topic): name for topic, name in topics_in(call.api_key, call.response) if topic.int and name}


def topic_key(name: str | None, topic_id: Any) -> str:
    """Return the topic name; if it is unknown, the text ``id:`` followed by the topic id.

    Args:
        name: topic name; None or empty if it is unknown.
        topic_id: topic id; None if the message has none. An empty name is then returned as it is.
    """
    return name or ("" if topic_id is None else f"id:{uuid_text(topic_id)}")


@dataclass(slots=True, frozen=True)
class Watermark:
    """The high watermark of a partition in a response.

    Attributes:
        ts: time of the response, in microseconds since 1970.
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        topic: topic name; if it is unknown, the text ``id:`` followed by the topic id.
        partition: partition number.
        offset: high watermark.
    """

    ts: int
    conn_id: str
    broker: str
    topic: str
    partition: int
    offset: int


def watermarks(call: Call) -> Iterator[Watermark]:
    """Yield the high watermarks in the response to a Fetch, or to a ListOffsets request for the latest offsets.

    Partitions with an error are left out, and so are latest offsets that were requested with read_committed.
    """
    if call.response is None or call.response_us is None:
        return
    source = call.response_us, call.connection, call.broker
    if call.api_key == ApiKey.FETCH:
        for topic in call.response.responses:
            for partition in topic.partitions:
                if not partition.error_code and partition.high_watermark >= 0:
                    name = topic_key(topic.topic, topic.topic_id)
                    yield Watermark(*source, name, partition.partition_index, partition.high_watermark)
    elif call.api_key == ApiKey.LIST_OFFSETS and call.request is not None and call.request.isolation_level == 0:
        latest = {
            (topic.name, partition.partition_index)
            for topic in call.request.topics
            for partition in topic.partitions
            if partition.timestamp == _LATEST
        }
        for topic in call.response.topics:
            for partition in topic.partitions:
                has_offset = not partition.error_code and partition.offset >= 0
                if has_offset and (topic.name, partition.partition_index) in latest:
                    yield Watermark(*source, topic.name, partition.partition_index, partition.offset)
