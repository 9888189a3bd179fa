"""Configuration with Kafka's setting names: which settings are accepted, and the messages about the others."""

from __future__ import annotations

import pytest

from mockbroker.base.settings import Settings, SettingsError, read_properties


def test_defaults_are_kafkas():
    assert Settings().by_name() == {
        "advertised.listeners": "",
        "allow.everyone.if.no.acl.found": False,
        "authorizer.class.name": "",
        "auto.create.topics.enable": True,
        "broker.rack": "",
        "connection.failed.authentication.delay.ms": 100,
        "connections.max.idle.ms": 600_000,
        "connections.max.reauth.ms": 0,
        "controller.quota.window.num": 11,
        "controller.quota.window.size.seconds": 1,
        "default.replication.factor": 1,
        "delegation.token.expiry.check.interval.ms": 3_600_000,
        "delegation.token.expiry.time.ms": 86_400_000,
        "delegation.token.max.lifetime.ms": 604_800_000,
        "delegation.token.secret.key": "",
        "delete.topic.enable": True,
        "fetch.max.bytes": 57_671_680,
        "group.consumer.assignors": "uniform,range",
        "group.consumer.heartbeat.interval.ms": 5_000,
        "group.consumer.max.heartbeat.interval.ms": 15_000,
        "group.consumer.max.session.timeout.ms": 60_000,
        "group.consumer.max.size": 2_147_483_647,
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.min.heartbeat.interval.ms": 5_000,
        "group.consumer.min.session.timeout.ms": 45_000,
        "group.consumer.regex.refresh.interval.ms": 600_000,
        "group.consumer.session.timeout.ms": 45_000,
        "group.coordinator.rebalance.protocols": "classic,consumer,streams",
        "group.initial.rebalance.delay.ms": 3_000,
        "group.max.session.timeout.ms": 1_800_000,
        "group.max.size": 2_147_483_647,
        "group.min.session.timeout.ms": 6_000,
        "group.share.delivery.count.limit": 5,
        "group.share.heartbeat.interval.ms": 5_000,
        "group.share.max.heartbeat.interval.ms": 15_000,
        "group.share.max.record.lock.duration.ms": 60_000,
        "group.share.max.session.timeout.ms": 60_000,
        "group.share.max.share.sessions": 2_000,
        "group.share.max.size": 200,
        "group.share.min.heartbeat.interval.ms": 5_000,
        "group.share.min.record.lock.duration.ms": 15_000,
        "group.share.min.session.timeout.ms": 45_000,
        "group.share.partition.max.record.locks": 2_000,
        "group.share.record.lock.duration.ms": 30_000,
        "group.share.session.timeout.ms": 45_000,
        "group.streams.heartbeat.interval.ms": 5_000,
        "group.streams.initial.rebalance.delay.ms": 3_000,
        "group.streams.max.heartbeat.interval.ms": 15_000,
        "group.streams.max.session.timeout.ms": 60_000,
        "group.streams.max.size": 2_147_483_647,
        "group.streams.max.standby.replicas": 2,
        "group.streams.min.heartbeat.interval.ms": 5_000,
        "group.streams.min.session.timeout.ms": 45_000,
        "group.streams.num.standby.replicas": 0,
        "group.streams.session.timeout.ms": 45_000,
        "listener.security.protocol.map": "",
        "listeners": "",
        "log.cleaner.backoff.ms": 15_000,
        "log.cleaner.enable": True,
        "log.message.timestamp.after.max.ms": 3_600_000,
        "log.message.timestamp.before.max.ms": 2**63 - 1,
        "log.message.timestamp.type": "CreateTime",
        "log.retention.check.interval.ms": 300_000,
        "max.connection.creation.rate": 2**31 - 1,
        "max.connections": 2**31 - 1,
        "max.connections.per.ip": 2**31 - 1,
        "max.connections.per.ip.overrides": "",
        "max.incremental.fetch.session.cache.slots": 1_000,
        "message.max.bytes": 1_048_588,
        "min.insync.replicas": 1,
        "mockbroker.check.records": False,
        "mockbroker.client.telemetry.enable": False,
        "mockbroker.coordinator.load.ms": 0,
        "mockbroker.faults.max.held.bytes": 100 * 1024 * 1024,
        "mockbroker.faults.max.held.requests": 1_000,
        "mockbroker.faults.max.rules": 1_000,
        "mockbroker.http.max.streams": 2_000,
        "mockbroker.http.max.waiters": 1_000,
        "mockbroker.join.settle.ms": 3,
        "mockbroker.max.acls": 10_000,
        "mockbroker.max.delegation.tokens": 10_000,
        "mockbroker.max.pending.members": 50_000,
        "mockbroker.max.transactional.ids": 50_000,
        "mockbroker.quota.request.us": 50,
        "mockbroker.queued.max.response.bytes": 536_870_912,
        "mockbroker.request.max.memory.bytes": 8_388_608,
        "mockbroker.replica.catch.up.ms": 200,
        "mockbroker.response.max.bytes": 104_857_600,
        "mockbroker.users": "",
        "mockbroker.transaction.completion.ms": 0,
        "mockbroker.transaction.log.on.demand": False,
        "num.partitions": 1,
        "offset.metadata.max.bytes": 4_096,
        "offsets.retention.check.interval.ms": 600_000,
        "offsets.retention.minutes": 10_080,
        "offsets.topic.num.partitions": 50,
        "producer.id.expiration.check.interval.ms": 600_000,
        "producer.id.expiration.ms": 86_400_000,
        "quota.window.num": 11,
        "quota.window.size.seconds": 1,
        "queued.max.request.bytes": 268_435_456,  # Kafka: -1, no limit
        "offsets.topic.replication.factor": 3,
        "replica.selector.class": "",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",  # Kafka: GSSAPI, not supported here
        "sasl.server.max.receive.size": 524_288,
        "share.coordinator.snapshot.update.records.per.snapshot": 500,
        "share.coordinator.state.topic.num.partitions": 50,
        "share.coordinator.state.topic.replication.factor": 3,
        "socket.request.max.bytes": 104_857_600,
        "ssl.client.auth": "none",
        "ssl.keystore.location": "",
        "ssl.principal.mapping.rules": "DEFAULT",
        "ssl.truststore.location": "",
        "super.users": "",
        "telemetry.max.bytes": 1_048_576,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
        "transaction.max.timeout.ms": 900_000,
        "transaction.partition.verification.enable": True,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
        "transaction.state.log.num.partitions": 50,
        "transaction.state.log.replication.factor": 3,
        "transactional.id.expiration.ms": 604_800_000,
    }


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("num.partitions", 3, 3),
        ("num.partitions", " 3 ", 3),
        ("group.initial.rebalance.delay.ms", "0", 0),
        ("auto.create.topics.enable", "false", False),
        ("auto.create.topics.enable", "TRUE", True),
        ("auto.create.topics.enable", False, False),
        ("group.consumer.assignors", "range, uniform", "range,uniform"),
        ("group.consumer.assignors", "Range", "range"),
        ("sasl.enabled.mechanisms", "plain, Scram-SHA-256", "PLAIN,SCRAM-SHA-256"),
        ("ssl.client.auth", "Required", "required"),
        ("ssl.keystore.location", "/A/Key.pem", "/A/Key.pem"),
        ("mockbroker.users", "Alice:Secret", "Alice:Secret"),
        ("group.consumer.migration.policy", "DISABLED", "disabled"),
        ("group.coordinator.rebalance.protocols", "classic", "classic"),
        ("group.coordinator.rebalance.protocols", "classic,consumer,streams", "classic,consumer,streams"),
        ("group.consumer.assignors", "org.apache.kafka.coordinator.group.assignor.UniformAssignor", "uniform"),
        ("connections.max.idle.ms", -1, -1),
        ("log.message.timestamp.after.max.ms", 2**63 - 1, 2**63 - 1),
        ("group.max.session.timeout.ms", 2**31 - 1, 2**31 - 1),
    ],
)
def test_taken(name, given, taken):
    assert Settings.parse({name: given}).by_name()[name] == taken


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("num.partition", 1, "unknown setting num.partition; did you mean num.partitions?"),
        ("num_partitions", 1, "unknown setting num_partitions; did you mean num.partitions?"),
        ("NUM_PARTITIONS", 1, "unknown setting NUM_PARTITIONS; did you mean num.partitions?"),
        ("KAFKA_BROKER_RACK", 1, "unknown setting KAFKA_BROKER_RACK; did you mean broker.rack?"),
        ("retention.ms", 1, "unknown setting retention.ms; did you mean log.retention.ms?"),
        ("log.retention.hour", 1, "unknown setting log.retention.hour; did you mean log.retention.hours?"),
        (
            "authorizer.class.name",
            "A",
            "authorizer.class.name: expected one of empty, org.apache.kafka.metadata.authorizer.StandardAuthorizer, got 'A'",
        ),
        ("zzz", 1, "unknown setting zzz: Kafka's brokers have no setting of this or a similar name"),
        ("nope", 1, "unknown setting nope: Kafka's brokers have no setting of this or a similar name"),
        (
            "sasl.enabled.mechanisms",
            "FOO",
            "sasl.enabled.mechanisms: expected one or more of OAUTHBEARER, PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512 (comma-separated, each once), got 'FOO'",
        ),
        ("log.retention.hours", "a week", "log.retention.hours: expected a whole number, got 'a week'"),
        ("log.roll.hours", 0, "log.roll.hours: 0 is not between 1 and 2147483647"),
        ("log.cleaner.enable", "maybe", "log.cleaner.enable: expected true or false, got 'maybe'"),
        (
            "log.cleanup.policy",
            "compact,nonsense",
            "log.cleanup.policy: expected one or more of compact, delete (comma-separated, each once), got 'compact,nonsense'",
        ),
        (
            "offsets.topic.replication.factor",
            2**15,
            "offsets.topic.replication.factor: 32768 is not between 1 and 32767",
        ),
        ("num.partitions", "many", "num.partitions: expected a whole number, got 'many'"),
        ("num.partitions", "1.5", "num.partitions: expected a whole number, got '1.5'"),
        ("num.partitions", 0, "num.partitions: 0 is not between 1 and 100000"),
        ("num.partitions", 2**31, "num.partitions: 2147483648 is not between 1 and 100000"),
        (
            "group.initial.rebalance.delay.ms",
            -1,
            "group.initial.rebalance.delay.ms: -1 is not between 0 and 2147483647",
        ),
        ("auto.create.topics.enable", "yes", "auto.create.topics.enable: expected true or false, got 'yes'"),
        ("auto.create.topics.enable", 1, "auto.create.topics.enable: expected true or false, got 1"),
        ("num.partitions", True, "num.partitions: expected a whole number, got True"),
    ],
)
def test_refused(name, given, text):
    with pytest.raises(SettingsError) as caught:
        Settings.parse({name: given})
    assert str(caught.value) == text


