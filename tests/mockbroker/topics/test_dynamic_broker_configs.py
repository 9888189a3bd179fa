"""Dynamic settings of brokers. Kafka's behaviour: the conversations broker_configs_scopes, broker_configs_validated."""

from __future__ import annotations

import pytest

from kwire import ErrorCode as E
from mockbroker.base.kafka_settings import NEW, kafka_settings
from mockbroker.base.live_settings import ALL_BROKERS, MIN_IN_SYNC
from mockbroker.base.release import KAFKA_3_9, KAFKA_4_2
from mockbroker.base.settings import OVERRIDES, overrides
from mockbroker.topics.dynamic_broker_configs import (
    ADDITIONAL,
    BY_LISTENER_ONLY,
    MAX_CONFIGS,
    MAX_SIZE,
    THREADS,
    Effective,
    configs_error,
    definition,
    is_dynamic,
    is_of_one_broker,
    min_in_sync_error,
)


def default(name: str) -> str:
    return kafka_settings()[name][NEW].default or ""


def test_default_of_each_dynamic_setting_is_valid() -> None:
    dynamic = [name for name, spans in kafka_settings().items() if NEW in spans and spans[NEW].dynamic]
    assert len(dynamic) > 90
    for name in dynamic:
        if default(name) and name not in BY_LISTENER_ONLY:
            assert configs_error({name: default(name)}, "1", KAFKA_4_2, default) is None, name


def test_settings_of_another_release_are_unknown_and_accepted() -> None:
    assert is_dynamic("zookeeper.connect", KAFKA_4_2)
    assert not is_dynamic("zookeeper.connect", KAFKA_3_9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("message.max.bytes", False),
        ("ssl.protocol", True),
        ("listeners", True),
        ("listener.name.a.max.connections", False),
        ("listener.name.a.message.max.bytes", True),
        ("listener.name.", False),
    ],
)
def test_setting_that_only_one_broker_can_have(name: str, expected: bool) -> None:
    assert is_of_one_broker(name) is expected


def test_more_than_four_names_are_a_hash_set() -> None:
    names = ("num.partitions", "fetch.max.bytes", "group.max.size", "broker.rack", "auto.create.topics.enable")
    error = configs_error(dict.fromkeys(names, "1"), "1", KAFKA_4_2, default) or ""
    assert error.startswith("Cannot update these configs dynamically: HashSet(num.partitions, ")


def test_min_in_sync_cannot_be_removed_or_set_on_a_broker() -> None:
    assert min_in_sync_error({"a": None}, ALL_BROKERS) is None
    assert min_in_sync_error({MIN_IN_SYNC: "2"}, ALL_BROKERS) is None
    for changed, resource in (({MIN_IN_SYNC: None}, ALL_BROKERS), ({MIN_IN_SYNC: "2"}, "1")):
        error = min_in_sync_error(changed, resource)
        assert error is not None
        assert error[0] == E.INVALID_CONFIG


def test_gzip_level_has_a_check_of_its_own() -> None:
    check = definition(kafka_settings()["compression.gzip.level"][NEW]).check
    assert check is not None
    with pytest.raises(ValueError, match="between 1 and 9"):
        check("compression.gzip.level", 0)


def current(**given: str) -> Effective:
    """Return a function that returns the current value of a setting: the given one, or the default."""
    values = {name.replace("_", "."): value for name, value in given.items()}
    return lambda name: values.get(name, default(name))


WRAPPED = "Invalid value org.apache.kafka.common.config.ConfigException: "


@pytest.mark.parametrize("name", sorted(THREADS & {n for n, spans in kafka_settings().items() if NEW in spans}))
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("3", "should be at least half the current value 9"),
        ("4", None),
        ("9", None),
        ("18", None),
        ("19", "should not be greater than double the current value 9"),
    ],
)
def test_threads_are_at_most_halved_or_doubled(name: str, value: str, error: str | None) -> None:
    text = configs_error({name: value}, "1", KAFKA_4_2, current(**{name: "9"}))
    failed = f"Dynamic thread count update validation failed for {name}={value}, value {error}"
    assert text == (error and f"{WRAPPED}{failed} for configuration Invalid dynamic configuration")


