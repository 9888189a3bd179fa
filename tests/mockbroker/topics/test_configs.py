"""Types and bounds of the topic configurations, as in Kafka's LogConfig; recorded: topic_configs_validated."""

from __future__ import annotations

import pytest

from mockbroker.base.release import KAFKA_3_9, KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.topics import configs
from mockbroker.topics.configs import MAX_LONG, configs_error, parse_value, reported, topic_configs

INT_MAX = 2**31 - 1
BOUNDS = [  # name, lowest and highest valid value
    ("compression.lz4.level", 1, 17),
    ("compression.zstd.level", -131_072, 22),
    ("delete.retention.ms", 0, MAX_LONG),
    ("file.delete.delay.ms", 0, MAX_LONG),
    ("flush.messages", 1, MAX_LONG),
    ("flush.ms", 0, MAX_LONG),
    ("index.interval.bytes", 0, INT_MAX),
    ("local.retention.bytes", -2, MAX_LONG),
    ("local.retention.ms", -2, MAX_LONG),
    ("max.compaction.lag.ms", 1, MAX_LONG),
    ("max.message.bytes", 0, INT_MAX),
    ("message.timestamp.after.max.ms", 0, MAX_LONG),
    ("message.timestamp.before.max.ms", 0, MAX_LONG),
    ("min.compaction.lag.ms", 0, MAX_LONG),
    ("min.insync.replicas", 1, INT_MAX),
    ("retention.bytes", -(2**63), MAX_LONG),
    ("retention.ms", -1, MAX_LONG),
    ("segment.bytes", 1 << 20, INT_MAX),
    ("segment.index.bytes", 4, INT_MAX),
    ("segment.jitter.ms", 0, MAX_LONG),
    ("segment.ms", 1, MAX_LONG),
]


@pytest.mark.parametrize(("name", "least", "most"), BOUNDS)
def test_number_is_valid_within_its_bounds(name: str, least: int, most: int) -> None:
    errors = [configs_error({name: str(value)}, KAFKA_4_2) for value in (least - 1, least, most, most + 1)]
    assert [error is None for error in errors] == [False, True, True, False], errors
    assert all(name in error for error in errors if error)


def test_bounds_of_all_numbers_are_tested() -> None:
    numbers = {name for name, each in topic_configs(KAFKA_4_2).items() if each.type in (configs.INT, configs.LONG)}
    assert numbers - {name for name, _, _ in BOUNDS} == {"compression.gzip.level"}


def test_smallest_segment_before_4_0_has_14_bytes() -> None:
    assert configs_error({"segment.bytes": "14"}, KAFKA_3_9) is None
    assert configs_error({"segment.bytes": "13"}, KAFKA_3_9) is not None


@pytest.mark.parametrize(("level", "valid"), [(-2, False), (-1, True), (0, False), (1, True), (9, True), (10, False)])
def test_gzip_level_is_1_to_9_or_the_default(level: int, valid: bool) -> None:
    assert (configs_error({"compression.gzip.level": str(level)}, KAFKA_4_2) is None) is valid


@pytest.mark.parametrize(("ratio", "valid"), [("-0.1", False), ("0", True), ("1", True), ("1.1", False), (".5f", True)])
def test_dirty_ratio_is_between_0_and_1(ratio: str, valid: bool) -> None:
    assert (configs_error({"min.cleanable.dirty.ratio": ratio}, KAFKA_4_2) is None) is valid


def test_types_have_the_numbers_of_describe_configs() -> None:
    names = ("BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")
    assert [getattr(configs, name) for name in names] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert (configs.OF_TOPIC, configs.OF_GROUP) == (1, 8)


@pytest.mark.parametrize(
    ("kind", "bits"), [(configs.SHORT, 16), (configs.INT, 32), (configs.LONG, 64)], ids=["short", "int", "long"]
)
def test_number_has_the_bits_of_its_type(kind: int, bits: int) -> None:
    config = configs.TopicConfig("0", kind)
    end = 2 ** (bits - 1)
    assert [parse_value("n", config, str(value)) for value in (-end, end - 1)] == [-end, end - 1]
    for value in (-end - 1, end):
        with pytest.raises(ValueError, match="Not a number of type"):
            parse_value("n", config, str(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [(" 7\x00\t", 7), ("+7", 7), ("-7", -7), ("007", 7), ("0" * 30 + "7", 7), ("0", 0), ("-0", 0), ("\u0667", 7)],
)
def test_number_is_parsed_as_by_java(text: str, value: int) -> None:
    assert parse_value("n", configs.TopicConfig("0", configs.INT), text) == value


@pytest.mark.parametrize("text", ["", " ", "7.0", "1e3", "0x7", "--7", "7 7", "\u00a07", "!7", "9" * 20])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="Not a number of type INT"):
        parse_value("n", configs.TopicConfig("0", configs.INT), text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.5", "0.5"),
        ("0", "0.0"),
        ("1e-3", "0.001"),
        ("9.99e-4", "9.99E-4"),
        ("1e-4", "1.0E-4"),
        ("9999999", "9999999.0"),
        ("1e7", "1.0E7"),
        ("-1.25e7", "-1.25E7"),
        ("123456789", "1.23456789E8"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e-3d", "0.001"),
        ("no number", "no number"),
    ],
)
def test_double_is_reported_as_java_formats_it(value: str, text: str) -> None:
    assert reported("n", configs.TopicConfig("0", configs.DOUBLE), value) == text


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (configs.BOOLEAN, " TRUE ", "true"),
        (configs.BOOLEAN, "false", "false"),
        (configs.LIST, "a , b,c ", "a,b,c"),
        (configs.LIST, " ", ""),
        (configs.STRING, " a b ", "a b"),
        (configs.LONG, " +05 ", "5"),
    ],
)
def test_value_is_reported_in_its_normal_form(kind: int, text: str, expected: str) -> None:
    assert reported("n", configs.TopicConfig("", kind), text) == expected


