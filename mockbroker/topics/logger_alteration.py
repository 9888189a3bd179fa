"""The changes of log levels by IncrementalAlterConfigs. The functions are pure.

Source: Kafka's ConfigAdminManager.validateLogLevelConfigs (4.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire import ErrorCode
from mockbroker.base.broker_loggers import LEVELS, LOGGERS, ROOT
from mockbroker.base.texts import shortened
from mockbroker.topics.broker_alteration import INTEGER
from mockbroker.topics.config_changes import (
    DELETE,
    OPERATION_NAMES,
    SET,
    UNKNOWN_OPERATION,
    Change,
    Refusal,
)


def changed(node: int, name: str, changes: Sequence[Change]) -> dict[str, str | None] | Refusal:
    """Return the new level of each changed logger, or the error of the first rejected change.

    A level is None if the change removes it.

    Args:
        node: id of the broker that received the request.
        name: broker id in the request, as text.
        changes: the changes, in order, which ``structural_refusal`` accepts.
    """
    if not INTEGER.fullmatch(name):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {shortened(name)}")
    if int(name) != node:
        text = f"Unexpected node id. Expected {node}, but received {shortened(name)}"
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    return next((refusal for refusal in map(_refusal, changes) if refusal), None) or {
        change.name: change.value if change.operation == SET else None for change in changes
    }


def _refusal(change: Change) -> Refusal | None:
    if change.operation in OPERATION_NAMES:
        text = f"{OPERATION_NAMES[change.operation]} operation is not allowed for the BROKER_LOGGER resource"
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    if change.operation not in (SET, DELETE):
        return UNKNOWN_OPERATION
    if change.name not in LOGGERS:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {shortened(change.name)} does not exist!")
    if change.operation == DELETE and change.name == ROOT:
        return Refusal(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if change.operation == SET and change.value not in LEVELS:
        text = (
            f"Cannot set the log level of {change.name} to {shortened(change.value or '')} as it is not a supported "
            f"log level. Valid log levels are {', '.join(LEVELS)}"
        )
        return Refusal(ErrorCode.INVALID_CONFIG, text)
    return None
