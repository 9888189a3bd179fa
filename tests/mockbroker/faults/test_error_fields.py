"""The response fields that get the error of each kind of element: the schemas are compared with a golden table."""

from __future__ import annotations

import pytest

from kwire.messages import APIS, api_named
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.error_fields import answer_of, depth_of_error, error_fields

# API and versions | element of the request | response fields that get its error
GOLDEN = """
Produce 0-13 | (request) | responses.partition_responses.error_code
Produce 0-13 | topic_data | responses.partition_responses.error_code
Produce 0-13 | topic_data.partition_data | responses.partition_responses.error_code
Fetch 0-6 | (request) | responses.partitions.error_code
Fetch 0-6 | topics | responses.partitions.error_code
Fetch 0-6 | topics.partitions | responses.partitions.error_code
Fetch 7-18 | (request) | error_code
Fetch 7-18 | topics | responses.partitions.error_code
Fetch 7-18 | topics.partitions | responses.partitions.error_code
ListOffsets 0-11 | (request) | topics.partitions.error_code
ListOffsets 0-11 | topics | topics.partitions.error_code
ListOffsets 0-11 | topics.partitions | topics.partitions.error_code
Metadata 0-12 | (request) | topics.error_code
Metadata 0-12 | topics | topics.error_code
Metadata 13 | (request) | error_code, topics.error_code
Metadata 13 | topics | topics.error_code
OffsetCommit 0-10 | (request) | topics.partitions.error_code
OffsetCommit 0-10 | topics | topics.partitions.error_code
OffsetCommit 0-10 | topics.partitions | topics.partitions.error_code
OffsetFetch 0-1 | (request) | topics.partitions.error_code
OffsetFetch 0-1 | topics | topics.partitions.error_code
OffsetFetch 0-1 | topics.partition_indexes | topics.partitions.error_code
OffsetFetch 2-7 | (request) | error_code
OffsetFetch 2-7 | topics | topics.partitions.error_code
OffsetFetch 2-7 | topics.partition_indexes | topics.partitions.error_code
OffsetFetch 8-10 | (request) | groups.error_code
OffsetFetch 8-10 | groups | groups.error_code
OffsetFetch 8-10 | groups.topics | groups.topics.partitions.error_code
OffsetFetch 8-10 | groups.topics.partition_indexes | groups.topics.partitions.error_code
FindCoordinator 0-3 | (request) | error_code
FindCoordinator 4-6 | (request) | coordinators.error_code
FindCoordinator 4-6 | coordinator_keys | coordinators.error_code
JoinGroup 0-9 | (request) | error_code
Heartbeat 0-4 | (request) | error_code
LeaveGroup 0-2 | (request) | error_code
LeaveGroup 3-5 | (request) | error_code
LeaveGroup 3-5 | members | members.error_code
SyncGroup 0-5 | (request) | error_code
DescribeGroups 0-6 | (request) | groups.error_code
DescribeGroups 0-6 | groups | groups.error_code
ListGroups 0-5 | (request) | error_code
SaslHandshake 0-1 | (request) | error_code
ApiVersions 0-4 | (request) | error_code
CreateTopics 0-7 | (request) | topics.error_code
CreateTopics 0-7 | topics | topics.error_code
DeleteTopics 0-5 | (request) | responses.error_code
DeleteTopics 0-5 | topic_names | responses.error_code
DeleteTopics 6 | (request) | responses.error_code
DeleteTopics 6 | topics | responses.error_code
DeleteRecords 0-2 | (request) | topics.partitions.error_code
DeleteRecords 0-2 | topics | topics.partitions.error_code
DeleteRecords 0-2 | topics.partitions | topics.partitions.error_code
InitProducerId 0-6 | (request) | error_code
OffsetForLeaderEpoch 0-4 | (request) | topics.partitions.error_code
OffsetForLeaderEpoch 0-4 | topics | topics.partitions.error_code
OffsetForLeaderEpoch 0-4 | topics.partitions | topics.partitions.error_code
AddPartitionsToTxn 0-3 | (request) | results_by_topic_v3_and_below.results_by_partition.partition_error_code
AddPartitionsToTxn 0-3 | v3_and_below_topics | results_by_topic_v3_and_below.results_by_partition.partition_error_code
AddPartitionsToTxn 0-3 | v3_and_below_topics.partitions | results_by_topic_v3_and_below.results_by_partition.partition_error_code
AddPartitionsToTxn 4-5 | (request) | error_code
AddPartitionsToTxn 4-5 | transactions | results_by_transaction.topic_results.results_by_partition.partition_error_code
AddPartitionsToTxn 4-5 | transactions.topics | results_by_transaction.topic_results.results_by_partition.partition_error_code
AddPartitionsToTxn 4-5 | transactions.topics.partitions | results_by_transaction.topic_results.results_by_partition.partition_error_code
AddOffsetsToTxn 0-4 | (request) | error_code
EndTxn 0-5 | (request) | error_code
WriteTxnMarkers 0-2 | (request) | markers.topics.partitions.error_code
WriteTxnMarkers 0-2 | markers | markers.topics.partitions.error_code
WriteTxnMarkers 0-2 | markers.topics | markers.topics.partitions.error_code
WriteTxnMarkers 0-2 | markers.topics.partition_indexes | markers.topics.partitions.error_code
TxnOffsetCommit 0-5 | (request) | topics.partitions.error_code
TxnOffsetCommit 0-5 | topics | topics.partitions.error_code
TxnOffsetCommit 0-5 | topics.partitions | topics.partitions.error_code
DescribeAcls 0-3 | (request) | error_code
CreateAcls 0-3 | (request) | results.error_code
CreateAcls 0-3 | creations | results.error_code
DeleteAcls 0-3 | (request) | filter_results.error_code
DescribeConfigs 0-4 | (request) | results.error_code
DescribeConfigs 0-4 | resources | results.error_code
AlterConfigs 0-2 | (request) | responses.error_code
AlterConfigs 0-2 | resources | responses.error_code
DescribeLogDirs 0-2 | (request) | results.error_code
DescribeLogDirs 0-2 | topics | results.error_code
DescribeLogDirs 0-2 | topics.partitions | results.error_code
DescribeLogDirs 3-4 | (request) | error_code
DescribeLogDirs 3-4 | topics | error_code
DescribeLogDirs 3-4 | topics.partitions | error_code
SaslAuthenticate 0-2 | (request) | error_code
CreatePartitions 0-3 | (request) | results.error_code
CreatePartitions 0-3 | topics | results.error_code
CreateDelegationToken 0-3 | (request) | error_code
RenewDelegationToken 0-2 | (request) | error_code
ExpireDelegationToken 0-2 | (request) | error_code
DescribeDelegationToken 0-3 | (request) | error_code
DeleteGroups 0-2 | (request) | results.error_code
DeleteGroups 0-2 | groups_names | results.error_code
ElectLeaders 0 | (request) | replica_election_results.partition_result.error_code
ElectLeaders 0 | topic_partitions | replica_election_results.partition_result.error_code
ElectLeaders 0 | topic_partitions.partitions | replica_election_results.partition_result.error_code
ElectLeaders 1-2 | (request) | error_code, replica_election_results.partition_result.error_code
ElectLeaders 1-2 | topic_partitions | replica_election_results.partition_result.error_code
ElectLeaders 1-2 | topic_partitions.partitions | replica_election_results.partition_result.error_code
IncrementalAlterConfigs 0-1 | (request) | responses.error_code
IncrementalAlterConfigs 0-1 | resources | responses.error_code
AlterPartitionReassignments 0-1 | (request) | error_code
AlterPartitionReassignments 0-1 | topics | responses.partitions.error_code
AlterPartitionReassignments 0-1 | topics.partitions | responses.partitions.error_code
AlterReplicaLogDirs 0-2 | (request) | results.partitions.error_code
AlterReplicaLogDirs 0-2 | dirs | results.partitions.error_code
AlterReplicaLogDirs 0-2 | dirs.topics | results.partitions.error_code
AlterReplicaLogDirs 0-2 | dirs.topics.partitions | results.partitions.error_code
DescribeQuorum 0-2 | (request) | error_code
DescribeQuorum 0-2 | topics | topics.partitions.error_code
DescribeQuorum 0-2 | topics.partitions | topics.partitions.error_code
UnregisterBroker 0 | (request) | error_code
AddRaftVoter 0-1 | (request) | error_code
RemoveRaftVoter 0 | (request) | error_code
ListPartitionReassignments 0 | (request) | error_code
ListPartitionReassignments 0 | topics | error_code
ListPartitionReassignments 0 | topics.partition_indexes | error_code
OffsetDelete 0 | (request) | error_code
OffsetDelete 0 | topics | topics.partitions.error_code
OffsetDelete 0 | topics.partitions | topics.partitions.error_code
DescribeClientQuotas 0-1 | (request) | error_code
AlterClientQuotas 0-1 | (request) | entries.error_code
DescribeUserScramCredentials 0 | (request) | error_code
AlterUserScramCredentials 0 | (request) | results.error_code
DescribeCluster 0-2 | (request) | error_code
DescribeProducers 0 | (request) | topics.partitions.error_code
DescribeProducers 0 | topics | topics.partitions.error_code
DescribeProducers 0 | topics.partition_indexes | topics.partitions.error_code
DescribeTransactions 0 | (request) | transaction_states.error_code
DescribeTransactions 0 | transactional_ids | transaction_states.error_code
ListTransactions 0-2 | (request) | error_code
UpdateFeatures 0-2 | (request) | error_code
GetTelemetrySubscriptions 0 | (request) | error_code
PushTelemetry 0 | (request) | error_code
ConsumerGroupHeartbeat 0-1 | (request) | error_code
ConsumerGroupHeartbeat 0-1 | subscribed_topic_names | error_code
ConsumerGroupHeartbeat 0-1 | topic_partitions | error_code
ConsumerGroupHeartbeat 0-1 | topic_partitions.partitions | error_code
ConsumerGroupDescribe 0-1 | (request) | groups.error_code
ConsumerGroupDescribe 0-1 | group_ids | groups.error_code
StreamsGroupHeartbeat 0 | (request) | error_code
StreamsGroupHeartbeat 0 | topology | error_code
StreamsGroupHeartbeat 0 | topology.subtopologies | error_code
StreamsGroupHeartbeat 0 | topology.subtopologies.source_topics | error_code
StreamsGroupHeartbeat 0 | topology.subtopologies.state_changelog_topics | error_code
StreamsGroupHeartbeat 0 | topology.subtopologies.repartition_sink_topics | error_code
StreamsGroupHeartbeat 0 | topology.subtopologies.repartition_source_topics | error_code
StreamsGroupHeartbeat 0 | active_tasks | error_code
StreamsGroupHeartbeat 0 | active_tasks.partitions | error_code
StreamsGroupHeartbeat 0 | standby_tasks | error_code
StreamsGroupHeartbeat 0 | standby_tasks.partitions | error_code
StreamsGroupHeartbeat 0 | warmup_tasks | error_code
StreamsGroupHeartbeat 0 | warmup_tasks.partitions | error_code
StreamsGroupDescribe 0 | (request) | groups.error_code
StreamsGroupDescribe 0 | group_ids | groups.error_code
ShareGroupHeartbeat 0-1 | (request) | error_code
ShareGroupHeartbeat 0-1 | subscribed_topic_names | error_code
DescribeShareGroupOffsets 0-1 | (request) | groups.error_code
DescribeShareGroupOffsets 0-1 | groups | groups.error_code
DescribeShareGroupOffsets 0-1 | groups.topics | groups.topics.partitions.error_code
DescribeShareGroupOffsets 0-1 | groups.topics.partitions | groups.topics.partitions.error_code
AlterShareGroupOffsets 0 | (request) | error_code
AlterShareGroupOffsets 0 | topics | responses.partitions.error_code
AlterShareGroupOffsets 0 | topics.partitions | responses.partitions.error_code
DeleteShareGroupOffsets 0 | (request) | error_code
DeleteShareGroupOffsets 0 | topics | responses.error_code
ShareGroupDescribe 0-1 | (request) | groups.error_code
ShareGroupDescribe 0-1 | group_ids | groups.error_code
ShareFetch 0-2 | (request) | error_code
ShareFetch 0-2 | topics | responses.partitions.error_code
ShareFetch 0-2 | topics.partitions | responses.partitions.error_code
ShareAcknowledge 0-2 | (request) | error_code
ShareAcknowledge 0-2 | topics | responses.partitions.error_code
ShareAcknowledge 0-2 | topics.partitions | responses.partitions.error_code
InitializeShareGroupState 0 | (request) | results.partitions.error_code
InitializeShareGroupState 0 | topics | results.partitions.error_code
InitializeShareGroupState 0 | topics.partitions | results.partitions.error_code
ReadShareGroupState 0 | (request) | results.partitions.error_code
ReadShareGroupState 0 | topics | results.partitions.error_code
ReadShareGroupState 0 | topics.partitions | results.partitions.error_code
WriteShareGroupState 0-1 | (request) | results.partitions.error_code
WriteShareGroupState 0-1 | topics | results.partitions.error_code
WriteShareGroupState 0-1 | topics.partitions | results.partitions.error_code
DeleteShareGroupState 0 | (request) | results.partitions.error_code
DeleteShareGroupState 0 | topics | results.partitions.error_code
DeleteShareGroupState 0 | topics.partitions | results.partitions.error_code
ReadShareGroupStateSummary 0-1 | (request) | results.partitions.error_code
ReadShareGroupStateSummary 0-1 | topics | results.partitions.error_code
ReadShareGroupStateSummary 0-1 | topics.partitions | results.partitions.error_code
ListConfigResources 0-1 | (request) | error_code
DescribeTopicPartitions 0 | (request) | topics.error_code
DescribeTopicPartitions 0 | topics | topics.error_code
"""
ROWS = [tuple(part.strip() for part in row.split("|")) for row in GOLDEN.strip().splitlines()]
NAMES = {APIS[key].name for key in HANDLERS}


