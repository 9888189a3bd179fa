"""Changes of topic configurations: what is allowed, and what comes of them. Pure.

Source: Kafka's ConfigAdminManager and ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwire import ErrorCode
from mockbroker.cluster.model import Cluster, Topic
from mockbroker.cluster.topic_configs import BOOLEAN, DOUBLE, INT, LIST, LONG, SHORT, TOPIC_CONFIGS

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC = 2  # a resource type
BITS = {SHORT: 16, INT: 32, LONG: 64}
TYPE_NAMES = {SHORT: "SHORT", INT: "INT", LONG: "LONG", DOUBLE: "DOUBLE", BOOLEAN: "BOOLEAN"}


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


def alter(
    cluster: Cluster,
    resource_type: int,
    name: str,
    changes: Sequence[Change],
    *,
    afresh: bool = False,
    validate_only: bool = False,
) -> Refusal:
    """Change the configurations of a topic, or tell why not. ``afresh``: what is not named goes back to its default."""
    topic, refusal = _find(cluster, resource_type, name)
    if topic is None:
        return refusal
    changed = apply({} if afresh else topic.configs, changes)
    if isinstance(changed, Refusal):
        return changed
    if not validate_only:
        cluster.configure(topic, changed)
    return NOT_REFUSED


def _find(cluster: Cluster, resource_type: int, name: str) -> tuple[Topic | None, Refusal]:
    """The topic whose configurations are to change, or why there is none."""
    if resource_type != TOPIC:
        return None, Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    if not name:
        return None, Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = cluster.topics.get(name)
    if topic is None:
        return None, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic, NOT_REFUSED


def apply(configs: Mapping[str, str | None], changes: Sequence[Change]) -> dict[str, str | None] | Refusal:
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
        value = _value(changed, change)
        if isinstance(value, Refusal):
            return value
        changed[change.name] = value
    return changed


def _value(configs: Mapping[str, str | None], change: Change) -> str | Refusal:
    name, given = change.name, change.value or ""
    if change.operation not in (SET, APPEND, SUBTRACT):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    known = TOPIC_CONFIGS.get(name)
    if known is None:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    if change.operation == SET:
        if not _fits(known.type, given):
            kind = TYPE_NAMES[known.type]
            text = f"Invalid value {given} for configuration {name}: Not a number of type {kind}"
            return Refusal(ErrorCode.INVALID_CONFIG, text)
        return given
    if known.type != LIST:
        word = "APPEND" if change.operation == APPEND else "SUBTRACT"
        return Refusal(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST.")
    now = [word for word in (configs.get(name) or known.default).split(",") if word]
    words = given.split(",")
    if change.operation == APPEND:
        had = set(now)
        return ",".join([*now, *(word for word in words if word not in had)])
    gone = set(words)
    return ",".join(word for word in now if word not in gone)


def _fits(kind: int, value: str) -> bool:
    """True if a text can be a value of this type."""
    text = value.strip()
    try:
        match kind:
            case 1:
                return text.lower() in ("true", "false")
            case 3 | 4 | 5:
                return -(1 << BITS[kind] - 1) <= int(text) < 1 << BITS[kind] - 1
            case 6:
                float(text)
    except ValueError:
        return False
    return True
