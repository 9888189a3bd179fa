"""Configuration by Kafka's own names.

What has an effect here is a field of Settings; every other setting of a broker is accepted as Kafka accepts it, and any
other name is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from mockbroker.base.kafka_settings import definitions, nearest, one_of

NO_LIMIT = -1
MAX_PARTITIONS = 100_000  # of all topics of a cluster; a typo should not take all memory
MAX_NEW_PARTITIONS = 10_000  # that one request can create. Source: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH


class SettingsError(ValueError):
    """A name that does not exist, or a value that it cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The broker settings that have an effect, with Kafka's defaults except for ``sasl_enabled_mechanisms``.

    A field has Kafka's name with underscores for dots; ``_ms`` is milliseconds. Settings that begin with ``mockbroker``
    do not exist in Kafka. In settings of bytes -1 means no limit.

    Attributes:
        advertised_listeners: The addresses that clients are given, as in Kafka; empty for those of ``listeners``.
        auto_create_topics_enable: Whether Metadata and a producer's first use create a topic.
        connection_failed_authentication_delay_ms: Time between a failed authentication and its response.
        connections_max_idle_ms: A connection without requests is closed after this time; negative for never.
        connections_max_reauth_ms: Longest SASL session before the client must authenticate again; 0 for no limit.
        default_replication_factor: Replicas of a topic that is created without a number of them.
        delete_topic_enable: Whether DeleteTopics deletes.
        fetch_max_bytes: Size of the record batches in one Fetch response.
        group_consumer_assignors: Server-side assignors of the consumer protocol, the first is the default.
        group_consumer_heartbeat_interval_ms: Heartbeat interval that members of the consumer protocol are given.
        group_consumer_max_size: Members of one group of the consumer protocol.
        group_consumer_migration_policy: Whether a group may be upgraded to the consumer protocol, and downgraded.
        group_consumer_regex_refresh_interval_ms: Time after which subscribed regular expressions are resolved again.
        group_consumer_session_timeout_ms: Session timeout of members of the consumer protocol.
        group_coordinator_rebalance_protocols: Group protocols that are served, of ``classic`` and ``consumer``.
        group_initial_rebalance_delay_ms: How long an empty classic group waits for more members before its first
            generation.
        group_max_session_timeout_ms: Longest session timeout that a JoinGroup may ask for.
        group_max_size: Members of one classic group.
        group_min_session_timeout_ms: Shortest session timeout that a JoinGroup may ask for.
        listener_security_protocol_map: Security protocol of each listener name, as in Kafka.
        listeners: Names and ports of the listeners, as in Kafka.
        log_message_timestamp_after_max_ms: How far in the future the timestamp of a record may be.
        log_message_timestamp_before_max_ms: How far in the past the timestamp of a record may be.
        log_message_timestamp_type: CreateTime or LogAppendTime.
        max_incremental_fetch_session_cache_slots: Fetch sessions that a broker keeps.
        message_max_bytes: Size of one record batch.
        min_insync_replicas: In-sync replicas that a Produce with acks=all needs.
        mockbroker_check_records: Whether Produce checks each record, as Kafka does, and not only the header and the
            checksum of its batch. It takes several times as long.
        mockbroker_coordinator_load_ms: How long a new coordinator loads its groups; meanwhile requests get
            COORDINATOR_LOAD_IN_PROGRESS.
        mockbroker_join_settle_ms: Time after the last JoinGroup before which the initial rebalance delay does not end.
            Members that start together then share the first generation, as they do on a slower Kafka without a delay.
        mockbroker_max_pending_members: Member ids that all groups keep for members that have not joined with them yet.
        mockbroker_max_transactional_ids: Transactional ids that the transaction coordinators keep.
        mockbroker_queued_max_response_bytes: Responses that a broker holds for clients that do not read them.
        mockbroker_response_max_bytes: Size of one response.
        mockbroker_users: Users for SASL: NAME:PASSWORD, separated by commas. Kafka has them in its JAAS configuration.
        mockbroker_transaction_completion_ms: Time between the end of a transaction and its markers; meanwhile the next
            one gets CONCURRENT_TRANSACTIONS.
        mockbroker_transaction_log_on_demand: Whether the first FindCoordinator for a transactional id creates
            __transaction_state and gets COORDINATOR_NOT_AVAILABLE, as in a Kafka that was just installed.
        num_partitions: Partitions of a topic that is created without a number of them.
        offset_metadata_max_bytes: Length of the metadata of a committed offset.
        offsets_topic_num_partitions: Partitions of __consumer_offsets.
        offsets_topic_replication_factor: Replicas of __consumer_offsets.
        offsets_retention_check_interval_ms: Time between two searches for expired offsets.
        offsets_retention_minutes: How long offsets are kept after the group is empty.
        queued_max_request_bytes: Requests that a broker holds for all clients together; Kafka has no limit by default.
        sasl_enabled_mechanisms: SASL mechanisms that are offered.
        sasl_server_max_receive_size: Size of a request before authentication.
        socket_request_max_bytes: Size of a request.
        ssl_client_auth: Whether clients must send a certificate: none, requested or required.
        ssl_keystore_location: PEM file with the broker's key and certificates.
        ssl_truststore_location: PEM file with the authorities that sign clients' certificates.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: Time between two searches for transactions that
            exceeded their timeout.
        transaction_max_timeout_ms: Longest transaction timeout that InitProducerId may ask for.
        transaction_state_log_num_partitions: Partitions of __transaction_state.
        transaction_state_log_replication_factor: Replicas of __transaction_state.
        given: Kafka names of the settings that were set.
        others: Settings of Kafka without an effect here: name to value, as text.
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
    mockbroker_join_settle_ms: int = 3
    mockbroker_max_pending_members: int = 50_000
    mockbroker_max_transactional_ids: int = 50_000
    mockbroker_queued_max_response_bytes: int = 512 * 1024 * 1024
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
        """From Kafka names to values, as text or as what they are. Raises: SettingsError."""
        values: dict[str, Any] = {}
        others: dict[str, str] = {}
        for name, value in given.items():
            if is_ours(name):
                values[_attribute(name)] = _value(name, value)
            else:
                others[name] = _accepted(name, value)
        return cls(**values, given=frozenset(given), others=others)

    def by_name(self) -> dict[str, bool | int | str]:
        """Every setting by its Kafka name."""
        return {_kafka_name(name): getattr(self, name) for name in _KINDS}

    def without_effect(self) -> list[str]:
        """Which of those that were set change nothing here, in order; and values of others that do not."""
        names = set(self.others) - READ_ELSEWHERE
        protocols = set(self.group_coordinator_rebalance_protocols.split(",")) & NOT_SERVED
        return sorted(names) + [f"{_PROTOCOLS} {word}" for word in sorted(protocols)]


