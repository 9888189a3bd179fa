"""Kafka's topic configurations: names, types, defaults, broker synonyms and validation. The functions are pure.

Source: Kafka's ConfigDef, LogConfig and ServerTopicConfigSynonyms, as recorded in fixtures/conversations
(topic_configs_validated, topic_configs_reported).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import TypeAlias

from kwire.lazy_dataclass import dataclass
from mockbroker.base.config_sources import DEFAULT, ConfigSource, broker_sources, set_values, synonyms_of
from mockbroker.base.release import Release
from mockbroker.base.settings import Settings
from mockbroker.base.texts import shortened

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)  # as DescribeConfigs numbers them
TEXTS = STRING, CLASS, PASSWORD
OF_TOPIC, OF_GROUP = 1, 8  # config sources of DescribeConfigs
TYPE_NAMES = {SHORT: "SHORT", INT: "INT", LONG: "LONG", DOUBLE: "DOUBLE"}
BITS = {SHORT: 16, INT: 32, LONG: 64}
MAX_LONG = 2**63 - 1
FOREVER = str(MAX_LONG)
HOUR, MINUTE = 3_600_000, 60_000  # ms
UNITS = {"hours": HOUR, "minutes": MINUTE}  # by the end of the name of a broker setting
COMPACT = "compact"
LOG_APPEND_TIME = "LogAppendTime"

JAVA_SPACE = "".join(map(chr, range(0x21)))  # the characters that String.trim removes
WHOLE = r"([+-]?)0*(\d{1,19})"  # no number of 64 bits has more digits
REAL = r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
COMMA = r"\s*,\s*"
REPLICA = r"(?:[0-9]+:[0-9]+)?"

Value: TypeAlias = bool | str | int | float | list[str]
Configs: TypeAlias = Mapping[str, str | None]
Check: TypeAlias = Callable[[str, Value], None]


class ConfigError(ValueError):
    """The error for an invalid configuration value, with the message of Kafka's ConfigException.

    Args:
        name: name of the configuration.
        value: the invalid value.
        reason: why the value is invalid.
    """

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {shortened(str(value))} for configuration {name}: {reason}")


def value_range(least: float, most: float | None = None) -> Check:
    """Return a function that checks whether a number is in a range. The function raises ConfigError if it is not.

    Args:
        least: the smallest valid number.
        most: the largest valid number; None for no upper limit.
    """

    def check(name: str, value: Value) -> None:
        assert isinstance(value, (int, float))
        if value < least:
            raise ConfigError(name, _text(value), f"Value must be at least {least}")
        if most is not None and value > most:
            raise ConfigError(name, _text(value), f"Value must be no more than {most}")

    return check


def one_of(*words: str) -> Check:
    """Return a function that checks whether a text, or each item of a list, is one of ``words``.

    The function raises ConfigError for any other text or item.
    """

    def check(name: str, value: Value) -> None:
        for word in value if isinstance(value, list) else [value]:
            if word not in words:
                raise ConfigError(name, word, f"String must be one of: {', '.join(words)}")

    return check


def _policies(name: str, value: Value) -> None:
    assert isinstance(value, list)
    if "" in value:
        raise ValueError(f"Configuration '{name}' values must not be empty.")
    one_of("compact", "delete")(name, value)


def gzip_level(name: str, value: Value) -> None:
    """Check that a number is a compression level of gzip. Raises: ConfigError if it is not.

    Args:
        name: name of the configuration.
        value: the number.
    """
    if value != -1 and value not in range(1, 10):
        raise ConfigError(name, value, "Value must be between 1 and 9 or equal to -1")


def _throttled(name: str, value: Value) -> None:
    assert isinstance(value, list)
    if value != ["*"] and not all(re.fullmatch(REPLICA, each) for each in value):
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        reason = f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
        raise ConfigError(name, f"[{', '.join(value)}]", reason)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The definition of a configuration of a topic or a group.

    Attributes:
        default: default value as text.
        type: number of the configuration's type in DescribeConfigs, such as 2 for STRING.
        check: function that gets the name and the parsed value, and raises ConfigError for an invalid value; None if
            every value of the type is valid.
        synonym: broker setting whose value, if it is set, replaces the default; None without such a setting.
        without_duplicates: whether only the first of several equal items of a list counts.
    """

    default: str
    type: int
    check: Check | None = None
    synonym: str | None = None
    without_duplicates: bool = False


_AT_LEAST_0, _AT_LEAST_1 = value_range(0), value_range(1)
_CODECS = "uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"
_LEAST_SEGMENT, _LEAST_SEGMENT_BEFORE_4_0 = 1 << 20, 14  # bytes

