"""The table of the operations and resources that each API needs. Source: Kafka's KafkaApis and ControllerApis.

For some APIs, a check of the named resources is not sufficient; ``special.py`` and ``responses.py`` handle these APIs.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.schema import ALL_VERSIONS, Versions
from mockbroker.faults.identifiers import GROUP, TOPIC, TRANSACTIONAL_ID
from mockbroker.security.acl import Operation, ResourceType

ERRORS: Mapping[int, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
TERMS: Mapping[int, str] = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
}


@dataclass(frozen=True, slots=True)
class Check:
    """A check of all resources of one type that a request names, or a check of the cluster.

    Attributes:
        operation: the operation that the client needs on each resource.
        resource: the type of the resources.
        or_cluster: an operation on the cluster. A client that may perform this operation needs no permission on the
            resources. None if every client needs the permissions on the resources.
        versions: the versions of the API to which the check applies.
    """

    operation: Operation
    resource: ResourceType
    or_cluster: Operation | None = None
    versions: Versions = ALL_VERSIONS

    @property
    def error(self) -> ErrorCode:
        """The error code of the elements that the check denies, such as TOPIC_AUTHORIZATION_FAILED."""
        return ERRORS[self.resource]


_O, _R, _K = Operation, ResourceType, ApiKey
_READ_GROUP = Check(_O.READ, _R.GROUP)
_DESCRIBE_GROUP = Check(_O.DESCRIBE, _R.GROUP)
_DELETE_GROUP = Check(_O.DELETE, _R.GROUP)
_READ_TOPIC = Check(_O.READ, _R.TOPIC)
_DESCRIBE_TOPIC = Check(_O.DESCRIBE, _R.TOPIC)
_WRITE_ID = Check(_O.WRITE, _R.TRANSACTIONAL_ID)
_DESCRIBE_ID = Check(_O.DESCRIBE, _R.TRANSACTIONAL_ID)
_ALTER_CLUSTER = Check(_O.ALTER, _R.CLUSTER)
_DESCRIBE_CLUSTER = Check(_O.DESCRIBE, _R.CLUSTER)
_CLUSTER_ACTION = Check(_O.CLUSTER_ACTION, _R.CLUSTER)
_DESCRIBE_CONFIGS = Check(_O.DESCRIBE_CONFIGS, _R.CLUSTER)
_ALTER_CONFIGS = Check(_O.ALTER_CONFIGS, _R.CLUSTER)
_BY_CLIENTS, _BY_BROKERS = Versions.parse("0-3"), Versions.parse("4+")  # of AddPartitionsToTxn

CHECKS: Mapping[int, tuple[Check, ...]] = {
    _K.PRODUCE: (Check(_O.WRITE, _R.TOPIC),),
    _K.FETCH: (),  # the handler checks each topic
    _K.LIST_OFFSETS: (_DESCRIBE_TOPIC,),
    _K.METADATA: (),
    _K.OFFSET_COMMIT: (_READ_GROUP, _READ_TOPIC),
    _K.OFFSET_FETCH: (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
    _K.FIND_COORDINATOR: (_DESCRIBE_GROUP, _DESCRIBE_ID),
    _K.JOIN_GROUP: (_READ_GROUP,),
    _K.HEARTBEAT: (_READ_GROUP,),
    _K.LEAVE_GROUP: (_READ_GROUP,),
    _K.SYNC_GROUP: (_READ_GROUP,),
    _K.DESCRIBE_GROUPS: (_DESCRIBE_GROUP,),
    _K.LIST_GROUPS: (),
    _K.CREATE_TOPICS: (Check(_O.CREATE, _R.TOPIC, or_cluster=_O.CREATE),),
    _K.DELETE_TOPICS: (),
    _K.DELETE_RECORDS: (Check(_O.DELETE, _R.TOPIC),),
    _K.INIT_PRODUCER_ID: (_WRITE_ID,),
    _K.OFFSET_FOR_LEADER_EPOCH: (Check(_O.DESCRIBE, _R.TOPIC, or_cluster=_O.CLUSTER_ACTION),),
    _K.ADD_PARTITIONS_TO_TXN: (
        Check(_O.WRITE, _R.TRANSACTIONAL_ID, versions=_BY_CLIENTS),
        Check(_O.CLUSTER_ACTION, _R.CLUSTER, versions=_BY_BROKERS),
    ),
    _K.ADD_OFFSETS_TO_TXN: (_WRITE_ID, _READ_GROUP),
    _K.END_TXN: (_WRITE_ID,),
    _K.WRITE_TXN_MARKERS: (Check(_O.CLUSTER_ACTION, _R.CLUSTER, or_cluster=_O.ALTER),),
    _K.TXN_OFFSET_COMMIT: (_WRITE_ID, _READ_GROUP, _READ_TOPIC),
    _K.DESCRIBE_ACLS: (_DESCRIBE_CLUSTER,),
    _K.CREATE_ACLS: (_ALTER_CLUSTER,),
    _K.DELETE_ACLS: (_ALTER_CLUSTER,),
    _K.DESCRIBE_CONFIGS: (Check(_O.DESCRIBE_CONFIGS, _R.TOPIC), Check(_O.DESCRIBE_CONFIGS, _R.GROUP)),
    _K.ALTER_CONFIGS: (Check(_O.ALTER_CONFIGS, _R.TOPIC), Check(_O.ALTER_CONFIGS, _R.GROUP)),
    _K.INCREMENTAL_ALTER_CONFIGS: (Check(_O.ALTER_CONFIGS, _R.TOPIC), Check(_O.ALTER_CONFIGS, _R.GROUP)),
    _K.ALTER_REPLICA_LOG_DIRS: (_ALTER_CLUSTER,),
    _K.DESCRIBE_LOG_DIRS: (),
    _K.CREATE_PARTITIONS: (Check(_O.ALTER, _R.TOPIC),),
    _K.CREATE_DELEGATION_TOKEN: (),
    _K.DESCRIBE_DELEGATION_TOKEN: (),
    _K.DELETE_GROUPS: (_DELETE_GROUP,),
    _K.ELECT_LEADERS: (_ALTER_CLUSTER,),
    _K.ALTER_PARTITION_REASSIGNMENTS: (_ALTER_CLUSTER,),
    _K.LIST_PARTITION_REASSIGNMENTS: (_DESCRIBE_CLUSTER,),
    _K.OFFSET_DELETE: (_DELETE_GROUP, _READ_TOPIC),
    _K.DESCRIBE_CLIENT_QUOTAS: (_DESCRIBE_CONFIGS,),
    _K.ALTER_CLIENT_QUOTAS: (_ALTER_CONFIGS,),
    _K.DESCRIBE_USER_SCRAM_CREDENTIALS: (_DESCRIBE_CLUSTER,),
    _K.ALTER_USER_SCRAM_CREDENTIALS: (_ALTER_CLUSTER,),
    _K.DESCRIBE_QUORUM: (_DESCRIBE_CLUSTER,),
    _K.UPDATE_FEATURES: (_ALTER_CLUSTER,),
    _K.DESCRIBE_CLUSTER: (),
    _K.DESCRIBE_PRODUCERS: (_READ_TOPIC,),
    _K.UNREGISTER_BROKER: (_ALTER_CLUSTER,),
    _K.ADD_RAFT_VOTER: (_ALTER_CLUSTER,),
    _K.REMOVE_RAFT_VOTER: (_ALTER_CLUSTER,),
    _K.DESCRIBE_TRANSACTIONS: (_DESCRIBE_ID,),
    _K.LIST_TRANSACTIONS: (),
    _K.CONSUMER_GROUP_HEARTBEAT: (_READ_GROUP, _DESCRIBE_TOPIC),
    _K.CONSUMER_GROUP_DESCRIBE: (_DESCRIBE_GROUP,),
    _K.LIST_CONFIG_RESOURCES: (_DESCRIBE_CONFIGS,),
    _K.DESCRIBE_TOPIC_PARTITIONS: (_DESCRIBE_TOPIC,),
    _K.SHARE_GROUP_HEARTBEAT: (_READ_GROUP, _DESCRIBE_TOPIC),
    _K.SHARE_GROUP_DESCRIBE: (_DESCRIBE_GROUP,),
    _K.SHARE_FETCH: (_READ_GROUP, _READ_TOPIC),
    _K.SHARE_ACKNOWLEDGE: (_READ_GROUP, _READ_TOPIC),
    _K.INITIALIZE_SHARE_GROUP_STATE: (_CLUSTER_ACTION,),
    _K.READ_SHARE_GROUP_STATE: (_CLUSTER_ACTION,),
    _K.WRITE_SHARE_GROUP_STATE: (_CLUSTER_ACTION,),
    _K.DELETE_SHARE_GROUP_STATE: (_CLUSTER_ACTION,),
    _K.READ_SHARE_GROUP_STATE_SUMMARY: (_CLUSTER_ACTION,),
    _K.STREAMS_GROUP_HEARTBEAT: (_READ_GROUP,),
    _K.STREAMS_GROUP_DESCRIBE: (_DESCRIBE_GROUP,),
    _K.DESCRIBE_SHARE_GROUP_OFFSETS: (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
    _K.ALTER_SHARE_GROUP_OFFSETS: (_READ_GROUP, _READ_TOPIC),
    _K.DELETE_SHARE_GROUP_OFFSETS: (_DELETE_GROUP, _READ_TOPIC),
}
UNCHECKED = frozenset(  # APIs of clients that every client may use
    {
        _K.SASL_HANDSHAKE,
        _K.SASL_AUTHENTICATE,
        _K.API_VERSIONS,
        _K.GET_TELEMETRY_SUBSCRIPTIONS,
        _K.PUSH_TELEMETRY,
        _K.RENEW_DELEGATION_TOKEN,
        _K.EXPIRE_DELEGATION_TOKEN,
    }
)
