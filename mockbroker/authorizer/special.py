"""The authorization of APIs for which the table in ``checks.py`` is not sufficient.

Each function gets the authorization of a request. If no part of the request remains to be processed, the result is the
response. Otherwise, the function removes the denied elements from the request, and the result is None. A function that
may take long is a generator that returns this result.

Source: Kafka's KafkaApis and ControllerApis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, TypeAlias

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse, TopicResult
from kwire.messages.describe_log_dirs import DescribeLogDirsResponse
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.schema import ZERO_UUID
from mockbroker.authorizer.authorization import Authorization, Steps
from mockbroker.authorizer.checks import Check
from mockbroker.base.effects import Effects, Reply
from mockbroker.broker import token_requests
from mockbroker.broker.handlers.create_delegation_token import owner_of, response_for
from mockbroker.broker.handlers.streams_group_heartbeat import topic_names
from mockbroker.broker.slices import copy_with
from mockbroker.faults.matching import Element
from mockbroker.security.acl import Operation, ResourceType

Special: TypeAlias = Callable[[Authorization], Effects | Steps | None]
SLICE = 1_000  # names that are checked before other requests are handled
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MAGIC, ATTRIBUTES = 16, 22  # bytes of a record batch: its format, and the lower half of its attributes
TRANSACTIONAL = 0x10  # in the attributes
SHARE = 2  # key type of FindCoordinator
OF_CLUSTER = frozenset({4, 8, 16})  # config resources that are the cluster's: BROKER, BROKER_LOGGER, CLIENT_METRICS
CLIENT_VERSIONS = 3  # last version of AddPartitionsToTxn that clients send
LOG_DIRS_ERROR_SINCE = 3


def metadata(auth: Authorization) -> Steps:
    """Deny topics on which the client lacks DESCRIBE, and topics that Metadata would create although the client lacks
    CREATE.

    In the response, the denied topics follow the permitted topics. A request for all topics is not changed here.
    """
    request: MetadataRequest = auth.request
    if request.topics is None or (auth.version == 0 and not request.topics):
        return None  # the response is filtered
    ids = [topic for topic in request.topics if topic.topic_id != ZERO_UUID]
    denied: list[MetadataResponse.Topic] = []
    kept = []
    for number, topic in enumerate(request.topics, 1):
        if not number % SLICE:
            yield
        name = auth.topic_name(topic.topic_id) if ids else topic.name
        if name is None or (auth.describes(name) and not (not ids and _is_creation_denied(auth, name))):
            kept.append(topic)
        else:
            failed = MetadataResponse.Topic(error_code=TOPIC_DENIED, name=topic.name, topic_id=topic.topic_id)
            denied.append(failed)
    if not denied:
        return None
    auth.request = copy_with(request, topics=kept)
    drop = not kept and auth.version == 0  # in which no topics means all

    def with_denied(response: MetadataResponse) -> MetadataResponse:
        changed = copy(response)
        changed.topics = [*(() if drop else response.topics), *denied]
        return changed

    auth.adjust.append(with_denied)
    return None


def _is_creation_denied(auth: Authorization, name: str) -> bool:
    """Return whether this Metadata request would create a topic for which the client lacks CREATE."""
    settings = auth.broker.settings
    is_created = auth.version < 4 or auth.request.allow_auto_topic_creation
    if not is_created or not settings.auto_create_topics_enable or name in auth.broker.cluster.topics:
        return False
    return not auth.creates(name)


def produce(auth: Authorization) -> Effects | None:
    """Deny a transactional Produce if the client lacks WRITE on the transactional id."""
    transactional_id = auth.request.transactional_id
    if transactional_id is None or not any(map(_is_transactional, _batches(auth.request))):
        return None
    if auth.access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return None
    return auth.deny_all(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _batches(request: Any) -> Iterable[bytes]:
    return (data.records or b"" for topic in request.topic_data for data in topic.partition_data)


def _is_transactional(batch: bytes) -> bool:
    return len(batch) > ATTRIBUTES and batch[MAGIC] == 2 and bool(batch[ATTRIBUTES] & TRANSACTIONAL)


def init_producer_id(auth: Authorization) -> Effects | None:
    """Deny an idempotent producer that has neither IDEMPOTENT_WRITE on the cluster nor WRITE on any topic."""
    if auth.request.transactional_id is not None or auth.allows_cluster(Operation.IDEMPOTENT_WRITE):
        return None
    if auth.access.allows_any(Operation.WRITE, ResourceType.TOPIC):
        return None
    return auth.deny_all(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def find_coordinator(auth: Authorization) -> Effects | None:
    """Deny the lookup of share coordinators if the client lacks CLUSTER_ACTION on the cluster."""
    if auth.request.key_type != SHARE or auth.allows_cluster(Operation.CLUSTER_ACTION):
        return None
    return auth.deny_all(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def configs(auth: Authorization) -> Effects | Steps | None:
    """Deny access to the configurations of brokers, broker loggers and client metrics if the client lacks the
    permission.

    The permission is DESCRIBE_CONFIGS (to read) or ALTER_CONFIGS (to change) on the cluster.
    """
    is_read = auth.key == ApiKey.DESCRIBE_CONFIGS
    resources = enumerate(auth.request.resources)
    of_cluster = [Element(("resources", index), {}) for index, each in resources if each.resource_type in OF_CLUSTER]
    operation = Operation.DESCRIBE_CONFIGS if is_read else Operation.ALTER_CONFIGS
    if not of_cluster or auth.allows_cluster(operation):
        return None
    return auth.deny(of_cluster, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def delete_topics(auth: Authorization) -> Steps:
    """Deny topics on which the client lacks DESCRIBE, and existing topics on which the client lacks DELETE.

    DELETE on the cluster is sufficient for all topics.
    """
    if auth.allows_cluster(Operation.DELETE):
        return None
    check = Check(Operation.DELETE, ResourceType.TOPIC)
    topics = auth.broker.cluster.topics
    denied = set()
    for number, name in enumerate(auth.names(check), 1):
        if not number % SLICE:
            yield
        if not auth.describes(name) or (
            name in topics and not auth.access.allows(Operation.DELETE, ResourceType.TOPIC, name)
        ):
            denied.add(name)
    return (yield from auth.deny_names(check, frozenset(denied))) if denied else None


def describe_log_dirs(auth: Authorization) -> Effects | None:
    """Respond with an empty list of log directories if the client lacks DESCRIBE on the cluster."""
    if auth.allows_cluster(Operation.DESCRIBE):
        return None
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if auth.version >= LOG_DIRS_ERROR_SINCE else ErrorCode.NONE
    return [Reply(auth.call.ticket, DescribeLogDirsResponse(error_code=error))]


def describe_user_scram_credentials(auth: Authorization) -> Effects | None:
    """Respond with an error for each requested user if the client lacks DESCRIBE on the cluster.

    As in Kafka, the results do not contain the names of the users.
    """
    if auth.allows_cluster(Operation.DESCRIBE):
        return None
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    failed = DescribeUserScramCredentialsResponse.Result(error_code=error, error_message=None)
    results = [failed for _ in auth.request.users or ()]
    return [
        Reply(
            auth.call.ticket,
            DescribeUserScramCredentialsResponse(error_code=error, error_message=None, results=results),
        )
    ]


def create_delegation_token(auth: Authorization) -> Effects | None:
    """Deny a token whose owner is not the client if the client lacks CREATE_TOKENS on the resource USER of the
    owner.
    """
    broker, request, ticket = auth.broker, auth.request, auth.call.ticket
    requester = token_requests.requester(broker, ticket)
    owner = owner_of(request, requester)
    if owner == requester or not token_requests.is_allowed(broker, ticket):
        return None
    if auth.access.allows(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return None
    response = response_for(request, requester)
    response.error_code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return [Reply(ticket, response)]


def describe_topic_partitions(auth: Authorization) -> Effects | None:
    """If the request is for all topics, replace it with a request for the topics on which the client has DESCRIBE.

    Topics before the cursor are omitted. If no topic remains, return an empty response.
    """
    request: DescribeTopicPartitionsRequest = auth.request
    if request.topics:
        return None
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    names = [name for name in auth.broker.cluster.topics if name >= first and auth.describes(name)]
    if not names:
        return [Reply(auth.call.ticket, DescribeTopicPartitionsResponse())]
    topics = [DescribeTopicPartitionsRequest.Topic(name=name) for name in names]
    auth.request = copy_with(request, topics=topics, cursor=cursor if first in names else None)
    return None


def add_partitions_to_txn(auth: Authorization) -> Effects | None:
    """Deny the whole request if the client lacks WRITE on one of its topics, so that no partition is added."""
    request = auth.request
    if auth.version > CLIENT_VERSIONS:
        return None
    topics = auth.broker.cluster.topics
    denied = {
        topic.name
        for topic in request.v3_and_below_topics
        if not auth.access.allows(Operation.WRITE, ResourceType.TOPIC, topic.name)
    }
    if not denied:
        return None

    def error(name: str, index: int) -> ErrorCode:
        if name in denied:
            return TOPIC_DENIED
        topic = topics.get(name)
        is_known = topic is not None and topic.partition(index) is not None
        return ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    results = [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                TopicResult.Partition(partition_index=index, partition_error_code=error(topic.name, index))
                for index in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return [Reply(auth.call.ticket, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))]


def streams_group_heartbeat(auth: Authorization) -> Effects | None:
    """Deny a heartbeat whose topology contains a topic on which the client lacks DESCRIBE."""
    topology = auth.request.topology
    if topology is None or all(map(auth.describes, dict.fromkeys(topic_names(topology)))):
        return None
    return auth.deny_all(TOPIC_DENIED)


BEFORE_CHECKS: Mapping[int, Special] = {
    ApiKey.METADATA: metadata,
    ApiKey.PRODUCE: produce,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.DESCRIBE_CONFIGS: configs,
    ApiKey.ALTER_CONFIGS: configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
}
AFTER_CHECKS: Mapping[int, Special] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat,
}
