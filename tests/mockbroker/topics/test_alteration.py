"""Changes of topic configurations. Kafka's behaviour: the conversation configs_altered."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from mockbroker.base.release import KAFKA_4_2, RELEASES, Release
from mockbroker.broker.broker import Broker
from mockbroker.topics import alteration, group_configs
from mockbroker.topics.alteration import BROKER, GROUP, Alteration
from mockbroker.topics.config_changes import APPEND, DELETE, SET, SUBTRACT, Change, Refusal, apply
from mockbroker.topics.configs import topic_configs
from mockbroker.topics.dynamic_broker_configs import MAX_SIZE

POLICY, RETENTION = "cleanup.policy", "retention.ms"
THROTTLED = "leader.replication.throttled.replicas"
LARGEST = "message.max.bytes"


def alter(
    broker: Broker, kind: int, name: str, changes: list[Change], release: Release = KAFKA_4_2, **options: bool
) -> Refusal:
    altering = Alteration(
        cluster=broker.cluster,
        release=release,
        brokers=broker.broker_settings,
        loggers=broker.loggers,
        node=0,
        **options,
    )
    (result,) = altering.alter_all([((kind, name), changes)])
    return result


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, Change(RETENTION, SET, "5"), {RETENTION: "5"}),
        ({RETENTION: "4"}, Change(RETENTION, SET, "-1"), {RETENTION: "-1"}),
        ({RETENTION: "4"}, Change(RETENTION, DELETE, None), {}),
        ({}, Change("no.such.config", DELETE, None), {}),
        ({}, Change(POLICY, APPEND, "compact"), {POLICY: "delete,compact"}),
        ({}, Change(POLICY, APPEND, "delete"), {POLICY: "delete"}),
        ({POLICY: "delete,compact"}, Change(POLICY, SUBTRACT, "delete"), {POLICY: "compact"}),
        ({POLICY: "compact"}, Change(POLICY, SUBTRACT, "delete"), {POLICY: "compact"}),
        (
            {},
            Change("follower.replication.throttled.replicas", APPEND, "0:1"),
            {"follower.replication.throttled.replicas": "0:1"},
        ),
        ({THROTTLED: "0:1"}, Change(THROTTLED, APPEND, "1:1,0:1,1:1"), {THROTTLED: "0:1,1:1"}),
        ({THROTTLED: "0:1,1:1,0:1"}, Change(THROTTLED, SUBTRACT, "0:1"), {THROTTLED: "1:1,0:1"}),
        ({THROTTLED: "0:1,1:1,0:1"}, Change(THROTTLED, SUBTRACT, "0:1,0:1"), {THROTTLED: "1:1"}),
        ({}, Change("preallocate", SET, "true"), {"preallocate": "true"}),
        ({}, Change("min.cleanable.dirty.ratio", SET, "0.1"), {"min.cleanable.dirty.ratio": "0.1"}),
    ],
)
def test_valid_change_is_applied(before, change, after):
    assert apply(before, [change], topic_configs(KAFKA_4_2)) == after


def test_changes_after_a_deletion_are_applied() -> None:
    changes = [Change(RETENTION, DELETE, None), Change(POLICY, SET, "compact")]
    assert apply({RETENTION: "4"}, changes, topic_configs(KAFKA_4_2)) == {POLICY: "compact"}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([Change("no.such.config", SET, "1")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, "x")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, str(2**63))], E.INVALID_CONFIG),
        ([Change("max.message.bytes", SET, str(2**31))], E.INVALID_CONFIG),
        ([Change("preallocate", SET, "yes")], E.INVALID_CONFIG),
        ([Change("min.cleanable.dirty.ratio", SET, "half")], E.INVALID_CONFIG),
        ([Change(RETENTION, APPEND, "1")], E.INVALID_CONFIG),
        ([Change(RETENTION, SUBTRACT, "1")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, None)], E.INVALID_REQUEST),
        ([Change(RETENTION, SET, "1"), Change(RETENTION, DELETE, None)], E.INVALID_REQUEST),
        ([Change(RETENTION, 9, "1")], E.UNKNOWN_SERVER_ERROR),
        ([Change(POLICY, SET, "compact"), Change(RETENTION, SET, "x")], E.INVALID_CONFIG),
        ([Change(POLICY, SET, "nonsense")], E.INVALID_CONFIG),
        ([Change(POLICY, APPEND, "nonsense")], E.INVALID_CONFIG),
        ([Change(RETENTION, SET, "-5")], E.INVALID_CONFIG),
    ],
)
def test_invalid_change_is_refused(changes, error):
    harness = BrokerHarness()
    refusal = alter(harness.broker, 2, "t", changes)
    assert (refusal.error, harness.broker.cluster.topics["t"].configs) == (error, {})


TWICE = [Change(RETENTION, SET, "5"), Change(RETENTION, SET, "6")]
NAMES = [(2, "absent"), (2, ""), (2, "bad name"), (4, "9"), (8, "9"), (32, ""), (99, "1")]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_changes_are_checked_before_the_resource(kind, name):
    broker = BrokerHarness().broker
    for changes, text in (
        (TWICE, "Error due to duplicate config keys"),
        ([Change(RETENTION, SET, None)], "Null value not supported for : retention.ms"),
    ):
        assert alter(broker, kind, name, changes) == Refusal(E.INVALID_REQUEST, text)
    if kind in (2, 32):
        assert alter(broker, kind, name, [Change(RETENTION, APPEND, "5")]).error == E.INVALID_CONFIG
        assert alter(broker, kind, name, [Change(RETENTION, 9, "5")]).error == E.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("replace_all", [True, False])
def test_values_are_checked_before_the_existence_of_a_topic(replace_all):
    broker = BrokerHarness().broker
    errors = {
        name: [alter(broker, 2, name, [Change(RETENTION, SET, value)], replace_all=replace_all).error for value in "x5"]
        for name in ("absent", "", "bad name")
    }
    assert errors == {
        "absent": [E.INVALID_CONFIG, E.UNKNOWN_TOPIC_OR_PARTITION],
        "": [E.INVALID_REQUEST, E.INVALID_REQUEST],
        "bad name": [E.INVALID_TOPIC_EXCEPTION, E.INVALID_TOPIC_EXCEPTION],
    }


@pytest.mark.parametrize(("kind", "what"), [(16, "client metrics"), (32, "groups"), (99, "type 99")])
def test_error_names_the_resource_type_that_cannot_be_altered(kind, what):
    release = RELEASES["3.6"] if kind in (16, GROUP) else KAFKA_4_2
    refusal = alter(BrokerHarness().broker, kind, "1", [Change(RETENTION, SET, "1")], release)
    assert refusal.error == E.INVALID_REQUEST
    assert what in (refusal.text or "")


def test_a_group_that_does_not_exist_can_be_configured():
    broker = BrokerHarness().broker
    name = "share.auto.offset.reset"
    assert alter(broker, GROUP, "g", [Change(name, SET, "earliest")]).error == E.NONE
    assert broker.cluster.group_configs == {"g": {name: "earliest"}}
    assert alter(broker, GROUP, "g", [Change(name, SET, "x")]).error == E.INVALID_CONFIG
    assert alter(broker, GROUP, "", [Change(name, SET, "x")]).error == E.INVALID_REQUEST
    assert alter(broker, GROUP, "g", [Change(name, DELETE, None)]).error == E.NONE
    assert broker.cluster.group_configs == {"g": {}}


def test_the_number_of_configured_groups_is_limited(monkeypatch):
    monkeypatch.setattr(group_configs, "MAX_GROUPS", 1)
    broker = BrokerHarness().broker
    change = [Change("share.auto.offset.reset", SET, "earliest")]
    errors = [alter(broker, GROUP, name, change).error for name in ("a", "b", "a")]
    assert errors == [E.NONE, E.INVALID_REQUEST, E.NONE]


@pytest.mark.parametrize(("name", "of_broker"), [("0", True), ("", False)])
def test_setting_of_a_broker_takes_effect_at_once(name, of_broker):
    broker = BrokerHarness(brokers=2).broker
    settings = broker.settings
    assert alter(broker, BROKER, name, [Change(LARGEST, SET, " 5 ")]).error == E.NONE
    values = [each.message_max_bytes for each in (broker.settings_of(0), broker.settings_of(1), settings)]
    assert values == ([5, 1_048_588, 1_048_588] if of_broker else [5, 5, 5])
    assert alter(broker, BROKER, name, [Change(LARGEST, DELETE, None)]).error == E.NONE
    assert [broker.settings_of(0).message_max_bytes, settings.message_max_bytes] == [1_048_588] * 2
    assert broker.cluster.broker_configs == {}


def test_size_of_the_settings_of_brokers_is_limited():
    broker = BrokerHarness().broker
    long = "x" * (MAX_SIZE - len("a.b"))
    assert alter(broker, BROKER, "", [Change("a.b", SET, long)]).error == E.NONE
    refusal = alter(broker, BROKER, "0", [Change("a", SET, "")])
    assert (refusal.error, refusal.text) == (
        E.INVALID_REQUEST,
        "The settings of brokers would have 1048577 characters, the maximum is 1048576: delete some first.",
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (Change("mockbroker", SET, "DEBUG"), E.NONE),
        (Change("mockbroker", DELETE, None), E.NONE),
        (Change("root", DELETE, None), E.INVALID_REQUEST),
        (Change("nothing", SET, "DEBUG"), E.INVALID_CONFIG),
        (Change("root", SET, "debug"), E.INVALID_CONFIG),
        (Change("root", APPEND, "DEBUG"), E.INVALID_REQUEST),
        (Change("root", 9, "DEBUG"), E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_log_level_is_validated(change, error):
    assert alter(BrokerHarness().broker, 8, "0", [change]).error == error
    assert alter(BrokerHarness().broker, 8, "0", [Change("mockbroker.http", SET, "DEBUG"), change]).error == error


def test_client_metrics_subscription_is_altered():
    broker = BrokerHarness().broker
    assert alter(broker, 16, "s", [Change("metrics", SET, "a.")]).error == E.NONE
    assert alter(broker, 16, "s", [Change("metrics", APPEND, "b.")]).error == E.INVALID_CONFIG
    assert alter(broker, 16, "s", [Change("interval.ms", SET, "1")]).error == E.INVALID_REQUEST
    assert broker.cluster.client_metrics == {"s": {"metrics": "a."}}
    assert alter(broker, 16, "s", [Change("metrics", DELETE, None)]).error == E.NONE
    assert broker.cluster.client_metrics == {}


def test_size_of_a_client_metrics_subscription_is_limited() -> None:
    broker = BrokerHarness().broker
    refusal = alter(broker, 16, "s", [Change("metrics", SET, "a" * MAX_SIZE)])
    assert (refusal.error, broker.cluster.client_metrics) == (E.INVALID_REQUEST, {})
    assert "the maximum is 65536: use fewer metrics and patterns" in (refusal.text or "")


def test_number_of_settings_of_a_broker_is_limited():
    broker = BrokerHarness().broker
    many = [Change(f"setting.{number}", SET, "1") for number in range(1_001)]
    refusal = alter(broker, BROKER, "0", many)
    assert refusal.error == E.INVALID_REQUEST
    assert refusal.text == "The resource would have 1001 settings, the maximum is 1000: delete some first."
    assert alter(broker, BROKER, "0", many[1:]).error == E.NONE


RESOURCES = [  # resource type, name, a change, another change
    pytest.param(2, "t", ("retention.ms", "5"), ("retention.bytes", "6"), id="topic"),
    pytest.param(BROKER, "0", ("message.max.bytes", "5"), ("log.retention.ms", "6"), id="broker"),
    pytest.param(BROKER, "", ("message.max.bytes", "5"), ("log.retention.ms", "6"), id="all brokers"),
    pytest.param(16, "s", ("metrics", "a."), ("interval.ms", "1000"), id="client metrics"),
    pytest.param(
        GROUP, "g", ("share.auto.offset.reset", "earliest"), ("consumer.session.timeout.ms", "50000"), id="group"
    ),
]


def configured(broker: Broker, kind: int, name: str) -> dict[str, str | None]:
    """Return the configurations that are set on a resource."""
    cluster = broker.cluster
    own = {2: cluster.topics["t"].configs, BROKER: cluster.broker_configs.get(name, {})}
    own |= {16: cluster.client_metrics.get(name, {}), GROUP: cluster.group_configs.get(name, {})}
    return dict(own[kind])


@pytest.mark.parametrize(("kind", "name", "first", "second"), [*RESOURCES[:2], *RESOURCES[3:]])
def test_only_alter_configs_resets_what_it_omits(
    kind: int, name: str, first: tuple[str, str], second: tuple[str, str]
) -> None:
    broker = BrokerHarness().broker
    assert alter(broker, kind, name, [Change(first[0], SET, first[1])]).error == E.NONE
    assert alter(broker, kind, name, [Change(second[0], SET, second[1])]).error == E.NONE
    assert configured(broker, kind, name) == dict([first, second])
    assert alter(broker, kind, name, [Change(second[0], SET, second[1])], replace_all=True).error == E.NONE
    assert configured(broker, kind, name) == dict([second])


@pytest.mark.parametrize(("kind", "name", "first", "second"), RESOURCES)
def test_validated_change_is_not_applied(kind: int, name: str, first: tuple[str, str], second: tuple[str, str]) -> None:
    broker = BrokerHarness().broker
    changes = [Change(each, SET, value) for each, value in (first, second)]
    assert alter(broker, kind, name, changes, validate_only=True).error == E.NONE
    assert configured(broker, kind, name) == {}
    assert alter(broker, kind, name, [Change(first[0], 9, "1")], validate_only=True).error != E.NONE


@pytest.mark.parametrize(("kind", "name", "first", "second"), RESOURCES)
def test_unknown_operation_is_refused(kind: int, name: str, first: tuple[str, str], second: tuple[str, str]) -> None:
    refusal = alter(BrokerHarness().broker, kind, name, [Change(first[0], 9, second[1])])
    expected = (E.INVALID_REQUEST, "Unknown operations type 9") if kind == BROKER else (E.UNKNOWN_SERVER_ERROR, None)
    assert (refusal.error, refusal.text) == expected


def test_resource_that_occurs_twice_is_refused() -> None:
    broker = BrokerHarness().broker
    altering = Alteration(
        cluster=broker.cluster, release=KAFKA_4_2, brokers=broker.broker_settings, loggers=broker.loggers, node=0
    )
    change = [Change("retention.ms", SET, "5")]
    results = altering.alter_all([((2, "t"), change), ((GROUP, "t"), []), ((2, "t"), change)])
    assert [each.error for each in results] == [E.INVALID_REQUEST, E.NONE, E.INVALID_REQUEST]
    assert results[0].text == "Each resource must appear at most once."
    assert broker.cluster.topics["t"].configs == {}


def test_log_level_is_changed() -> None:
    broker = BrokerHarness().broker
    assert alter(broker, 8, "0", [Change("mockbroker", SET, "DEBUG")], validate_only=True).error == E.NONE
    assert broker.loggers.effective()["mockbroker"] == "INFO"
    assert alter(broker, 8, "0", [Change("mockbroker", SET, "DEBUG"), Change("root", SET, "WARN")]).error == E.NONE
    assert broker.loggers.effective() == {"root": "WARN", "mockbroker": "DEBUG", "mockbroker.http": "DEBUG"}
    assert alter(broker, 8, "0", [Change("mockbroker", DELETE, None)]).error == E.NONE
    assert broker.loggers.effective()["mockbroker"] == "WARN"


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (8, "0", (E.INVALID_REQUEST, "Unknown resource type 8")),
        (2, "", (E.INVALID_REQUEST, "Default topic resources are not allowed.")),
        (2, "a/b", (E.INVALID_TOPIC_EXCEPTION, None)),
        (2, "u", (E.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist.")),
    ],
)
def test_resource_that_cannot_be_altered(kind: int, name: str, expected: tuple[E, str | None]) -> None:
    refusal = alter(BrokerHarness().broker, kind, name, [], replace_all=True)
    assert refusal.error == expected[0]
    assert expected[1] is None or refusal.text == expected[1]


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (8, "1", "Unexpected node id. Expected 0, but received 1"),
        (8, "", "Node id must be an integer, but it is: "),
        (8, "x", "Node id must be an integer, but it is: x"),
        (BROKER, "1", "Unexpected broker id, expected 0, but received 1"),
        (BROKER, "x", "Node id must be an integer, but it is: x"),
        (BROKER, "12345678901", "Node id must be an integer, but it is: 12345678901"),
    ],
)
def test_broker_changes_only_itself(kind: int, name: str, expected: str) -> None:
    refusal = alter(BrokerHarness().broker, kind, name, [])
    assert (refusal.error, refusal.text) == (E.INVALID_REQUEST, expected)
    assert alter(BrokerHarness().broker, kind, "+0", []).error == E.NONE


def test_change_of_a_broker_that_is_no_list_is_refused() -> None:
    broker = BrokerHarness().broker
    refusals = [
        alter(broker, BROKER, "0", [Change("message.max.bytes", operation, "1")]) for operation in (APPEND, SUBTRACT)
    ]
    assert refusals == [
        Refusal(E.INVALID_CONFIG, "Config value append is not allowed for config key: message.max.bytes"),
        Refusal(E.INVALID_CONFIG, "Config value subtract is not allowed for config key: message.max.bytes"),
    ]
    unknown = alter(broker, BROKER, "0", [Change("a.b", APPEND, "1")])
    assert unknown.error == E.UNKNOWN_SERVER_ERROR


def test_items_are_appended_to_the_default_of_a_broker() -> None:
    broker = BrokerHarness().broker
    assert alter(broker, BROKER, "0", [Change("log.cleanup.policy", APPEND, "compact")]).error == E.NONE
    assert broker.cluster.broker_configs == {"0": {"log.cleanup.policy": "delete,compact"}}


def test_settings_of_the_same_resource_count_once() -> None:
    broker = BrokerHarness().broker
    long = "x" * (MAX_SIZE - len("a.b"))
    for _ in range(2):
        assert alter(broker, BROKER, "", [Change("a.b", SET, long)]).error == E.NONE


def test_number_of_threads_is_compared_with_the_current_one() -> None:
    broker = BrokerHarness().broker
    refused = alter(broker, BROKER, "", [Change("num.io.threads", SET, "17")])  # the default is 8
    assert refused.error == E.INVALID_REQUEST
    assert "should not be greater than double the current value 8" in (refused.text or "")
    for value in ("16", "32"):
        assert alter(broker, BROKER, "", [Change("num.io.threads", SET, value)]).error == E.NONE


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([Change("a", SET, "1"), Change("a", DELETE, None)], "Error due to duplicate config keys"),
        ([Change("a", SET, None), Change("b", APPEND, None)], "Null value not supported for : a, b"),
    ],
)
@pytest.mark.parametrize("kind", [2, BROKER, 8, 16, GROUP])
def test_changes_with_a_structural_error_are_refused(kind: int, changes: list[Change], text: str) -> None:
    name = "t" if kind == 2 else "0"
    refusal = alter(BrokerHarness().broker, kind, name, changes)
    assert (refusal.error, refusal.text) == (E.INVALID_REQUEST, text)


def test_cluster_wide_min_in_sync_replicas_is_not_reset() -> None:
    """Eligible leader replicas (KIP-966) need the cluster-wide setting, so AlterConfigs has to include it."""
    broker = BrokerHarness().broker
    refusal = alter(broker, BROKER, "", [Change(LARGEST, SET, "5")], replace_all=True)
    assert refusal.error == E.INVALID_CONFIG
    both = [Change(LARGEST, SET, "5"), Change("min.insync.replicas", SET, "1")]
    assert alter(broker, BROKER, "", both, replace_all=True).error == E.NONE


@pytest.mark.parametrize("keeps", [True, False])
def test_static_min_in_sync_replicas_are_stored_if_they_were_set(keeps: bool) -> None:
    """With eligible leader replicas, the static value is reported as cluster-wide even before a client sets it."""
    broker = BrokerHarness().broker
    broker.broker_settings.keeps_min_in_sync = keeps
    assert alter(broker, BROKER, "", [Change(LARGEST, SET, "5")]).error == E.NONE
    assert broker.cluster.broker_configs == {"": {LARGEST: "5"}}
    static = Change("min.insync.replicas", SET, "1")
    assert alter(broker, BROKER, "", [static]).error == E.NONE
    assert broker.cluster.broker_configs == {"": {LARGEST: "5"} | ({} if keeps else {static.name: "1"})}


def test_threads_are_compared_with_those_of_the_resource() -> None:
    broker = BrokerHarness().broker
    assert alter(broker, BROKER, "0", [Change("num.io.threads", SET, "16")]).error == E.NONE
    assert alter(broker, BROKER, "", [Change("num.io.threads", SET, "32")]).error == E.INVALID_REQUEST
    assert alter(broker, BROKER, "0", [Change("num.io.threads", SET, "32")]).error == E.NONE


def test_resource_types_have_kafkas_numbers() -> None:
    assert (alteration.TOPIC, BROKER, alteration.BROKER_LOGGER, alteration.CLIENT_METRICS, GROUP) == (2, 4, 8, 16, 32)


class Files:
    """Files of listeners with TLS. ``reason``: the reason why they are unusable, if they are."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason, self.reloaded = reason, []

    def refusal(self, node: int, changed: dict[str, str]) -> str | None:
        assert (node, changed) == (0, {LARGEST: "5"})
        return self.reason

    def reload(self, node: int) -> None:
        self.reloaded.append(node)

    def names(self, node: int) -> list[str]:
        return ["PLAINTEXT"]


