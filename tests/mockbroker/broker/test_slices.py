"""Large requests are handled in slices, and get the same responses as requests that are not divided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness, stable_member

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.alter_client_quotas import AlterClientQuotasRequest
from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.describe_quorum import DescribeQuorumRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.messages.update_features import UpdateFeaturesRequest
from kwire.messages.write_share_group_state import WriteShareGroupStateRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Client, Ticket, Work
from mockbroker.broker import slices
from mockbroker.broker.slices import topic_slices

GROUPS = ["g", "h", "g", "none", ""]


def broker() -> BrokerHarness:
    """Return a broker with a topic of five partitions, the classic groups g and h, and an open transaction."""
    harness = BrokerHarness(topics={"t": 5, "u": 1})
    for group in ("g", "h"):
        harness.send(harness.join(group), 5)
    harness.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
    return harness


def share_state(kind: Any, **fields: Any) -> Any:
    partition = kind.Topic.Partition
    topic_id = BrokerHarness(topics={"t": 5}).topic_id("t")
    topics = [(topic_id, range(5)), (UUID(int=99), range(2)), (topic_id, (0, 7))]
    return kind(
        group_id="s",
        topics=[
            kind.Topic(topic_id=topic, partitions=[partition(partition=n, **fields) for n in numbers])
            for topic, numbers in topics
        ],
    )


def configs(kind: Any) -> list[Any]:
    change = kind.Config(name="retention.ms", value="1000")
    return [kind(resource_type=2, resource_name=name, configs=[change]) for name in ("t", "none", "u", "")]


def quota(user: str) -> AlterClientQuotasRequest.Entry:
    entry = AlterClientQuotasRequest.Entry
    named = entry.Entity(entity_type="user", entity_name=user)
    return entry(entity=[named], ops=[entry.Op(key="producer_byte_rate", value=1_000.0)])


def transaction(*partitions: int) -> AddPartitionsToTxnRequest.Transaction:
    return AddPartitionsToTxnRequest.Transaction(
        transactional_id="x", producer_id=0, producer_epoch=0, topics=[Topic(name="t", partitions=list(partitions))]
    )


def partitions(kind: Any, field: str, **more: Any) -> list[Any]:
    """Return requested topics with existing and unknown partitions, some of which are listed twice."""
    named = (("t", (0, 1, 2, 9)), ("none", (0,)), ("t", (3, 1)), ("u", ()))
    return [kind(name=name, partitions=[kind.Partition(**{field: n}, **more) for n in some]) for name, some in named]


def marker(producer_id: int) -> WriteTxnMarkersRequest.Marker:
    topic = WriteTxnMarkersRequest.Marker.Topic
    topics = [topic(name="t", partition_indexes=[0, 1, 1, 9]), topic(name="none", partition_indexes=[0, 2])]
    return WriteTxnMarkersRequest.Marker(producer_id=producer_id, producer_epoch=0, topics=topics)


def upsertion(user: str, mechanism: int = 1) -> AlterUserScramCredentialsRequest.Upsertion:
    return AlterUserScramCredentialsRequest.Upsertion(
        name=user, mechanism=mechanism, iterations=4_096, salt=b"salt", salted_password=b"password"
    )


REQUESTS = [
    DescribeGroupsRequest(groups=GROUPS),
    ConsumerGroupDescribeRequest(group_ids=GROUPS),
    ShareGroupDescribeRequest(group_ids=GROUPS),
    StreamsGroupDescribeRequest(group_ids=GROUPS),
    DescribeTransactionsRequest(transactional_ids=["x", "y", "x", "z"]),
    DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.Topic(name="t", partition_indexes=[0, 1, 2, 3, 4, 5, 0]),
            DescribeProducersRequest.Topic(name="u", partition_indexes=[]),
            DescribeProducersRequest.Topic(name="u", partition_indexes=[0]),
        ]
    ),
    FindCoordinatorRequest(key_type=0, coordinator_keys=GROUPS),
    DeleteGroupsRequest(groups_names=GROUPS),
    ElectLeadersRequest(
        topic_partitions=[
            ElectLeadersRequest.TopicPartition(topic="t", partitions=[0, 1, 2, 9]),
            ElectLeadersRequest.TopicPartition(topic="none", partitions=[0]),
        ]
    ),
    AddPartitionsToTxnRequest(transactions=[transaction(0), transaction(9), transaction(1, 2), transaction(3)]),
    AddPartitionsToTxnRequest(transactions=[transaction(0, 1, 2, 3, 9, 1)]),
    AddPartitionsToTxnRequest(
        transactions=[transaction(0, 1, 2, 3, 1), replace(transaction(0, 1, 4), verify_only=True)]
    ),
    DeleteRecordsRequest(topics=partitions(DeleteRecordsRequest.Topic, "partition_index", offset=0)),
    WriteTxnMarkersRequest(markers=[marker(0), marker(1), marker(0)]),
    LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=name) for name in GROUPS]),
    CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name=name, count=6) for name in ("u", "none", "t", "u", "")],
        timeout_ms=1_000,
    ),
    UpdateFeaturesRequest(
        feature_updates=[UpdateFeaturesRequest.FeatureUpdate(feature=name) for name in ("a", "b", "c", "d", "e")]
    ),
    DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in "utvwx"]),
    DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequest.Topic(
                topic_name=name, partitions=[DescribeQuorumRequest.Topic.Partition(partition_index=n) for n in range(3)]
            )
            for name in ("t", "__cluster_metadata")
        ]
    ),
    AlterUserScramCredentialsRequest(
        deletions=[AlterUserScramCredentialsRequest.Deletion(name="a", mechanism=1)],
        upsertions=[upsertion("a"), upsertion("b"), upsertion("c"), upsertion("d", 9), *map(upsertion, "efgb")],
    ),
    AlterConfigsRequest(resources=configs(AlterConfigsRequest.Resource)),
    IncrementalAlterConfigsRequest(resources=configs(IncrementalAlterConfigsRequest.Resource)),
    AlterClientQuotasRequest(entries=[quota(name) for name in ("a", "b", "a", "c", "")]),
    share_state(InitializeShareGroupStateRequest, state_epoch=1),
    share_state(ReadShareGroupStateRequest, leader_epoch=0),
    share_state(ReadShareGroupStateSummaryRequest, leader_epoch=0),
    share_state(WriteShareGroupStateRequest, state_epoch=0),
    share_state(DeleteShareGroupStateRequest),
]


OF_ONE_TRANSACTION = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="x",
    v3_and_below_topics=[Topic(name="t", partitions=[0, 1, 2, 1]), Topic(name="u", partitions=[0])],
)


@pytest.mark.parametrize(
    ("request_", "version"),
    [*((request, None) for request in REQUESTS), (OF_ONE_TRANSACTION, 3)],
    ids=lambda value: type(value).__name__,
)
def test_response_is_that_of_one_step(request_: Any, version: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SIZE", 2)
    whole, sliced, sliced_again = broker(), broker(), broker()
    sliced.broker.slice_size = sliced_again.broker.slice_size = 2
    api = schema_of(type(request_)).api
    assert api is not None
    version = whole.broker.advertised_versions[api.key].last if version is None else version
    assert version is not None
    call = Call(Ticket(1, 1, api.key, version), Client(0, "c", "/h"), request_)
    effects = sliced.router.handlers[api.key].handle(sliced.broker, call, 0.0)
    assert any(isinstance(effect, Work) for effect in effects)
    assert sliced_again.ask(request_, version) == whole.ask(request_, version)


def test_large_descriptions_fill_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptions of g and h fill a slice each; those of groups that do not exist share the last slice."""
    monkeypatch.setattr(slices, "DESCRIBED_BYTES", 100)
    harness = BrokerHarness()
    for group in ("g", "h"):
        stable_member(harness, group)
    call = Call(Ticket(1, 1, 15, 6), Client(0, "c", "/h"), DescribeGroupsRequest(groups=["g", "h", "x", "y", "z"]))
    *_, work = harness.router.handlers[15].handle(harness.broker, call, 0.0)
    assert isinstance(work, Work)
    assert len(list(work.steps)) == 1


def test_topics_are_divided_by_partitions() -> None:
    kind = ElectLeadersRequest.TopicPartition
    topics = [kind(topic=name, partitions=list(range(count))) for name, count in (("a", 3), ("b", 0), ("c", 4))]
    parts = [[(topic.topic, topic.partitions) for topic in part] for part in topic_slices(topics, 2)]
    assert parts == [[("a", [0, 1])], [("a", [2]), ("c", [0])], [("c", [1, 2])], [("c", [3])]]
    assert list(topic_slices(topics, 7)) == []


def test_slices_are_made_when_they_are_needed() -> None:
    topics = iter(topic_slices([ElectLeadersRequest.TopicPartition(topic="a", partitions=list(range(1_000_000)))], 1))
    assert next(topics)[0].partitions == [0]
