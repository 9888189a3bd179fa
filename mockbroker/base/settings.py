"""The broker configuration, by Kafka's names of the settings.

Most settings that have an effect in mockbroker are fields of Settings. Every other broker setting of Kafka is accepted
with the values that Kafka accepts, and stored in ``Settings.others``; a few of these settings also have an effect
(READ_ELSEWHERE). Any other name is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_WEIGHT, WEIGHT_ALLOWANCE
from mockbroker.base.kafka_settings import definitions, nearest, one_of

NO_LIMIT = -1
MAX_PARTITIONS = 100_000  # maximum number of partitions of a cluster, so that a typo does not use up the memory
MAX_NEW_PARTITIONS = 10_000  # maximum per request. Source: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH


class SettingsError(ValueError):
    """The error for an unknown setting, or for a value that the setting does not accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The broker settings of mockbroker. The defaults are Kafka's, except for ``listeners``,
    ``listener_security_protocol_map``, ``queued_max_request_bytes`` and ``sasl_enabled_mechanisms``.

    The name of a field is Kafka's name with underscores instead of dots. The unit of ``_ms`` is milliseconds. Settings
    that begin with ``mockbroker`` do not exist in Kafka. In a maximum number of bytes, -1 means no limit.

    Attributes:
        advertised_listeners: Addresses that the broker advertises to clients; empty: the addresses in ``listeners``.
        allow_everyone_if_no_acl_found: If an authorizer is set: whether all principals may use a resource without ACLs.
        authorizer_class_name: Class of the authorizer: Kafka's StandardAuthorizer, or empty for none.
        auto_create_topics_enable: Whether a Metadata request creates the topics that do not exist.
        broker_rack: Rack of the brokers, or racks in the order of their ids, separated by commas.
        connection_failed_authentication_delay_ms: Time between a failed authentication and its response.
        connections_max_idle_ms: Time without requests after which a connection is closed; negative for never.
        connections_max_reauth_ms: Maximum duration of a SASL session, after which the client must authenticate again; 0
            for no limit.
        controller_quota_window_num: Number of quota windows whose partition mutations a client may use in one moment.
        controller_quota_window_size_seconds: Length of each window of the quota for partition mutations, in seconds.
        default_replication_factor: Replication factor of a topic whose creation names no replication factor.
        delegation_token_expiry_check_interval_ms: Time between two searches for expired delegation tokens.
        delegation_token_expiry_time_ms: Time after which a delegation token expires, unless it is renewed.
        delegation_token_max_lifetime_ms: Maximum lifetime of a delegation token, with all renewals.
        delegation_token_secret_key: Secret key of delegation tokens; without a key, delegation tokens are disabled.
        delete_topic_enable: Whether topics can be deleted.
        fetch_max_bytes: Maximum size of the record batches in one Fetch response, in bytes.
        group_consumer_assignors: Server-side assignors of consumer groups (KIP-848); the first one is the default.
        group_consumer_heartbeat_interval_ms: Heartbeat interval that the coordinator sends to members of consumer
            groups (KIP-848).
        group_consumer_max_size: Maximum number of members of one consumer group (KIP-848).
        group_consumer_migration_policy: Whether a classic group may become a consumer group (KIP-848), and a consumer
            group a classic group.
        group_consumer_regex_refresh_interval_ms: Time after which subscribed regular expressions are resolved again.
        group_consumer_session_timeout_ms: Session timeout of members of consumer groups (KIP-848).
        group_coordinator_rebalance_protocols: Enabled group protocols, such as ``classic``, ``consumer``, ``streams``.
        group_initial_rebalance_delay_ms: Time that an empty classic group waits for more members before its first
            generation.
        group_max_session_timeout_ms: Maximum session timeout in a JoinGroup.
        group_max_size: Maximum number of members of one classic group.
        group_min_session_timeout_ms: Minimum session timeout in a JoinGroup.
        group_share_delivery_count_limit: Maximum number of deliveries of a record to a share group.
        group_share_heartbeat_interval_ms: Heartbeat interval that the coordinator sends to members of share groups.
        group_share_max_record_lock_duration_ms: Maximum of share.record.lock.duration.ms of a group.
        group_share_max_share_sessions: Maximum number of share sessions of a broker.
        group_share_max_size: Maximum number of members of one share group.
        group_share_min_record_lock_duration_ms: Minimum of share.record.lock.duration.ms of a group.
        group_share_partition_max_record_locks: Maximum number of records of a share partition that are in flight.
        group_share_record_lock_duration_ms: Duration of the acquisition lock of a record in a share group.
        group_share_session_timeout_ms: Session timeout of members of share groups.
        group_streams_heartbeat_interval_ms: Heartbeat interval that the coordinator sends to members of streams groups.
        group_streams_initial_rebalance_delay_ms: Time that an empty streams group waits for more members before its
            first assignment.
        group_streams_max_size: Maximum number of members of one streams group.
        group_streams_num_standby_replicas: Number of standby tasks of each stateful task.
        group_streams_session_timeout_ms: Session timeout of members of streams groups.
        listener_security_protocol_map: Security protocol of each listener name, as in Kafka.
        listeners: Names and ports of the listeners, as in Kafka.
        log_cleaner_backoff_ms: Time between two checks of a compacted log.
        log_cleaner_enable: Whether logs are compacted.
        log_message_timestamp_after_max_ms: Maximum time by which the timestamp of a record may be after the broker's
            time.
        log_message_timestamp_before_max_ms: Maximum time by which the timestamp of a record may be before the broker's
            time.
        log_message_timestamp_type: CreateTime or LogAppendTime.
        log_retention_check_interval_ms: Time between two checks of a log for segments that retention deletes.
        max_connection_creation_rate: Maximum number of new connections of a broker per second; further
            connections wait.
        max_connections: Maximum number of connections of a broker; further connections wait until a connection ends.
        max_connections_per_ip: Maximum number of connections of a broker from one address; further
            connections are closed.
        max_connections_per_ip_overrides: Different maximums for single addresses, as HOST:NUMBER, separated by commas.
        max_incremental_fetch_session_cache_slots: Maximum number of fetch sessions of a broker.
        message_max_bytes: Maximum size of one record batch.
        min_insync_replicas: Minimum number of in-sync replicas for a Produce with acks=all.
        mockbroker_check_records: Whether Produce checks each record, as Kafka does, and not only the header and the
            checksum of the batch. Checking each record takes several times as long.
        mockbroker_client_telemetry_enable: Whether clients can push their metrics (KIP-714). In Kafka they can if
            ``metric.reporters`` names a class that receives them.
        mockbroker_coordinator_load_ms: Time that a new coordinator takes to load its groups; meanwhile requests get
            COORDINATOR_LOAD_IN_PROGRESS.
        mockbroker_faults_max_held_bytes: Maximum size of the requests that fault rules hold, in bytes.
        mockbroker_faults_max_held_requests: Maximum number of requests that fault rules hold.
        mockbroker_faults_max_rules: Maximum number of fault rules.
        mockbroker_http_max_streams: Maximum number of event streams of the control API at the same time.
        mockbroker_http_max_waiters: Maximum number of requests of the control API that wait at the same time.
        mockbroker_join_settle_ms: Time after the last JoinGroup before which the initial rebalance delay does not end.
            Members that start together then join the first generation together, as on a real broker, which takes longer
            to answer.
        mockbroker_max_acls: Maximum number of ACLs.
        mockbroker_max_delegation_tokens: Maximum number of delegation tokens plus their renewers.
        mockbroker_max_pending_members: Maximum number of pending member ids (MEMBER_ID_REQUIRED sent, not yet used to
            join), over all groups.
        mockbroker_max_transactional_ids: Maximum number of transactional ids of the cluster.
        mockbroker_queued_max_response_bytes: Maximum size of the responses that a broker buffers for clients that do
            not read them.
        mockbroker_request_max_memory_bytes: Maximum memory of the arrays of one decoded request, in bytes; beyond that
            the connection is closed. 8 MiB are about 50,000 elements. Decoding is not interrupted: a higher limit makes
            other clients wait longer.
        mockbroker_quota_request_us: Time in microseconds that each request counts in the quota ``request_percentage``.
        mockbroker_replica_catch_up_ms: Time after which a replica that a reassignment adds is in sync, and after which
            a replica has moved to another log directory.
        mockbroker_response_max_bytes: Maximum size of one response.
        mockbroker_users: Users for SASL as NAME:PASSWORD, separated by commas. In Kafka the JAAS configuration contains
            the users.
        mockbroker_transaction_completion_ms: Time between the end of a transaction and its markers; meanwhile the
            producer's next transaction gets CONCURRENT_TRANSACTIONS.
        mockbroker_transaction_log_on_demand: Whether the first FindCoordinator for a transactional id creates
            __transaction_state and gets COORDINATOR_NOT_AVAILABLE, as in a Kafka that was just installed.
        num_partitions: Number of partitions of a topic whose creation names no number.
        offset_metadata_max_bytes: Maximum length of the metadata of a committed offset, in UTF-16 code units.
        offsets_topic_num_partitions: Number of partitions of __consumer_offsets.
        offsets_topic_replication_factor: Replication factor of __consumer_offsets.
        offsets_retention_check_interval_ms: Time between two searches for expired offsets.
        offsets_retention_minutes: Minutes after which the committed offsets of an empty group expire.
        producer_id_expiration_check_interval_ms: Time between two searches for expired producers of a partition.
        producer_id_expiration_ms: Time after which the state of a producer in a partition expires, if it has no open
            transaction there.
        quota_window_num: Number of windows over which the use of a client quota is measured.
        quota_window_size_seconds: Length of each window of the client quotas, in seconds.
        queued_max_request_bytes: Maximum size of the requests that a broker buffers for all clients together; Kafka has
            no limit by default.
        replica_selector_class: ``org.apache.kafka.common.replica.RackAwareReplicaSelector`` to let consumers with a
            ``client.rack`` fetch from a follower in their rack (KIP-392); empty for the leader only.
        sasl_enabled_mechanisms: SASL mechanisms that clients can use.
        sasl_server_max_receive_size: Maximum size of a request before authentication.
        share_coordinator_snapshot_update_records_per_snapshot: Maximum number of updates of a share partition in
            __share_group_state between two snapshots.
        share_coordinator_state_topic_num_partitions: Number of partitions of __share_group_state.
        share_coordinator_state_topic_replication_factor: Replication factor of __share_group_state.
        socket_request_max_bytes: Maximum size of a request.
        ssl_client_auth: Whether clients must send a certificate: none, requested or required.
        ssl_keystore_location: File with the broker's key and certificates: PEM (the key in PKCS #8), JKS or PKCS12.
        ssl_principal_mapping_rules: Rules that derive the principal from the subject of a client certificate.
        ssl_truststore_location: File with the authorities that sign clients' certificates: PEM, JKS or PKCS12.
        super_users: Principals that may perform every operation, separated by semicolons, such as
            ``User:alice;User:bob``.
        telemetry_max_bytes: Maximum size of the metrics in one PushTelemetry, compressed.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: Time between two searches for transactions that
            exceeded their timeout.
        transaction_max_timeout_ms: Maximum transaction timeout in an InitProducerId.
        transaction_partition_verification_enable: Whether a write in a transaction, of a client before KIP-890, must be
            to a partition that was added to the transaction.
        transaction_remove_expired_transaction_cleanup_interval_ms: Time between two searches for transactional ids that
            were not used for ``transactional.id.expiration.ms``.
        transaction_state_log_num_partitions: Number of partitions of __transaction_state.
        transaction_state_log_replication_factor: Replication factor of __transaction_state.
        transactional_id_expiration_ms: Time after which a transactional id expires that has no open transaction.
        given: Kafka names of the settings that were set.
        group_consumer_max_heartbeat_interval_ms: Maximum of consumer.heartbeat.interval.ms of a group.
        group_consumer_max_session_timeout_ms: Maximum of consumer.session.timeout.ms of a group.
        group_consumer_min_heartbeat_interval_ms: Minimum of consumer.heartbeat.interval.ms of a group.
        group_consumer_min_session_timeout_ms: Minimum of consumer.session.timeout.ms of a group.
        group_share_max_heartbeat_interval_ms: Maximum of share.heartbeat.interval.ms of a group.
        group_share_max_session_timeout_ms: Maximum of share.session.timeout.ms of a group.
        group_share_min_heartbeat_interval_ms: Minimum of share.heartbeat.interval.ms of a group.
        group_share_min_session_timeout_ms: Minimum of share.session.timeout.ms of a group.
        group_streams_max_heartbeat_interval_ms: Maximum of streams.heartbeat.interval.ms of a group.
        group_streams_max_session_timeout_ms: Maximum of streams.session.timeout.ms of a group.
        group_streams_max_standby_replicas: Maximum of streams.num.standby.replicas of a group.
        group_streams_min_heartbeat_interval_ms: Minimum of streams.heartbeat.interval.ms of a group.
        group_streams_min_session_timeout_ms: Minimum of streams.session.timeout.ms of a group.
        others: Kafka settings that are not fields of this class: value by name, as text. Most of them have no effect.
    """

    advertised_listeners: str = ""
    allow_everyone_if_no_acl_found: bool = False
    authorizer_class_name: str = ""
    auto_create_topics_enable: bool = True
    broker_rack: str = ""
    connection_failed_authentication_delay_ms: int = 100
    connections_max_idle_ms: int = 600_000
    connections_max_reauth_ms: int = 0
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1
    default_replication_factor: int = 1
    delegation_token_expiry_check_interval_ms: int = 3_600_000
    delegation_token_expiry_time_ms: int = 86_400_000
    delegation_token_max_lifetime_ms: int = 604_800_000
    delegation_token_secret_key: str = field(default="", repr=False)
    delete_topic_enable: bool = True
    fetch_max_bytes: int = 57_671_680
    group_consumer_assignors: str = "uniform,range"
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_coordinator_rebalance_protocols: str = "classic,consumer,streams"
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_min_session_timeout_ms: int = 6_000
    group_share_delivery_count_limit: int = 5
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_max_share_sessions: int = 2_000
    group_share_max_size: int = 200
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_partition_max_record_locks: int = 2_000
    group_share_record_lock_duration_ms: int = 30_000
    group_share_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_max_size: int = 2**31 - 1
    group_streams_max_standby_replicas: int = 2
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_num_standby_replicas: int = 0
    group_streams_session_timeout_ms: int = 45_000
    listener_security_protocol_map: str = ""
    listeners: str = ""
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_enable: bool = True
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_message_timestamp_before_max_ms: int = 2**63 - 1
    log_message_timestamp_type: str = "CreateTime"
    log_retention_check_interval_ms: int = 300_000
    max_connection_creation_rate: int = 2**31 - 1
    max_connections: int = 2**31 - 1
    max_connections_per_ip: int = 2**31 - 1
    max_connections_per_ip_overrides: str = ""
    max_incremental_fetch_session_cache_slots: int = 1_000
    message_max_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    mockbroker_check_records: bool = False
    mockbroker_client_telemetry_enable: bool = False
    mockbroker_coordinator_load_ms: int = 0
    mockbroker_faults_max_held_bytes: int = 100 * 1024 * 1024
    mockbroker_faults_max_held_requests: int = 1_000
    mockbroker_faults_max_rules: int = 1_000
    mockbroker_http_max_streams: int = 2_000
    mockbroker_http_max_waiters: int = 1_000
    mockbroker_join_settle_ms: int = 3
    mockbroker_max_acls: int = 10_000
    mockbroker_max_delegation_tokens: int = 10_000
    mockbroker_max_pending_members: int = 50_000
    mockbroker_max_transactional_ids: int = 50_000
    mockbroker_quota_request_us: int = 50
    mockbroker_queued_max_response_bytes: int = 512 * 1024 * 1024
    mockbroker_request_max_memory_bytes: int = WEIGHT_ALLOWANCE
    mockbroker_replica_catch_up_ms: int = 200
    mockbroker_response_max_bytes: int = 104_857_600
    mockbroker_users: str = field(default="", repr=False)
    mockbroker_transaction_completion_ms: int = 0
    mockbroker_transaction_log_on_demand: bool = False
    num_partitions: int = 1
    offset_metadata_max_bytes: int = 4_096
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    producer_id_expiration_check_interval_ms: int = 600_000
    producer_id_expiration_ms: int = 86_400_000
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    queued_max_request_bytes: int = 256 * 1024 * 1024
    replica_selector_class: str = ""
    sasl_enabled_mechanisms: str = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
    sasl_server_max_receive_size: int = 524_288
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_replication_factor: int = 3
    socket_request_max_bytes: int = 104_857_600
    ssl_client_auth: str = "none"
    ssl_keystore_location: str = ""
    ssl_principal_mapping_rules: str = "DEFAULT"
    ssl_truststore_location: str = ""
    super_users: str = ""
    telemetry_max_bytes: int = 1_048_576
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_max_timeout_ms: int = 900_000
    transaction_partition_verification_enable: bool = True
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transactional_id_expiration_ms: int = 604_800_000
    given: frozenset[str] = frozenset()
    others: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)  # there are passwords among them

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Settings:
        """Check a broker configuration, and return its settings.

        Args:
            given: Values by Kafka's name of the setting. A value is a text, or has the type of the setting.

        Raises:
            SettingsError: A name is unknown, or a value is not valid.
        """
        values: dict[str, Any] = {}
        others: dict[str, str] = {}
        for name, value in given.items():
            if is_ours(name):
                values[_attribute(name)] = _value(name, value)
            else:
                others[name] = _accepted(name, value)
        return cls(**values, given=frozenset(given), others=others)

    def by_name(self) -> dict[str, bool | int | str]:
        """Return the value of every setting that is a field of this class, by Kafka's name of the setting."""
        return {_kafka_name(name): getattr(self, name) for name in _KINDS}

    def text(self, name: str) -> str | None:
        """Return the value of a setting as text, by Kafka's name; None if the setting is not a field of this class and
        not set.
        """
        if not is_ours(name):
            return self.others.get(name)
        value = getattr(self, _attribute(name))
        return str(value).lower() if isinstance(value, bool) else str(value)

    def with_values(self, values: Mapping[str, str]) -> Settings:
        """Return a copy of the settings with some values replaced.

        An invalid value of a setting that is a field of this class is ignored. A value of any other setting is stored
        in ``others`` unchecked.

        ``values``: the new values as text, by Kafka's name of the setting.
        """
        changed: dict[str, Any] = {}
        others = dict(self.others)
        for name, value in values.items():
            if not is_ours(name):
                others[name] = value
                continue
            with suppress(SettingsError):
                changed[_attribute(name)] = _value(name, value)
        present: dict[str, Any] = {name: getattr(self, name) for name in Settings.__annotations__}
        return Settings(**{**present, **changed, "others": others})

    def ssl_text(self, name: str) -> str | None:
        """Return the value of a keystore or truststore setting; None if it is not set or empty.

        ``name``: Kafka's name of the setting.
        """
        text = self.text(name)
        return None if not text and is_ours(name) else text

    def of_listener(self, name: str) -> Settings:
        """Return a copy of the settings in which the ``ssl.*`` settings of one listener replace the general ``ssl.*``
        settings.

        Without such settings, the result is the object itself. ``name``: name of the listener.
        """
        prefix = listener_prefix(name)
        own = {key.removeprefix(prefix): value for key, value in self.others.items() if key.startswith(prefix)}
        own = {key: value for key, value in own.items() if key in (CLIENT_AUTH, *STORES)}
        return self.with_values(own) if own else self

    def without_effect(self) -> list[str]:
        """Return the sorted names of the settings that were given but have no effect in mockbroker."""
        used = {name for name in self.others if name.startswith(OF_LISTENER) and name.endswith(OF_ONE_LISTENER)}
        return sorted(set(self.others) - READ_ELSEWHERE - used)


