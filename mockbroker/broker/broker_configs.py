"""The broker configurations that DescribeConfigs returns: Kafka's, as of the emulated release, and mockbroker's own.

A configuration that mockbroker does not use is returned with its configured value, else with Kafka's default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mockbroker.base.kafka_settings import NEW, OLD, TYPES, KafkaSetting, definitions, kafka_settings
from mockbroker.base.release import Release
from mockbroker.base.settings import LONGS, SECRETS, Settings
from mockbroker.topics.model import Node

OWN_TYPES: dict[type, str] = {bool: "BOOLEAN", int: "INT", str: "STRING"}
STATIC = ("broker.id", "node.id", "listeners")  # always reported as set, with the value of the broker


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker configuration.

    Attributes:
        name: Kafka's name of the configuration.
        value: Value as text, or None, or if it is secret.
        default: Default value as text, or None, or if the value is secret.
        type: Type number, the ``ConfigType`` in DescribeConfigs.
        is_given: Whether the configuration is set explicitly.
        is_sensitive: Whether the value is secret.
        read_only: Whether the configuration cannot be changed while the broker runs.
    """

    name: str
    value: str | None
    default: str | None
    type: int
    is_given: bool
    is_sensitive: bool
    read_only: bool


def broker_configs(settings: Settings, release: Release, node: Node) -> Iterator[BrokerConfig]:
    """Yield the configurations of a broker, sorted by name."""
    release_span = OLD if release.quirks.configs_before_4_0 else NEW
    in_release = {name: spans[release_span] for name, spans in kafka_settings().items() if release_span in spans}
    in_release = {name: setting for name, setting in in_release.items() if not setting.internal}
    own = {name: _text(value) for name, value in settings.by_name().items()}
    for name in sorted(in_release.keys() | own.keys() | settings.others.keys()):
        setting = in_release.get(name) or next(iter(definitions(name)), None)
        value = _static_value(name, node) or own.get(name) or settings.others.get(name)
        is_given = name in settings.given or name in STATIC
        if not is_given and not value:
            value = setting.default if setting else None
        secret = name in SECRETS or (setting is not None and setting.is_secret)
        yield BrokerConfig(
            name=name,
            value=None if secret else value,
            default=None if secret or setting is None else setting.default,
            type=TYPES[_type(name, setting, settings)],
            is_given=is_given,
            is_sensitive=secret,
            read_only=setting is None or not setting.dynamic,
        )


def _static_value(name: str, node: Node) -> str | None:
    if name == "listeners":
        ports = node.ports or {"PLAINTEXT": node.port}
        return ",".join(f"{listener}://{node.host_of(listener)}:{port}" for listener, port in ports.items())
    return str(node.node_id) if name in STATIC else None


def _type(name: str, setting: KafkaSetting | None, settings: Settings) -> str:
    if setting is not None:
        return setting.type
    return "LONG" if name in LONGS else OWN_TYPES[type(settings.by_name()[name])]


def _text(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