@pytest.mark.parametrize(("threads", "valid"), [("1", True), ("6", True), ("7", False)])
def test_cleaner_threads_are_at_most_doubled(threads: str, valid: bool) -> None:
    text = configs_error({"log.cleaner.threads": threads}, "1", KAFKA_4_2, current(log_cleaner_threads="3"))
    assert (text is None) is valid
    assert valid or "cannot be increased to more than double the current value 3" in (text or "")


def test_no_cleaner_thread_is_a_division_by_zero() -> None:
    assert configs_error({"log.cleaner.threads": "0"}, "1", KAFKA_4_2, default) == "/ by zero"


BUFFER = "log.cleaner.dedupe.buffer.size"


@pytest.mark.parametrize(
    ("configs", "threads", "valid"),
    [
        ({BUFFER: str(1 << 20)}, "1", False),
        ({BUFFER: str((1 << 20) + 1)}, "1", True),
        ({BUFFER: str(2 << 20)}, "2", False),
        ({BUFFER: str((2 << 20) + 1)}, "2", True),
        ({BUFFER: str(3 << 20), "log.cleaner.threads": "4"}, "2", False),
        ({BUFFER: str(3 << 20), "log.cleaner.threads": "2"}, "4", True),
        ({"log.cleaner.threads": "200"}, "100", True),
    ],
)
def test_each_cleaner_has_more_than_a_mebibyte(configs: dict[str, str], threads: str, valid: bool) -> None:
    text = configs_error(configs, "1", KAFKA_4_2, current(log_cleaner_threads=threads))
    assert (text is None) is valid
    assert valid or text == f"requirement failed: {BUFFER} must be at least 1MB per cleaner thread."


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("log.roll.ms", "0", "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ("log.roll.ms", "-1", "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ("log.roll.ms", "1", None),
        ("log.roll.jitter.ms", "-1", "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"),
        ("log.roll.jitter.ms", "0", None),
        (
            "log.retention.ms",
            "0",
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ("log.retention.ms", "-1", None),
        ("log.retention.ms", "1", None),
        ("max.connections.per.ip", "1", None),
    ],
)
def test_value_that_other_settings_permit(name: str, value: str, text: str | None) -> None:
    assert configs_error({name: value}, "1", KAFKA_4_2, default) == text


@pytest.mark.parametrize(
    ("configs", "valid"),
    [
        ({"max.connections.per.ip": "0"}, False),
        ({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "a:1"}, True),
        ({"max.connections.per.ip.overrides": "a:1,b:2"}, True),
        ({"max.connections.per.ip.overrides": "a:1,b"}, False),
        ({"max.connections.per.ip.overrides": ""}, True),
    ],
)
def test_no_connection_of_an_address_needs_overrides(configs: dict[str, str], valid: bool) -> None:
    assert (configs_error(configs, "1", KAFKA_4_2, default) is None) is valid


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x:y", 'For input string: "y"'),
        ("a:1,b:y", 'For input string: "y"'),
        ("host:", 'For input string: ""'),
        ("a:1.5", 'For input string: "1.5"'),
        ("a:99999999999", 'For input string: "99999999999"'),
        ("a:1_0", 'For input string: "1_0"'),
        ("host", f"Error parsing configuration property '{OVERRIDES}': begin 0, end -1, length 4"),
        ("127.0.0.1:1,,x:y", f"Error parsing configuration property '{OVERRIDES}': begin 0, end -1, length 0"),
        ("no such:1", f"{OVERRIDES} contains invalid addresses : no such"),
        (":5", f"{OVERRIDES}: expected HOST:NUMBER, got ':5'"),  # Kafka accepts this value
        ("127.0.0.1:5", None),
        (" a : 1 ", None),
        ("a:-1", None),
        ("a:+1", None),
        ("a:1:2", None),
        ("a:1,", None),
        (",", None),
    ],
)
def test_connections_of_single_addresses(value: str, text: str | None) -> None:
    assert configs_error({OVERRIDES: value}, "1", KAFKA_4_2, default) == text
    assert text is not None or overrides(value) is not None


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_number_of_connections_is_at_least_one(name: str) -> None:
    assert configs_error({name: "1"}, "1", KAFKA_4_2, default) is None
    text = f"{WRAPPED}Invalid {name} 0 for configuration Invalid dynamic configuration"
    assert configs_error({name: "0"}, "1", KAFKA_4_2, default) == text


