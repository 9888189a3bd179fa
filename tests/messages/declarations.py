"""Declarations that break a rule. Without ``import annotations``, which declarations do not allow."""

from typing import Any

from kwire.messages.join_group import JoinGroupRequest
from kwire.schema import Int32, Nested, data, struct


@struct
class Empty:
    """A struct without fields."""


def declared(
    annotation: Any, field: Any, *, name: str = "field", versions: str = "0-9", flexible: str = "6+"
) -> type[Any]:
    """Declare a message with one field."""
    body = {"__annotations__": {name: annotation}, name: field}
    return data(versions=versions, flexible=flexible)(type("Message", (), body))


def inherited() -> type[Any]:
    """Declare a subclass of a message."""
    return struct(type("Child", (JoinGroupRequest,), {"__annotations__": {}}))


def deep() -> type[Any]:
    """Declare a message with more levels of nested structs than are allowed."""
    inner: Any = struct(type("Struct", (), {"__annotations__": {"number": int}, "number": Int32()}))
    for _ in range(200):
        inner = struct(type("Struct", (), {"__annotations__": {"inner": inner}, "inner": Nested(inner)}))
    return declared(inner, Nested(inner))