def listener_prefix(listener: str) -> str:
    """Return the prefix of the settings that apply to one listener, such as ``listener.name.external.``."""
    return f"{OF_LISTENER}{listener.lower()}."


CONTROLLERS = "controller.listener.names"
SHARE_GROUPS_ENABLED = "group.share.enable"
OF_LISTENER = "listener.name."  # prefix of settings that apply to one listener
MAX_CONNECTIONS, CREATION_RATE = "max.connections", "max.connection.creation.rate"
LIMITS_OF_LISTENER = (MAX_CONNECTIONS, CREATION_RATE)  # settings that also exist for one listener
CLIENT_AUTH = "ssl.client.auth"
STORES = (  # settings of keystores and truststores
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
SASL_OF_LISTENER = "sasl.enabled.mechanisms", "plain.sasl.jaas.config", "oauthbearer.sasl.jaas.config"
OF_ONE_LISTENER = tuple(f".{name}" for name in (*LIMITS_OF_LISTENER, CLIENT_AUTH, *STORES, *SASL_OF_LISTENER))
INTER_BROKER_LISTENER, INTER_BROKER_PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
READ_AS_TOPIC_DEFAULTS = {  # by topics/configs.py
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleanup.policy",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.ms",
    "log.segment.bytes",
    "unclean.leader.election.enable",
}
NODE_ID, BROKER_ID = "node.id", "broker.id"
READ_ELSEWHERE = {  # used by net/listeners.py, net/tls.py, broker/broker.py, topics/configs.py, quotas/
    BROKER_ID,
    INTER_BROKER_LISTENER,
    INTER_BROKER_PROTOCOL,
    NODE_ID,
    CONTROLLERS,
    SHARE_GROUPS_ENABLED,
    *READ_AS_TOPIC_DEFAULTS,
    *STORES,
    "log.dir",
    "log.dirs",
}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
# By name: the allowed values, and whether the setting is a list of these values, separated by commas.
_WORDS: Mapping[str, tuple[frozenset[str], bool]] = {
    "authorizer.class.name": (frozenset({"org.apache.kafka.metadata.authorizer.StandardAuthorizer", ""}), False),
    "group.consumer.assignors": (frozenset({"uniform", "range"}), True),
    "group.consumer.migration.policy": (frozenset({"bidirectional", "upgrade", "downgrade", "disabled"}), False),
    "group.coordinator.rebalance.protocols": (frozenset({"classic", "consumer", "share", "streams"}), True),
    "log.message.timestamp.type": (frozenset({"CreateTime", "LogAppendTime"}), False),
    "replica.selector.class": (frozenset({RACK_AWARE, LEADER_SELECTOR, ""}), False),
    "sasl.enabled.mechanisms": (frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}), True),
    "ssl.client.auth": (frozenset({"none", "requested", "required"}), False),
}
_SAME = {  # other spellings of allowed values, in lower case
    "org.apache.kafka.coordinator.group.assignor.rangeassignor": "range",
    "org.apache.kafka.coordinator.group.assignor.uniformassignor": "uniform",
}
SECRETS = frozenset({"delegation.token.secret.key", "mockbroker.users"})  # never reported to clients
LONGS = frozenset(  # settings that have 64 bits in Kafka
    {
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.cleaner.backoff.ms",
        "log.retention.check.interval.ms",
        "offsets.retention.check.interval.ms",
        "queued.max.request.bytes",
    }
)
_TEXTS = SECRETS | {  # settings that are any text
    "advertised.listeners",
    "broker.rack",
    "max.connections.per.ip.overrides",
    "listener.security.protocol.map",
    "listeners",
    "ssl.keystore.location",
    "ssl.principal.mapping.rules",
    "ssl.truststore.location",
    "super.users",
}
_LEAST = {
    "connections.max.idle.ms": -1,  # negative: never
    "controller.quota.window.num": 1,
    "controller.quota.window.size.seconds": 1,
    "default.replication.factor": 1,
    "delegation.token.expiry.check.interval.ms": 1,
    "delegation.token.expiry.time.ms": 1,
    "delegation.token.max.lifetime.ms": 1,
    "fetch.max.bytes": 1_024,
    "group.consumer.heartbeat.interval.ms": 1,
    "group.consumer.max.heartbeat.interval.ms": 1,
    "group.consumer.max.session.timeout.ms": 1,
    "group.consumer.max.size": 1,
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.consumer.min.session.timeout.ms": 1,
    "group.consumer.regex.refresh.interval.ms": 10_000,
    "group.consumer.session.timeout.ms": 1,
    "group.max.size": 1,
    "group.share.delivery.count.limit": 2,
    "group.share.heartbeat.interval.ms": 1,
    "group.share.max.heartbeat.interval.ms": 1,
    "group.share.max.record.lock.duration.ms": 30_000,
    "group.share.max.session.timeout.ms": 1,
    "group.share.max.share.sessions": 1,
    "group.share.max.size": 1,
    "group.share.min.heartbeat.interval.ms": 1,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.min.session.timeout.ms": 1,
    "group.share.partition.max.record.locks": 100,
    "group.share.record.lock.duration.ms": 1_000,
    "group.share.session.timeout.ms": 1,
    "group.streams.heartbeat.interval.ms": 1,
    "group.streams.max.heartbeat.interval.ms": 1,
    "group.streams.max.session.timeout.ms": 1,
    "group.streams.max.size": 1,
    "group.streams.min.heartbeat.interval.ms": 1,
    "group.streams.min.session.timeout.ms": 1,
    "group.streams.session.timeout.ms": 1,
    "mockbroker.max.pending.members": 1,
    "mockbroker.max.transactional.ids": 1,
    "mockbroker.queued.max.response.bytes": NO_LIMIT,
    "min.insync.replicas": 1,
    "mockbroker.request.max.memory.bytes": WEIGHT_ALLOWANCE,  # smaller messages are not weighed
    "mockbroker.response.max.bytes": NO_LIMIT,
    "num.partitions": 1,
    "log.retention.check.interval.ms": 1,
    "offsets.retention.check.interval.ms": 1,
    "producer.id.expiration.check.interval.ms": 1,
    "producer.id.expiration.ms": 1,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 1,
    "transactional.id.expiration.ms": 1,
    "offsets.retention.minutes": 1,
    "offsets.topic.num.partitions": 1,
    "quota.window.num": 1,
    "quota.window.size.seconds": 1,
    "queued.max.request.bytes": NO_LIMIT,
    "offsets.topic.replication.factor": 1,
    "sasl.server.max.receive.size": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "socket.request.max.bytes": 1,
    "telemetry.max.bytes": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1,
    "transaction.max.timeout.ms": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
}
_MOST = {
    "group.share.delivery.count.limit": 10,
    "group.share.max.record.lock.duration.ms": 3_600_000,
    "group.share.max.size": 1_000,
    "group.share.min.record.lock.duration.ms": 30_000,
    "group.share.partition.max.record.locks": 10_000,
    "group.share.record.lock.duration.ms": 3_600_000,
    "mockbroker.request.max.memory.bytes": MAX_WEIGHT,
    "num.partitions": MAX_PARTITIONS,
    "offsets.topic.num.partitions": MAX_PARTITIONS,
    "offsets.topic.replication.factor": 2**15 - 1,
    "share.coordinator.state.topic.num.partitions": MAX_PARTITIONS,
    "share.coordinator.state.topic.replication.factor": 2**15 - 1,
    "transaction.state.log.num.partitions": MAX_PARTITIONS,
    "transaction.state.log.replication.factor": 2**15 - 1,
    **dict.fromkeys(LONGS, 2**63 - 1),
}
_KINDS: Mapping[str, type] = {
    name: {"bool": bool, "int": int, "str": str}[annotation]
    for name, annotation in Settings.__annotations__.items()
    if name not in ("given", "others")
}


