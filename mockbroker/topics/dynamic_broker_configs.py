"""The settings that AlterConfigs may set for brokers, with the allowed resources and values. The functions are pure.

Source: Kafka's DynamicBrokerConfig (validateConfigs, processReconfiguration) and its listeners, as recorded in
fixtures/conversations (broker_configs_scopes, broker_configs_validated). Unknown names are accepted, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from kwire import ErrorCode
from kwire.java import bucket_order, string_hash
from mockbroker.base.config_sources import release_settings
from mockbroker.base.kafka_settings import BY_LISTENER, TYPES, KafkaSetting, base_name
from mockbroker.base.live_settings import ALL_BROKERS, MIN_IN_SYNC
from mockbroker.base.release import Release
from mockbroker.base.settings import OVERRIDES, SettingsError, is_int, overrides
from mockbroker.topics.configs import (
    MAX_LONG,
    Check,
    ConfigError,
    TopicConfig,
    Value,
    gzip_level,
    one_of,
    parse_value,
    value_range,
)

MAX_CONFIGS = 1_000  # settings of one resource; Kafka has no limit
MAX_SIZE = 1 << 20  # characters of all names and values of all brokers; Kafka has no limit
BY_LISTENER_ONLY = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
SECURITY = "sasl.", "ssl."  # prefixes of settings that can be set for one broker only
OF_ONE_BROKER = frozenset(
    {"advertised.listeners", "listener.security.protocol.map", "listeners", "principal.builder.class"}
)
OF_LISTENERS_OF_ALL_BROKERS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")  # Source: Kafka's Utils.validHostPattern
LISTENER = re.compile(r"listener\.name\.[^.]+\..+")
THREADS = frozenset(  # numbers of threads, which can be at most doubled or halved at once
    {
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    }
)
CLEANERS, CLEANER_BUFFER = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
OF_KAFKA = "org.apache.kafka."  # package of the classes that exist in each Kafka
BUFFER_OF_A_CLEANER = 1 << 20  # bytes
ADDITIONAL: Mapping[str, TopicConfig] = {  # dynamic configurations that are no settings of Kafka's server.properties
    "follower.replication.throttled.rate": TopicConfig(str(MAX_LONG), 5, value_range(0)),
    "leader.replication.throttled.rate": TopicConfig(str(MAX_LONG), 5, value_range(0)),
    "replica.alter.log.dirs.io.max.bytes.per.second": TopicConfig(str(MAX_LONG), 5, value_range(0)),
}
Effective = Callable[[str], str]  # returns the effective value of a setting, as text


def definitions(release: Release) -> Mapping[str, TopicConfig]:
    """Return the definition (type, default and validation) of each setting of a release, by name."""
    return _definitions(release.quirks.configs_before_4_0)


@cache
def _definitions(before_4_0: bool) -> Mapping[str, TopicConfig]:
    return {name: definition(setting) for name, setting in release_settings(before_4_0).items()}


def definition(setting: KafkaSetting) -> TopicConfig:
    """Return the definition (type, default and validation) of a setting as a TopicConfig."""
    kind = TYPES[setting.type]
    check: Check | None = None
    if setting.name == "compression.gzip.level":
        check = gzip_level
    elif setting.words:
        check = one_of(*setting.words)
    elif setting.least:  # no setting has only a maximum
        number = float if setting.type == "DOUBLE" else int
        most = int(number(setting.most)) if setting.most else None
        check = value_range(int(number(setting.least)), most)
    return TopicConfig(setting.default or "", kind, check)


def is_of_one_broker(name: str) -> bool:
    """Return whether a setting can be set only for a single broker, not for all brokers at once."""
    if LISTENER.fullmatch(name):
        return base_name(name) not in OF_LISTENERS_OF_ALL_BROKERS
    return name in OF_ONE_BROKER or name.startswith(SECURITY)


def is_dynamic(name: str, release: Release) -> bool:
    """Return whether a setting can be changed while the broker runs; True for an unknown setting, as in Kafka.

    Args:
        name: Kafka's name of the setting.
        release: The emulated Kafka release.
    """
    setting = release_settings(release.quirks.configs_before_4_0).get(name)
    return setting is None or setting.dynamic


def configs_error(configs: Mapping[str, str], resource: str, release: Release, current: Effective) -> str | None:
    """Return Kafka's error message if the new dynamic settings of a resource are not valid; None if they are.

    Args:
        configs: All dynamic settings of the resource after the change, by name.
        resource: Broker id as text, or ALL_BROKERS.
        release: The emulated Kafka release.
        current: Function that returns the effective value of a setting before the change.
    """
    if static := [name for name in configs if not is_dynamic(name, release)]:
        return f"Cannot update these configs dynamically: {_scala_set(static)}"
    if unprefixed := [name for name in configs if name in BY_LISTENER_ONLY]:
        reason = "These security configs can be dynamically updated only per-listener using the listener prefix"
        return f"{reason}: HashSet({', '.join(_hashed(unprefixed))})"
    try:
        values = dict(_values(configs, release))
    except ValueError as error:
        return str(error)
    if resource == ALL_BROKERS and (own := [name for name in configs if is_of_one_broker(name)]):
        reason = "Cannot update these configs at default cluster level, broker id must be specified"
        return f"{reason}: {_scala_set(own)}"
    return next(_requirements(values, current), None) or next(_reconfigurations(values, current), None)


def _values(configs: Mapping[str, str], release: Release) -> Iterator[tuple[str, Value]]:
    """Check the values in ``configs``, and yield each known setting with its parsed value.

    Unknown settings are skipped. Settings of one listener are only checked. Raises: ValueError for an invalid value.
    """
    known = release_settings(release.quirks.configs_before_4_0)
    for name, text in configs.items():
        base = base_name(name) if name.startswith(BY_LISTENER) else name
        config = definition(known[base]) if base in known else ADDITIONAL.get(name)
        if config is None:
            continue
        value = parse_value(base, config, text)
        if config.type == TYPES["CLASS"] and not str(value).startswith(OF_KAFKA):
            raise ConfigError(base, value, f"Class {value} could not be found.")
        if base == name:
            yield name, value


def _requirements(values: Mapping[str, Value], current: Effective) -> Iterator[str]:
    """Yield an error message for each combination of values that is inconsistent (AbstractKafkaConfig.validateValues).

    Args:
        values: New values by name of the setting.
        current: Function that returns the effective value of a setting before the change.
    """
    if values.get(CLEANERS) == 0:
        yield "/ by zero"
    failed = "requirement failed: "
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        value = values.get(name, least)
        assert isinstance(value, int)
        if value < least:
            yield f"{failed}{name} must be greater than or equal to {least}"
    if values.get("log.retention.ms") == 0:
        yield f"{failed}log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    buffer, threads = (values.get(name, current(name)) for name in (CLEANER_BUFFER, CLEANERS))
    if CLEANER_BUFFER in values and int(str(buffer)) / int(str(threads)) <= BUFFER_OF_A_CLEANER:
        yield f"{failed}{CLEANER_BUFFER} must be at least 1MB per cleaner thread."
    of_addresses = str(values.get(OVERRIDES, current(OVERRIDES)))
    if values.get("max.connections.per.ip") == 0 and not of_addresses:
        reason = f"can be set to zero only if {OVERRIDES} property is set."
        yield f"{failed}max.connections.per.ip {reason}"
    if OVERRIDES in values:
        yield from _override_errors(of_addresses)


def _override_errors(text: str) -> Iterator[str]:
    """Yield an error message for each invalid entry of ``max.connections.per.ip.overrides``, in Kafka's order.

    ``text``: the value of the setting.
    """
    pairs = [pair.strip() for pair in text.strip().rstrip(", ").split(",")] if text.strip(", ") else []
    entries = [pair.rpartition(":") for pair in pairs]
    for pair, (_, colon, _) in zip(pairs, entries, strict=True):
        if not colon:
            yield f"Error parsing configuration property '{OVERRIDES}': begin 0, end -1, length {len(pair)}"
    for _, _, number in entries:
        if not is_int(number.strip()):
            yield f'For input string: "{number.strip()}"'
    if wrong := [host.strip() for host, _, _ in entries if not HOST.fullmatch(host.strip())]:
        yield f"{OVERRIDES} contains invalid addresses : {','.join(wrong)}"
    try:
        overrides(text)
    except SettingsError as error:
        yield str(error)


def _reconfigurations(values: Mapping[str, Value], current: Effective) -> Iterator[str]:
    """Yield the error messages with which Kafka's reconfigurable components, such as the log cleaner, would reject new
    values.

    Args:
        values: New values by name of the setting.
        current: Function that returns the effective value of a setting before the change.
    """
    for name in THREADS & values.keys():
        yield from _thread_errors(name, values[name], current)
    threads = values.get(CLEANERS)
    if isinstance(threads, int) and threads > 2 * int(current(CLEANERS)):
        present = current(CLEANERS)
        yield invalid(f"Log cleaner threads cannot be increased to more than double the current value {present}")
    for name in ("max.connections", "max.connection.creation.rate"):
        if values.get(name) == 0:
            yield invalid(f"Invalid {name} 0")
    for unit in ("ms", "bytes"):
        local, total = f"log.local.retention.{unit}", f"log.retention.{unit}"
        most = int(str(values.get(total, current(total) or 604_800_000)))
        value = values.get(local)
        if isinstance(value, int) and 0 <= most < value:
            reason = f"Value must not be more than {total} property value: {most}"
            yield invalid(str(ConfigError(local, value, reason)))
    reporters = values.get("metric.reporters", [])
    assert isinstance(reporters, list)
    if not all(each.startswith(OF_KAFKA) for each in reporters):
        failed = "Validation of dynamic config update of Set(metric.reporters) failed with class"
        yield invalid(f"{failed} class kafka.server.DynamicMetricsReporters")


def listener_error(reason: str) -> str:
    """Return Kafka's error message for files that a listener with TLS cannot use.

    ``reason``: class and message of the Java exception that the error message contains.
    """
    return invalid(f"Validation of dynamic config update of SSLFactory failed: {reason}")


def _thread_errors(name: str, value: Value, current: Effective) -> Iterator[str]:
    present = int(current(name))
    failed = f"Dynamic thread count update validation failed for {name}={value}, value"
    assert isinstance(value, int)
    if value < present // 2:
        yield invalid(f"{failed} should be at least half the current value {present}")
    if value > present * 2:
        yield invalid(f"{failed} should not be greater than double the current value {present}")


def invalid(reason: str) -> str:
    """Return Kafka's error message for an invalid change: a Java ConfigException that contains another ConfigException.

    ``reason``: message of the contained ConfigException.
    """
    cause = f"org.apache.kafka.common.config.ConfigException: {reason}"
    return f"Invalid value {cause} for configuration Invalid dynamic configuration"


def _scala_set(names: list[str]) -> str:
    """Return names as Scala formats a Set of names. (With more than four names, Kafka's order differs.)"""
    return f"{'HashSet' if len(names) > 4 else 'Set'}({', '.join(_hashed(names))})"


def _hashed(names: list[str]) -> list[str]:
    """Return names in the iteration order of the hash map in which Kafka stores them."""
    return bucket_order(names, string_hash)


def min_in_sync_error(changed: Mapping[str, str | None], resource: str) -> tuple[ErrorCode, str] | None:
    """Return the error of a change of ``min.insync.replicas`` that eligible leader replicas forbid (KIP-966).

    The result is None if the change is permitted.

    Args:
        changed: The changed settings by name; the value of a removed setting is None.
        resource: Broker id as text, or ALL_BROKERS.
    """
    if MIN_IN_SYNC not in changed:
        return None
    if resource != ALL_BROKERS:
        text = f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled."
        return ErrorCode.INVALID_CONFIG, text
    if changed[MIN_IN_SYNC] is None:
        return ErrorCode.INVALID_CONFIG, f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled."
    return None
