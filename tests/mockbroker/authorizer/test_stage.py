"""Authorized requests, without sockets. Kafka's responses are in fixtures/conversations/4.2.0/acl_*.json.gz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import golden
import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire import decode_request
from kwire.apikeys import ApiKey
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.records import Record, build_batch
from kwire.records.batch import read_batch
from mockbroker.authorizer.checks import CHECKS, UNCHECKED
from mockbroker.authorizer.special import SLICE
from mockbroker.authorizer.stage import AuthorizerStage
from mockbroker.broker.handlers import HANDLERS
from mockbroker.groups.consumer.machine import REGEX_REFRESH_MIN_INTERVAL
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.security.acl import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from mockbroker.security.identity import ANONYMOUS
from mockbroker.share.state import StateKey

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def allow(operation: Operation, resource_type: ResourceType, name: str, *, prefixed: bool = False) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(resource_type, pattern, name, "User:alice", "*", operation, Permission.ALLOW)


def harness_of(*acls: Acl, user: str = "alice", **config: object) -> BrokerHarness:
    """Return a broker with an authorizer, whose clients all authenticate as one user."""
    names = {"authorizer.class.name": STANDARD, "super.users": "User:root; User:admin", **config}
    harness = BrokerHarness(topics={"t": 1, "u": 1}, config=names)
    router = harness.router
    router.principal = lambda _: f"User:{user}"
    assert router.broker.authorizer is not None
    router.authorizing_stages = dict.fromkeys(CHECKS, (AuthorizerStage(router, router.broker.authorizer),))
    harness.broker.cluster.acls.add(acls)
    return harness


def test_every_served_api_is_checked() -> None:
    """An API without a row in the table would be open to every client."""
    assert HANDLERS.keys() <= CHECKS.keys() | UNCHECKED
    assert not CHECKS.keys() & UNCHECKED


REQUESTS = sorted({ApiKey(key) for key in HANDLERS.keys() - UNCHECKED})


@pytest.mark.parametrize("api", REQUESTS, ids=[api.name.lower() for api in REQUESTS])
def test_denied_request_of_every_version_is_answered(api: ApiKey) -> None:
    harness = harness_of()
    before = dict(harness.broker.cluster.topics)
    versions = harness.broker.advertised_versions[api]
    stem = api.name.lower()
    for line in golden.frames("fixtures", stem, "request"):
        request = decode_request(bytes.fromhex(line["hex"]))
        if request.version in versions and harness.router.serves(api, request.version):
            sent = harness.send(request.body, request.version)
            assert sent.done
            assert not harness.broker.groups.values()
    assert harness.broker.cluster.topics.keys() - before.keys() <= {"__transaction_state", "__share_group_state"}


@pytest.mark.parametrize("user", ["root", "admin"])
def test_super_users_may_do_everything(user: str) -> None:
    assert harness_of(user=user).ask(BEAT, 4).error_code == E.UNKNOWN_MEMBER_ID


def test_only_allowed_elements_are_processed() -> None:
    harness = harness_of(allow(Operation.READ, GROUP, "g"), allow(Operation.READ, TOPIC, "t"))
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequest.Topic(name=name, partitions=[partition]) for name in ("u", "t")]
    response = harness.ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
    assert [(topic.name, topic.partitions[0].error_code) for topic in response.topics] == [
        ("u", E.TOPIC_AUTHORIZATION_FAILED),
        ("t", E.NONE),
    ]
    group = harness.broker.groups.get("g")
    assert group is not None
    assert [place for place, _ in group.offsets.committed.items()] == [("t", 0)]


@pytest.mark.parametrize("topics", [["u"], ["t", "u"]])
def test_denied_produce_without_response_is_closed(topics: Sequence[str]) -> None:
    harness = harness_of(allow(Operation.WRITE, TOPIC, "t"))
    data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
    request = ProduceRequest(acks=0, topic_data=[ProduceRequest.Topic(name=t, partition_data=[data]) for t in topics])
    assert "authorization failed" in (harness.send(request, 9).closed or "")


def fetch(*topics: str, session: int = 0, epoch: int = -1, max_wait_ms: int = 500) -> FetchRequest:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    named = [FetchRequest.Topic(topic=name, partitions=[partition]) for name in topics]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1_000, session_id=session, session_epoch=epoch, topics=named
    )


def errors_of(response: Any) -> dict[str, E]:
    return {topic.topic: E(each.error_code) for topic in response.responses for each in topic.partitions}


@pytest.mark.parametrize("slice_size", [1, 1_000])
@pytest.mark.parametrize("epoch", [-1, 0])
def test_fetch_waits_for_the_topics_that_are_not_denied(epoch: int, slice_size: int) -> None:
    harness = harness_of(allow(Operation.READ, TOPIC, "t"))
    harness.broker.slice_size = slice_size
    waiting = harness.send(fetch("u", "t", epoch=epoch), 11)
    assert not waiting.done
    harness.wait(0.5)
    assert errors_of(waiting.answer) == {"t": E.NONE, "u": E.TOPIC_AUTHORIZATION_FAILED}
    assert harness.send(fetch("u", epoch=epoch), 11).done, "all topics are denied"


def test_fetch_session_follows_the_acls() -> None:
    harness = harness_of(allow(Operation.READ, TOPIC, "t"))
    acls, everything = harness.broker.cluster.acls, [allow(Operation.READ, TOPIC, "*")]
    session = harness.ask(fetch("t", "u", epoch=0, max_wait_ms=0), 11).session_id
    responses = []
    for epoch in range(1, 7):
        if epoch == 3:
            acls.add(everything)
        if epoch == 5:
            acls.remove(everything)
        responses.append(errors_of(harness.ask(fetch(session=session, epoch=epoch, max_wait_ms=0), 11)))
    denied = {"u": E.TOPIC_AUTHORIZATION_FAILED}
    assert responses == [denied, denied, {"u": E.NONE}, {}, denied, denied]


@pytest.mark.parametrize(
    ("operations", "error"),
    [
        ((Operation.DESCRIBE,), E.TOPIC_AUTHORIZATION_FAILED),
        ((Operation.DESCRIBE, Operation.CREATE), E.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_metadata_creates_topics_only_with_create(operations: Sequence[Operation], error: E) -> None:
    harness = harness_of(*(allow(operation, TOPIC, "new") for operation in operations))
    response = harness.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="new")]), 9)
    assert [topic.error_code for topic in response.topics] == [error]
    assert ("new" in harness.broker.cluster.topics) is (error == E.UNKNOWN_TOPIC_OR_PARTITION), (
        "the next Metadata has it"
    )


@pytest.mark.parametrize("version", [0, 1, 3, 4, 9])
def test_denied_metadata_creates_no_topic(version: int) -> None:
    harness = harness_of(allow(Operation.READ, TOPIC, "t"))
    named = [MetadataRequest.Topic(name=name) for name in ("new", "t")]
    for topics, expected in (
        (named, {"new": E.TOPIC_AUTHORIZATION_FAILED, "t": E.NONE}),
        (named[:1], {"new": E.TOPIC_AUTHORIZATION_FAILED}),
    ):
        response = harness.ask(MetadataRequest(topics=topics), version)
        assert {topic.name: topic.error_code for topic in response.topics} == expected
        assert response.brokers
    assert "new" not in harness.broker.cluster.topics


def test_filtered_metadata_is_not_cached() -> None:
    harness = harness_of(allow(Operation.READ, TOPIC, "t"))
    everything = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    filtered = harness.ask(everything, 9).topics
    harness.router.principal = lambda _: "User:root"
    complete = harness.ask(everything, 9).topics
    assert [topic.name for topic in filtered] == ["t"]
    assert {"t", "u"} < {topic.name for topic in complete}
    assert {topic.topic_authorized_operations for topic in complete if topic.name == "t"} == {3576}


def test_large_request_is_checked_in_slices() -> None:
    acls = [allow(Operation.READ, GROUP, "g"), allow(Operation.READ, TOPIC, "name", prefixed=True)]
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    names = [f"name-{number}" for number in range(3 * SLICE)] + ["other"]
    topics = [OffsetCommitRequest.Topic(name=name, partitions=[partition]) for name in names]
    response = harness_of(*acls).ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
    assert [topic.name for topic in response.topics] == names
    errors = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert errors.pop("other") == E.TOPIC_AUTHORIZATION_FAILED
    assert set(errors.values()) == {E.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(("topics", "partitions"), [(5_000, 1), (100, 50), (2, 2_500)])
def test_many_denied_elements_are_answered_in_slices(topics: int, partitions: int) -> None:
    harness = harness_of(allow(Operation.DESCRIBE, ResourceType.TOPIC, "ok", prefixed=True))
    slices = 0

    def counted(do: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal slices
        slices += 1
        return do(*arguments)

    router: Any = harness.router
    router._resume, router._encode = partial(counted, router._resume), partial(counted, router._encode)
    kind = ListOffsetsRequest.Topic
    wanted = [kind.Partition(partition_index=index, timestamp=-1) for index in range(partitions)]
    names = [f"ok-{number}" if number % 2 else f"denied-{number}" for number in range(topics)]
    request = ListOffsetsRequest(topics=[kind(name=name, partitions=wanted) for name in names])
    answer = harness.ask(request, 5)
    assert [topic.name for topic in answer.topics] == names
    errors = {topic.name: {each.error_code for each in topic.partitions} for topic in answer.topics}
    assert errors["denied-0"] == {E.TOPIC_AUTHORIZATION_FAILED}
    assert errors["ok-1"] == {E.UNKNOWN_TOPIC_OR_PARTITION}
    assert slices > 10


def test_large_metadata_is_filtered_in_slices() -> None:
    harness = harness_of(allow(Operation.READ, TOPIC, "many", prefixed=True))
    for number in range(450):
        harness.broker.cluster.create_topic(f"{'many' if number % 3 else 'other'}-{number}", [[0]])
    sent = harness.send(MetadataRequest(topics=None, include_topic_authorized_operations=True), 9)
    assert {topic.name for topic in sent.answer.topics} == {f"many-{n}" for n in range(450) if n % 3}
    assert {topic.topic_authorized_operations for topic in sent.answer.topics} == {1 << 3 | 1 << 8}
    assert harness.ask(MetadataRequest(topics=None), 9).topics[0].name == "many-1"


def test_regex_matches_only_topics_that_may_be_described() -> None:
    harness = harness_of(allow(Operation.READ, GROUP, "g"), allow(Operation.DESCRIBE, TOPIC, "t"))
    join = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_regex=".",
        topic_partitions=[],
    )
    harness.ask(join, 1)
    assignment = harness.ask(join, 1).assignment
    assert assignment is not None
    assert [topic.topic_id for topic in assignment.topic_partitions] == [harness.topic_id("t")]


def test_join_resolves_regexes_with_its_own_permissions() -> None:
    """Kafka resolves the regular expressions of a group with the permissions of the request that needs them, even of a
    JoinGroup. The group has a member of each protocol, as during a migration.
    """
    harness = harness_of(
        *(allow(Operation.READ, GROUP, "g"), allow(Operation.DESCRIBE, TOPIC, "*")),
        *(
            replace(allow(Operation.READ, kind, name), principal="User:bob")
            for kind, name in ((GROUP, "g"), (TOPIC, "t"))
        ),
    )
    alice, bob = 1, 2
    harness.router.principal = {alice: "User:alice", bob: "User:bob"}.__getitem__
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_regex="[tu]",
        topic_partitions=[],
    )
    harness.ask(beat, 1, connection=alice)
    assert regex_topics(harness) == {"t", "u"}
    harness.wait(REGEX_REFRESH_MIN_INTERVAL + 0.1)
    harness.broker.cluster.create_topic("v", [[0]])
    metadata = encode_stored(ConsumerProtocolSubscription(topics=["t"]), 0)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=5_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    )
    assert harness.ask(join, 3, connection=bob).error_code == E.NONE
    assert regex_topics(harness) == {"t"}


def regex_topics(harness: BrokerHarness) -> frozenset[str]:
    """Return the topics of the only regular expression in the group g."""
    harness.wait(0.1)
    group = harness.broker.groups.get_as("g", ConsumerGroup)
    assert group is not None
    (resolved,) = group.resolved_regexes.values()
    return resolved.topics


def test_share_sessions_contain_denied_partitions() -> None:
    read_t, read_u = (allow(Operation.READ, TOPIC, name) for name in ("t", "u"))
    harness = harness_of(allow(Operation.READ, GROUP, "g"), read_t)
    ids = {name: harness.topic_id(name) for name in ("t", "u")}
    for name, topic_id in ids.items():
        harness.broker.share_states.initialize(StateKey("g", topic_id, 0), 1, 0, 0.0)
        harness.broker.cluster.topics[name].partitions[0].append(read_batch(build_batch([Record(value=b"v")])))
    partition = ShareFetchRequest.Topic.Partition(partition_index=0)
    topics = [ShareFetchRequest.Topic(topic_id=topic_id, partitions=[partition]) for topic_id in ids.values()]

    def fetched(epoch: int) -> dict[str, tuple[int, int]]:
        request = ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=epoch, max_records=10)
        request.topics = [] if epoch else topics
        names = {topic_id: name for name, topic_id in ids.items()}
        responses = harness.ask(request, 1).responses
        partitions = {names[topic.topic_id]: topic.partitions[0] for topic in responses}
        return {name: (each.error_code, len(each.acquired_records)) for name, each in partitions.items()}

    assert fetched(0) == {"t": (E.NONE, 1), "u": (E.TOPIC_AUTHORIZATION_FAILED, 0)}
    assert fetched(1) == {"u": (E.TOPIC_AUTHORIZATION_FAILED, 0)}
    harness.broker.cluster.acls.add([read_u])
    assert fetched(2) == {"u": (E.NONE, 1)}


def test_share_coordinator_needs_cluster_action() -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"])
    denied = harness_of().ask(request, 6).coordinators[0]
    assert (denied.error_code, denied.error_message) == (
        E.CLUSTER_AUTHORIZATION_FAILED,
        "Cluster authorization failed.",
    )
    acl = allow(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    assert harness_of(acl).ask(request, 6).coordinators[0].error_code != E.CLUSTER_AUTHORIZATION_FAILED


def test_client_without_authentication_is_anonymous() -> None:
    harness = harness_of()
    harness.router.principal = lambda _: ANONYMOUS
    assert harness.ask(BEAT, 4).error_code == E.GROUP_AUTHORIZATION_FAILED
    anyone = allow(Operation.READ, GROUP, "g")
    harness.broker.cluster.acls.add(
        [Acl(anyone.resource_type, anyone.pattern_type, "g", ANONYMOUS, "*", anyone.operation, anyone.permission)]
    )
    assert harness.ask(BEAT, 4).error_code == E.UNKNOWN_MEMBER_ID


def test_closed_connection_is_forgotten() -> None:
    harness = harness_of(allow(Operation.READ, GROUP, "g"))
    assert harness.ask(BEAT, 4, connection=1).error_code == E.UNKNOWN_MEMBER_ID
    harness.router.principal = lambda _: ANONYMOUS
    assert harness.ask(BEAT, 4, connection=1).error_code == E.UNKNOWN_MEMBER_ID
    ((stage,),) = set(harness.router.authorizing_stages.values())
    stage.forget_connection(1)
    assert harness.ask(BEAT, 4, connection=1).error_code == E.GROUP_AUTHORIZATION_FAILED