@pytest.mark.parametrize(("name", "validate_only", "reloaded"), [("0", False, [0]), ("0", True, []), ("", False, [])])
def test_files_of_listeners_are_read_again(name: str, validate_only: bool, reloaded: list[int]) -> None:
    broker = BrokerHarness().broker
    files = broker.broker_settings.listener_files = Files()
    assert alter(broker, BROKER, name, [Change(LARGEST, SET, "5")], validate_only=validate_only).error == E.NONE
    assert files.reloaded == reloaded


def test_unusable_files_of_a_listener_refuse_the_change() -> None:
    broker = BrokerHarness().broker
    files = broker.broker_settings.listener_files = Files("reason")
    refusal = alter(broker, BROKER, "0", [Change(LARGEST, SET, "5")])
    assert refusal.error == E.INVALID_REQUEST
    assert "Validation of dynamic config update of SSLFactory failed: reason" in (refusal.text or "")
    assert (files.reloaded, broker.cluster.broker_configs.get("0")) == ([], None)


class OpenListener(Files):
    """The files of an open listener that accepts all settings."""

    def refusal(self, node: int, changed: dict[str, str]) -> None:
        pass


FIXED = Change("listener.name.plaintext.sasl.enabled.mechanisms", SET, "PLAIN")
OF_ALL = Change("max.connections", SET, "5")


