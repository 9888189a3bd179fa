"""Preparation of an external broker for a conversation, and its cleanup afterwards.

Use a test broker only. The cleanup deletes groups named in the conversation, topics that the conversation creates, and,
if it creates ACLs, all ACLs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
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
from kwire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kwire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kwire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.share_group_describe import (
    SHARE_GROUP_DESCRIBE,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kwire.messages.share_group_heartbeat import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.messages.streams_group_heartbeat import (
    STREAMS_GROUP_HEARTBEAT,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from mockbroker.lab.conform.asker import Asker
from mockbroker.lab.conform.conversation import Conversation

BROKER = 4  # resource type of brokers in DescribeConfigs
POLL_INTERVAL = 0.05  # seconds
GROUP_METADATA_DELAY = 0.3  # seconds between a topic's first Metadata response and its use by groups
SETTLE_TIMEOUT = 10.0  # seconds
EVERY_ACL: Mapping[str, Any] = {  # the fields of a filter that matches all ACLs
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
GROUP_FIELDS = frozenset({"group_id", "groups", "groups_names", "group_ids"})


async def other_settings(asker: Asker, conversation: Conversation) -> str:
    """Return the recorded settings whose values differ in the broker, as ``name=value, ...`` with the recorded values.

    The result is "" if all settings agree. A setting that the broker does not report, such as ``super.users``, is
    ignored.

    Args:
        asker: connection to the broker.
        conversation: conversation with the recorded settings.
    """
    metadata = await asker.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
    resource = DescribeConfigsRequest.Resource(resource_type=BROKER, resource_name=str(metadata.controller_id))
    resource.configuration_keys = list(conversation.config)
    described = await asker.ask(DescribeConfigsRequest(resources=[resource]), 1, DescribeConfigsResponse)
    actual = {config.name: config.value for config in described.results[0].configs}
    differing = {
        name: value
        for name, value in conversation.config.items()
        if actual.get(name) not in (None, _config_text(value))
    }
    return ", ".join(f"{name}={value}" for name, value in differing.items())


def _config_text(value: object) -> str:
    """Return the value of a broker or topic configuration as text, in the format of DescribeConfigs responses."""
    return str(value).lower() if isinstance(value, bool) else str(value)


async def prepare(asker: Asker, conversation: Conversation) -> None:
    """Prepare an external broker for a conversation.

    Groups and topics that an earlier run of the conversation left behind are deleted. Then the topics that exist at the
    start of the conversation are created; a topic that already has the right number of partitions is kept. If the
    conversation contains InitProducerId, wait until the broker can assign producer ids.

    Args:
        asker: connection to the broker.
        conversation: the conversation.
    """
    await clear(asker, conversation)
    existing = await _partitions(asker, list(conversation.topics))
    await _delete_topics(asker, [name for name, count in existing.items() if count != conversation.topics[name]])
    missing = [
        CreateTopicsRequest.Topic(name=name, num_partitions=count, replication_factor=1)
        for name, count in conversation.topics.items()
        if existing.get(name) != count
    ]
    if missing:
        await asker.ask(CreateTopicsRequest(topics=missing), 5, CreateTopicsResponse)
        await _wait_for_topics(asker, conversation.topics)
    if any(step.api == "InitProducerId" for step in conversation.steps):
        await _wait_for_producer_ids(asker)


async def clear(asker: Asker, conversation: Conversation) -> None:
    """Delete the topics that a conversation creates and the groups that it names. Members are removed from the groups
    first.

    If the conversation creates ACLs, all ACLs of the cluster are deleted.

    Args:
        asker: connection to the broker.
        conversation: the conversation.
    """
    if any(step.api == "CreateAcls" for step in conversation.steps):
        await asker.ask(DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**EVERY_ACL)]), 3, DeleteAclsResponse)
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
    for heartbeat in _streams_heartbeats(conversation):
        await asker.ask(heartbeat, 0, StreamsGroupHeartbeatResponse)
    for group_id, leaving in members.items():
        if leaving:
            leave = LeaveGroupRequest(group_id=group_id, members=leaving)
            await asker.ask(leave, 5, LeaveGroupResponse)
    if any(step.api_key == SHARE_GROUP_HEARTBEAT.key for step in conversation.steps):
        await _remove_sharers(asker, [group for group in groups if group])
    await _delete_groups(asker, groups)
    await _delete_topics(asker, sorted(created_topics(conversation)))


def _streams_heartbeats(conversation: Conversation) -> Iterator[StreamsGroupHeartbeatRequest]:
    """Yield the request with which a member leaves its group, for each member of a streams group in a conversation."""
    sent = (step.fields for step in conversation.steps if step.api_key == STREAMS_GROUP_HEARTBEAT.key and step.fields)
    for group_id, member_id in sorted({(each.get("group_id"), each.get("member_id")) for each in sent}):
        if group_id and member_id:
            yield StreamsGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=-1)


async def _consumers(asker: Asker, groups: list[str]) -> dict[str, list[LeaveGroupRequest.Member]]:
    """Return the members of consumer groups (KIP-848): group id -> members.

    Groups with an error, such as groups of another type, are left out. The result is empty if the broker does not
    support ConsumerGroupDescribe.

    Args:
        asker: connection to the broker.
        groups: group ids.
    """
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


async def _remove_sharers(asker: Asker, groups: list[str]) -> None:
    """Remove all members of share groups: for each member, send the heartbeat with which the member leaves.

    Do nothing if the broker does not support share groups.

    Args:
        asker: connection to the broker.
        groups: ids of the share groups.
    """
    offered = await asker.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    if SHARE_GROUP_DESCRIBE.key not in {api.api_key for api in offered.api_keys}:
        return
    described = await asker.ask(ShareGroupDescribeRequest(group_ids=groups), 1, ShareGroupDescribeResponse)
    for group in described.groups:
        for member in group.members:
            leave = ShareGroupHeartbeatRequest(group_id=group.group_id, member_id=member.member_id, member_epoch=-1)
            await asker.ask(leave, 1, ShareGroupHeartbeatResponse)


async def _delete_groups(asker: Asker, groups: list[str]) -> None:
    """Delete groups.

    While a group still has members, its deletion is retried, for at most SETTLE_TIMEOUT seconds.

    Args:
        asker: connection to the broker.
        groups: group ids.
    """

    async def are_deleted() -> bool:
        nonlocal groups
        deleted = await asker.ask(DeleteGroupsRequest(groups_names=groups), 2, DeleteGroupsResponse)
        groups = [result.group_id for result in deleted.results if result.error_code == ErrorCode.NON_EMPTY_GROUP]
        return not groups

    if groups:
        await _wait_until(are_deleted)


async def _delete_topics(asker: Asker, names: list[str]) -> None:
    existing = await _partitions(asker, names)
    if not existing:
        return
    await asker.ask(DeleteTopicsRequest(topic_names=list(existing), timeout_ms=10_000), 4, DeleteTopicsResponse)
    await _wait_for_topics(asker, dict.fromkeys(existing, 0))


async def _wait_for_topics(asker: Asker, topics: Mapping[str, int]) -> None:
    """Wait until Metadata responses contain the expected numbers of partitions, for at most SETTLE_TIMEOUT seconds.

    Then wait for GROUP_METADATA_DELAY seconds.

    Args:
        asker: connection to the broker.
        topics: topic name -> number of partitions; 0 for a deleted topic.
    """
    expected = {name: count for name, count in topics.items() if count}

    async def are_expected() -> bool:
        return await _partitions(asker, list(topics)) == expected

    await _wait_until(are_expected)
    await trio.sleep(GROUP_METADATA_DELAY)


async def _wait_for_producer_ids(asker: Asker) -> None:
    """Wait until the broker can assign producer ids, for at most SETTLE_TIMEOUT seconds.

    A broker requests its first block of producer ids from the controller only when it receives an InitProducerId.

    ``asker``: connection to the broker.
    """

    async def is_assigned() -> bool:
        request = InitProducerIdRequest(transactional_id=None)
        return not (await asker.ask(request, 3, InitProducerIdResponse)).error_code

    await _wait_until(is_assigned)


async def _wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Call ``holds`` until it returns True, for at most SETTLE_TIMEOUT seconds.

    A pending request is not cancelled: its response would be taken for that of the next request of the connection.
    """
    end = trio.current_time() + SETTLE_TIMEOUT
    while not await holds() and trio.current_time() < end:
        await trio.sleep(POLL_INTERVAL)


