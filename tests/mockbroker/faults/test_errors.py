"""The action ``error``: the remaining request, the response with errors only, and both responses merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from kwire import ErrorCode, decode, encode
from kwire.apikeys import ApiKey
from kwire.json.objects import to_json
from kwire.messages import APIS
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
    TopicResult,
)
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kwire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kwire.schema import ZERO_UUID, schema_of
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.error_fields import error_fields
from mockbroker.faults.errors import ErrorInjection
from mockbroker.faults.matching import Element, Lookups, Matcher, Subject
from mockbroker.faults.rule import Match

ORDERS, AUDIT = UUID(int=1), UUID(int=2)
NAMES = {ORDERS: "orders", AUDIT: "audit"}
FAILED = ErrorCode.REBALANCE_IN_PROGRESS


def lookups(session: Sequence[tuple[str, int]] | None = None) -> Lookups:
    return Lookups(
        topic_name=NAMES.get,
        topic_id={name: topic_id for topic_id, name in NAMES.items()}.get,
        topics=lambda: ["orders", "audit"],
        fetch_partitions=lambda _: session,
    )


class Injected:
    """An error for the elements of a request that match, in one version. It encodes every message that it returns."""

    def __init__(
        self, request: Any, version: int, session: Sequence[tuple[str, int]] | None = None, **match: Any
    ) -> None:
        api = schema_of(type(request)).api
        assert api is not None
        self.version, self.request, self.before = version, request, encode(request, version)
        call = Call(Ticket(1, 5, api.key, version), Client(0, "billing-1", "/10.0.0.1"), request)
        elements = Matcher(Match(**match)).elements(Subject(call, lookups(session)))
        assert elements
        self.injection = ErrorInjection(api.key, version, request, elements, FAILED, lookups(session))

    @property
    def rest(self) -> Any:
        rest = self.injection.split()
        assert encode(self.request, self.version) == self.before
        return None if rest is None else self.sent(rest)

    @property
    def response(self) -> Any:
        return self.sent(self.injection.error_response())

    def merged(self, response: Any) -> Any:
        before = encode(response, self.version)
        merged = self.sent(self.injection.merge(response))
        assert encode(response, self.version) == before
        return merged

    def sent(self, message: Any) -> Any:
        """Return a message as its receiver decodes it."""
        return decode(type(message), encode(message, self.version), self.version)


# Each served API in each of its versions.


def filled(struct: type, version: int, number: int = 0) -> Any:
    """Return a struct that has two different elements in each array, and no nulls."""
    values: dict[str, Any] = {}
    for name, field in schema_of(struct).fields.items():
        if version not in field.versions:
            continue
        if field.kind == "array":
            of = field.of
            assert of is not None
            inner, kind = of.struct, of.kind
            values[name] = [plain(kind, i) if inner is None else filled(inner, version, i) for i in (1, 2)]
        elif field.kind in ("string", "uuid", "int32"):
            values[name] = plain(field.kind, number)
    return struct(**values)


def plain(kind: str, number: int) -> Any:
    return {"string": f"text-{number}", "uuid": UUID(int=number)}.get(kind, number)


def error_values(form: Any, fields: Sequence[str]) -> Iterator[int]:
    """Yield the values of a field at all places in a JSON form."""
    first, *others = fields
    for item in form[first] if isinstance(form[first], list) else [form[first]]:
        if others:
            yield from error_values(item, others)
        else:
            yield item


EVERY = [
    pytest.param(key, version, element, id=f"{APIS[key].name} v{version} {element or 'request'}")
    for key in HANDLERS
    for version in range(APIS[key].versions.first, (APIS[key].versions.last or 0) + 1)
    for element in error_fields(key, version)
]


@pytest.mark.parametrize(("key", "version", "element"), EVERY)
def test_every_element_gets_its_error(key, version, element):
    request = filled(APIS[key].request, version)
    path = tuple(part for name in element.split(".") if name for part in (name, 0))
    injection = ErrorInjection(key, version, request, [Element(path, {})], FAILED, lookups())
    response = injection.error_response()
    encode(response, version)
    form = to_json(response, version)
    fields = error_fields(key, version)[element]
    for field in fields:
        assert set(error_values(form, field.split("."))) == {FAILED}
    rest = injection.split()
    is_all = not element or "." not in fields[0] or key == ApiKey.DESCRIBE_LOG_DIRS
    assert (rest is None) == (is_all and (key != ApiKey.METADATA or "." not in fields[0]))
    if rest is not None:
        encode(rest, version)
        without_errors = APIS[key].response()
        if "error_message" in schema_of(type(without_errors)).fields:
            without_errors.error_message = None
        assert to_json(injection.merge(without_errors), version) == form


# Elements that are partitions of topics.


def commit_topic(name: str, *indexes: int) -> Any:
    partitions = [OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=7) for index in indexes]
    return OffsetCommitRequest.Topic(name=name, partitions=partitions)


def committed(name: str, *results: tuple[int, int]) -> Any:
    partitions = [
        OffsetCommitResponse.Topic.Partition(partition_index=index, error_code=error) for index, error in results
    ]
    return OffsetCommitResponse.Topic(name=name, partitions=partitions)


COMMIT = OffsetCommitRequest(
    group_id="g", topics=[commit_topic("orders", 0, 1, 2), commit_topic("audit", 0), commit_topic("x", 0)]
)


def test_offset_commit_of_one_partition_fails():
    injected = Injected(COMMIT, 8, topic="orders", partition=1)
    assert injected.rest.topics == [commit_topic("orders", 0, 2), commit_topic("audit", 0), commit_topic("x", 0)]
    normal = OffsetCommitResponse(
        topics=[committed("orders", (0, 0), (2, 0)), committed("audit", (0, 0)), committed("x", (0, 0))]
    )
    assert injected.merged(normal).topics == [
        committed("orders", (0, 0), (1, FAILED), (2, 0)),
        committed("audit", (0, 0)),
        committed("x", (0, 0)),
    ]
    assert injected.response.topics == [committed("orders", (1, FAILED))]


def test_offset_commit_of_one_topic_fails():
    injected = Injected(COMMIT, 8, topic="audit")
    assert injected.rest.topics == [commit_topic("orders", 0, 1, 2), commit_topic("x", 0)]
    orders = committed("orders", (0, 0), (1, 0), (2, 0))
    normal = OffsetCommitResponse(topics=[orders, committed("x", (0, 0))])
    assert injected.merged(normal).topics == [orders, committed("audit", (0, FAILED)), committed("x", (0, 0))]


@pytest.mark.parametrize("match", [{}, {"group": "g"}, {"topic": "*"}])
def test_offset_commit_of_all_partitions_fails(match):
    injected = Injected(COMMIT, 8, **match)
    assert injected.rest is None
    assert injected.response.topics == [
        committed("orders", (0, FAILED), (1, FAILED), (2, FAILED)),
        committed("audit", (0, FAILED)),
        committed("x", (0, FAILED)),
    ]


def test_offset_commit_by_topic_id_fails():
    topics = [
        OffsetCommitRequest.Topic(topic_id=each, partitions=commit_topic("", 0).partitions) for each in (ORDERS, AUDIT)
    ]
    injected = Injected(OffsetCommitRequest(group_id="g", topics=topics), 10, topic="audit")
    assert [topic.topic_id for topic in injected.rest.topics] == [ORDERS]
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in injected.response.topics] == [(AUDIT, FAILED)]


def test_elements_of_equal_names_are_merged():
    request = OffsetCommitRequest(group_id="g", topics=[commit_topic("orders", 0), commit_topic("orders", 1)])
    injected = Injected(request, 8, topic="orders", partition=0)
    normal = OffsetCommitResponse(topics=[committed("orders", (1, 0))])
    assert injected.rest.topics == [commit_topic("orders", 1)]
    assert injected.merged(normal).topics == [committed("orders", (0, FAILED), (1, 0))]


def test_a_failed_request_stays_as_it_is():
    members = [LeaveGroupRequest.Member(member_id=name) for name in ("m1", "m2")]
    injected = Injected(LeaveGroupRequest(group_id="g", members=members), 4, member_id="m1")
    failed = LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert injected.merged(failed) == failed
    left = LeaveGroupResponse(members=[LeaveGroupResponse.Member(member_id="m2", group_instance_id=None)])
    assert [(each.member_id, each.error_code) for each in injected.merged(left).members] == [("m1", FAILED), ("m2", 0)]


def test_produce_to_one_partition_fails():
    partitions = [ProduceRequest.Topic.Partition(index=index, records=b"") for index in (3, 5)]
    request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.Topic(name="orders", partition_data=partitions)])
    injected = Injected(request, 9, topic="orders", partition=3)
    assert [each.index for each in injected.rest.topic_data[0].partition_data] == [5]
    written = ProduceResponse.Topic.Partition(index=5, base_offset=40)
    failed = ProduceResponse.Topic.Partition(index=3, error_code=FAILED, base_offset=-1)
    normal = ProduceResponse(responses=[ProduceResponse.Topic(name="orders", partition_responses=[written])])
    assert injected.merged(normal).responses[0].partition_responses == [failed, written]
    assert injected.response.responses[0].partition_responses == [failed]


def test_list_offsets_of_one_topic_fails():
    def topic(name: str) -> Any:
        partitions = [ListOffsetsRequest.Topic.Partition(partition_index=4, current_leader_epoch=6, timestamp=-1)]
        return ListOffsetsRequest.Topic(name=name, partitions=partitions)

    injected = Injected(ListOffsetsRequest(topics=[topic("audit"), topic("orders")]), 7, topic="orders")
    assert injected.rest.topics == [topic("audit")]
    failed = ListOffsetsResponse.Topic.Partition(partition_index=4, error_code=FAILED)
    assert (failed.offset, failed.timestamp, failed.leader_epoch) == (-1, -1, -1)
    assert injected.response.topics == [ListOffsetsResponse.Topic(name="orders", partitions=[failed])]


def test_txn_offset_commit_of_one_partition_fails():
    topics = [
        TxnOffsetCommitRequest.Topic(
            name="orders",
            partitions=[TxnOffsetCommitRequest.Topic.Partition(partition_index=index) for index in (0, 1)],
        )
    ]
    request = TxnOffsetCommitRequest(transactional_id="t", group_id="g", topics=topics)
    injected = Injected(request, 3, group="g", topic="orders", partition=1)
    assert (injected.rest.transactional_id, len(injected.rest.topics[0].partitions)) == ("t", 1)
    result = TxnOffsetCommitResponse.Topic.Partition(partition_index=1, error_code=FAILED)
    assert injected.response.topics == [TxnOffsetCommitResponse.Topic(name="orders", partitions=[result])]


def results(name: str, *errors: tuple[int, int]) -> Any:
    partitions = [TopicResult.Partition(partition_index=index, partition_error_code=error) for index, error in errors]
    return TopicResult(name=name, results_by_partition=partitions)


def test_add_partitions_to_txn_fails_for_one_partition():
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_topics=[Topic(name="orders", partitions=[0, 1])]
    )
    injected = Injected(request, 3, topic="orders", partition=0)
    assert injected.rest.v3_and_below_topics == [Topic(name="orders", partitions=[1])]
    normal = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[results("orders", (1, 0))])
    assert injected.merged(normal).results_by_topic_v3_and_below == [results("orders", (0, FAILED), (1, 0))]


def test_add_partitions_to_txn_fails_for_one_transaction():
    transactions = [
        AddPartitionsToTxnRequest.Transaction(
            transactional_id=name, producer_id=8, topics=[Topic(name="orders", partitions=[0, 1])]
        )
        for name in ("t1", "t2")
    ]
    injected = Injected(AddPartitionsToTxnRequest(transactions=transactions), 5, transactional_id="t2")
    assert injected.rest.transactions == transactions[:1]
    transaction = AddPartitionsToTxnResponse.Transaction
    failed = transaction(transactional_id="t2", topic_results=[results("orders", (0, FAILED), (1, FAILED))])
    assert injected.response.results_by_transaction == [failed]
    other = transaction(transactional_id="t1", topic_results=[results("orders", (0, 0), (1, 0))])
    normal = AddPartitionsToTxnResponse(results_by_transaction=[other])
    assert injected.merged(normal).results_by_transaction == [other, failed]


# Committed offsets, of one group and of several groups.

OldTopic, GroupTopic = OffsetFetchResponse.Topic, OffsetFetchResponse.Group.Topic


def test_offset_fetch_of_one_partition_fails():
    topics = [OffsetFetchRequest.Topic(name="orders", partition_indexes=[0, 4])]
    injected = Injected(OffsetFetchRequest(group_id="g", topics=topics), 1, topic="orders", partition=4)
    assert injected.rest.topics == [OffsetFetchRequest.Topic(name="orders", partition_indexes=[0])]
    fetched = OldTopic.Partition(partition_index=0, committed_offset=7)
    failed = OldTopic.Partition(partition_index=4, committed_offset=-1, error_code=FAILED)
    normal = OffsetFetchResponse(topics=[OldTopic(name="orders", partitions=[fetched])])
    assert injected.merged(normal).topics == [OldTopic(name="orders", partitions=[fetched, failed])]


def test_offset_fetch_of_a_group_fails_as_a_whole():
    injected = Injected(OffsetFetchRequest(group_id="g", topics=None), 7, group="g")
    assert injected.rest is None
    assert injected.response == OffsetFetchResponse(error_code=FAILED)


def fetched_group(name: str, *topics: str) -> Any:
    results = [OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[0]) for topic in topics]
    return OffsetFetchRequest.Group(group_id=name, topics=results)


def test_offset_fetch_of_one_of_several_groups_fails():
    request = OffsetFetchRequest(groups=[fetched_group("a", "orders"), fetched_group("b", "orders")])
    injected = Injected(request, 8, group="a")
    assert injected.rest.groups == [fetched_group("b", "orders")]
    other = OffsetFetchResponse.Group(group_id="b")
    failed = OffsetFetchResponse.Group(group_id="a", error_code=FAILED)
    assert injected.merged(OffsetFetchResponse(groups=[other])).groups == [failed, other]


def test_offset_fetch_of_a_topic_in_one_group_fails():
    request = OffsetFetchRequest(groups=[fetched_group("a", "orders", "audit"), fetched_group("b", "audit")])
    injected = Injected(request, 8, group="a", topic="orders")
    assert injected.rest.groups == [fetched_group("a", "audit"), fetched_group("b", "audit")]
    partition = GroupTopic.Partition(partition_index=0, committed_offset=-1, error_code=FAILED)
    failed = GroupTopic(name="orders", partitions=[partition])
    audit = GroupTopic(name="audit", partitions=[GroupTopic.Partition(committed_offset=3)])
    normal = OffsetFetchResponse(
        groups=[OffsetFetchResponse.Group(group_id=name, topics=[audit]) for name in ("a", "b")]
    )
    assert [group.topics for group in injected.merged(normal).groups] == [[failed, audit], [audit]]


@pytest.mark.parametrize(("match", "failed"), [({}, {0, 1}), ({"partition": 1}, {1})])
def test_offset_fetch_of_all_topics_fails_for_one(match, failed):
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="a", topics=None)])
    injected = Injected(request, 10, group="a", topic="audit", **match)
    assert injected.rest == request
    topics = [
        GroupTopic(
            topic_id=each,
            partitions=[GroupTopic.Partition(partition_index=index, committed_offset=3) for index in (0, 1)],
        )
        for each in (ORDERS, AUDIT)
    ]
    groups = [OffsetFetchResponse.Group(group_id=name, topics=topics) for name in ("a", "b")]
    merged = injected.merged(OffsetFetchResponse(groups=groups)).groups
    assert merged[1] == groups[1]
    assert merged[0].topics[0] == topics[0]
    errors = {each.partition_index: (each.error_code, each.committed_offset) for each in merged[0].topics[1].partitions}
    assert errors == {index: (FAILED, -1) if index in failed else (0, 3) for index in (0, 1)}


# Fetch, with and without a session.


def fetch_topic(name: str = "", *, topic_id: UUID = ZERO_UUID, partitions: Sequence[int] = (0, 1)) -> Any:
    indexes = [FetchRequest.Topic.Partition(partition=index, fetch_offset=7) for index in partitions]
    return FetchRequest.Topic(topic=name, topic_id=topic_id, partitions=indexes)


def fetched(name: str = "", *, topic_id: UUID = ZERO_UUID, partitions: Sequence[tuple[int, int]]) -> Any:
    results = [
        FetchResponse.Topic.Partition(partition_index=index, error_code=FAILED, high_watermark=-1, records=b"")
        if error
        else FetchResponse.Topic.Partition(partition_index=index, high_watermark=9, records=b"")
        for index, error in partitions
    ]
    return FetchResponse.Topic(topic=name, topic_id=topic_id, partitions=results)


def errors_of(response: Any) -> list[tuple[Any, list[tuple[int, int]]]]:
    return [
        (topic.topic or topic.topic_id, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.responses
    ]


def test_fetch_of_a_partition_fails_at_once():
    request = FetchRequest(max_wait_ms=500, topics=[fetch_topic("orders"), fetch_topic("audit")])
    injected = Injected(request, 12, topic="orders", partition=1)
    assert injected.rest.topics == [fetch_topic("orders", partitions=[0]), fetch_topic("audit")]
    assert injected.rest.max_wait_ms == 0
    (topic,) = injected.response.responses
    (partition,) = topic.partitions
    assert (topic.topic, partition.partition_index, partition.error_code) == ("orders", 1, FAILED)
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (-1, -1, -1)
    assert (partition.aborted_transactions, partition.records) == (None, b"")


def test_fetch_by_topic_id_fails():
    request = FetchRequest(topics=[fetch_topic(topic_id=ORDERS), fetch_topic(topic_id=AUDIT)])
    injected = Injected(request, 13, topic="audit")
    assert injected.rest.topics == [fetch_topic(topic_id=ORDERS)]
    assert errors_of(injected.response) == [(AUDIT, [(0, FAILED), (1, FAILED)])]


def test_a_new_fetch_session_has_the_partition_that_fails():
    request = FetchRequest(session_epoch=0, max_wait_ms=500, topics=[fetch_topic("orders")])
    injected = Injected(request, 12, topic="orders", partition=0)
    assert injected.rest.topics == request.topics
    normal = FetchResponse(session_id=8, responses=[fetched("orders", partitions=[(0, 0), (1, 0)])])
    assert errors_of(injected.merged(normal)) == [("orders", [(0, FAILED), (1, 0)])]


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("present", [[], [(0, 0), (1, 0)]], ids=["not in the response", "in the response"])
def test_partitions_of_a_fetch_session_fail(version, present):
    name, topic_id = ("orders", ZERO_UUID) if version == 12 else ("", ORDERS)
    session = [("orders", 0), ("orders", 1), ("audit", 0)]
    request = FetchRequest(session_id=8, session_epoch=2, max_wait_ms=500, topics=[])
    injected = Injected(request, version, session, topic="orders")
    assert (injected.rest.session_epoch, injected.rest.topics, injected.rest.max_wait_ms) == (2, [], 0)
    responses = [fetched(name, topic_id=topic_id, partitions=present)] if present else []
    merged = injected.merged(FetchResponse(session_id=8, responses=responses))
    assert merged.session_id == 8
    assert errors_of(merged) == [(name or topic_id, [(0, FAILED), (1, FAILED)])]


def test_fetch_as_a_whole_fails_with_its_session():
    injected = Injected(FetchRequest(session_id=8, session_epoch=2), 12)
    assert injected.rest is None
    assert injected.response == FetchResponse(error_code=FAILED, session_id=8)


def test_acknowledgements_of_a_share_session_fail():
    """The partition stays in the request, because it stays in the share session."""
    new = ShareFetchRequest.Topic.Partition
    sent = [new(partition_index=i, acknowledgement_batches=[new.AcknowledgementBatch(last_offset=5)]) for i in (0, 1)]
    topic = ShareFetchRequest.Topic(topic_id=ORDERS, partitions=sent)
    request = ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=3, topics=[topic])
    injected = Injected(request, 1, [("orders", 0), ("orders", 1), ("audit", 0)], topic="orders", partition=1)
    assert injected.rest.topics[0].partitions == [sent[0], new(partition_index=1)]
    assert injected.injection.refused == {(ORDERS, 1): FAILED}
    [failed] = injected.merged(ShareFetchResponse()).responses[0].partitions
    assert (failed.partition_index, failed.error_code, failed.acknowledge_error_code) == (1, FAILED, FAILED)


# Metadata and topics.


def described(*topics: Any) -> MetadataResponse:
    brokers = [MetadataResponse.Broker(node_id=0, host="h", port=9092)]
    return MetadataResponse(brokers=brokers, controller_id=0, topics=list(topics))


def topic_metadata(name: str, topic_id: UUID = ZERO_UUID, error: int = 0) -> Any:
    partitions = [] if error else [MetadataResponse.Topic.Partition(partition_index=0)]
    return MetadataResponse.Topic(error_code=error, name=name, topic_id=topic_id, partitions=partitions)


def test_metadata_of_one_topic_fails():
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in ("audit", "orders")])
    injected = Injected(request, 9, topic="audit")
    assert [topic.name for topic in injected.rest.topics] == ["orders"]
    merged = injected.merged(described(topic_metadata("orders")))
    assert merged == described(topic_metadata("audit", error=FAILED), topic_metadata("orders"))


@pytest.mark.parametrize("version", [1, 12])
def test_metadata_of_failing_topics_still_has_the_brokers(version):
    injected = Injected(MetadataRequest(topics=[MetadataRequest.Topic(name="audit")]), version, topic="audit")
    assert injected.rest.topics == []
    assert injected.merged(described()) == described(topic_metadata("audit", error=FAILED))


def test_metadata_of_a_topic_id_fails_with_its_name():
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=None, topic_id=AUDIT)])
    injected = Injected(request, 12, topic="audit")
    assert injected.merged(described()) == described(topic_metadata("audit", AUDIT, error=FAILED))


@pytest.mark.parametrize(("version", "topics"), [(0, []), (9, None)])
@pytest.mark.parametrize(("match", "failed"), [({"topic": "aud*"}, {"audit"}), ({}, {"audit", "orders"})])
def test_metadata_of_all_topics_fails_for_matching_ones(version, topics, match, failed):
    injected = Injected(MetadataRequest(topics=topics), version, **match)
    assert injected.rest.topics == topics
    merged = injected.merged(described(topic_metadata("orders"), topic_metadata("audit")))
    assert {topic.name for topic in merged.topics if topic.error_code == FAILED} == failed
    assert merged.brokers[0].port == 9092


def test_the_first_version_of_metadata_is_processed_as_a_whole():
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="audit")])
    injected = Injected(request, 0, topic="audit")
    assert injected.rest == request
    (topic,) = injected.merged(described(topic_metadata("audit"))).topics
    assert (topic.name, topic.error_code, topic.partitions) == ("audit", FAILED, [])


def test_create_topics_fails_for_one_topic():
    topics = [
        CreateTopicsRequest.Topic(name=name, num_partitions=3, replication_factor=1) for name in ("audit", "orders")
    ]
    injected = Injected(CreateTopicsRequest(topics=topics), 7, topic="orders")
    assert injected.rest.topics == topics[:1]
    failed = CreateTopicsResponse.Topic(name="orders", error_code=FAILED, error_message=None)
    assert (failed.num_partitions, failed.replication_factor) == (-1, -1)
    created = CreateTopicsResponse.Topic(name="audit", topic_id=AUDIT, num_partitions=3, replication_factor=1)
    assert injected.merged(CreateTopicsResponse(topics=[created])).topics == [created, failed]


# Groups and transactions.


def test_find_coordinator_fails():
    injected = Injected(FindCoordinatorRequest(key="g", key_type=0), 3, group="g")
    assert injected.rest is None
    assert injected.response == FindCoordinatorResponse(error_code=FAILED, error_message=None, node_id=-1, port=-1)


def test_find_coordinator_fails_for_one_of_several_groups():
    injected = Injected(FindCoordinatorRequest(coordinator_keys=["a", "b", "c"], key_type=0), 4, group="b")
    assert injected.rest.coordinator_keys == ["a", "c"]
    coordinator = FindCoordinatorResponse.Coordinator
    results = [coordinator(key=key, node_id=0, host="h", port=9092) for key in ("a", "c")]
    failed = coordinator(key="b", node_id=-1, port=-1, error_code=FAILED, error_message=None)
    assert injected.merged(FindCoordinatorResponse(coordinators=results)).coordinators == [
        results[0],
        failed,
        results[1],
    ]


@pytest.mark.parametrize(("version", "protocol"), [(5, ""), (7, None)])
def test_join_group_fails(version, protocol):
    injected = Injected(JoinGroupRequest(group_id="g", member_id="m", protocol_type="consumer"), version, group="g")
    assert injected.rest is None
    response = injected.response
    assert (response.error_code, response.generation_id, response.protocol_name) == (FAILED, -1, protocol)
    assert (response.member_id, response.leader, response.members) == ("m", "", [])


def test_heartbeat_fails():
    injected = Injected(HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), 4, member_id="m")
    assert injected.rest is None
    assert injected.response == HeartbeatResponse(error_code=FAILED)


def test_consumer_group_heartbeat_fails_for_a_subscribed_topic():
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["orders"])
    injected = Injected(request, 1, topic="orders")
    assert injected.rest is None
    response = injected.response
    assert (response.error_code, response.error_message, response.member_id) == (FAILED, None, None)
    assert response.assignment is None


def test_delete_groups_fails_for_one_group():
    injected = Injected(DeleteGroupsRequest(groups_names=["a", "b"]), 2, group="a")
    assert injected.rest.groups_names == ["b"]
    failed = DeleteGroupsResponse.Result(group_id="a", error_code=FAILED)
    deleted = DeleteGroupsResponse.Result(group_id="b")
    assert injected.merged(DeleteGroupsResponse(results=[deleted])).results == [failed, deleted]


def test_describe_groups_fails_for_one_group():
    injected = Injected(DescribeGroupsRequest(groups=["a", "b"], include_authorized_operations=True), 5, group="b")
    assert (injected.rest.groups, injected.rest.include_authorized_operations) == (["a"], True)
    failed = DescribeGroupsResponse.Group(group_id="b", error_code=FAILED)
    assert injected.response.groups == [failed]


@pytest.mark.parametrize("version", [3, 5])
def test_end_txn_fails(version):
    request = EndTxnRequest(transactional_id="t", producer_id=8, producer_epoch=2, committed=True)
    injected = Injected(request, version, transactional_id="t")
    assert injected.rest is None
    response = injected.response
    assert (response.error_code, response.producer_id, response.producer_epoch) == (FAILED, -1, -1)


@pytest.mark.parametrize("version", [1, 3])
def test_describe_log_dirs_fails_as_a_whole(version):
    topics = [DescribeLogDirsRequest.Topic(topic="orders", partitions=[0])]
    injected = Injected(DescribeLogDirsRequest(topics=topics), version, topic="orders")
    assert injected.rest is None
    errors = [injected.response.error_code, *(each.error_code for each in injected.response.results)]
    assert errors == ([0, FAILED] if version == 1 else [FAILED])
