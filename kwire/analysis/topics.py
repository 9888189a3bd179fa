"""What calls say of topics: names by id, and the ends of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kwire.apikeys import ApiKey
from kwire.capture.calls.model import Call
from kwire.capture.calls.topic_names import said
from kwire.json.objects import uuid_text

_LATEST = -1
# APIs with answers about topics that exist.
_NAMING: set[int] = {
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}


def topic_names(call: Call) -> dict[str, str]:
    """Names by topic id, ``id:...``, that a call tells."""
    if call.api_key not in _NAMING or call.response is None:
        return {}
    return {topic_key("", topic): name for topic, name in said(call.api_key, call.response) if topic.int and name}


def topic_key(name: str | None, topic_id: Any) -> str:
    """The name, or ``id:...`` where only the id is there."""
    return name or f"id:{uuid_text(topic_id)}"


@dataclass(slots=True, frozen=True)
class Watermark:
    """The end of a partition as an answer told it, and who did."""

    ts: int
    conn_id: str
    broker: str
    topic: str
    partition: int
    offset: int


def watermarks(call: Call) -> Iterator[Watermark]:
    """High watermarks in answers to Fetch, and to ListOffsets for the latest offset."""
    if call.response is None or call.response_us is None:
        return
    who = call.response_us, call.connection, call.broker
    if call.api_key == ApiKey.FETCH:
        for topic in call.response.responses:
            for partition in topic.partitions:
                if not partition.error_code and partition.high_watermark >= 0:
                    name = topic_key(topic.topic, topic.topic_id)
                    yield Watermark(*who, name, partition.partition_index, partition.high_watermark)
    elif call.api_key == ApiKey.LIST_OFFSETS and call.request is not None and call.request.isolation_level == 0:
        latest = {
            (topic.name, partition.partition_index)
            for topic in call.request.topics
            for partition in topic.partitions
            if partition.timestamp == _LATEST
        }
        for topic in call.response.topics:
            for partition in topic.partitions:
                known = not partition.error_code and partition.offset >= 0
                if known and (topic.name, partition.partition_index) in latest:
                    yield Watermark(*who, topic.name, partition.partition_index, partition.offset)
