"""Meanings of numbers in messages, such as names of error codes and readable times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kwire.errorcodes import ErrorCode
from kwire.messages import MODULES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME = 253_402_300_799_999  # ms: the end of the year 9999
TIMES = frozenset({"log_append_time_ms", "transaction_start_time_ms"})  # in addition to fields named timestamp

# Names of special values, by field.
NAMES: Mapping[str, Mapping[int, str]] = {
    "ProduceRequest.acks": {-1: "all", 0: "none, no response", 1: "leader"},
    "FetchRequest.isolation_level": {0: "read_uncommitted", 1: "read_committed"},
    "ListOffsetsRequest.isolation_level": {0: "read_uncommitted", 1: "read_committed"},
    "FindCoordinatorRequest.key_type": {0: "group", 1: "transaction", 2: "share"},
    "ListOffsetsRequest.Topic.Partition.timestamp": {
        -1: "latest",
        -2: "earliest",
        -3: "of the largest timestamp",
        -4: "earliest local",
        -5: "latest tiered",
    },
}


def meaning(struct: str, field: str, wire: str, value: Any) -> str:
    """Return the meaning of a field's value, such as the name of an error code; "" for a value without a known meaning.

    Args:
        struct: qualified name of the class that contains the field.
        field: name of the field.
        wire: wire type of the field.
        value: decoded value.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return ""
    if names := NAMES.get(f"{struct}.{field}"):
        return names.get(value) or (time_text(value) if _is_time(field, wire) else "")
    if field.endswith("error_code") and wire == "int16":
        return error_name(value)
    if field.endswith("api_key") and wire == "int16":
        return api_name(value)
    if _is_time(field, wire):
        return time_text(value)
    return duration(value) if field.endswith("_ms") else ""


def _is_time(field: str, wire: str) -> bool:
    return wire == "int64" and ("timestamp" in field or field in TIMES)


def error_name(code: int) -> str:
    """Return Kafka's name of an error code; "" for an unknown code."""
    return ErrorCode(code).name if code in tuple(ErrorCode) else ""


def api_name(key: int) -> str:
    """Return Kafka's name of an API without importing the API's module; "" for an unknown key."""
    return "".join(word.capitalize() for word in MODULES.get(key, "").split("_"))


def time_text(ms: int) -> str:
    """Return a timestamp as a time in UTC, or "" for a time before 1970 or after the year 9999.

    Args:
        ms: milliseconds since 1970.
    """
    if not 0 <= ms <= LAST_TIME:
        return ""
    return (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(ms: int) -> str:
    """Return a duration as text in the most readable unit, such as ``45 s`` or ``5 min``; "" if it is shorter than a
    second.

    ``ms``: duration in milliseconds.
    """
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= size and ms < 2**31 - 1:
            return f"{ms / size:.4g} {unit}"
    return ""