# Settings that are words: those they may be, and whether there may be several, separated by commas.
_PROTOCOLS = "group.coordinator.rebalance.protocols"
NOT_SERVED = frozenset({"share", "streams"})  # group protocols that Kafka has besides
CONTROLLERS = "controller.listener.names"
READ_ELSEWHERE = {CONTROLLERS, "log.cleanup.policy"}  # listeners.py leaves the first out, topics take the second
_WORDS: Mapping[str, tuple[frozenset[str], bool]] = {
    "group.consumer.assignors": (frozenset({"uniform", "range"}), True),
    "group.consumer.migration.policy": (frozenset({"bidirectional", "upgrade", "downgrade", "disabled"}), False),
    "group.coordinator.rebalance.protocols": (frozenset({"classic", "consumer", *NOT_SERVED}), True),
    "log.message.timestamp.type": (frozenset({"CreateTime", "LogAppendTime"}), False),
    "sasl.enabled.mechanisms": (frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}), True),
    "ssl.client.auth": (frozenset({"none", "requested", "required"}), False),
}
_SAME = {  # other names of words, in lower case
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
    """``key=value`` lines, as in Kafka's server.properties; ``#`` and ``!`` begin comments. Raises: SettingsError."""
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
    """Whether a setting has an effect here."""
    return _attribute(name) in _KINDS and name == _kafka_name(_attribute(name))


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _accepted(name: str, value: object) -> str:
    """A value of a setting without effect, as text. Raises: SettingsError if no release of Kafka takes it."""
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