@pytest.mark.parametrize(("name", "own"), [("0", [FIXED, OF_ALL]), ("", [OF_ALL])])
def test_listener_setting_forbids_a_change_for_all_listeners(name: str, own: list[Change]) -> None:
    broker = BrokerHarness().broker
    files = broker.broker_settings.listener_files = OpenListener()
    assert alter(broker, BROKER, "0", [FIXED]).error == E.NONE
    refusal = alter(broker, BROKER, name, own)
    assert refusal.error == E.INVALID_REQUEST
    assert "existing listener ListenerName(PLAINTEXT), restart broker" in (refusal.text or "")
    assert (broker.cluster.broker_configs, files.reloaded) == ({"0": {FIXED.name: "PLAIN"}}, [0])


def test_setting_that_all_listeners_have_already_is_no_change() -> None:
    broker = BrokerHarness().broker
    broker.broker_settings.listener_files = OpenListener()
    assert alter(broker, BROKER, "", [OF_ALL]).error == E.NONE
    assert alter(broker, BROKER, "0", [FIXED, OF_ALL]).error == E.NONE
    assert alter(broker, BROKER, "", [Change(OF_ALL.name, SET, "6")]).error == E.NONE, "the own setting applies"


@pytest.mark.parametrize(("release", "error"), [("3.6", E.INVALID_REQUEST), ("4.2", E.NONE)])
def test_client_metrics_exist_since_3_7(release: str, error: E) -> None:
    broker = BrokerHarness().broker
    assert alter(broker, 16, "s", [Change("metrics", SET, "a.")], RELEASES[release]).error == error
    assert (broker.cluster.client_metrics == {}) is bool(error)


@pytest.mark.parametrize(("release", "error"), [("3.9", E.INVALID_REQUEST), ("4.2", E.NONE)])
def test_group_configs_exist_since_4_0(release: str, error: E) -> None:
    broker = BrokerHarness().broker
    changes = [Change("share.auto.offset.reset", SET, "earliest")]
    assert alter(broker, GROUP, "g", changes, RELEASES[release]).error == error
    assert (broker.cluster.group_configs == {}) is bool(error)