def test_properties():
    lines = ["# a comment", "! another", "", "num.partitions=3", "  auto.create.topics.enable = false  ", "x="]
    assert read_properties(lines) == {"num.partitions": "3", "auto.create.topics.enable": "false", "x": ""}


def test_invalid_line_is_named():
    with pytest.raises(SettingsError, match=r"line 2: expected KEY=VALUE, got 'num.partitions'"):
        read_properties(["a=1", "num.partitions"])


SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
"""


def test_settings_without_effect_are_kept_and_named():
    settings = Settings.parse(read_properties(SERVER_PROPERTIES.splitlines()))
    assert settings.num_partitions == 2
    assert settings.others["log.retention.hours"] == "168"
    assert settings.without_effect() == [
        "controller.quorum.bootstrap.servers",
        "num.network.threads",
        "process.roles",
        "transaction.state.log.min.isr",
    ]
    share = {"group.coordinator.rebalance.protocols": "classic,consumer,streams,share", "group.share.enable": "true"}
    assert Settings.parse(share).without_effect() == []


SECRET = "geheim"


@pytest.mark.parametrize(
    "name",
    [
        "mockbroker.users",
        "ssl.key.password",
        "listener.name.sasl.plain.sasl.jaas.config",
        "delegation.token.secret.key",
    ],
)
def test_no_password_in_the_text_of_settings(name):
    settings = Settings.parse({name: f"alice:{SECRET}"})
    assert SECRET not in f"{settings!r} {settings}"
    assert settings != Settings(), "it is there all the same"
