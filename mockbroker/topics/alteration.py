"""Changes of topic configurations: what is allowed, and what comes of them. Pure.

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
from mockbroker.topics.configs import LIST, TopicConfig, known, problem
from mockbroker.topics.model import Cluster, Topic, name_error

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC = 2  # a resource type
Resource: TypeAlias = tuple[int, str]  # type and name
OTHERS = {4: "brokers", 8: "loggers of brokers", 16: "client metrics", 32: "groups"}  # resource types of Kafka


@dataclass(frozen=True, slots=True)
class Change:
    """``operation``: set, delete, or append to or subtract from a list."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """``error`` NONE: none."""

    error: ErrorCode
    text: str | None


NOT_REFUSED = Refusal(ErrorCode.NONE, None)
REPEATED = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def alter_all(
    cluster: Cluster,
    release: Release,
    wanted: Sequence[tuple[Resource, Sequence[Change]]],
    *,
    afresh: bool = False,
    validate_only: bool = False,
) -> list[Refusal]:
    """Alter each resource of a request, in order; one that is named twice is refused each time."""
    named = Counter(resource for resource, _ in wanted)
    return [
        REPEATED
        if named[resource] > 1
        else alter(cluster, release, *resource, changes, afresh=afresh, validate_only=validate_only)
        for resource, changes in wanted
    ]


def alter(
    cluster: Cluster,
    release: Release,
    resource_type: int,
    name: str,
    changes: Sequence[Change],
    *,
    afresh: bool = False,
    validate_only: bool = False,
) -> Refusal:
    """Change the configurations of a topic. ``afresh``: what is not named goes back to its default."""
    topic, refusal = _find(cluster, resource_type, name)
    if topic is None:
        return refusal
    changed = apply({} if afresh else topic.configs, changes, release)
    if isinstance(changed, Refusal):
        return changed
    if text := problem(changed, release):
        return Refusal(ErrorCode.INVALID_CONFIG, text)
    if not validate_only:
        cluster.configure(topic, changed)
    return NOT_REFUSED


def _find(cluster: Cluster, resource_type: int, name: str) -> tuple[Topic | None, Refusal]:
    """The topic whose configurations are to change, or why there is none."""
    if resource_type in OTHERS:
        text = f"Configurations of {OTHERS[resource_type]} cannot be changed: mockbroker changes those of topics alone."
        return None, Refusal(ErrorCode.INVALID_REQUEST, text)
    if resource_type != TOPIC:
        return None, Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    if not name:
        return None, Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if wrong := name_error(name):
        return None, Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    topic = cluster.topics.get(name)
    if topic is None:
        return None, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic, NOT_REFUSED


def apply(
    configs: Mapping[str, str | None], changes: Sequence[Change], release: Release
) -> dict[str, str | None] | Refusal:
    """The configurations after the changes; all of them are made, or none."""
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
        value = _value(changed, change, known(release))
        if isinstance(value, Refusal):
            return value
        changed[change.name] = value
    return changed


def _value(configs: Mapping[str, str | None], change: Change, all_of_them: Mapping[str, TopicConfig]) -> str | Refusal:
    """What the configuration is after the change; whether it may be that is not looked at."""
    name, given = change.name, change.value or ""
    if change.operation not in (SET, APPEND, SUBTRACT):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    if change.operation == SET:
        return given
    config = all_of_them.get(name)
    if config is None or config.type != LIST:
        word = "APPEND" if change.operation == APPEND else "SUBTRACT"
        text = f"Can't {word} to key {shortened(name)} because its type is not LIST."
        return Refusal(ErrorCode.INVALID_CONFIG, text)
    own = configs.get(name)
    now = [word for word in (config.default if own is None else own).split(",") if word]
    words = given.split(",")
    if change.operation == APPEND:
        return ",".join([*now, *(word for word in words if word not in now)])
    return ",".join(word for word in now if word not in words)
