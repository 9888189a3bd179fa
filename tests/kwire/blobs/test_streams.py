from __future__ import annotations

from uuid import UUID

import golden
import pytest

from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.streams import AssignmentInfo, SubscriptionInfoData, TaskId, TopicPartition
from kwire.errors import EncodeError, UnknownApi


@pytest.mark.parametrize("line", golden.blobs("fixtures", "AssignmentInfo"), ids=lambda line: f"v{line['version']}")
def test_assignments_of_kafka(line: golden.Line) -> None:
    stored = bytes.fromhex(line["hex_as_stored"])
    found, version = decode_stored(AssignmentInfo, stored)
    assert (found.version, version) == (line["version"], line["version"])
    assert encode_stored(found, version) == stored
    fields = line["fields"]
    assert [task_id(task) for task in found.active_tasks] == fields["activeTasks"]
    assert {task_id(task): texts(task.partitions) for task in found.standby_tasks} == sets(fields["standbyTasks"])
    assert {**by_host(found.partitions_by_host), **by_index(found, found.active_by_host)} == sets(
        fields["activeByHost"]
    )
    assert by_index(found, found.standby_by_host) == sets(fields["standbyByHost"])
    assert (found.error_code, found.next_rebalance_ms) == (fields["errorCode"], fields["nextRebalanceMs"])
    if version > 2:
        assert found.commonly_supported_version == fields["commonlySupportedVersion"]


def task_id(task: TaskId | AssignmentInfo.StandbyTask) -> str:
    topology = "".join(map(chr, task.named_topology))
    return f"{topology}__{task.subtopology}_{task.partition}" if topology else f"{task.subtopology}_{task.partition}"


def texts(partitions: list[TopicPartition]) -> set[str]:
    return {f"{partition.topic}-{partition.partition}" for partition in partitions}


def by_host(hosts: list[AssignmentInfo.HostPartitions]) -> dict[str, set[str]]:
    return {f"{host.host}:{host.port}": texts(host.partitions) for host in hosts}


def by_index(found: AssignmentInfo, hosts: list[AssignmentInfo.HostIndexes]) -> dict[str, set[str]]:
    names = {topic.index: topic.name for topic in found.topics}
    return {f"{h.host}:{h.port}": {f"{names[p.topic_index]}-{p.partition}" for p in h.partitions} for h in hosts}


def sets(found: dict[str, list[str]]) -> dict[str, set[str]]:
    return {key: set(partitions) for key, partitions in found.items()}


def test_subscription() -> None:
    info = SubscriptionInfoData(version=11, latest_supported_version=11, process_id=UUID(int=7), unique_field=1)
    info.task_offset_sums = [SubscriptionInfoData.TaskOffsetSum(topic_group_id=1, partition=2, named_topology=None)]
    assert decode_stored(SubscriptionInfoData, encode_stored(info, 11)) == (info, 11)


def test_unknown_version() -> None:
    for blob in (SubscriptionInfoData, AssignmentInfo):
        for version in (0, 12):
            with pytest.raises(UnknownApi, match=f"has no version {version}: its versions are 1-11"):
                decode_stored(blob, version.to_bytes(4, "big") + bytes(40))


def test_the_version_is_in_it() -> None:
    with pytest.raises(EncodeError, match="SubscriptionInfoData v2, version: the version field is 0"):
        encode_stored(SubscriptionInfoData(), 2)
