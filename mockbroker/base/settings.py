"""The broker configuration, by Kafka's names of the settings.

A setting that has an effect in mockbroker is a field of Settings. Every other broker setting of Kafka is accepted if
Kafka accepts its value; any other name is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kwire.limits import MAX_WEIGHT, WEIGHT_ALLOWANCE
from mockbroker.base.kafka_settings import definitions, nearest, one_of

NO_LIMIT = -1
MAX_PARTITIONS = 100_000  # maximum number of partitions of a cluster, so that a typo does not use up the memory
MAX_NEW_PARTITIONS = 10_000  # maximum per request. Source: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH


class SettingsError(ValueError):
    """Raised for an unknown setting, or a value that the setting does not accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The broker settings that have an effect, with Kafka's defaults except for ``sasl_enabled_mechanisms``.

    The name of a field is Kafka's name with underscores instead of dots. The unit of ``_ms`` is milliseconds. Settings
    that begin with ``mockbroker`` do not exist in Kafka. In a maximum number of bytes, -1 means no limit.

    Attributes:
        advertised_listeners: Addresses that the broker advertises to clients; empty: the addresses in ``listeners``.
        auto_create_topics_enable: Whether a Metadata request creates the topics that do not exist.
        connection_failed_authentication_delay_ms: Time between a failed authentication and its response.
        connections_max_idle_ms: Time without requests after which a connection is closed; negative for never.
        connections_max_reauth_ms: Maximum duration of a SASL session, after which the client must authenticate again; 0
            for no limit.
        default_replication_factor: Replication factor of a topic that is created without one.
        delete_topic_enable: Whether topics can be deleted.
        fetch_max_bytes: Maximum size of the record batches in one Fetch response, in bytes.
        group_consumer_assignors: Server-side assignors of the consumer protocol; the first one is the default.
        group_consumer_heartbeat_interval_ms: Heartbeat interval that the coordinator sends to members of the consumer
            protocol.
        group_consumer_max_size: Maximum number of members of one group of the consumer protocol.
        group_consumer_migration_policy: Whether a group may be upgraded to the consumer protocol, and downgraded.
        group_consumer_regex_refresh_interval_ms: Time after which subscribed regular expressions are resolved again.
        group_consumer_session_timeout_ms: Session timeout of members of the consumer protocol.
        group_coordinator_rebalance_protocols: Enabled group protocols: ``classic``, ``consumer`` or both.
        group_initial_rebalance_delay_ms: Time that an empty classic group waits for more members before its first
            generation.
        group_max_session_timeout_ms: Maximum session timeout in a JoinGroup.
        group_max_size: Maximum number of members of one classic group.
        group_min_session_timeout_ms: Minimum session timeout in a JoinGroup.
        listener_security_protocol_map: Security protocol of each listener name, as in Kafka.
        listeners: Names and ports of the listeners, as in Kafka.
        log_message_timestamp_after_max_ms: Maximum time by which the timestamp of a record may be after the broker's.
        log_message_timestamp_before_max_ms: Maximum time by which the timestamp of a record may be before the broker's.
        log_message_timestamp_type: CreateTime or LogAppendTime.
        max_incremental_fetch_session_cache_slots: Maximum number of fetch sessions of a broker.
        message_max_bytes: Maximum size of one record batch.
        min_insync_replicas: Minimum number of in-sync replicas for a Produce with acks=all.
        mockbroker_check_records: Whether Produce checks each record, as Kafka does, and not only the header and the
            checksum of the batch. Checking each record takes several times as long.
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
        mockbroker_max_pending_members: Maximum number of pending member ids (MEMBER_ID_REQUIRED sent, not yet used to
            join), over all groups.
        mockbroker_max_transactional_ids: Maximum number of transactional ids of the cluster.
        mockbroker_queued_max_response_bytes: Maximum size of the responses that a broker buffers for clients that do
            not read them.
        mockbroker_request_max_memory_bytes: Maximum memory of the arrays of one decoded request, in bytes; beyond that
            the connection is closed. 8 MiB are about 50,000 elements. Decoding is not interrupted: a higher limit makes
            other clients wait longer.
        mockbroker_response_max_bytes: Maximum size of one response.
        mockbroker_users: Users for SASL as NAME:PASSWORD, separated by commas. In Kafka the JAAS configuration contains
            the users.
        mockbroker_transaction_completion_ms: Time between the end of a transaction and its markers; meanwhile the
            producer's next transaction gets CONCURRENT_TRANSACTIONS.
        mockbroker_transaction_log_on_demand: Whether the first FindCoordinator for a transactional id creates
            __transaction_state and gets COORDINATOR_NOT_AVAILABLE, as in a Kafka that was just installed.
        num_partitions: Number of partitions of a topic that is created without one.
        offset_metadata_max_bytes: Maximum length of the metadata of a committed offset, in UTF-16 code units.
        offsets_topic_num_partitions: Number of partitions of __consumer_offsets.
        offsets_topic_replication_factor: Replication factor of __consumer_offsets.
        offsets_retention_check_interval_ms: Time between two searches for expired offsets.
        offsets_retention_minutes: Minutes after which the committed offsets of an empty group expire.
        queued_max_request_bytes: Maximum size of the requests that a broker buffers for all clients together; Kafka has
            no limit by default.
        sasl_enabled_mechanisms: SASL mechanisms that clients can use.
        sasl_server_max_receive_size: Maximum size of a request before authentication.
        socket_request_max_bytes: Maximum size of a request.
        ssl_client_auth: Whether clients must send a certificate: none, requested or required.
        ssl_keystore_location: PEM file with the broker's key and certificates.
        ssl_truststore_location: PEM file with the authorities that sign clients' certificates.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: Time between two searches for transactions that
            exceeded their timeout.
        transaction_max_timeout_ms: Maximum transaction timeout in an InitProducerId.
        transaction_state_log_num_partitions: Number of partitions of __transaction_state.
        transaction_state_log_replication_factor: Replication factor of __transaction_state.
        given: Kafka names of the settings that were set.
        others: Kafka settings that have no effect in mockbroker: value by name, as text.
    """

    advertised_listeners: str = ""
    auto_create_topics_enable: bool = True
    connection_failed_authentication_delay_ms: int = 100
    connections_max_idle_ms: int = 600_000
    connections_max_reauth_ms: int = 0
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    fetch_max_bytes: int = 57_671_680
    group_consumer_assignors: str = "uniform,range"
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_coordinator_rebalance_protocols: str = "classic,consumer"
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_min_session_timeout_ms: int = 6_000
    listener_security_protocol_map: str = ""
    listeners: str = ""
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_message_timestamp_before_max_ms: int = 2**63 - 1
    log_message_timestamp_type: str = "CreateTime"
    max_incremental_fetch_session_cache_slots: int = 1_000
    message_max_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    mockbroker_check_records: bool = False
    mockbroker_coordinator_load_ms: int = 0
    mockbroker_faults_max_held_bytes: int = 100 * 1024 * 1024
    mockbroker_faults_max_held_requests: int = 1_000
    mockbroker_faults_max_rules: int = 1_000
    mockbroker_http_max_streams: int = 2_000
    mockbroker_http_max_waiters: int = 1_000
    mockbroker_join_settle_ms: int = 3
    mockbroker_max_pending_members: int = 50_000
    mockbroker_max_transactional_ids: int = 50_000
    mockbroker_queued_max_response_bytes: int = 512 * 1024 * 1024
    mockbroker_request_max_memory_bytes: int = WEIGHT_ALLOWANCE
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
    queued_max_request_bytes: int = 256 * 1024 * 1024
    sasl_enabled_mechanisms: str = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
    sasl_server_max_receive_size: int = 524_288
    socket_request_max_bytes: int = 104_857_600
    ssl_client_auth: str = "none"
    ssl_keystore_location: str = ""
    ssl_truststore_location: str = ""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_max_timeout_ms: int = 900_000
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    given: frozenset[str] = frozenset()
    others: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)  # there are passwords among them

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Settings:
        """Return the settings of a configuration.

        Args:
            given: Values by Kafka's name of the setting; a value may be text or have the type of the setting.

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
        """Return the value of every setting that has an effect, by Kafka's name of the setting."""
        return {_kafka_name(name): getattr(self, name) for name in _KINDS}

    def without_effect(self) -> list[str]:
        """Return the names of the settings that were set but have no effect, sorted.

        A group protocol that mockbroker does not serve follows as "group.coordinator.rebalance.protocols share".
        """
        names = set(self.others) - READ_ELSEWHERE
        protocols = set(self.group_coordinator_rebalance_protocols.split(",")) & NOT_SERVED
        return sorted(names) + [f"{_PROTOCOLS} {word}" for word in sorted(protocols)]