def read_properties(lines: Iterable[str]) -> dict[str, str]:
    """Return the settings in the lines of a server.properties file, by name.

    The lines are those of ``kwire.client_properties.read_lines``.

    Raises:
        SettingsError: A property contains no ``=``.
    """
    from kwire.client_properties import PropertyError, read_lines  # on demand: most commands read no file

    try:
        return read_lines(lines)
    except PropertyError as error:
        raise SettingsError(f"{error}, got {error.line!r}") from error


def _kafka_name(attribute: str) -> str:
    return attribute.replace("_", ".")


def is_ours(name: str) -> bool:
    """Return whether the setting with this Kafka name is a field of Settings."""
    return _attribute(name) in _KINDS and name == _kafka_name(_attribute(name))


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _accepted(name: str, value: object) -> str:
    """Return the value of a Kafka setting that is not a field of Settings, as text.

    Args:
        name: Kafka's name of the setting.
        value: The given value; None means an empty text.

    Raises:
        SettingsError: The setting is unknown, or no release of Kafka accepts the value.
    """
    known = definitions(name)
    if not known:
        near = nearest(name, set(map(_kafka_name, _KINDS)))
        hint = f"; did you mean {near}?" if near else ": Kafka's brokers have no setting of this or a similar name"
        raise SettingsError(f"unknown setting {name}{hint}")
    text = "" if value is None else str(value).strip()
    text = text.lower() if isinstance(value, bool) else text
    problems = [each.problem(text) for each in known]
    if problems[0] is not None and None not in problems:
        raise SettingsError(f"{name}: {problems[0]}")
    return text


