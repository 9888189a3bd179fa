"""Changes of topic configurations by AlterConfigs and IncrementalAlterConfigs: validation and result. Pure.

Source: Kafka's ConfigAdminManager and ConfigurationControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kwire import ErrorCode
from mockbroker.base.release import Release
from mockbroker.base.texts import shortened
from mockbroker.topics.configs import LIST, TopicConfig, configs_error, topic_configs
from mockbroker.topics.model import Cluster, Topic, name_error

SET, DELETE, APPEND, SUBTRACT = range(4)  # operations of IncrementalAlterConfigs
TOPIC = 2  # the resource type of topics
Resource: TypeAlias = tuple[int, str]  # type and name
OTHERS = {4: "brokers", 8: "broker loggers", 16: "client metrics", 32: "groups"}  # Kafka's other resource types


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a configuration.

    Attributes:
        name: name of the configuration.
        operation: SET, DELETE, APPEND or SUBTRACT.
        value: new value or list items, as text; None with DELETE.
    """

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The result for one resource in the response.

    Attributes:
        error: error code; NONE if the changes are accepted.
        text: error message, or None.
    """

    error: ErrorCode
    text: str | None


NOT_REFUSED = Refusal(ErrorCode.NONE, None)
REPEATED = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def alter_all(
    cluster: Cluster,
    release: Release,
    requested: Sequence[tuple[Resource, Sequence[Change]]],
    *,
    replace_all: bool = False,
    validate_only: bool = False,
) -> list[Refusal]:
    """Alter each resource of a request with ``alter``, and return the results in order; duplicates are refused."""
    counts = Counter(resource for resource, _ in requested)
    return [
        REPEATED
        if counts[resource] > 1
        else alter(cluster, release, *resource, changes, replace_all=replace_all, validate_only=validate_only)
        for resource, changes in requested
    ]


def alter(
    cluster: Cluster,
    release: Release,
    resource_type: int,
    name: str,
    changes: Sequence[Change],
    *,
    replace_all: bool = False,
    validate_only: bool = False,
) -> Refusal:
    """Change the configurations of a topic, and return the result: NOT_REFUSED or the error.

    Args:
        cluster: the cluster to change.
        release: the emulated Kafka release.
        resource_type: resource type of the request; only TOPIC is supported.
        name: topic name.
        changes: the changes, in order.
        replace_all: reset configurations that are not named to their defaults, as AlterConfigs does.
        validate_only: check the changes without applying them.
    """
    topic, refusal = _find_topic(cluster, resource_type, name)
    if topic is None:
        return refusal
    changed = apply({} if replace_all else topic.configs, changes, release)
    if isinstance(changed, Refusal):
        return changed
    if text := configs_error(changed, release):
        return Refusal(ErrorCode.INVALID_CONFIG, text)
    if not validate_only:
        cluster.configure(topic, changed)
    return NOT_REFUSED


def _find_topic(cluster: Cluster, resource_type: int, name: str) -> tuple[Topic | None, Refusal]:
    """Return the topic of a resource, or None and the error."""
    if resource_type in OTHERS:
        text = f"Configurations of {OTHERS[resource_type]} cannot be changed: mockbroker supports topics only."
        return None, Refusal(ErrorCode.INVALID_REQUEST, text)
    if resource_type != TOPIC:
        return None, Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    if not name:
        return None, Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if error := name_error(name):
        return None, Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    topic = cluster.topics.get(name)
    if topic is None:
        return None, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic, NOT_REFUSED


def apply(
    configs: Mapping[str, str | None], changes: Sequence[Change], release: Release
) -> dict[str, str | None] | Refusal:
    """Return the configurations after all changes, or the error of the first change that is refused."""
    if len({change.name for change in changes}) < len(changes):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != DELETE]
    if nulls:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    changed = dict(configs)
    for change in changes:
        if change.operation == DELETE:
            changed.pop(change.name, None)
            continue
        value = _value(changed, change, topic_configs(release))
        if isinstance(value, Refusal):
            return value
        changed[change.name] = value
    return changed


def _value(configs: Mapping[str, str | None], change: Change, definitions: Mapping[str, TopicConfig]) -> str | Refusal:
    """Return the value of a configuration after a change, without validating it."""
    name, operand = change.name, change.value or ""
    if change.operation not in (SET, APPEND, SUBTRACT):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    if change.operation == SET:
        return operand
    config = definitions.get(name)
    if config is None or config.type != LIST:
        operation = "APPEND" if change.operation == APPEND else "SUBTRACT"
        text = f"Can't {operation} to key {shortened(name)} because its type is not LIST."
        return Refusal(ErrorCode.INVALID_CONFIG, text)
    own = configs.get(name)
    current = [item for item in (config.default if own is None else own).split(",") if item]
    items = operand.split(",")
    if change.operation == APPEND:
        return ",".join([*current, *(item for item in items if item not in current)])
    return ",".join(item for item in current if item not in items)
