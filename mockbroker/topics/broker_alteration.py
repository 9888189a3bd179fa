"""The changes of the settings of brokers by AlterConfigs and IncrementalAlterConfigs. The functions are pure.

Source: Kafka's ConfigAdminManager, and ConfigurationControlManager for eligible leader replicas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kwire import ErrorCode
from mockbroker.base.config_sources import set_values
from mockbroker.base.live_settings import ALL_BROKERS, BrokerSettings
from mockbroker.base.release import Release
from mockbroker.base.texts import shortened
from mockbroker.topics.config_changes import (
    APPEND,
    UNKNOWN_OPERATION,
    Change,
    Refusal,
    apply,
)
from mockbroker.topics.configs import TopicConfig
from mockbroker.topics.dynamic_broker_configs import (
    MAX_CONFIGS,
    MAX_SIZE,
    configs_error,
    definitions,
    min_in_sync_error,
)

INTEGER = re.compile(r"[+-]?\d{1,10}")  # numbers that Java's Integer.parseInt accepts, approximately


def changed(
    brokers: BrokerSettings,
    release: Release,
    node: int,
    name: str,
    changes: Sequence[Change],
    *,
    replace_all: bool,
) -> dict[str, str] | Refusal:
    """Return the dynamic settings of a broker, or of all brokers, after the changes; or the error of the first rejected
    change.

    Args:
        brokers: the settings of the brokers before the changes.
        release: the emulated Kafka release.
        node: id of the broker that received the request. A broker can change only its own settings.
        name: broker id as text, or ALL_BROKERS for the cluster-wide settings.
        changes: the changes, in order, which ``structural_refusal`` accepts.
        replace_all: True for AlterConfigs, which removes the settings that the request omits; False for
            IncrementalAlterConfigs.
    """
    if refusal := node_refusal(name, node):
        return refusal
    own = brokers.set_on(name)
    before = {} if replace_all else own
    defaults = definitions(release)
    configs = apply(before, changes, defaults, _not_a_list, _unknown_operation)
    if isinstance(configs, Refusal):
        return configs
    settings = brokers.cluster if name == ALL_BROKERS else brokers.of(node)

    def current(setting: str) -> str:
        effective = next(set_values((setting,), settings), None)
        return effective.value if effective else (defaults[setting].default if setting in defaults else "")

    if text := configs_error(configs, name, release, current):
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    if brokers.keeps_min_in_sync:
        removed = dict.fromkeys(own.keys() - configs.keys())
        named = {change.name: configs.get(change.name) for change in changes}
        if error := min_in_sync_error(removed | named, name):
            return Refusal(*error)
        if name == ALL_BROKERS:
            configs = brokers.without_static_min_in_sync(configs)
    return _size_refusal(brokers.configs, name, configs) or configs


def node_refusal(name: str, node: int) -> Refusal | None:
    """Return an error if ``name`` is neither ALL_BROKERS nor the id of the broker that received the request; else None.

    Args:
        name: name of the resource in the request: a broker id as text, or ALL_BROKERS.
        node: id of the broker that received the request.
    """
    if name == ALL_BROKERS:
        return None
    if not INTEGER.fullmatch(name):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {shortened(name)}")
    if int(name) != node:
        text = f"Unexpected broker id, expected {node}, but received {shortened(name)}"
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    return None


def _not_a_list(change: Change, config: TopicConfig | None) -> Refusal:
    if config is None:
        return UNKNOWN_OPERATION
    operation = "append" if change.operation == APPEND else "subtract"
    text = f"Config value {operation} is not allowed for config key: {shortened(change.name)}"
    return Refusal(ErrorCode.INVALID_CONFIG, text)


def _unknown_operation(change: Change) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}")


def _size_refusal(configured: Mapping[str, Mapping[str, str]], name: str, configs: Mapping[str, str]) -> Refusal | None:
    others = (each for resource, each in configured.items() if resource != name)
    if len(configs) > MAX_CONFIGS:
        text = f"The resource would have {len(configs)} settings, the maximum is {MAX_CONFIGS}: delete some first."
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    size = sum(len(key) + len(value) for each in (*others, configs) for key, value in each.items())
    if size <= MAX_SIZE:
        return None
    text = f"The settings of brokers would have {size} characters, the maximum is {MAX_SIZE}: delete some first."
    return Refusal(ErrorCode.INVALID_REQUEST, text)
