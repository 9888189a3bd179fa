"""Descriptions of a streams group: for StreamsGroupDescribe, snapshots and ``mockbroker import``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.assignors.sticky_tasks import Task, Tasks
from kwire.java import map_order, utf16
from kwire.messages.streams_group_describe import KeyValue, StreamsGroupDescribeResponse
from mockbroker.groups.group_type import GroupView, MemberDescription
from mockbroker.groups.streams.configured import ConfiguredSubtopology, InternalTopic
from mockbroker.groups.streams.machine import source_partitions
from mockbroker.groups.streams.state import StreamsGroup, StreamsMember
from mockbroker.groups.streams.target import ASSIGNOR, NO_TASKS_YET
from mockbroker.groups.streams.tasks import AssignedTasks, by_subtopology, task_ids
from mockbroker.groups.streams.topology import Subtopology, TopicInfo, Topology

Described = StreamsGroupDescribeResponse.Group
DescribedSubtopology = Described.Topology.Subtopology
Assignment = Described.Member.Assignment


# --- StreamsGroupDescribe -----------------------------------------------------------------------------------------


def describe(group: StreamsGroup) -> Described:
    """Return the group as an element of StreamsGroupDescribeResponse, without authorized operations."""
    return Described(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _describe_topology(group, group.topology),
        members=[_describe_member(group, member) for member in group.in_map_order()],
    )


def _describe_topology(group: StreamsGroup, topology: Topology) -> Described.Topology:
    """Return the topology of a group. It contains the partition counts of internal topics once they are known.

    Args:
        group: The group.
        topology: The topology.
    """
    configured = group.configured
    if configured is not None and configured.is_ready:
        assert configured.subtopologies is not None
        subtopologies = [_configured_subtopology(each) for each in configured.subtopologies.values()]
    else:
        names = sorted(topology.subtopologies, key=utf16)
        subtopologies = [_plain_subtopology(topology.subtopologies[name]) for name in names]
    return Described.Topology(epoch=topology.epoch, subtopologies=subtopologies)


def _configured_subtopology(configured: ConfiguredSubtopology) -> DescribedSubtopology:
    return _subtopology(
        configured.subtopology,
        [_internal_topic(topic) for topic in configured.repartition_topics],
        [_internal_topic(topic) for topic in configured.changelog_topics],
    )


def _plain_subtopology(subtopology: Subtopology) -> DescribedSubtopology:
    return _subtopology(
        subtopology,
        [_topic_info(topic) for topic in subtopology.repartition_source_topics],
        [_topic_info(topic) for topic in subtopology.state_changelog_topics],
    )


def _subtopology(
    subtopology: Subtopology,
    repartition_topics: list[DescribedSubtopology.TopicInfo],
    changelog_topics: list[DescribedSubtopology.TopicInfo],
) -> DescribedSubtopology:
    def sort_key(topic: DescribedSubtopology.TopicInfo) -> bytes:
        return utf16(topic.name)

    return DescribedSubtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics, key=utf16),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics, key=utf16),
        repartition_source_topics=sorted(repartition_topics, key=sort_key),
        state_changelog_topics=sorted(changelog_topics, key=sort_key),
    )


def _internal_topic(topic: InternalTopic) -> DescribedSubtopology.TopicInfo:
    return DescribedSubtopology.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[KeyValue(key=key, value=topic.configs[key]) for key in map_order(topic.configs)],
    )


def _topic_info(topic: TopicInfo) -> DescribedSubtopology.TopicInfo:
    return DescribedSubtopology.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
    )


def _describe_member(group: StreamsGroup, member: StreamsMember) -> Described.Member:
    kind, endpoint = Described.Member, member.endpoint
    target = group.target.get(member.member_id, NO_TASKS_YET)
    return kind(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else kind.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=member.client_tags[key]) for key in map_order(member.client_tags)],
        assignment=_describe_tasks(member.assigned),
        target_assignment=_describe_tasks(target),
    )


def _describe_tasks(tasks: AssignedTasks | Tasks) -> Assignment:
    return Assignment(
        active_tasks=task_ids(Assignment.TaskIds, tasks.active),
        standby_tasks=task_ids(Assignment.TaskIds, tasks.standby),
        warmup_tasks=task_ids(Assignment.TaskIds, tasks.warmup),
    )


# --- snapshots ----------------------------------------------------------------------------------------------------


def view(group: StreamsGroup) -> GroupView:
    """Return the fields of a group snapshot that each group type computes in its own way.

    The field ``protocol`` contains the task assignor.
    """
    return GroupView(
        protocol=ASSIGNOR,
        assignments={member_id: source_partitions(group, member) for member_id, member in group.members.items()},
    )


# --- control API --------------------------------------------------------------------------------------------------


def member_description(group: StreamsGroup, member: StreamsMember, session_timeout_ms: int) -> MemberDescription:
    """Return a member as the control API shows it. The assignment contains the source partitions of the member's tasks.

    Args:
        group: The group.
        member: The member.
        session_timeout_ms: Session timeout of the group in milliseconds.
    """
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=session_timeout_ms,
        instance_id=member.instance_id,
        assignment=source_partitions(group, member),
        epoch=member.epoch,
        state=member.state.name,
        process_id=member.process_id,
        tasks=_tasks_to_json(member.assigned),
    )


# --- mockbroker import --------------------------------------------------------------------------------------------


def to_json(group: StreamsGroup) -> dict[str, Any]:
    """Return the JSON object that ``mockbroker import`` prints for a group, without group id and offsets."""
    return {
        "type": "streams",
        "state": group.state_name,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "topology_epoch": None if group.topology is None else group.topology.epoch,
        "subtopologies": {} if group.topology is None else _topics_by_subtopology(group.topology),
        "assignor": ASSIGNOR,
        "members": [_member_to_json(group, member) for member in group.members.values()],
    }


def _topics_by_subtopology(topology: Topology) -> dict[str, dict[str, list[str]]]:
    return {
        name: {
            "source_topics": sorted(each.source_topics),
            "repartition_topics": sorted(topic.name for topic in each.repartition_source_topics),
            "changelog_topics": sorted(topic.name for topic in each.state_changelog_topics),
        }
        for name, each in sorted(topology.subtopologies.items())
    }


def _member_to_json(group: StreamsGroup, member: StreamsMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id,
        "rebalance_timeout_ms": round(member.rebalance_timeout * 1000),
        "process_id": member.process_id,
        "endpoint": None if member.endpoint is None else f"{member.endpoint.host}:{member.endpoint.port}",
        "client_tags": dict(sorted(member.client_tags.items())),
        "topology_epoch": member.topology_epoch,
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": member.state.name,
        "tasks": _tasks_to_json(member.assigned),
        "pending_revocation": _tasks_to_json(member.pending_revocation),
        "target": _tasks_to_json(group.target.get(member.member_id, NO_TASKS_YET)),
    }


def _tasks_to_json(tasks: AssignedTasks | Tasks) -> dict[str, dict[str, list[int]]]:
    types: dict[str, Iterable[Task]] = {"active": tasks.active, "standby": tasks.standby, "warmup": tasks.warmup}
    return {name: by_subtopology(each) for name, each in types.items()}
