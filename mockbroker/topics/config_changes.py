"""The changes of configurations in AlterConfigs and IncrementalAlterConfigs, of all resource types. The functions are
pure.

Source: Kafka's ConfigAdminManager and ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.base.texts import shortened
from mockbroker.topics.configs import LIST, TopicConfig

SET, DELETE, APPEND, SUBTRACT = range(4)  # operations of IncrementalAlterConfigs
C = TypeVar("C", str, str | None)  # value of a configuration; the changes set none to null
OPERATION_NAMES = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one configuration in a request.

    Attributes:
        name: name of the configuration.
        operation: SET, DELETE, APPEND or SUBTRACT.
        value: the new value, or the items to add or remove for a list, as text; None with DELETE.
    """

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The result of changing one resource: the error, or success.

    Attributes:
        error: error code; NONE if the changes are accepted.
        text: error message; None for no message.
    """

    error: ErrorCode
    text: str | None


NOT_REFUSED = Refusal(ErrorCode.NONE, None)
NotAList = Callable[[Change, TopicConfig | None], Refusal]
UNKNOWN_OPERATION = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def not_a_list(change: Change, config: TopicConfig | None) -> Refusal:  # noqa: ARG001
    """Return the error for an APPEND to, or SUBTRACT from, a configuration that is unknown or not a list.

    Args:
        change: the change.
        config: definition of the configuration; None for an unknown configuration.
    """
    text = f"Can't {OPERATION_NAMES[change.operation]} to key {shortened(change.name)} because its type is not LIST."
    return Refusal(ErrorCode.INVALID_CONFIG, text)


def structural_refusal(changes: Sequence[Change]) -> Refusal | None:
    """Return an error if two changes name the same configuration, or if a configuration is set to null; else None."""
    if len({change.name for change in changes}) < len(changes):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != DELETE]
    if nulls:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return None


def apply(
    configs: Mapping[str, C],
    changes: Sequence[Change],
    definitions: Mapping[str, TopicConfig],
    not_a_list: NotAList = not_a_list,
    unknown_operation: Callable[[Change], Refusal] = lambda _: UNKNOWN_OPERATION,
) -> dict[str, C] | Refusal:
    """Return the configurations after all changes, or the error of the first change that is rejected.

    Args:
        configs: configurations before the changes.
        changes: the changes, in order, which ``structural_refusal`` accepts.
        definitions: definitions of all configurations of the resource, by name.
        not_a_list: function that gets an APPEND or SUBTRACT to a configuration that is not a list, and the definition
            of the configuration, and returns the error.
        unknown_operation: function that gets a change with an unknown operation, and returns the error.
    """
    changed: dict[str, Any] = dict(configs)
    for change in changes:
        if change.operation == DELETE:
            changed.pop(change.name, None)
            continue
        if change.operation not in (SET, APPEND, SUBTRACT):
            return unknown_operation(change)
        value = _value(changed, change, definitions.get(change.name), not_a_list)
        if isinstance(value, Refusal):
            return value
        changed[change.name] = value
    return changed


def _value(
    configs: Mapping[str, str | None], change: Change, config: TopicConfig | None, not_a_list: NotAList
) -> str | Refusal:
    """Return the value of a configuration after a change, not yet validated, or the error of the change.

    Args:
        configs: configurations before the change.
        change: the change.
        config: definition of the configuration; None for an unknown configuration.
        not_a_list: function that returns the error of an APPEND or SUBTRACT to a configuration that is not a list.
    """
    operand = change.value
    assert operand is not None
    if change.operation == SET:
        return operand
    if config is None or config.type != LIST:
        return not_a_list(change, config)
    own = configs.get(change.name)
    current = [item for item in (config.default if own is None else own).split(",") if item]
    for item in operand.split(","):  # as in Kafka, one item removes one item that is equal
        if change.operation == APPEND and item not in current:
            current.append(item)
        elif change.operation == SUBTRACT and item in current:
            current.remove(item)
    return ",".join(current)