@pytest.mark.parametrize("unit", ["ms", "bytes"])
@pytest.mark.parametrize(
    ("local", "total", "now", "valid"),
    [
        ("5", "5", "9", True),
        ("6", "5", "9", False),
        ("6", None, "5", False),
        ("6", None, "6", True),
        ("6", "-1", "1", True),
    ],
)
def test_local_retention_is_at_most_the_total(unit: str, local: str, total: str | None, now: str, valid: bool) -> None:
    name = f"log.retention.{unit}"
    configs = {f"log.local.retention.{unit}": local} | ({name: total} if total else {})
    assert (configs_error(configs, "1", KAFKA_4_2, current(**{name: now})) is None) is valid


def test_retention_without_a_current_value_is_a_week() -> None:
    def nothing(name: str) -> str:
        return "" if name.startswith("log.retention") else default(name)

    for value, valid in ((604_800_000, True), (604_800_001, False)):
        assert (configs_error({"log.local.retention.ms": str(value)}, "1", KAFKA_4_2, nothing) is None) is valid


def test_retention_of_0_bytes_permits_no_local_ones() -> None:
    configs = {"log.retention.bytes": "0", "log.local.retention.bytes": "1"}
    assert configs_error(configs, "1", KAFKA_4_2, default) is not None


@pytest.mark.parametrize("name", sorted(ADDITIONAL))
def test_throttle_is_a_long_that_is_not_negative(name: str) -> None:
    errors = [
        configs_error({name: value}, "1", KAFKA_4_2, default) for value in ("-1", "0", str(2**63 - 1), str(2**63))
    ]
    assert [error is None for error in errors] == [False, True, True, False]
    assert ADDITIONAL[name].default == str(2**63 - 1)


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter", True),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter,a.B", False),
        ("listener.name.a.max.connections", "0", True),
        ("listener.name.a.max.connections", "x", False),
        ("ssl.engine.factory.class", "org.apache.kafka.A", True),
        ("ssl.engine.factory.class", "a.B", False),
        ("no.such.setting", "anything", True),
    ],
)
def test_values_of_other_types_are_validated(name: str, value: str, valid: bool) -> None:
    assert (configs_error({name: value}, "1", KAFKA_4_2, default) is None) is valid


def test_number_has_the_bounds_of_its_setting() -> None:
    tested = 0
    for name, spans in kafka_settings().items():
        if NEW not in spans or not (spans[NEW].least or spans[NEW].most) or spans[NEW].words:
            continue
        setting = spans[NEW]
        check = definition(setting).check
        assert check is not None, name
        for text, beyond in ((setting.least, -1), (setting.most, 1)):
            if text and name != "compression.gzip.level":
                number = int(float(text))
                check(name, number)
                with pytest.raises(ValueError, match=name):
                    check(name, number + beyond)
                tested += 1
    assert tested > 100


@pytest.mark.parametrize(("names", "kind"), [(4, "Set"), (5, "HashSet")])
def test_static_settings_are_listed_as_a_scala_set(names: int, kind: str) -> None:
    static = ("num.partitions", "fetch.max.bytes", "group.max.size", "broker.rack", "auto.create.topics.enable")
    error = configs_error(dict.fromkeys(static[:names], "1"), "1", KAFKA_4_2, default) or ""
    assert error.startswith(f"Cannot update these configs dynamically: {kind}(")


def test_settings_of_one_broker_are_refused_for_all() -> None:
    text = "Cannot update these configs at default cluster level, broker id must be specified: Set(ssl.protocol)"
    assert configs_error({"ssl.protocol": "TLSv1.3"}, ALL_BROKERS, KAFKA_4_2, default) == text
    assert configs_error({"ssl.protocol": "TLSv1.3"}, "1", KAFKA_4_2, default) is None


def test_limits_of_the_settings_of_brokers() -> None:
    assert (MAX_CONFIGS, MAX_SIZE) == (1_000, 1 << 20)


@pytest.mark.parametrize(("name", "text"), [("log.cleanup.policy", "delete"), ("log.retention.ms", "")])
def test_definition_has_kafkas_default_or_none(name: str, text: str) -> None:
    assert definition(kafka_settings()[name][NEW]).default == text


def test_settings_after_an_unknown_one_are_validated() -> None:
    assert configs_error({"no.such.setting": "x", "log.cleaner.threads": "x"}, "1", KAFKA_4_2, default) is not None
