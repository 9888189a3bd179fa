"""Configuration by Kafka's names: what is taken, and what is said of the rest."""

from __future__ import annotations

import pytest

from mockbroker.settings import Settings, SettingsError, read_properties


def test_defaults_are_kafkas():
    assert Settings().by_name() == {
        "auto.create.topics.enable": True,
        "connection.failed.authentication.delay.ms": 100,
        "connections.max.idle.ms": 600_000,
        "connections.max.reauth.ms": 0,
        "default.replication.factor": 1,
        "fetch.max.bytes": 57_671_680,
        "group.consumer.assignors": "uniform,range",
        "group.consumer.heartbeat.interval.ms": 5_000,
        "group.consumer.max.size": 2_147_483_647,
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.regex.refresh.interval.ms": 600_000,
        "group.consumer.session.timeout.ms": 45_000,
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.initial.rebalance.delay.ms": 3_000,
        "group.max.session.timeout.ms": 1_800_000,
        "group.max.size": 2_147_483_647,
        "group.min.session.timeout.ms": 6_000,
        "listener.security.protocol.map": "",
        "listeners": "",
        "log.message.timestamp.after.max.ms": 3_600_000,
        "max.incremental.fetch.session.cache.slots": 1_000,
        "message.max.bytes": 1_048_588,
        "mockbroker.check.records": False,
        "mockbroker.coordinator.load.ms": 0,
        "mockbroker.join.settle.ms": 3,
        "mockbroker.max.pending.members": 50_000,
        "mockbroker.max.transactional.ids": 50_000,
        "mockbroker.queued.max.response.bytes": 536_870_912,
        "mockbroker.users": "",
        "mockbroker.transaction.completion.ms": 0,
        "mockbroker.transaction.log.on.demand": False,
        "num.partitions": 1,
        "offset.metadata.max.bytes": 4_096,
        "offsets.retention.check.interval.ms": 600_000,
        "offsets.retention.minutes": 10_080,
        "offsets.topic.num.partitions": 50,
        "queued.max.request.bytes": 268_435_456,  # Kafka: -1, no limit
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",  # Kafka: GSSAPI, which is not here
        "sasl.server.max.receive.size": 524_288,
        "socket.request.max.bytes": 104_857_600,
        "ssl.client.auth": "none",
        "ssl.keystore.location": "",
        "ssl.truststore.location": "",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
        "transaction.max.timeout.ms": 900_000,
        "transaction.state.log.num.partitions": 50,
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
        ("zzz", 1, "unknown setting zzz; did you mean group.max.size?"),
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


def test_a_line_that_is_none_is_named():
    with pytest.raises(SettingsError, match=r"line 2: expected KEY=VALUE, got 'num.partitions'"):
        read_properties(["a=1", "num.partitions"])