def derived(name: str) -> list[tuple[str, ...]]:
    """Return the rows of an API; adjacent versions with the same fields are merged."""
    api = api_named(name)
    assert api.versions.last is not None
    ranges: list[tuple[int, int, dict[str, tuple[str, ...]]]] = []
    for version in range(api.versions.first, api.versions.last + 1):
        fields = error_fields(api.key, version)
        if ranges and ranges[-1][2] == fields:
            ranges[-1] = (ranges[-1][0], version, fields)
        else:
            ranges.append((version, version, fields))
    return [
        (f"{name} {first}" if first == last else f"{name} {first}-{last}", element or "(request)", ", ".join(found))
        for first, last, fields in ranges
        for element, found in fields.items()
    ]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_error_fields_of_each_kind_of_element(name):
    assert derived(name) == [row for row in ROWS if row[0].split()[0] == name]


def test_the_table_has_every_served_api():
    assert {row[0].split()[0] for row in ROWS} == NAMES


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_every_element_has_an_error_field(row):
    assert row[2]


def test_an_array_without_errors_leads_to_the_field_around_it():
    root = answer_of(api_named("ConsumerGroupHeartbeat").key, 1)
    assert depth_of_error(root, ["topic_partitions", "partitions"]) == 0
    root = answer_of(api_named("OffsetFetch").key, 8)
    assert depth_of_error(root, ["groups", "topics", "partition_indexes"]) == 3
    assert depth_of_error(root, ["groups", "other"]) == 1
