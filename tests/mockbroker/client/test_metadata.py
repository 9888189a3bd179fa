"""Metadata: which topics are requested and when, and responses that are older than the known metadata."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from tools.fake_cluster import FakeCluster, topic_id

from kwire.errorcodes import ErrorCode as E
from kwire.messages.metadata import MetadataResponse
from mockbroker.client.errors import AuthorizationFailed, BrokerError, UnsupportedVersion


def requiring(*topics: str, **options: Any) -> FakeCluster:
    cluster = FakeCluster(group=None, **options)
    cluster.engine.metadata.require_topics(topics)
    cluster.settle()
    return cluster


def first_request_pending(*topics: str, **options: Any) -> FakeCluster:
    """Return a cluster with its first Metadata request pending."""
    cluster = FakeCluster(group=None, **options)
    del cluster.answers["Metadata"]
    cluster.engine.metadata.require_topics(topics)
    cluster.settle()
    return cluster


def topic(
    name: str, *leaders: tuple[int, int], error: int = 0, id_: UUID | None = None, numbers: Any = None
) -> MetadataResponse.Topic:
    """Return a topic of a Metadata response. ``leaders``: node and epoch of the leader, by partition."""
    partition = MetadataResponse.Topic.Partition
    return MetadataResponse.Topic(
        name=name,
        error_code=error,
        topic_id=topic_id(name) if id_ is None else id_,
        partitions=[
            partition(partition_index=number, leader_id=node, leader_epoch=epoch, replica_nodes=[node])
            for number, (node, epoch) in zip(numbers or range(len(leaders)), leaders, strict=True)
        ],
    )


def answer(*topics: MetadataResponse.Topic, brokers: Any = (1, 2, 3)) -> MetadataResponse:
    listed = [MetadataResponse.Broker(node_id=n, host=f"node{n}", port=9000 + n) for n in brokers]
    return MetadataResponse(brokers=listed, topics=list(topics))


def request(cluster: FakeCluster) -> list[str] | None:
    topics = cluster.last("Metadata").topics
    return None if topics is None else [one.name for one in topics]


def test_only_required_topics_are_requested() -> None:
    cluster = requiring("u", "t", topics={"t": 1, "u": 1, "w": 1})
    assert request(cluster) == ["t", "u"]
    assert set(cluster.engine.metadata.topics) == {"t", "u"}


def test_no_topics_is_an_empty_list_all_topics_is_null() -> None:
    cluster = requiring()
    assert request(cluster) == []
    cluster.engine.metadata.require_matching_topics(re.compile(".*"))
    cluster.settle()
    assert request(cluster) is None
    assert cluster.engine.metadata.matching() == {"t"}


@pytest.mark.parametrize(("everything", "expected"), [(True, []), (False, ["__consumer_offsets"])])
def test_metadata_v0_requests_all_topics_with_an_empty_list(everything: bool, expected: list[str]) -> None:
    cluster = FakeCluster(group=None, served={"Metadata": (0, 0)})
    if everything:
        cluster.engine.metadata.require_matching_topics(re.compile(".*"))
    cluster.settle()
    assert request(cluster) == expected


@pytest.mark.parametrize(("everything", "expected"), [(True, None), (False, [])])
def test_metadata_v1_requests_all_topics_with_null(everything: bool, expected: list[str] | None) -> None:
    cluster = FakeCluster(group=None, served={"Metadata": (1, 1)})
    if everything:
        cluster.engine.metadata.require_matching_topics(re.compile(".*"))
    cluster.settle()
    assert request(cluster) == expected


@pytest.mark.parametrize("allowed", [True, False])
def test_allow_auto_topic_creation_follows_the_setting(allowed: bool) -> None:
    assert requiring("t", allow_auto_create_topics=allowed).last("Metadata").allow_auto_topic_creation is allowed
    cluster = FakeCluster(group=None)
    cluster.engine.metadata.require_matching_topics(re.compile(".*"))
    cluster.settle()
    assert cluster.last("Metadata").allow_auto_topic_creation is False


def test_metadata_is_refreshed_by_age_and_for_new_topics() -> None:
    cluster = requiring("t", topics={"t": 1, "u": 1})
    cluster.wait(299.9)
    assert cluster.count("Metadata") == 1
    cluster.wait(0.2)
    assert cluster.count("Metadata") == 2
    cluster.engine.metadata.require_topics(["t", "u"])
    cluster.settle()
    assert (cluster.count("Metadata"), request(cluster)) == (3, ["t", "u"])
    cluster.engine.metadata.require_topics(["u"])
    cluster.settle()
    assert cluster.count("Metadata") == 3, "fewer topics need no request"


def test_topics_required_during_a_request_are_requested_next() -> None:
    cluster = first_request_pending("t", topics={"t": 1, "u": 1})
    metadata = cluster.engine.metadata
    metadata.require_topics(["t", "u"])
    cluster.settle()
    assert cluster.count("Metadata") == 1, "one at a time"
    cluster.answer("Metadata", answer(topic("t", (1, 0))))
    assert not metadata.covers(["u"])
    cluster.answer("Metadata", answer(topic("t", (1, 0)), topic("u", (1, 0))))
    assert metadata.covers(["t", "u"])


def test_response_without_brokers_is_ignored() -> None:
    cluster = first_request_pending("t")
    cluster.answer("Metadata", MetadataResponse(topics=[topic("t", (1, 0))]))
    assert (cluster.engine.metadata.version, cluster.engine.metadata.topics) == (0, {})
    cluster.wait_for("Metadata", within=1.0)


@pytest.mark.parametrize(
    "bad",
    [topic("t", error=E.UNKNOWN_TOPIC_OR_PARTITION), topic("t", error=E.LEADER_NOT_AVAILABLE), topic("t", (-1, 0))],
)
def test_incomplete_response_is_retried_with_a_growing_backoff(bad) -> None:
    cluster = first_request_pending("t")
    times = []
    for _ in range(6):
        times.append(cluster.wait_for("Metadata").at)
        cluster.answer("Metadata", answer(bad))
    assert [round(after - before, 3) for before, after in pairwise(times)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
    ]
    cluster.wait_for("Metadata")
    cluster.answer("Metadata", answer(topic("t", (1, 0))))
    cluster.wait(100)
    assert cluster.count("Metadata") == 7


@pytest.mark.parametrize(
    ("code", "error"),
    [(E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed), (E.INVALID_TOPIC_EXCEPTION, BrokerError)],
)
def test_topic_error_is_raised_while_the_topic_is_required(code: E, error: type[Exception]) -> None:
    cluster = first_request_pending("t", "u")
    cluster.answer("Metadata", answer(topic("t", (1, 0)), topic("u", error=code)), polling=False)
    for _ in range(2):
        with pytest.raises(error, match=f"topic u failed: {code.name}"):
            cluster.engine.metadata.raise_errors()
    cluster.engine.metadata.require_topics(["t"])
    cluster.engine.metadata.raise_errors()


def test_older_leader_epoch_is_ignored() -> None:
    cluster = first_request_pending("t")
    metadata = cluster.engine.metadata
    cluster.answer("Metadata", answer(topic("t", (1, 5), (1, 5))))
    metadata.refresh()
    cluster.settle()
    cluster.answer("Metadata", answer(topic("t", (2, 4), (3, 6))))
    leaders = [metadata.leader(("t", number)) for number in (0, 1)]
    assert [(leader.node_id, leader.epoch) for leader in leaders if leader] == [(1, 5), (3, 6)]


def test_leader_without_an_epoch_replaces_the_known_leader() -> None:
    """Metadata before v7 has no leader epochs."""
    cluster = requiring("t")
    metadata = cluster.engine.metadata
    metadata.update(answer(topic("t", (1, 5))))
    metadata.update(answer(topic("t", (2, -1))))
    leader = metadata.leader(("t", 0))
    assert leader is not None
    assert (leader.node_id, leader.epoch) == (2, -1)


def test_recreated_topic_has_new_leader_epochs() -> None:
    cluster = first_request_pending("t")
    metadata = cluster.engine.metadata
    cluster.answer("Metadata", answer(topic("t", (1, 5))))
    metadata.refresh()
    cluster.settle()
    cluster.answer("Metadata", answer(topic("t", (2, 0), id_=UUID(int=9))))
    leader = metadata.leader(("t", 0))
    assert leader
    assert (leader.node_id, metadata.topic_names) == (2, {UUID(int=9): "t"})


def test_topic_without_a_leader_is_kept_an_unknown_one_is_not() -> None:
    cluster = first_request_pending("t", "u")
    metadata = cluster.engine.metadata
    cluster.answer("Metadata", answer(topic("t", (1, 5)), topic("u", (1, 5))))
    metadata.refresh()
    cluster.settle()
    cluster.answer(
        "Metadata", answer(topic("t", error=E.LEADER_NOT_AVAILABLE), topic("u", error=E.UNKNOWN_TOPIC_OR_PARTITION))
    )
    assert set(metadata.topics) == {"t"}


def test_partitions_after_a_gap_are_ignored() -> None:
    cluster = first_request_pending("t")
    cluster.answer("Metadata", answer(topic("t", (1, 0), (1, 0), (1, 0), numbers=[0, 1, 7])))
    assert len(cluster.engine.metadata.topics["t"].partitions) == 2
    cluster.engine.metadata.update(answer(topic("t", (1, 0), (1, 0), (1, 0), numbers=[0, 2, 3])))
    assert len(cluster.engine.metadata.topics["t"].partitions) == 1


def test_new_leader_of_a_fetch_response_is_applied() -> None:
    cluster = requiring("t")
    metadata = cluster.engine.metadata
    assert metadata.update_leader(("t", 0), 2, 7)
    assert not metadata.update_leader(("t", 0), 3, 7), "the same epoch"
    assert not metadata.update_leader(("t", 0), 9, 8), "an unknown broker"
    assert not metadata.update_leader(("t", 99), 2, 8)
    assert not metadata.update_leader(("t", len(metadata.topics["t"].partitions)), 2, 8)
    assert not metadata.update_leader(("u", 0), 2, 8)
    leader = metadata.leader(("t", 0))
    assert leader
    assert (leader.node_id, leader.epoch) == (2, 7)


def test_unreachable_broker_is_retried_after_a_backoff() -> None:
    cluster = FakeCluster(group=None)
    cluster.down = {0}
    cluster.settle()
    cluster.wait(5.0)
    assert 4 <= len(cluster.links) <= 12
    cluster.down = set()
    cluster.wait(2.0)
    assert cluster.engine.metadata.version == 1


def test_broker_without_the_metadata_api() -> None:
    cluster = FakeCluster(group=None, served={"Metadata": (0, -1)})
    cluster.settle()
    with pytest.raises(
        UnsupportedVersion, match="Metadata: the consumer needs v0-13, boot:9000 does not support this API"
    ):
        cluster.engine.metadata.raise_errors()


def test_topics_for_assignors() -> None:
    cluster = FakeCluster(group=None, topics={"t": 2, "empty": 0}, nodes=(1, 2))
    cluster.racks = {1: "r1"}
    cluster.engine.metadata.require_topics(["t", "empty", "none"])
    cluster.settle()
    topics = cluster.engine.metadata.for_assignor(["t", "empty", "none"])
    assert {name: [(p.racks, p.leader_rack) for p in partitions] for name, partitions in topics.items()} == {
        "t": [(["r1"], "r1"), ([None], None)]
    }


@pytest.mark.parametrize(("version", "allowed"), [(3, True), (4, False), (13, False)])
def test_topics_are_created_only_by_requests_without_the_flag(version: int, allowed: bool) -> None:
    cluster = requiring("t", served={"Metadata": (0, version)}, allow_auto_create_topics=False)
    request = cluster.of("Metadata")[-1]
    assert (request.version, request.body.allow_auto_topic_creation) == (version, allowed)


def test_partition_that_does_not_exist_has_no_leader() -> None:
    metadata = requiring("t", topics={"t": 2}).engine.metadata
    leaders = [metadata.leader(("t", number)) for number in (0, 1, 2, 3)]
    assert [leader is None for leader in leaders] == [False, False, True, True]
    assert metadata.leader(("u", 0)) is None


def test_request_without_an_available_node_is_retried() -> None:
    cluster = requiring("t")
    metadata, network = cluster.engine.metadata, cluster.engine.network
    network.least_loaded = lambda: None  # type: ignore[method-assign]
    metadata.refresh()
    metadata.request_if_due()
    assert metadata.next_deadline() == pytest.approx(cluster.now + 0.1)


def test_topic_required_during_a_retry_is_requested_at_once() -> None:
    cluster = first_request_pending("t", topics={"t": 1, "u": 1})
    cluster.answer("Metadata", answer(topic("t", error=E.LEADER_NOT_AVAILABLE)))
    cluster.wait_for("Metadata")
    cluster.engine.metadata.require_topics(["t", "u"])
    cluster.answer("Metadata", answer(topic("t", (1, 0))))
    assert request(cluster) == ["t", "u"]
    assert cluster.request("Metadata").at == cluster.now


def test_topics_without_a_name_are_skipped() -> None:
    cluster = first_request_pending("t")
    nameless = topic("x", (1, 0))
    nameless.name = None
    cluster.answer("Metadata", answer(nameless, topic("t", (2, 0))))
    assert list(cluster.engine.metadata.topics) == ["t"]


def test_refresh_after_failures_waits_for_the_backoff() -> None:
    metadata = requiring("t").engine.metadata
    for failures, delay in ((0, 0.0), (1, 0.1), (2, 0.2), (3, 0.4)):
        metadata._refresh_at, metadata._failures = 300.0, failures
        metadata.refresh()
        assert metadata.next_deadline() == pytest.approx(delay)
        metadata.retry_later()
        assert metadata.next_deadline() == pytest.approx(delay), "the earlier time stays"
        metadata._refresh_at = 300.0
        metadata.retry_later()
        assert metadata.next_deadline() == pytest.approx(0.1 * 2**failures)
        metadata._refresh_at = 0.05
        metadata.retry_later()
        assert metadata.next_deadline() == 0.05


def test_topics_of_lookups_are_requested_at_once() -> None:
    metadata = requiring("t", topics={"t": 1, "u": 1}).engine.metadata
    assert metadata.next_deadline() == 300.0
    metadata.require_lookup_topics(["t"])
    assert metadata.next_deadline() == 300.0, "it is required already"
    metadata.require_lookup_topics(["u"])
    assert metadata.next_deadline() == 0.0


def test_metadata_of_all_topics_is_requested_only_with_a_pattern() -> None:
    cluster = FakeCluster()
    cluster.engine.subscribe(re.compile("t.*"))
    cluster.settle()
    assert request(cluster) is None
    cluster.engine.unsubscribe()
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert request(cluster) == []


def test_topic_with_a_leaderless_partition_is_requested_again() -> None:
    cluster = first_request_pending("t")
    cluster.answer("Metadata", answer(topic("t", (1, 0), (-1, 0))))
    assert cluster.wait_for("Metadata").at == pytest.approx(0.1)


def test_refresh_after_a_complete_response_is_immediate() -> None:
    cluster = first_request_pending("t")
    for _ in range(3):
        cluster.wait_for("Metadata", polling=False)
        cluster.answer("Metadata", answer(topic("t", (-1, 0))))
    cluster.wait_for("Metadata", polling=False)
    cluster.answer("Metadata", answer(topic("t", (1, 0))))
    cluster.engine.metadata.refresh()
    assert cluster.engine.metadata.next_deadline() == cluster.now


def test_topics_without_an_id_have_no_name_by_id() -> None:
    cluster = first_request_pending("t", "u")
    cluster.answer("Metadata", answer(topic("t", (1, 0), id_=UUID(int=5)), topic("u", (1, 0), id_=UUID(int=0))))
    assert cluster.engine.metadata.topic_names == {UUID(int=5): "t"}
    assert cluster.engine.metadata.topics.keys() == {"t", "u"}


def test_no_topic_is_known_to_be_missing_before_a_response() -> None:
    metadata = first_request_pending("t").engine.metadata
    assert (metadata.has_all_topics, metadata.covers(["t"]), metadata.has_no_topic("t")) == (False, False, False)
    assert (metadata.version, metadata.failure, metadata.pattern) == (0, None, None)


def test_topic_of_a_finished_lookup_is_not_requested_again() -> None:
    cluster = FakeCluster(group=None, topics={"t": 1, "u": 1})
    cluster.engine.assign([("t", 0)])
    lookup = cluster.engine.look_up_topic("u")
    cluster.settle()
    assert lookup.done
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert [topic.name for topic in cluster.last("Metadata").topics] == ["t"]


def test_topic_error_is_raised_by_a_poll_without_a_group() -> None:
    cluster = FakeCluster(group=None)
    cluster.answers["Metadata"] = lambda request: cluster.metadata(request, errors={"t": E.TOPIC_AUTHORIZATION_FAILED})
    cluster.engine.assign([("t", 0)])
    cluster.settle()
    with pytest.raises(BrokerError, match="topic t failed: TOPIC_AUTHORIZATION_FAILED"):
        cluster.engine.advance(polling=True)


def test_failed_request_keeps_an_earlier_error() -> None:
    cluster = requiring("t")
    metadata = cluster.engine.metadata
    cluster.hold("Metadata")
    metadata.refresh()
    cluster.settle()
    earlier = metadata.failure = UnsupportedVersion("earlier")
    cluster.cut(cluster.request("Metadata").link, polling=False)
    assert metadata.failure is earlier


def test_lookup_waits_for_a_response_with_its_topic() -> None:
    cluster = FakeCluster(group=None, topics={"t": 1, "u": 2})
    cluster.engine.metadata.require_topics(["t"])
    cluster.settle()
    cluster.hold("Metadata")
    cluster.engine.metadata.refresh()
    cluster.settle()
    lookup = cluster.engine.look_up_topic("u")
    for expected in (False, True):
        request = cluster.request("Metadata")
        cluster.answer(request, cluster.metadata(request), polling=False)
        assert lookup.done is expected
    assert lookup.result == 2


def test_topic_with_an_error_is_not_known_to_be_missing() -> None:
    cluster = first_request_pending("t", "u", "v")
    refused = topic("t", error=E.TOPIC_AUTHORIZATION_FAILED)
    missing = topic("u", error=E.UNKNOWN_TOPIC_OR_PARTITION)
    cluster.answer("Metadata", answer(refused, missing, topic("v", (1, 0))), polling=False)
    assert [cluster.engine.metadata.has_no_topic(name) for name in ("t", "u", "v")] == [False, True, False]


def test_topics_of_an_ended_subscription_are_not_requested() -> None:
    cluster = FakeCluster()
    cluster.engine.subscribe(["t"])
    cluster.settle()
    assert request(cluster) == ["t"]
    cluster.engine.unsubscribe()
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert request(cluster) == []


def test_assigned_topics_are_required_after_a_subscription() -> None:
    cluster = FakeCluster(topics={"t": 1, "u": 1})
    cluster.engine.subscribe(["u"])
    cluster.settle()
    cluster.engine.unsubscribe()
    cluster.engine.assign([("t", 0)])
    cluster.settle()
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert request(cluster) == ["t"]


def test_metadata_of_all_topics_covers_each_topic() -> None:
    cluster = FakeCluster(group=None)
    metadata = cluster.engine.metadata
    metadata.require_matching_topics(re.compile("t.*"))
    cluster.settle()
    assert (metadata.covers(["t", "absent"]), metadata.has_no_topic("absent"), metadata.has_no_topic("t")) == (
        True,
        True,
        False,
    )


def test_no_topic_matches_without_a_pattern() -> None:
    metadata = requiring("t").engine.metadata
    assert (set(metadata.topics), metadata.matching()) == ({"t"}, set())
