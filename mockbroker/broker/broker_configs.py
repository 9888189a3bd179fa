"""The broker configurations that DescribeConfigs returns: Kafka's, as in the emulated release, and mockbroker's own.

A configuration that mockbroker does not use is returned with its configured value, else with Kafka's default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kwire.lazy_dataclass import dataclass
from mockbroker.base.config_sources import DEFAULT, ConfigSource, broker_sources, release_settings, set_values
from mockbroker.base.kafka_settings import BY_LISTENER, TYPES, KafkaSetting, base_name, definitions
from mockbroker.base.live_settings import (
    ALL_BROKERS,
    DYNAMIC_DEFAULT_BROKER,
    STATIC_BROKER,
    BrokerSettings,
    LiveSettings,
)
from mockbroker.base.release import Release
from mockbroker.base.settings import LONGS, SECRETS, Settings
from mockbroker.topics.configs import TopicConfig, reported
from mockbroker.topics.dynamic_broker_configs import ADDITIONAL, definition
from mockbroker.topics.model import Node

OWN_TYPES: dict[type, str] = {bool: "BOOLEAN", int: "INT", str: "STRING"}
SHARE_GROUPS = "group.share."  # prefix of settings whose defaults differ in releases without stable share groups
CLEANUP_POLICY = "log.cleanup.policy"
STATIC = ("broker.id", "node.id", "listeners")  # always reported as set, with the value of the broker
OURS = "mockbroker."  # prefix of settings that Kafka does not have
UNKNOWN = 0  # type of a setting that Kafka does not know
OF_AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}  # unknown to a Kafka broker, and therefore sensitive


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker configuration.

    Attributes:
        name: Kafka's name of the configuration.
        value: Value as text; None for null or a secret value.
        sources: The values from all sources, the effective one first.
        type: Type number, the ``ConfigType`` in DescribeConfigs.
        is_sensitive: Whether the value is secret.
        read_only: Whether the configuration cannot be changed while the broker runs.
    """

    name: str
    value: str | None
    sources: list[ConfigSource]
    type: int
    is_sensitive: bool
    read_only: bool

    @property
    def source(self) -> int:
        """The number of the source of the value (``ConfigSource`` in DescribeConfigs)."""
        return self.sources[0].source if self.sources else DEFAULT


def broker_configs(settings: Settings, release: Release, node: Node) -> Iterator[BrokerConfig]:
    """Yield the configurations of a broker, sorted by name.

    Args:
        settings: the settings of the broker.
        release: the emulated Kafka release.
        node: the broker, with its id, hosts and ports.
    """
    in_release = release_settings(release.quirks.configs_before_4_0)
    own = {name for name in settings.by_name() if name.startswith(OURS) or name in in_release}
    for name in sorted(in_release.keys() | own | settings.given | settings.others.keys() | _dynamic_names(settings)):
        if name in STATIC:
            yield _static(name, in_release.get(name), _static_value(name, node))
            continue
        sources = broker_sources(name, settings, release)
        text = settings.text(name)
        is_set = next(set_values((name,), settings), None) is not None
        if not is_set and (not text or (name in in_release and name.startswith(SHARE_GROUPS))):
            text = in_release[name].default if name in in_release else None
        elif not is_set and sources and text is not None:
            sources[-1] = replace(sources[-1], value=text)
        if name == CLEANUP_POLICY and text:  # Kafka removes duplicates here, but not in the synonyms
            text = ",".join(dict.fromkeys(text.split(",")))
        yield _config(name, text, sources, in_release, settings)


def cluster_wide_configs(brokers: BrokerSettings, release: Release) -> Iterator[BrokerConfig]:
    """Yield the settings that AlterConfigs has set for all brokers, sorted by name.

    Args:
        brokers: The settings of the brokers.
        release: The emulated Kafka release.
    """
    in_release = release_settings(release.quirks.configs_before_4_0)
    for name, value in sorted(brokers.set_on(ALL_BROKERS).items()):
        sources = [ConfigSource(name, value, DYNAMIC_DEFAULT_BROKER)]
        yield _config(name, value, sources, in_release, brokers.cluster)


def _dynamic_names(settings: Settings) -> set[str]:
    return {*settings.of_broker, *settings.cluster_wide} if isinstance(settings, LiveSettings) else set()


def _config(
    name: str,
    text: str | None,
    sources: list[ConfigSource],
    in_release: Mapping[str, KafkaSetting],
    settings: Settings,
) -> BrokerConfig:
    setting = in_release.get(base_name(name) if name.startswith(BY_LISTENER) else name)
    setting = setting or next(iter(definitions(name)), None)
    kind = _type(name, setting, settings)
    is_secret = name in SECRETS or kind == UNKNOWN or (setting is not None and setting.is_secret)
    config = ADDITIONAL.get(name) or (None if setting is None else definition(setting))
    return BrokerConfig(
        name=name,
        value=None if is_secret or text is None else _reported(name, config, text),
        sources=sources,
        type=kind,
        is_sensitive=is_secret,
        read_only=not (name in ADDITIONAL or (name in in_release and in_release[name].dynamic)),
    )


def _reported(name: str, config: TopicConfig | None, text: str) -> str:
    return text if config is None else reported(name, config, text)


def _static(name: str, setting: KafkaSetting | None, value: str) -> BrokerConfig:
    sources = [ConfigSource(name, value, STATIC_BROKER)]
    if setting is not None and setting.default is not None:
        sources.append(ConfigSource(name, setting.default, DEFAULT))
    kind = TYPES[setting.type] if setting else TYPES["INT"]
    return BrokerConfig(name, value, sources, kind, is_sensitive=False, read_only=not (setting and setting.dynamic))


def _static_value(name: str, node: Node) -> str:
    if name == "listeners":
        ports = node.ports or {"PLAINTEXT": node.port}
        return ",".join(f"{listener}://{node.host_of(listener)}:{port}" for listener, port in ports.items())
    return str(node.node_id)


def _type(name: str, setting: KafkaSetting | None, settings: Settings) -> int:
    if setting is not None:
        return TYPES[setting.type]
    if name in OF_AUTHORIZER:
        return UNKNOWN
    if name in ADDITIONAL or name in LONGS:
        return TYPES["LONG"]
    value = settings.by_name().get(name)
    return UNKNOWN if value is None else TYPES[OWN_TYPES[type(value)]]
