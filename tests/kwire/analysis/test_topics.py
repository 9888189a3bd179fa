from __future__ import annotations

from uuid import UUID

from tools.handmade_calls import CallLog

from kwire.analysis.events import GroupEvent, name_topics, split_partition
from kwire.analysis.topics import topic_names, watermarks
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse


def test_topics_by_id() -> None:
    topic = UUID(int=9)
    log = CallLog()
    known = MetadataResponse(topics=[MetadataResponse.Topic(name="tea", topic_id=topic)])
    names = topic_names(log.call("a", 0, MetadataRequest(), known, 12))
    assert list(names.values()) == ["tea"]
    (key,) = names
    event = GroupEvent(ts=0, group_id="g", protocol="consumer", event="assigned", partitions=[f"{key}-3"])
    assert name_topics(event, names).partitions == ["tea-3"]
    assert name_topics(event, {}).partitions == [f"{key}-3"]
    assert split_partition("orders-to-go-12") == ("orders-to-go", 12)


def test_watermarks_of_a_fetch() -> None:
    part = FetchResponse.Topic.Partition
    topic = FetchResponse.Topic(
        topic="tea",
        partitions=[
            part(partition_index=0, high_watermark=7),
            part(partition_index=1, high_watermark=-1, error_code=1),
        ],
    )
    call = CallLog().call("a", 0, FetchRequest(), FetchResponse(responses=[topic]), 11)
    assert [(mark.topic, mark.partition, mark.offset) for mark in watermarks(call)] == [("tea", 0, 7)]


def test_deleted_topics_have_no_name() -> None:
    answer = DeleteTopicsResponse(responses=[DeleteTopicsResponse.Topic(name="tea", topic_id=UUID(int=9))])
    assert topic_names(CallLog().call("a", 0, DeleteTopicsRequest(), answer, 6)) == {}
