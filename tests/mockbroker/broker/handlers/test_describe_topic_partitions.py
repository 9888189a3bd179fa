"""DescribeTopicPartitions: topics in order and in pages. Each row was recorded with Kafka 4.2.0."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest as Request

A, B, C = ("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(topics={"a": 3, "b": 2, "c": 1})


def ask(harness: BrokerHarness, *names: str, cursor: tuple[str, int] | None = None, limit: int = 2000) -> Any:
    request = Request(topics=[Request.Topic(name=name) for name in names], response_partition_limit=limit)
    if cursor:
        request.cursor = Request.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return harness.ask(request, 0)


def next_cursor_of(response: Any) -> tuple[str, int] | None:
    return response.next_cursor and (response.next_cursor.topic_name, response.next_cursor.partition_index)


PAGES = [  # requested topics, cursor, limit, returned topics and partitions, next cursor
    (("a",), None, 2000, [A], None),
    (("b", "a", "b"), None, 2000, [A, B], None),
    (("a", "b"), None, 2, [("a", [0, 1])], ("a", 2)),
    (("a", "b"), None, 3, [A], ("b", 0)),
    (("a", "aa", "c"), None, 3, [A], ("aa", 0)),
    (("a", "b"), None, 4, [A, ("b", [0])], ("b", 1)),
    (("a",), None, 3, [A], None),
    (("a",), None, 0, [("a", [0])], ("a", 1)),
    (("a",), None, -5, [("a", [0])], ("a", 1)),
    (("a", "b"), ("a", 1), 2000, [("a", [1, 2]), B], None),
    (("a", "b"), ("b", 1), 2000, [("b", [1])], None),
    (("a", "b"), ("a", 9), 2000, [("a", []), B], None),
    ((), ("aa", 0), 2000, [B, C], None),
    ((), ("b", 1), 2000, [("b", [1]), C], None),
    ((), None, 2, [("__consumer_offsets", [0, 1])], ("__consumer_offsets", 2)),
    (("c", "zz"), None, 1, [C], ("zz", 0)),
]


@pytest.mark.parametrize(("names", "cursor", "limit", "returned", "then"), PAGES)
def test_page(harness, names, cursor, limit, returned, then):
    response = ask(harness, *names, cursor=cursor, limit=limit)
    assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics] == returned
    assert {topic.error_code for topic in response.topics} == {E.NONE}
    assert next_cursor_of(response) == then


REFUSED = [  # requested topics, cursor, error of each topic
    (("a", "b"), ("aa", 0), {"a": E.INVALID_REQUEST, "b": E.INVALID_REQUEST}),
    (("a", "b"), ("a", -1), {"a": E.INVALID_REQUEST, "b": E.INVALID_REQUEST}),
    (("a",), ("z", 0), {"a": E.INVALID_REQUEST}),
    ((), ("b", -1), {}),
    (("a", ""), None, {"a": E.UNKNOWN_SERVER_ERROR, "": E.UNKNOWN_SERVER_ERROR}),
    (("a", "aa"), ("aa", 0), {"aa": E.UNKNOWN_TOPIC_OR_PARTITION}),
    (("bad/name", "..", "x" * 250), None, dict.fromkeys(("..", "bad/name", "x" * 250), E.INVALID_TOPIC_EXCEPTION)),
]


@pytest.mark.parametrize(("names", "cursor", "errors"), REFUSED)
def test_invalid_cursor_or_name(harness, names, cursor, errors):
    response = ask(harness, *names, cursor=cursor)
    assert {topic.name: topic.error_code for topic in response.topics} == errors
    assert {topic.topic_id for topic in response.topics} <= {UUID(int=0)}
    assert all(topic.partitions == [] for topic in response.topics)


def test_topic(harness):
    (topic,) = ask(harness, "c").topics
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (
        harness.topic_id("c"),
        False,
        3576,
    )
    (partition,) = topic.partitions
    leader = harness.leader("c", 0)
    assert (partition.leader_id, partition.leader_epoch) == (leader, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([leader], [leader], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_all_topics_and_the_next_page(harness):
    returned, cursor = [], None
    while True:
        response = ask(harness, cursor=cursor, limit=7)
        returned += [
            (topic.name, partition.partition_index) for topic in response.topics for partition in topic.partitions
        ]
        cursor = next_cursor_of(response)
        if cursor is None:
            break
    topics = harness.broker.cluster.topics
    assert returned == [(name, index) for name in sorted(topics) for index in range(len(topics[name].partitions))]
