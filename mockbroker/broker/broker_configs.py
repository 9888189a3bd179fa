"""A broker's settings as DescribeConfigs reports them: all that its release has, and those that only this broker has.

Values are those that are in force here; of settings without effect what was given, else Kafka's default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mockbroker.base.kafka_settings import NEW, OLD, TYPES, KafkaSetting, definitions, kafka_settings
from mockbroker.base.release import Release
from mockbroker.base.settings import LONGS, SECRETS, Settings
from mockbroker.topics.model import Node

OWN_TYPES: dict[type, str] = {bool: "BOOLEAN", int: "INT", str: "STRING"}
STATIC = ("broker.id", "node.id", "listeners")  # that a broker has of itself, whatever was given


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """``value``, ``default``: as text, None for none, and of secrets; ``type``: as DescribeConfigs numbers it."""

    name: str
    value: str | None
    default: str | None
    type: int
    is_given: bool
    is_sensitive: bool
    read_only: bool


def broker_configs(settings: Settings, release: Release, node: Node) -> Iterator[BrokerConfig]:
    """The settings of a broker by name."""
    short = OLD if release.quirks.configs_before_4_0 else NEW
    known = {name: found[short] for name, found in kafka_settings().items() if short in found}
    known = {name: found for name, found in known.items() if not found.internal}
    ours = {name: _text(value) for name, value in settings.by_name().items()}
    for name in sorted(known.keys() | ours.keys() | settings.others.keys()):
        found = known.get(name) or next(iter(definitions(name)), None)
        value = _own(name, node) or ours.get(name) or settings.others.get(name)
        is_given = name in settings.given or name in STATIC
        if not is_given and not value:
            value = found.default if found else None
        secret = name in SECRETS or (found is not None and found.is_secret)
        yield BrokerConfig(
            name=name,
            value=None if secret else value,
            default=None if secret or found is None else found.default,
            type=TYPES[_type(name, found, settings)],
            is_given=is_given,
            is_sensitive=secret,
            read_only=found is None or not found.dynamic,
        )


def _own(name: str, node: Node) -> str | None:
    if name == "listeners":
        ports = node.ports or {"PLAINTEXT": node.port}
        return ",".join(f"{each}://{node.host_of(each)}:{port}" for each, port in ports.items())
    return str(node.node_id) if name in STATIC else None


def _type(name: str, found: KafkaSetting | None, settings: Settings) -> str:
    if found is not None:
        return found.type
    return "LONG" if name in LONGS else OWN_TYPES[type(settings.by_name()[name])]


def _text(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