async def _partitions(asker: Asker, names: list[str]) -> dict[str, int]:
    """Return the number of partitions that have a leader, by topic name. Topics that do not exist are left out.

    Args:
        asker: connection to the broker.
        names: names of the topics.
    """
    topics = [MetadataRequest.Topic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    metadata = await asker.ask(request, 9, MetadataResponse)
    return {
        topic.name or "": sum(not partition.error_code for partition in topic.partitions)
        for topic in metadata.topics
        if not topic.error_code
    }


def created_topics(conversation: Conversation) -> set[str]:
    """Return the names of the topics that a conversation may create.

    These are the topics in CreateTopics, Metadata and Produce requests, and the internal topics in the topologies of
    streams groups. Topics that exist at the start, and topics whose name begins with ``__``, are left out.
    """
    named: set[str] = set()
    for step in conversation.steps:
        if step.event == "request" and step.api in ("CreateTopics", "Metadata", "Produce"):
            topics = step.fields.get("topics") or step.fields.get("topic_data") or ()
            named |= {topic.get("name") or "" for topic in topics}
        if step.event == "request" and step.api_key == STREAMS_GROUP_HEARTBEAT.key:
            for subtopology in (step.fields.get("topology") or {}).get("subtopologies", ()):
                internal = [*subtopology["repartition_source_topics"], *subtopology["state_changelog_topics"]]
                named |= {topic["name"] for topic in internal}
    return {name for name in named if name and not name.startswith("__")} - set(conversation.topics)


def _texts_of(conversation: Conversation, names: frozenset[str]) -> Iterator[str]:
    """Yield the values of some request fields, from all requests of a conversation, in order.

    Values that are not strings are skipped, and values may be repeated.

    Args:
        conversation: the conversation.
        names: names of the fields.
    """
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