SINCE_4_0: Mapping[str, TopicConfig] = {
    "cleanup.policy": TopicConfig("delete", LIST, _policies, "log.cleanup.policy", without_duplicates=True),
    "compression.gzip.level": TopicConfig("-1", INT, gzip_level, "compression.gzip.level"),
    "compression.lz4.level": TopicConfig("9", INT, value_range(1, 17), "compression.lz4.level"),
    "compression.type": TopicConfig("producer", STRING, one_of(*_CODECS), "compression.type"),
    "compression.zstd.level": TopicConfig("3", INT, value_range(-131_072, 22), "compression.zstd.level"),
    "delete.retention.ms": TopicConfig("86400000", LONG, _AT_LEAST_0, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": TopicConfig("60000", LONG, _AT_LEAST_0, "log.segment.delete.delay.ms"),
    "flush.messages": TopicConfig(FOREVER, LONG, _AT_LEAST_1, "log.flush.interval.messages"),
    "flush.ms": TopicConfig(FOREVER, LONG, _AT_LEAST_0, "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": TopicConfig("", LIST, _throttled),
    "index.interval.bytes": TopicConfig("4096", INT, _AT_LEAST_0, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": TopicConfig("", LIST, _throttled),
    "local.retention.bytes": TopicConfig("-2", LONG, value_range(-2), "log.local.retention.bytes"),
    "local.retention.ms": TopicConfig("-2", LONG, value_range(-2), "log.local.retention.ms"),
    "max.compaction.lag.ms": TopicConfig(FOREVER, LONG, _AT_LEAST_1, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": TopicConfig("1048588", INT, _AT_LEAST_0, "message.max.bytes"),
    "message.timestamp.after.max.ms": TopicConfig("3600000", LONG, _AT_LEAST_0, "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": TopicConfig(FOREVER, LONG, _AT_LEAST_0, "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": TopicConfig(
        "CreateTime", STRING, one_of("CreateTime", LOG_APPEND_TIME), "log.message.timestamp.type"
    ),
    "min.cleanable.dirty.ratio": TopicConfig("0.5", DOUBLE, value_range(0, 1), "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": TopicConfig("0", LONG, _AT_LEAST_0, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": TopicConfig("1", INT, _AT_LEAST_1, "min.insync.replicas"),
    "preallocate": TopicConfig("false", BOOLEAN, None, "log.preallocate"),
    "remote.log.copy.disable": TopicConfig("false", BOOLEAN),
    "remote.log.delete.on.disable": TopicConfig("false", BOOLEAN),
    "remote.storage.enable": TopicConfig("false", BOOLEAN),
    "retention.bytes": TopicConfig("-1", LONG, None, "log.retention.bytes"),
    "retention.ms": TopicConfig("604800000", LONG, value_range(-1), "log.retention.ms"),
    "segment.bytes": TopicConfig("1073741824", INT, value_range(_LEAST_SEGMENT), "log.segment.bytes"),
    "segment.index.bytes": TopicConfig("10485760", INT, value_range(4), "log.index.size.max.bytes"),
    "segment.jitter.ms": TopicConfig("0", LONG, _AT_LEAST_0, "log.roll.jitter.ms"),
    "segment.ms": TopicConfig("604800000", LONG, _AT_LEAST_1, "log.roll.ms"),
    "unclean.leader.election.enable": TopicConfig("false", BOOLEAN, None, "unclean.leader.election.enable"),
}
_BEFORE_4_0: Mapping[str, TopicConfig] = {
    **SINCE_4_0,
    "cleanup.policy": TopicConfig("delete", LIST, one_of("compact", "delete"), "log.cleanup.policy"),
    "message.downconversion.enable": TopicConfig("true", BOOLEAN, None, "log.message.downconversion.enable"),
    "message.format.version": TopicConfig("3.0-IV1", STRING, None, "log.message.format.version"),
    "message.timestamp.after.max.ms": TopicConfig(FOREVER, LONG, _AT_LEAST_0, "log.message.timestamp.after.max.ms"),
    "message.timestamp.difference.max.ms": TopicConfig(
        FOREVER, LONG, _AT_LEAST_0, "log.message.timestamp.difference.max.ms"
    ),
    "segment.bytes": TopicConfig("1073741824", INT, value_range(_LEAST_SEGMENT_BEFORE_4_0), "log.segment.bytes"),
}
BEFORE_4_0 = dict(sorted(_BEFORE_4_0.items()))


def topic_configs(release: Release) -> Mapping[str, TopicConfig]:
    """Return the topic configurations of a Kafka release, sorted by name."""
    return BEFORE_4_0 if release.quirks.configs_before_4_0 else SINCE_4_0


def sources(configs: Configs, name: str, settings: Settings, release: Release) -> list[ConfigSource]:
    """Return the values of a topic configuration from all sources: first the topic, then the brokers. The first is
    effective.

    The list is empty if the topic has no value and no broker setting replaces the default.

    Args:
        configs: configurations that are set on the topic itself.
        name: name of the configuration.
        settings: settings of a broker. They apply if no value is set on the topic.
        release: the emulated Kafka release.
    """
    own, synonym = configs.get(name), topic_configs(release)[name].synonym
    found = [] if own is None else [ConfigSource(name, own, OF_TOPIC)]
    return found if synonym is None else found + broker_sources(synonym, settings, release)


def effective_source(configs: Configs, name: str, settings: Settings, release: Release) -> ConfigSource:
    """Return the effective value of a configuration as text, in the unit of the topic configuration, and its source.

    Args:
        configs: configurations that are set on the topic itself.
        name: name of the configuration.
        settings: settings of a broker. They apply if no value is set on the topic.
        release: the emulated Kafka release.
    """
    return next(_candidates(configs, name, topic_configs(release)[name], settings))


def effective(configs: Configs, name: str, settings: Settings, release: Release) -> Value:
    """Return the effective value of a topic configuration, parsed.

    An invalid value, such as one from a data directory of an older release, is skipped: the next source applies.

    Args:
        configs: configurations that are set on the topic itself.
        name: name of the configuration.
        settings: settings of a broker. They apply if no value is set on the topic.
        release: the emulated Kafka release.
    """
    config = topic_configs(release)[name]
    for each in _candidates(configs, name, config, settings):
        try:
            return parse_value(name, config, each.value)
        except ValueError:
            continue
    raise AssertionError(f"the default of topic config {name} is not valid: this is a bug in mockbroker")


def _candidates(configs: Configs, name: str, config: TopicConfig, settings: Settings) -> Iterator[ConfigSource]:
    own = configs.get(name)
    if own is not None:
        yield ConfigSource(name, own, OF_TOPIC)
    if config.synonym is not None:
        for each in set_values(synonyms_of(config.synonym), settings):
            yield replace(each, value=_in_unit_of_topic(each.name, each.value))
    yield ConfigSource(name, config.default, DEFAULT)


def _in_unit_of_topic(name: str, value: str) -> str:
    """Return the value of a broker setting in the unit of its topic configuration, such as milliseconds instead of
    hours.

    Negative times become -1, which means no limit.

    Args:
        name: name of the broker setting.
        value: the value as text, in the unit of the broker setting.
    """
    last = name.rpartition(".")[2]
    if name in synonyms_of("log.retention.ms") and value.lstrip("-").isdecimal():
        return str(max(int(value) * UNITS.get(last, 1), -1))
    return str(int(value) * UNITS[last]) if last in UNITS and value.isdecimal() else value


def reported(name: str, config: TopicConfig, text: str) -> str:
    """Return a value in the form in which DescribeConfigs reports it, such as a list without spaces.

    An invalid value is returned unchanged.

    Args:
        name: name of the configuration.
        config: definition of the configuration.
        text: the value as text.
    """
    try:
        value = parse_value(name, config, text)
    except ValueError:
        return text
    if isinstance(value, list):
        return ",".join(value)
    return _text(value)


def configs_error(configs: Configs, release: Release) -> str | None:
    """Return Kafka's error message if topic configurations are not valid; None if they are."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        return f"Null value not supported for topic configs: {shortened(','.join(nulls))}"
    definitions = topic_configs(release)
    for name in configs:
        if name not in definitions:
            return f"Unknown topic config name: {shortened(name)}"
    try:
        values = {name: parse_value(name, definitions[name], text or "") for name, text in configs.items()}
    except ValueError as error:
        return str(error)
    least, most = (values.get(name) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if isinstance(least, int) and isinstance(most, int) and least > most:
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    if values.get("remote.storage.enable"):
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


def parse_value(name: str, config: TopicConfig, text: str) -> Value:
    """Return the parsed value of a configuration.

    Args:
        name: name of the configuration.
        config: definition of the configuration.
        text: the value as text.

    Raises: ValueError with the reason if the value is not valid.
    """
    value = _typed(name, config.type, text)
    if config.without_duplicates and isinstance(value, list):
        value = list(dict.fromkeys(value))
    if config.check is not None:
        config.check(name, value)
    return value


def _typed(name: str, kind: int, text: str) -> Value:
    trimmed = text.strip(JAVA_SPACE)
    if kind in TEXTS:
        return trimmed
    if kind == LIST:
        return re.split(COMMA, trimmed) if trimmed else []
    if kind == BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise ConfigError(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind == DOUBLE and re.fullmatch(REAL, trimmed):
        return float(trimmed.rstrip("fFdD"))
    if kind in BITS and (match := re.fullmatch(WHOLE, trimmed)):
        number, end = int(match[1] + match[2]), 1 << BITS[kind] - 1
        if -end <= number < end:
            return number
    raise ConfigError(name, text, f"Not a number of type {TYPE_NAMES[kind]}")


def _text(value: bool | str | int | float) -> str:
    """Return a value as Java's String.valueOf formats it."""
    if isinstance(value, bool):
        return str(value).lower()
    return _double_text(value) if isinstance(value, float) else str(value)


def _double_text(value: float) -> str:
    """Return a number as Java's Double.toString formats it: with an exponent below 0.001 and from 10,000,000 on."""
    if not isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    from decimal import Decimal  # late: no default needs an exponent

    sign, digits, exponent = Decimal(str(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{int(exponent) + len(rest)}"
