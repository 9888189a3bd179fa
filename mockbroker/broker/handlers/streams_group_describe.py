"""The handler of StreamsGroupDescribe v0, which returns the state, topology, members and tasks of streams groups."""

from __future__ import annotations

from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.group_descriptions import describe_groups

Described = StreamsGroupDescribeResponse.Group
MEMBER, SUBTOPOLOGY, TASKS = 200, 100, 20  # approximate bytes of an element in a response


def handle(broker: Broker, call: Call[StreamsGroupDescribeRequest], now: float) -> Effects:  # noqa: ARG001
    return describe_groups(
        broker, call, StreamsGroupDescribeResponse, "streams", _size, served=broker.serves_streams_protocol
    )


def _size(described: Described) -> int:
    subtopologies = (described.topology and described.topology.subtopologies) or ()
    topics = (
        sum(map(len, each.source_topics)) + sum(len(topic.name) for topic in each.state_changelog_topics)
        for each in subtopologies
    )
    return (
        len(described.group_id) + sum(SUBTOPOLOGY + size for size in topics) + sum(map(_member_size, described.members))
    )


def _member_size(member: Described.Member) -> int:
    assigned, target = member.assignment, member.target_assignment
    tasks = [*assigned.active_tasks, *assigned.standby_tasks, *target.active_tasks, *target.standby_tasks]
    return MEMBER + sum(TASKS + 4 * len(each.partitions) for each in tasks)
