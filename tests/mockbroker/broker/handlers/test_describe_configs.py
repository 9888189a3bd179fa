"""DescribeConfigs."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from mockbroker.base.effects import Effects, Steps
from mockbroker.base.release import KAFKA_3_9
from mockbroker.broker.handlers import describe_configs
from mockbroker.broker.handlers.describe_configs import SLICE
from mockbroker.topics.configs import SINCE_4_0

Altered = IncrementalAlterConfigsRequest.Resource
TOPIC, BROKER, GROUP = 2, 4, 32
OF_TOPIC, STATIC, DEFAULT = 1, 4, 5


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(config={"num.partitions": 3})


def error_of(harness: BrokerHarness, type_: int, name: str) -> Any:
    resource = DescribeConfigsRequest.Resource(resource_type=type_, resource_name=name)
    (result,) = harness.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    return result.error_message


def describe(
    harness: BrokerHarness, type_: int, name: str, version: int = 4, keys: Any = None, **how: Any
) -> tuple[Any, ...]:
    resource = DescribeConfigsRequest.Resource(resource_type=type_, resource_name=name, configuration_keys=keys)
    (result,) = harness.ask(DescribeConfigsRequest(resources=[resource], **how), version).results
    return E(result.error_code), {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_topic_configs(harness, version):
    error, configs = describe(harness, TOPIC, "t", version)
    assert (error, set(configs)) == (E.NONE, set(SINCE_4_0))
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("604800000", DEFAULT)
    assert configs["retention.ms"].config_type == (5 if version >= 3 else 0)


def test_dynamic_topic_configs(harness):
    config = CreateTopicsRequest.Topic.Config(name="cleanup.policy", value="compact")
    topic = CreateTopicsRequest.Topic(name="c", num_partitions=1, replication_factor=1, configs=[config])
    harness.ask(CreateTopicsRequest(topics=[topic]), 7)
    _, configs = describe(harness, TOPIC, "c", keys=["cleanup.policy"], include_synonyms=True)
    (described,) = configs.values()
    assert (described.value, described.config_source) == ("compact", OF_TOPIC)
    assert [(one.name, one.value, one.source) for one in described.synonyms] == [
        ("cleanup.policy", "compact", OF_TOPIC),
        ("log.cleanup.policy", "delete", DEFAULT),
    ]


@pytest.mark.parametrize(
    ("type_", "name", "config", "value", "synonym"),
    [
        (16, "s", "metrics", "a.,b.", "a.,b."),
        (16, "s", "match", "client_id=a", "client_id=a"),
        (BROKER, "0", "log.cleanup.policy", "delete,compact", "delete,delete,compact"),
    ],
)
def test_duplicate_items_of_a_list_are_not_reported(harness, type_, name, config, value, synonym):
    given = {"metrics": "a.,a.,b.", "match": "client_id=a,client_id=a", "log.cleanup.policy": "delete,delete,compact"}
    change = Altered.Config(name=config, config_operation=0, value=given[config])
    resource = Altered(resource_type=type_, resource_name=name, configs=[change])
    harness.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    _, configs = describe(harness, type_, name, keys=[config], include_synonyms=True)
    assert (configs[config].value, configs[config].synonyms[0].value) == (value, synonym)


def test_duplicate_items_of_a_cleanup_policy_are_not_reported(harness):
    harness.broker.cluster.create_topic("c", [[0]], {"cleanup.policy": "delete, compact,delete"})
    _, configs = describe(harness, TOPIC, "c", keys=["cleanup.policy"], include_synonyms=True)
    (described,) = configs.values()
    assert (described.value, described.synonyms[0].value) == ("delete,compact", "delete,compact")


def test_configs_of_internal_topics():
    """The expected values are those of Kafka 4.2.0."""
    harness = BrokerHarness(config={"transaction.state.log.min.isr": "1", "offsets.topic.segment.bytes": "1048576"})
    harness.broker.transaction_coordinator("id")
    harness.broker.share_state_topic()
    own = {
        name: {key: each.value for key, each in describe(harness, TOPIC, name)[1].items() if each.config_source == 1}
        for name in ("__consumer_offsets", "__transaction_state", "__share_group_state")
    }
    assert own == {
        "__consumer_offsets": {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "1048576"},
        "__transaction_state": {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        },
        "__share_group_state": {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": "2",
            "retention.ms": "-1",
            "segment.bytes": "104857600",
        },
    }


def test_broker_config_is_the_default_of_topics():
    harness = BrokerHarness(config={"message.max.bytes": 5_000})
    _, configs = describe(harness, TOPIC, "t", keys=["max.message.bytes"], include_synonyms=True)
    (described,) = configs.values()
    assert (described.value, described.config_source) == ("5000", STATIC)
    assert [(one.name, one.value, one.source) for one in described.synonyms] == [
        ("message.max.bytes", "5000", STATIC),
        ("message.max.bytes", "1048588", DEFAULT),
    ]


def test_broker_configs(harness):
    error, configs = describe(harness, BROKER, "0")
    assert error == E.NONE
    for name, value in harness.broker.settings.by_name().items():
        if name not in configs:  # Kafka describes these only if they are set
            assert not value or name in INTERNAL
            continue
        returned = configs[name].value
        assert not value or returned == (value if isinstance(value, str) else str(value).lower()), name
    assert {name for name, config in configs.items() if config.is_sensitive} >= {"mockbroker.users", "ssl.key.password"}
    assert all(config.value is None for config in configs.values() if config.is_sensitive)
    assert configs["num.partitions"].config_source == STATIC
    assert configs["message.max.bytes"].config_source == DEFAULT
    assert (configs["node.id"].value, configs["log.retention.hours"].value) == ("0", "168")


def test_static_broker_configs(harness):
    harness = BrokerHarness(
        config={"log.retention.ms": 5, "delete.topic.enable": "false", "ssl.key.password": "secret"}
    )
    keys = ["log.retention.ms", "delete.topic.enable", "ssl.key.password"]
    _, configs = describe(harness, BROKER, "0", keys=keys, include_synonyms=True)
    assert {name: (one.value, one.config_source) for name, one in configs.items()} == {
        "log.retention.ms": ("5", STATIC),
        "delete.topic.enable": ("false", STATIC),
        "ssl.key.password": (None, STATIC),
    }
    synonyms = [(one.value, one.source) for one in configs["delete.topic.enable"].synonyms]
    assert synonyms == [("false", STATIC), ("true", DEFAULT)]
    _, without = describe(harness, BROKER, "0", keys=keys)
    assert all(one.synonyms == [] for one in without.values())


INTERNAL = {"group.consumer.regex.refresh.interval.ms", "producer.id.expiration.check.interval.ms"}
REFUSED = [
    (TOPIC, "nothing", E.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "a/b", E.INVALID_TOPIC_EXCEPTION),
    (BROKER, "9", E.INVALID_REQUEST),
    (BROKER, "x", E.INVALID_REQUEST),
    (99, "t", E.INVALID_REQUEST),
]


@pytest.mark.parametrize(("type_", "name", "error"), REFUSED)
def test_rejected(harness, type_, name, error):
    assert describe(harness, type_, name) == (error, {})


@pytest.mark.parametrize("type_", [BROKER, 8, 16, GROUP, 99])
def test_error_message(harness, type_):
    """The expected messages are those of Kafka in the conversations configs_described and resources_described."""
    assert type_ == BROKER or error_of(harness, type_, "") != ""
    assert type_ in (16, GROUP) or error_of(harness, type_, "7") != ""


@pytest.mark.parametrize("unknown", [-1, 0, 99])
def test_unknown_resource_type_makes_all_resources_invalid(harness, unknown):
    resources = [DescribeConfigsRequest.Resource(resource_type=type_, resource_name="t") for type_ in (TOPIC, unknown)]
    results = harness.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(one.resource_type, one.error_code, one.configs) for one in results] == [
        (TOPIC, E.INVALID_REQUEST, []),
        (unknown, E.INVALID_REQUEST, []),
    ]
    assert all(one.error_message for one in results)


def test_configurations_of_a_group():
    harness = BrokerHarness()
    harness.broker.cluster.configure_group("g", {"share.auto.offset.reset": "earliest"})
    error, configs = describe(harness, GROUP, "g")
    assert (error, len(configs)) == (E.NONE, 11)
    reset = configs["share.auto.offset.reset"]
    assert (reset.value, reset.config_source) == ("earliest", 8)
    assert describe(BrokerHarness(release=KAFKA_3_9), GROUP, "g") == (E.INVALID_REQUEST, {})


def test_many_resources_are_described_in_slices(harness, monkeypatch):
    slices = []

    def begin(ticket: Any, steps: Steps) -> Effects:
        while True:
            try:
                slices.append(next(steps))
            except StopIteration as end:
                return end.value

    monkeypatch.setattr(describe_configs, "begin", begin)
    resources = [DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name="t")] * (2 * SLICE + 1)
    assert len(harness.ask(DescribeConfigsRequest(resources=resources), 4).results) == len(resources)
    assert slices == [[], []]
