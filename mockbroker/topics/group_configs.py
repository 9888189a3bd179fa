"""Kafka's group configurations: names, types, defaults and validation. The functions are pure.

Source: Kafka's GroupConfig (4.2), as recorded in fixtures/conversations (group_configs_validated).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mockbroker.base.config_sources import DEFAULT, ConfigSource
from mockbroker.base.durations import parse_duration_ms
from mockbroker.base.settings import Settings
from mockbroker.base.texts import shortened
from mockbroker.topics.configs import (
    INT,
    OF_GROUP,
    STRING,
    ConfigError,
    TopicConfig,
    Value,
    one_of,
    parse_value,
    value_range,
)

MAX_GROUPS = 10_000  # groups with configurations; Kafka has no limit
BY_DURATION = "by_duration:"
READ_COMMITTED = "read_committed"

AUTO_OFFSET_RESET = "share.auto.offset.reset"
ISOLATION_LEVEL = "share.isolation.level"
RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "{}.session.timeout.ms", "{}.heartbeat.interval.ms"
TYPES = CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"


def _auto_offset_reset(name: str, value: Value) -> None:
    text = str(value)
    duration = parse_duration_ms(text.removeprefix(BY_DURATION)) if text.startswith(BY_DURATION) else None
    if text not in ("earliest", "latest") and (duration is None or duration < 0):
        reason = (
            f"Invalid value `{shortened(text)}` for configuration {name}. The value must be either 'earliest', 'latest'"
            f" or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise ConfigError(name, value, reason)


GROUP_CONFIGS: Mapping[str, TopicConfig] = {
    "consumer.session.timeout.ms": TopicConfig("45000", INT, value_range(1), "group.consumer.session.timeout.ms"),
    "consumer.heartbeat.interval.ms": TopicConfig("5000", INT, value_range(1), "group.consumer.heartbeat.interval.ms"),
    "share.session.timeout.ms": TopicConfig("45000", INT, value_range(1), "group.share.session.timeout.ms"),
    "share.heartbeat.interval.ms": TopicConfig("5000", INT, value_range(1), "group.share.heartbeat.interval.ms"),
    RECORD_LOCK_DURATION: TopicConfig("30000", INT, value_range(1_000), "group.share.record.lock.duration.ms"),
    AUTO_OFFSET_RESET: TopicConfig("latest", STRING, _auto_offset_reset),
    ISOLATION_LEVEL: TopicConfig("read_uncommitted", STRING, one_of(READ_COMMITTED, "read_uncommitted")),
    "streams.session.timeout.ms": TopicConfig("45000", INT, value_range(1)),
    "streams.heartbeat.interval.ms": TopicConfig("5000", INT, value_range(1)),
    "streams.num.standby.replicas": TopicConfig("0", INT, value_range(0)),
    "streams.initial.rebalance.delay.ms": TopicConfig("3000", INT, value_range(0)),
}


def effective(own: Mapping[str, str] | None, name: str, settings: Settings) -> Value:
    """Return the effective value of a configuration of a group.

    Args:
        own: The configurations that are set on the group, by name; None if nothing is set.
        name: Name of the configuration.
        settings: The settings of the brokers, which contain the defaults.
    """
    config = GROUP_CONFIGS[name]
    if own and name in own:
        return parse_value(name, config, own[name])
    if config.synonym is not None:
        value: Value = getattr(settings, config.synonym.replace(".", "_"))
        return value
    return parse_value(name, config, config.default)


def number(own: Mapping[str, str] | None, name: str, settings: Settings) -> int:
    """Return the effective value of a numeric configuration of a group. For the arguments, see ``effective``."""
    value = effective(own, name, settings)
    assert isinstance(value, int)
    return value


def source(own: Mapping[str, str] | None, name: str, settings: Settings) -> ConfigSource:
    """Return the value of a group configuration that DescribeConfigs reports, with its source: the group, or the
    default.

    For the arguments, see ``effective``.
    """
    return ConfigSource(name, str(effective(own, name, settings)), OF_GROUP if own and name in own else DEFAULT)


def configs_error(configs: Mapping[str, str], settings: Settings) -> str | None:
    """Return Kafka's error message if group configurations are not valid; None if they are.

    Configurations that are not set are checked with their default values. The defaults of the session timeout and the
    heartbeat interval of consumer groups are the values of the broker settings.

    Args:
        configs: All configurations of the group after the change, by name.
        settings: The settings of the brokers.
    """
    for name in configs:
        if name not in GROUP_CONFIGS:
            return f"Unknown group config name: {shortened(name)}"
    given = {**_defaults(settings), **configs}
    try:
        values = {name: parse_value(name, config, given[name]) for name, config in GROUP_CONFIGS.items()}
    except ValueError as error:
        return str(error)
    return next(_limit_errors(values, settings), None)


def _defaults(settings: Settings) -> dict[str, str]:
    defaults = {name: config.default for name, config in GROUP_CONFIGS.items()}
    for name in (SESSION_TIMEOUT.format(CONSUMER), HEARTBEAT_INTERVAL.format(CONSUMER)):
        defaults[name] = str(effective(None, name, settings))
    return defaults


def _limit_errors(values: Mapping[str, Value], settings: Settings) -> Iterator[str]:
    """Yield an error message for each value that exceeds a limit in the broker settings, in Kafka's order."""
    for group_type in TYPES:
        for pattern in (HEARTBEAT_INTERVAL, SESSION_TIMEOUT):
            yield from _beyond(values, pattern.format(group_type), settings)
        if group_type == SHARE:
            yield from _beyond(values, RECORD_LOCK_DURATION, settings)
    standby, most = values["streams.num.standby.replicas"], settings.group_streams_max_standby_replicas
    assert isinstance(standby, int)
    if standby > most:
        yield "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"
    for group_type in TYPES:
        session, heartbeat = (pattern.format(group_type) for pattern in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL))
        if _number(values, session) <= _number(values, heartbeat):
            yield f"{session} must be greater than {heartbeat}"


def _beyond(values: Mapping[str, Value], name: str, settings: Settings) -> Iterator[str]:
    group_type, _, rest = name.partition(".")
    least, most = f"group.{group_type}.min.{rest}", f"group.{group_type}.max.{rest}"
    if _number(values, name) < getattr(settings, least.replace(".", "_")):
        yield f"{name} must be greater than or equal to {least}"
    if _number(values, name) > getattr(settings, most.replace(".", "_")):
        yield f"{name} must be less than or equal to {most}"


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