def _words(name: str, text: str) -> str:
    known, many = _WORDS[name]
    spelled = {word.lower(): word for word in known}
    given = (word.strip().lower() for word in (text.split(",") if many else [text]))
    words = [spelled.get(_SAME.get(word, word), word) for word in given]
    wrong = [word for word in words if word not in known]
    if wrong or not words or len(set(words)) < len(words):
        raise SettingsError(f"{name}: expected {one_of(sorted(known), many=many)}, got {text!r}")
    return ",".join(words)


OVERRIDES = "max.connections.per.ip.overrides"
MAX_DIGITS = 1_000  # Python's int refuses more than 4,300


def is_int(text: str) -> bool:
    """Return whether Java's Integer.parseInt accepts a text, of up to MAX_DIGITS characters."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return len(digits) <= MAX_DIGITS and digits.isdecimal() and -(2**31) <= int(text) < 2**31


def overrides(text: str) -> dict[str, int]:
    """Return the maximum number of connections by IP address or host, as in ``max.connections.per.ip.overrides``.

    Raises:
        SettingsError: The text is not a list of ``HOST:NUMBER``.
    """
    numbers: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = (part.strip() for part in entry.rpartition(":"))
        if not host or not is_int(number):
            raise SettingsError(f"{OVERRIDES}: expected HOST:NUMBER, got {entry!r}")
        numbers["127.0.0.1" if host == "localhost" else host.strip("[]")] = int(number)
    return numbers


def _value(name: str, value: object) -> bool | int | str:
    if name == OVERRIDES:
        overrides(str(value))
    if name in _TEXTS:
        return str(value).strip()
    if name in _WORDS:
        return _words(name, str(value).strip())
    text = str(value).strip().lower()
    if _KINDS[_attribute(name)] is bool:
        if text not in ("true", "false"):
            raise SettingsError(f"{name}: expected true or false, got {value!r}")
        return text == "true"
    try:
        number = int(text)
    except ValueError:
        raise SettingsError(f"{name}: expected a whole number, got {value!r}") from None
    least, most = _LEAST.get(name, 0), _MOST.get(name, 2**31 - 1)
    if not least <= number <= most:
        raise SettingsError(f"{name}: {number} is not between {least} and {most}")
    return number
