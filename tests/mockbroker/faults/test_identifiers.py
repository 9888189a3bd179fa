"""The identifiers in requests: the table that is derived from the message declarations, for every API that the broker
serves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.messages import APIS, api_named
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.identifiers import Identifier, Level, request_level, terms_of

# API -> term -> fields, with their versions if the API has versions without them. "[*]": null means all topics.
EXPECTED: dict[str, dict[str, list[str]]] = {
    "Produce": {
        "topic": ["topic_data[].name v0-12", "topic_data[].topic_id v13-13"],
        "partition": ["topic_data[].partition_data[].index"],
        "transactional_id": ["transactional_id v3-13"],
    },
    "Fetch": {
        "topic": ["topics[].topic v0-12", "topics[].topic_id v13-18"],
        "partition": ["topics[].partitions[].partition"],
    },
    "ListOffsets": {"topic": ["topics[].name"], "partition": ["topics[].partitions[].partition_index"]},
    "Metadata": {"topic": ["topics[].name v0-0", "topics[*].name v1-13", "topics[*].topic_id v10-13"]},
    "OffsetCommit": {
        "group": ["group_id"],
        "topic": ["topics[].name v0-9", "topics[].topic_id v10-10"],
        "partition": ["topics[].partitions[].partition_index"],
        "member_id": ["member_id v1-10"],
        "instance_id": ["group_instance_id v7-10"],
    },
    "OffsetFetch": {
        "group": ["group_id v0-7", "groups[].group_id v8-10"],
        "topic": [
            "topics[].name v0-1",
            "topics[*].name v2-7",
            "groups[].topics[*].name v8-9",
            "groups[].topics[*].topic_id v10-10",
        ],
        "partition": [
            "topics[].partition_indexes[] v0-1",
            "topics[*].partition_indexes[] v2-7",
            "groups[].topics[*].partition_indexes[] v8-10",
        ],
        "member_id": ["groups[].member_id v9-10"],
    },
    "FindCoordinator": {
        "group": ["key (key_type 0) v0-3", "coordinator_keys[] (key_type 0) v4-6"],
        "transactional_id": ["key (key_type 1) v0-3", "coordinator_keys[] (key_type 1) v4-6"],
    },
    "JoinGroup": {"group": ["group_id"], "member_id": ["member_id"], "instance_id": ["group_instance_id v5-9"]},
    "Heartbeat": {"group": ["group_id"], "member_id": ["member_id"], "instance_id": ["group_instance_id v3-4"]},
    "LeaveGroup": {
        "group": ["group_id"],
        "member_id": ["member_id v0-2", "members[].member_id v3-5"],
        "instance_id": ["members[].group_instance_id v3-5"],
    },
    "SyncGroup": {"group": ["group_id"], "member_id": ["member_id"], "instance_id": ["group_instance_id v3-5"]},
    "DescribeGroups": {"group": ["groups[]"]},
    "ListGroups": {},
    "SaslHandshake": {},
    "ApiVersions": {},
    "CreateTopics": {"topic": ["topics[].name"]},
    "DeleteTopics": {"topic": ["topic_names[] v0-5", "topics[].name v6-6", "topics[].topic_id v6-6"]},
    "DeleteRecords": {"topic": ["topics[].name"], "partition": ["topics[].partitions[].partition_index"]},
    "InitProducerId": {"transactional_id": ["transactional_id"]},
    "OffsetForLeaderEpoch": {"topic": ["topics[].topic"], "partition": ["topics[].partitions[].partition"]},
    "AddPartitionsToTxn": {
        "transactional_id": ["v3_and_below_transactional_id v0-3", "transactions[].transactional_id v4-5"],
        "topic": ["v3_and_below_topics[].name v0-3", "transactions[].topics[].name v4-5"],
        "partition": ["v3_and_below_topics[].partitions[] v0-3", "transactions[].topics[].partitions[] v4-5"],
    },
    "AddOffsetsToTxn": {"transactional_id": ["transactional_id"], "group": ["group_id"]},
    "EndTxn": {"transactional_id": ["transactional_id"]},
    "WriteTxnMarkers": {"topic": ["markers[].topics[].name"], "partition": ["markers[].topics[].partition_indexes[]"]},
    "TxnOffsetCommit": {
        "transactional_id": ["transactional_id"],
        "group": ["group_id"],
        "topic": ["topics[].name"],
        "partition": ["topics[].partitions[].partition_index"],
        "member_id": ["member_id v3-5"],
        "instance_id": ["group_instance_id v3-5"],
    },
    "DescribeAcls": {},
    "CreateAcls": {
        "topic": ["creations[].resource_name (resource_type 2)"],
        "group": ["creations[].resource_name (resource_type 3)"],
        "transactional_id": ["creations[].resource_name (resource_type 5)"],
    },
    "DeleteAcls": {},
    "DescribeConfigs": {
        "topic": ["resources[].resource_name (resource_type 2)"],
        "group": ["resources[].resource_name (resource_type 32)"],
    },
    "AlterConfigs": {
        "topic": ["resources[].resource_name (resource_type 2)"],
        "group": ["resources[].resource_name (resource_type 32)"],
    },
    "DescribeLogDirs": {"topic": ["topics[*].topic"], "partition": ["topics[*].partitions[]"]},
    "SaslAuthenticate": {},
    "CreatePartitions": {"topic": ["topics[].name"]},
    "DeleteGroups": {"group": ["groups_names[]"]},
    "ElectLeaders": {"topic": ["topic_partitions[*].topic"], "partition": ["topic_partitions[*].partitions[]"]},
    "IncrementalAlterConfigs": {
        "topic": ["resources[].resource_name (resource_type 2)"],
        "group": ["resources[].resource_name (resource_type 32)"],
    },
    "AlterPartitionReassignments": {"topic": ["topics[].name"], "partition": ["topics[].partitions[].partition_index"]},
    "AlterReplicaLogDirs": {"topic": ["dirs[].topics[].name"], "partition": ["dirs[].topics[].partitions[]"]},
    "DescribeQuorum": {
        "topic": ["topics[].topic_name"],
        "partition": ["topics[].partitions[].partition_index"],
    },
    "UnregisterBroker": {},
    "AddRaftVoter": {},
    "RemoveRaftVoter": {},
    "ListPartitionReassignments": {"topic": ["topics[*].name"], "partition": ["topics[*].partition_indexes[]"]},
    "CreateDelegationToken": {},
    "RenewDelegationToken": {},
    "ExpireDelegationToken": {},
    "DescribeDelegationToken": {},
    "OffsetDelete": {
        "group": ["group_id"],
        "topic": ["topics[].name"],
        "partition": ["topics[].partitions[].partition_index"],
    },
    "DescribeClientQuotas": {},
    "AlterClientQuotas": {},
    "DescribeUserScramCredentials": {},
    "AlterUserScramCredentials": {},
    "DescribeCluster": {},
    "DescribeProducers": {"topic": ["topics[].name"], "partition": ["topics[].partition_indexes[]"]},
    "DescribeTransactions": {"transactional_id": ["transactional_ids[]"]},
    "ListTransactions": {},
    "GetTelemetrySubscriptions": {},
    "PushTelemetry": {},
    "UpdateFeatures": {},
    "ConsumerGroupHeartbeat": {
        "group": ["group_id"],
        "member_id": ["member_id"],
        "instance_id": ["instance_id"],
        "topic": ["subscribed_topic_names[]", "topic_partitions[].topic_id"],
        "partition": ["topic_partitions[].partitions[]"],
    },
    "ConsumerGroupDescribe": {"group": ["group_ids[]"]},
    "StreamsGroupHeartbeat": {
        "group": ["group_id"],
        "member_id": ["member_id"],
        "instance_id": ["instance_id"],
        "topic": [
            "topology[].subtopologies[].source_topics[]",
            "topology[].subtopologies[].state_changelog_topics[].name",
            "topology[].subtopologies[].repartition_sink_topics[]",
            "topology[].subtopologies[].repartition_source_topics[].name",
        ],
        "partition": ["active_tasks[].partitions[]", "standby_tasks[].partitions[]", "warmup_tasks[].partitions[]"],
    },
    "StreamsGroupDescribe": {"group": ["group_ids[]"]},
    "ShareGroupHeartbeat": {
        "group": ["group_id"],
        "member_id": ["member_id"],
        "topic": ["subscribed_topic_names[]"],
    },
    "ShareGroupDescribe": {"group": ["group_ids[]"]},
    "DescribeShareGroupOffsets": {
        "group": ["groups[].group_id"],
        "topic": ["groups[].topics[*].topic_name"],
        "partition": ["groups[].topics[*].partitions[]"],
    },
    "AlterShareGroupOffsets": {
        "group": ["group_id"],
        "topic": ["topics[].topic_name"],
        "partition": ["topics[].partitions[].partition_index"],
    },
    "DeleteShareGroupOffsets": {"group": ["group_id"], "topic": ["topics[].topic_name"]},
    "ShareFetch": {
        "group": ["group_id"],
        "member_id": ["member_id"],
        "topic": ["topics[].topic_id"],
        "partition": ["topics[].partitions[].partition_index"],
    },
    "ShareAcknowledge": {
        "group": ["group_id"],
        "member_id": ["member_id"],
        "topic": ["topics[].topic_id"],
        "partition": ["topics[].partitions[].partition_index"],
    },
    "InitializeShareGroupState": {
        "group": ["group_id"],
        "topic": ["topics[].topic_id"],
        "partition": ["topics[].partitions[].partition"],
    },
    "ReadShareGroupState": {
        "group": ["group_id"],
        "topic": ["topics[].topic_id"],
        "partition": ["topics[].partitions[].partition"],
    },
    "WriteShareGroupState": {
        "group": ["group_id"],
        "topic": ["topics[].topic_id"],
        "partition": ["topics[].partitions[].partition"],
    },
    "DeleteShareGroupState": {
        "group": ["group_id"],
        "topic": ["topics[].topic_id"],
        "partition": ["topics[].partitions[].partition"],
    },
    "ReadShareGroupStateSummary": {
        "group": ["group_id"],
        "topic": ["topics[].topic_id"],
        "partition": ["topics[].partitions[].partition"],
    },
    "ListConfigResources": {},
    "DescribeTopicPartitions": {"topic": ["topics[].name"]},
}


def fields(level: Level, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the term and the field of each identifier."""
    for identifier in level.identifiers:
        yield identifier.term, text(identifier, path + identifier.field)
    for batch in level.batches:
        here = f"{path}{batch.field}[{'*' if batch.null_is_all else ''}]"
        if isinstance(batch.elements, Level):
            yield from fields(batch.elements, f"{here}.")
        else:
            yield from ((identifier.term, text(identifier, here)) for identifier in batch.elements)


def text(identifier: Identifier, path: str) -> str:
    return f"{path} ({identifier.type_field} {identifier.type_number})" if identifier.type_field else path


def derived(key: int) -> dict[str, list[str]]:
    """Return the identifiers of an API in the form of EXPECTED."""
    versions = APIS[key].versions
    assert versions.last is not None
    every = range(versions.first, versions.last + 1)
    results: dict[tuple[str, str], list[int]] = {}
    for version in every:
        for place in fields(request_level(key, version)):
            results.setdefault(place, []).append(version)
    table: dict[str, list[str]] = {}
    for (term, field), present in results.items():
        range_text = "" if len(present) == len(every) else f" v{present[0]}-{present[-1]}"
        table.setdefault(term, []).append(field + range_text)
    return table


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: APIS[key].name)
def test_what_a_request_names(key):
    assert derived(key) == EXPECTED[APIS[key].name]


def test_terms_are_those_of_all_versions():
    assert terms_of(api_named("LeaveGroup").key) == {"group", "member_id", "instance_id"}
    assert terms_of(api_named("ApiVersions").key) == set()
