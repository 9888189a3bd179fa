"""Functions that change responses for clients with limited permissions.

They hide what the client may not see, such as resources on which it lacks DESCRIBE, and set the fields for the
operations that the client may perform. Each function gets the authorization of a request and the response of the
handler. A response may be cached, so a function returns a changed copy, or the response itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.schema import ZERO_UUID
from mockbroker.authorizer.authorization import Authorization
from mockbroker.broker import token_requests
from mockbroker.broker.slices import copy_with
from mockbroker.security.acl import CLUSTER_NAME, Operation, ResourceType

Adjust: TypeAlias = Callable[[Authorization, Any], Any]
SLICE = 100  # elements of a response that are changed before other requests are handled
NOT_REQUESTED = -(2**31)  # authorized operations that the request does not ask for
HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."
HIDDEN_STREAMS_TOPICS = "The described group uses topics that the client is not authorized to describe."


def is_large(auth: Authorization, response: Any) -> bool:
    """Return whether a response has so many elements that it must be changed in slices (parts of limited size)."""
    field = LISTS.get(auth.key)
    return field is not None and len(getattr(response, field)) > SLICE


def metadata(auth: Authorization, response: Any) -> Any:
    """Return a Metadata response with the operations that are allowed on each topic and on the cluster.

    If the client has requested all topics, the topics on which it lacks DESCRIBE are omitted.
    """
    request = auth.call.request
    topics = response.topics
    if request.topics is None or (auth.version == 0 and not request.topics):
        topics = [topic for topic in topics if auth.describes(topic.name)]
    topics = [
        _with_operations(auth, topic, "topic_authorized_operations", ResourceType.TOPIC, "name") for topic in topics
    ]
    return copy_with(_with_cluster_operations(auth, response), topics=topics)


def describe_cluster(auth: Authorization, response: Any) -> Any:
    """Return a DescribeCluster response with the operations that are allowed on the cluster."""
    return _with_cluster_operations(auth, response)


def describe_topic_partitions(auth: Authorization, response: Any) -> Any:
    """Return a DescribeTopicPartitions response with the operations that are allowed on each topic."""
    field = "topic_authorized_operations"
    topics = [_with_operations(auth, topic, field, ResourceType.TOPIC, "name") for topic in response.topics]
    return copy_with(response, topics=topics)


def groups(auth: Authorization, response: Any) -> Any:
    """Return a response that describes groups, such as DescribeGroups, with the operations that are allowed on each
    group.
    """
    field = "authorized_operations"
    described = [_with_operations(auth, group, field, ResourceType.GROUP, "group_id") for group in response.groups]
    return copy_with(response, groups=described)


def consumer_groups(auth: Authorization, response: Any) -> Any:
    """Return a ConsumerGroupDescribe or ShareGroupDescribe response with the operations that are allowed on each group.

    A group with an assigned topic on which the client lacks DESCRIBE is replaced by an error.
    """
    response = groups(auth, response)
    response.groups = [_hidden(group) if _has_hidden_topic(auth, group) else group for group in response.groups]
    return response


def _has_hidden_topic(auth: Authorization, group: Any) -> bool:
    assigned = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    return not all(map(auth.describes, assigned))


def streams_groups(auth: Authorization, response: Any) -> Any:
    """Return a StreamsGroupDescribe response with the operations that are allowed on each group.

    A group whose topology contains a topic on which the client lacks DESCRIBE is replaced by an error.
    """
    response = groups(auth, response)
    response.groups = [
        group if all(map(auth.describes, _topics_of_topology(group))) else _hidden(group, HIDDEN_STREAMS_TOPICS)
        for group in response.groups
    ]
    return response


def _topics_of_topology(group: Any) -> set[str]:
    subtopologies = (group.topology and group.topology.subtopologies) or ()
    return {
        topic
        for each in subtopologies
        for topic in (
            *each.source_topics,
            *(info.name for info in (*each.repartition_source_topics, *each.state_changelog_topics)),
        )
    }


def _hidden(group: Any, reason: str = HIDDEN_TOPICS) -> Any:
    return type(group)(group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=reason)


def list_groups(auth: Authorization, response: Any) -> Any:
    """Return a ListGroups response with only the groups on which the client has DESCRIBE.

    DESCRIBE on the cluster is sufficient for all groups.
    """
    if auth.allows_cluster(Operation.DESCRIBE):
        return response
    allows = auth.access.allows
    kept = [each for each in response.groups if allows(Operation.DESCRIBE, ResourceType.GROUP, each.group_id)]
    return copy_with(response, groups=kept)


def list_transactions(auth: Authorization, response: Any) -> Any:
    """Return a ListTransactions response with only the transactional ids on which the client has DESCRIBE."""
    allows, kind = auth.access.allows, ResourceType.TRANSACTIONAL_ID
    states = response.transaction_states
    kept = [each for each in states if allows(Operation.DESCRIBE, kind, each.transactional_id)]
    return copy_with(response, transaction_states=kept)


def describe_transactions(auth: Authorization, response: Any) -> Any:
    """Return a DescribeTransactions response without the topics on which the client lacks DESCRIBE."""
    states = [
        copy_with(each, topics=[topic for topic in each.topics if auth.describes(topic.topic)])
        for each in response.transaction_states
    ]
    return copy_with(response, transaction_states=states)


def describe_delegation_token(auth: Authorization, response: Any) -> Any:
    """Return a DescribeDelegationToken response with only the tokens that the client may see.

    A client may see a token in three cases: the client is owner, requester or renewer of the token; it has DESCRIBE on
    the token; or it has DESCRIBE_TOKENS on the token's owner.
    """
    allows, client = auth.access.allows, token_requests.requester(auth.broker, auth.call.ticket)

    def is_visible(described: Any) -> bool:
        token = auth.broker.cluster.tokens.by_id(described.token_id)
        return token is not None and (
            token.concerns(client)
            or allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
        )

    return copy_with(response, tokens=[token for token in response.tokens if is_visible(token)])


def offset_fetch(auth: Authorization, response: Any) -> Any:
    """Return an OffsetFetch response without topics on which the client lacks DESCRIBE.

    Only groups for which the client has requested the offsets of all topics are changed. If the request names topics,
    they were checked before the request was processed.
    """
    request = auth.request
    if auth.version < 8:
        return response if request.topics is not None else _with_visible_topics(auth, response)
    if all(group.topics is not None for group in request.groups):
        return response
    everything = [group.topics is None for group in request.groups]
    described = [
        _with_visible_topics(auth, group) if is_everything else group
        for group, is_everything in zip(response.groups, everything, strict=True)
    ]
    return copy_with(response, groups=described)


def _with_visible_topics(auth: Authorization, struct: Any) -> Any:
    def name(topic: Any) -> str:
        topic_id: UUID = getattr(topic, "topic_id", ZERO_UUID)
        return (topic.name if topic_id == ZERO_UUID else auth.topic_name(topic_id)) or ""

    return copy_with(struct, topics=[topic for topic in struct.topics if auth.describes(name(topic))])


def create_topics(auth: Authorization, response: Any) -> Any:
    """Return a CreateTopics response that describes only topics on which the client has DESCRIBE_CONFIGS.

    For any other created topic, the configurations, partition count and replication factor are omitted, as in Kafka.
    """
    topics = []
    for topic in response.topics:
        if not topic.error_code and not auth.access.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
            hidden = {"num_partitions": -1, "replication_factor": -1, "configs": []}
            topic = copy_with(topic, topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, **hidden)
        topics.append(topic)
    return copy_with(response, topics=topics)


def _with_cluster_operations(auth: Authorization, response: Any) -> Any:
    if response.cluster_authorized_operations == NOT_REQUESTED:
        return response
    if not auth.allows_cluster(Operation.DESCRIBE):
        return copy_with(response, cluster_authorized_operations=0)
    reported = response.cluster_authorized_operations
    allowed = auth.access.operations(ResourceType.CLUSTER, CLUSTER_NAME, reported)
    return copy_with(response, cluster_authorized_operations=allowed)


def _with_operations(auth: Authorization, struct: Any, field: str, resource: ResourceType, name: str) -> Any:
    """Return a copy of a struct in which a bit field contains only the operations that the client may perform.

    If the client has not requested the operations, return the struct itself.

    Args:
        auth: the authorization of the request.
        struct: a struct of the response that describes a resource.
        field: name of the bit field, whose bits are the operations that the broker supports.
        resource: type of the resource.
        name: name of the field that contains the name of the resource.
    """
    reported = getattr(struct, field)
    if reported == NOT_REQUESTED:
        return struct
    changed = copy(struct)
    setattr(changed, field, auth.access.operations(resource, getattr(struct, name), reported))
    return changed


ADJUSTED: Mapping[int, Adjust] = {
    ApiKey.METADATA: metadata,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.DESCRIBE_GROUPS: groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_groups,
    ApiKey.SHARE_GROUP_DESCRIBE: consumer_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_delegation_token,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.CREATE_TOPICS: create_topics,
}
LISTS: Mapping[int, str] = {  # the list of a response whose elements are changed one by one
    ApiKey.METADATA: "topics",
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "groups",
    ApiKey.LIST_GROUPS: "groups",
    ApiKey.LIST_TRANSACTIONS: "transaction_states",
    ApiKey.DESCRIBE_TRANSACTIONS: "transaction_states",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "tokens",
}