_PROTOCOLS = "group.coordinator.rebalance.protocols"
NOT_SERVED = frozenset({"share", "streams"})  # group protocols of Kafka that mockbroker does not serve
CONTROLLERS = "controller.listener.names"
READ_ELSEWHERE = {CONTROLLERS, "log.cleanup.policy"}  # used by net/listeners.py and topics/configs.py
# By name: the allowed values, and whether the setting is a list of these values, separated by commas.
_WORDS: Mapping[str, tuple[frozenset[str], bool]] = {
    "group.consumer.assignors": (frozenset({"uniform", "range"}), True),
    "group.consumer.migration.policy": (frozenset({"bidirectional", "upgrade", "downgrade", "disabled"}), False),
    "group.coordinator.rebalance.protocols": (frozenset({"classic", "consumer", *NOT_SERVED}), True),
    "log.message.timestamp.type": (frozenset({"CreateTime", "LogAppendTime"}), False),
    "sasl.enabled.mechanisms": (frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}), True),
    "ssl.client.auth": (frozenset({"none", "requested", "required"}), False),
}
_SAME = {  # other spellings of allowed values, in lower case
    "org.apache.kafka.coordinator.group.assignor.rangeassignor": "range",
    "org.apache.kafka.coordinator.group.assignor.uniformassignor": "uniform",
}
SECRETS = frozenset({"mockbroker.users"})  # never reported to clients
LONGS = frozenset(  # settings that have 64 bits in Kafka
    {
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "offsets.retention.check.interval.ms",
        "queued.max.request.bytes",
    }
)
_TEXTS = SECRETS | {  # settings that are any text
    "advertised.listeners",
    "listener.security.protocol.map",
    "listeners",
    "ssl.keystore.location",
    "ssl.truststore.location",
}
_LEAST = {
    "connections.max.idle.ms": -1,  # negative: never
    "default.replication.factor": 1,
    "fetch.max.bytes": 1_024,
    "group.consumer.heartbeat.interval.ms": 1,
    "group.consumer.max.size": 1,
    "group.consumer.regex.refresh.interval.ms": 10_000,
    "group.consumer.session.timeout.ms": 1,
    "group.max.size": 1,
    "mockbroker.max.pending.members": 1,
    "mockbroker.max.transactional.ids": 1,
    "mockbroker.queued.max.response.bytes": NO_LIMIT,
    "min.insync.replicas": 1,
    "mockbroker.request.max.memory.bytes": WEIGHT_ALLOWANCE,  # smaller messages are not weighed
    "mockbroker.response.max.bytes": NO_LIMIT,
    "num.partitions": 1,
    "offsets.retention.check.interval.ms": 1,
    "offsets.retention.minutes": 1,
    "offsets.topic.num.partitions": 1,
    "queued.max.request.bytes": NO_LIMIT,
    "offsets.topic.replication.factor": 1,
    "sasl.server.max.receive.size": 1,
    "socket.request.max.bytes": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1,
    "transaction.max.timeout.ms": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
}
_MOST = {
    "mockbroker.request.max.memory.bytes": MAX_WEIGHT,
    "num.partitions": MAX_PARTITIONS,
    "offsets.topic.num.partitions": MAX_PARTITIONS,
    "offsets.topic.replication.factor": 2**15 - 1,
    "transaction.state.log.num.partitions": MAX_PARTITIONS,
    "transaction.state.log.replication.factor": 2**15 - 1,
    **dict.fromkeys(LONGS, 2**63 - 1),
}
_KINDS: Mapping[str, type] = {
    each.name: type(each.default) for each in fields(Settings) if each.name not in ("given", "others")
}


def read_properties(lines: Iterable[str]) -> dict[str, str]:
    """Return the values by name of the lines of a server.properties file: ``name=value``, ``#`` or ``!`` for comments.

    Raises:
        SettingsError: A line has no ``=``.
    """
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"line {number}: expected KEY=VALUE, got {text!r}")
        properties[name.strip()] = value.strip()
    return properties


def _kafka_name(attribute: str) -> str:
    return attribute.replace("_", ".")


def is_ours(name: str) -> bool:
    """Return whether a setting has an effect in mockbroker. ``name``: Kafka's name."""
    return _attribute(name) in _KINDS and name == _kafka_name(_attribute(name))


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _accepted(name: str, value: object) -> str:
    """Return the value of a setting without effect, as text.

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


def _value(name: str, value: object) -> bool | int | str:
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
