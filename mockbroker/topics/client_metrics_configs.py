"""The configurations of client metrics subscriptions (KIP-714): names, defaults, validation and client matching. The
functions are pure.

Source: Kafka's ClientMetricsConfigs and ClientMetricsInstanceMetadata (4.2), as recorded in fixtures/conversations
(client_metrics_configs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kwire import ErrorCode
from mockbroker.base.texts import shortened
from mockbroker.topics.configs import INT, LIST, TopicConfig, Value, parse_value

MAX_SUBSCRIPTIONS = 100  # Kafka has no limit
MAX_SIZE = 1 << 16  # characters of the configurations of one subscription; Kafka has no limit
MAX_REGEX_MEMORY = 1 << 20  # bytes of a compiled client pattern
INTERVAL, METRICS, MATCH = "interval.ms", "metrics", "match"
OF_SUBSCRIPTION = 7  # config source of DescribeConfigs
DEFAULT_INTERVAL_MS = 300_000
SHORTEST_INTERVAL_MS, LONGEST_INTERVAL_MS = 100, 3_600_000
ATTRIBUTES = frozenset(  # of a client, that a pattern can match
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def _without_empty_items(name: str, value: Value) -> None:
    assert isinstance(value, list)
    if "" in value:
        raise ValueError(f"Configuration '{name}' values must not be empty.")


CONFIGS: Mapping[str, TopicConfig] = {
    INTERVAL: TopicConfig(str(DEFAULT_INTERVAL_MS), INT),
    MATCH: TopicConfig("", LIST, _without_empty_items, without_duplicates=True),
    METRICS: TopicConfig("", LIST, _without_empty_items, without_duplicates=True),
}


def configs_error(name: str, configs: Mapping[str, str | None]) -> tuple[ErrorCode, str] | None:
    """Return the error of invalid configurations of a subscription, with Kafka's message; None if they are valid.

    Args:
        name: Name of the subscription.
        configs: All configurations of the subscription after the change, by name.
    """
    if not name:
        return ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"
    for unknown in configs.keys() - CONFIGS.keys():
        return ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {shortened(unknown)}"
    try:
        values = {each: parse_value(each, CONFIGS[each], text or "") for each, text in configs.items()}
        interval = values.get(INTERVAL, DEFAULT_INTERVAL_MS)
        assert isinstance(interval, int)
        if not SHORTEST_INTERVAL_MS <= interval <= LONGEST_INTERVAL_MS:
            limits = f"between {SHORTEST_INTERVAL_MS} and {LONGEST_INTERVAL_MS} (1 hour)"
            return ErrorCode.INVALID_REQUEST, f"Invalid value {interval} for {INTERVAL}, interval must be {limits}"
        _patterns(configs.get(MATCH) or "")
    except ValueError as error:
        return ErrorCode.INVALID_CONFIG, str(error)
    return None


def limit_error(name: str, configs: Mapping[str, str], configured: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return the error message if a changed subscription exceeds a limit of mockbroker; None if it does not.

    Args:
        name: Name of the subscription.
        configs: All configurations of the subscription after the change, by name.
        configured: The configurations of all existing subscriptions, by subscription name.
    """
    if name not in configured and len(configured) >= MAX_SUBSCRIPTIONS:
        return f"{len(configured)} client metrics subscriptions exist, the maximum: delete one first."
    size = len(name) + sum(map(len, configs.values()))
    if size > MAX_SIZE:
        return f"the subscription has {size} characters, the maximum is {MAX_SIZE}: use fewer metrics and patterns."
    return None


def interval_ms(configs: Mapping[str, str]) -> int:
    """Return the push interval of a client metrics subscription in milliseconds.

    ``configs``: configurations of the subscription.
    """
    return int(configs.get(INTERVAL, DEFAULT_INTERVAL_MS))


def metrics(configs: Mapping[str, str]) -> list[str]:
    """Return the prefixes of the metric names that a client metrics subscription requests.

    ``configs``: configurations of the subscription.
    """
    return list(_items(METRICS, configs.get(METRICS, "")))


def matches(configs: Mapping[str, str], attributes: Mapping[str, str]) -> bool:
    """Return whether a subscription applies to a client: each pattern must match the whole value of its client
    attribute.

    The value of an absent attribute is "". The result is True for a subscription without patterns.

    Args:
        configs: The configurations of the subscription.
        attributes: The attributes of the client, by the names in ATTRIBUTES.
    """
    patterns = dict(_patterns(configs.get(MATCH, "")))
    return all(
        pattern.fullmatch(attributes.get(name, "").encode("utf-8", "surrogateescape"))
        for name, pattern in patterns.items()
    )


def _items(name: str, text: str) -> Iterator[str]:
    value = parse_value(name, CONFIGS[name], text)
    assert isinstance(value, list)
    yield from value


@lru_cache(maxsize=MAX_SUBSCRIPTIONS)
def _patterns(text: str) -> list[tuple[str, Any]]:
    """Return the ``match`` patterns of a client metrics subscription: client attribute and compiled pattern of each.

    ``text``: the patterns, separated by commas.

    Raises: ValueError if a pattern is not valid.
    """
    return [_pattern(item) for item in _items(MATCH, text)]


def _pattern(item: str) -> tuple[str, Any]:
    from re2 import Options, error
    from re2 import compile as compile_re2

    options = Options()
    options.max_mem = MAX_REGEX_MEMORY
    options.log_errors = False
    parts = [part.strip() for part in item.rstrip("=").split("=")]
    illegal = f"Illegal client matching pattern: {shortened(item)}"
    if len(parts) != 2 or parts[0] not in ATTRIBUTES:
        raise ValueError(illegal)
    try:
        return parts[0], compile_re2(parts[1].encode("utf-8", "surrogateescape"), options)
    except error:
        raise ValueError(illegal) from None