@pytest.mark.parametrize(
    ("least", "most", "valid"), [("5", "5", True), ("6", "5", False), ("0", "1", True), ("5", None, True)]
)
def test_min_compaction_lag_does_not_exceed_the_maximum(least: str, most: str | None, valid: bool) -> None:
    given = {"min.compaction.lag.ms": least} | ({} if most is None else {"max.compaction.lag.ms": most})
    assert (configs_error(given, KAFKA_4_2) is None) is valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [("*", True), ("", True), ("0:1,2:3", True), ("0:1,*", False), ("*,*", False), ("0", False), ("a:b", False)],
)
def test_throttled_replicas_are_pairs_or_a_star(value: str, valid: bool) -> None:
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        assert (configs_error({name: value}, KAFKA_4_2) is None) is valid


def test_configs_are_refused_with_kafkas_message() -> None:
    texts = [
        configs_error(each, KAFKA_4_2)
        for each in (
            {"retention.ms": None, "a": None},
            {"retention.ms": "1", "a": "1"},
            {"remote.storage.enable": "true"},
            {"remote.storage.enable": "false"},
            {"cleanup.policy": "compact,"},
            {"cleanup.policy": "compact,delete"},
        )
    ]
    assert texts == [
        "Null value not supported for topic configs: retention.ms,a",
        "Unknown topic config name: a",
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        None,
        "Configuration 'cleanup.policy' values must not be empty.",
        None,
    ]


@pytest.mark.parametrize(
    ("setting", "value", "name", "expected"),
    [
        ("log.retention.ms", -5, "retention.ms", -1),
        ("log.retention.minutes", -5, "retention.ms", -1),
        ("log.retention.hours", -1, "retention.ms", -1),
        ("log.retention.hours", 2, "retention.ms", 7_200_000),
        ("log.local.retention.ms", -2, "local.retention.ms", -2),
        ("log.local.retention.ms", 5, "local.retention.ms", 5),
        ("log.roll.hours", 2, "segment.ms", 7_200_000),
    ],
)
def test_setting_of_the_brokers_is_converted(setting: str, value: int, name: str, expected: int) -> None:
    """As in KafkaConfig.logRetentionTimeMillis, a negative time means no limit."""
    assert configs.effective({}, name, Settings.parse({setting: value}), KAFKA_4_2) == expected


@pytest.mark.parametrize(("given", "expected"), [({}, 604_800_000), ({"log.retention.ms": 5}, 5)])
def test_invalid_stored_value_is_skipped(given: dict[str, object], expected: int) -> None:
    """A data directory of an older release may have a value that is now invalid: then the next source applies."""
    assert configs.effective({"retention.ms": "-2"}, "retention.ms", Settings.parse(given), KAFKA_4_2) == expected


@pytest.mark.parametrize("text", ["1_0", "inf", "nan", "0x1p3", "1e", "\u0661"])
def test_double_has_the_form_of_java(text: str) -> None:
    """Double.parseDouble accepts neither underscores, Python's names of special values nor digits of other scripts."""
    with pytest.raises(ValueError, match="Not a number of type DOUBLE"):
        configs.parse_value("n", configs.TopicConfig("0", configs.DOUBLE), text)


UNITS = [
    ("log.roll.hours", "02", "7200000"),
    ("log.segment.bytes", "0020000", "0020000"),
    ("log.roll.hours", "x", "x"),
    ("log.retention.ms", "x", "x"),
    ("log.retention.hours", "-", "-"),
    ("log.retention.minutes", "-02", "-1"),
]


@pytest.mark.parametrize(("name", "value", "expected"), UNITS)
def test_only_a_value_in_another_unit_is_converted(name: str, value: str, expected: str) -> None:
    assert configs._in_unit_of_topic(name, value) == expected
