"""A broker that is not ours, made ready for a conversation and cleaned up behind it.

It must be one for tests: groups that the conversation names are deleted with their members, and so are the topics that
it makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import trio

from kwire import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.consumer_group_describe import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kwire.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from kwire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kwire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kwire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from mockbroker.lab.conform.asker import Asker
from mockbroker.lab.conform.conversation import Conversation

BROKER = 4  # the kind of resource, in DescribeConfigs
LOOK_AGAIN = 0.05  # seconds
HEARD_AFTER = 0.3  # groups hear of a topic a moment after metadata does
SETTLED_WITHIN = 10.0
GROUP_FIELDS = frozenset({"group_id", "groups", "groups_names", "group_ids"})


async def other_settings(asker: Asker, conversation: Conversation) -> str:
    """Where the broker runs with other settings than the conversation was recorded with; empty if nowhere."""
    metadata = await asker.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
    wanted = DescribeConfigsRequest.Resource(resource_type=BROKER, resource_name=str(metadata.controller_id))
    wanted.configuration_keys = list(conversation.config)
    described = await asker.ask(DescribeConfigsRequest(resources=[wanted]), 1, DescribeConfigsResponse)
    has = {config.name: config.value for config in described.results[0].configs}
    differing = {
        name: value for name, value in conversation.config.items() if name in has and has[name] != _told(value)
    }
    return ", ".join(f"{name}={value}" for name, value in differing.items())


def _told(value: object) -> str:
    """A setting as brokers tell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


async def prepare(asker: Asker, conversation: Conversation) -> None:
    """Nothing is left of an earlier run, and the topics of the conversation are there."""
    await clear(asker, conversation)
    there = await _partitions(asker, list(conversation.topics))
    await _delete_topics(asker, [name for name, count in there.items() if count != conversation.topics[name]])
    missing = [
        CreateTopicsRequest.Topic(name=name, num_partitions=count, replication_factor=1)
        for name, count in conversation.topics.items()
        if there.get(name) != count
    ]
    if missing:
        await asker.ask(CreateTopicsRequest(topics=missing), 5, CreateTopicsResponse)
        await _settled(asker, conversation.topics)
    if any(step.api == "InitProducerId" for step in conversation.steps):
        await _has_producer_ids(asker)


async def clear(asker: Asker, conversation: Conversation) -> None:
    """The groups and topics of the conversation are gone, but for the topics that it begins with."""
    groups = sorted(set(_texts_of(conversation, GROUP_FIELDS)))
    described = await asker.ask(DescribeGroupsRequest(groups=groups), 5, DescribeGroupsResponse)
    members = {
        group.group_id: [
            LeaveGroupRequest.Member(member_id=member.member_id, group_instance_id=member.group_instance_id)
            for member in group.members
        ]
        for group in described.groups
    }
    if any(step.api_key == CONSUMER_GROUP_HEARTBEAT.key for step in conversation.steps):
        members |= await _consumers(asker, [group for group in groups if group])
    for group_id, leaving in members.items():
        if leaving:
            leave = LeaveGroupRequest(group_id=group_id, members=leaving)
            await asker.ask(leave, 5, LeaveGroupResponse)
    await _delete_groups(asker, groups)
    await _delete_topics(asker, sorted(made_topics(conversation)))


async def _consumers(asker: Asker, groups: list[str]) -> dict[str, list[LeaveGroupRequest.Member]]:
    """Members of those that are groups of the new protocol, if the broker has it."""
    offered = await asker.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    if CONSUMER_GROUP_DESCRIBE.key not in {api.api_key for api in offered.api_keys}:
        return {}
    described = await asker.ask(ConsumerGroupDescribeRequest(group_ids=groups), 0, ConsumerGroupDescribeResponse)
    return {
        group.group_id: [
            LeaveGroupRequest.Member(member_id=member.member_id, group_instance_id=member.instance_id)
            for member in group.members
        ]
        for group in described.groups
        if not group.error_code
    }


async def _delete_groups(asker: Asker, groups: list[str]) -> None:
    """A join phase that is going on may outlive the last member, so one try can be too early."""
    with trio.move_on_after(SETTLED_WITHIN):
        while groups:
            gone = await asker.ask(DeleteGroupsRequest(groups_names=groups), 2, DeleteGroupsResponse)
            groups = [result.group_id for result in gone.results if result.error_code == ErrorCode.NON_EMPTY_GROUP]
            if groups:
                await trio.sleep(LOOK_AGAIN)


async def _delete_topics(asker: Asker, names: list[str]) -> None:
    there = await _partitions(asker, names)
    if not there:
        return
    gone = DeleteTopicsRequest(topic_names=list(there), timeout_ms=10_000)
    await asker.ask(gone, 4, DeleteTopicsResponse)
    await _settled(asker, dict.fromkeys(there, 0))


async def _settled(asker: Asker, topics: Mapping[str, int]) -> None:
    """Wait until metadata shows these topics with these numbers of partitions; 0 is none."""
    wanted = {name: count for name, count in topics.items() if count}
    with trio.move_on_after(SETTLED_WITHIN):
        while await _partitions(asker, list(topics)) != wanted:
            await trio.sleep(LOOK_AGAIN)
    await trio.sleep(HEARD_AFTER)


async def _has_producer_ids(asker: Asker) -> None:
    """A broker that has just begun fetches a block of ids when it is asked for the first."""
    with trio.move_on_after(SETTLED_WITHIN):
        while (await asker.ask(InitProducerIdRequest(transactional_id=None), 3, InitProducerIdResponse)).error_code:
            await trio.sleep(LOOK_AGAIN)


async def _partitions(asker: Asker, names: list[str]) -> dict[str, int]:
    """Those of the topics that are there, with the number of partitions that have a leader."""
    asked = [MetadataRequest.Topic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    metadata = await asker.ask(request, 9, MetadataResponse)
    return {
        topic.name or "": sum(not partition.error_code for partition in topic.partitions)
        for topic in metadata.topics
        if not topic.error_code
    }


def made_topics(conversation: Conversation) -> set[str]:
    """Topics that the requests name and the conversation does not begin with, so that it may make them."""
    named: set[str] = set()
    for step in conversation.steps:
        if step.event == "request" and step.api in ("CreateTopics", "Metadata", "Produce"):
            topics = step.fields.get("topics") or step.fields.get("topic_data") or ()
            named |= {topic.get("name") or "" for topic in topics}
    return {name for name in named if name and not name.startswith("__")} - set(conversation.topics)


def _texts_of(conversation: Conversation, names: frozenset[str]) -> Iterator[str]:
    """Texts in fields of these names, wherever in the requests."""
    for step in conversation.steps:
        if step.event == "request":
            yield from _texts(step.fields, names)


def _texts(value: Any, names: frozenset[str], name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, names, key)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, names, name)
    elif isinstance(value, str) and name in names:
        yield value
