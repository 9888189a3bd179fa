"""Version ranges and field kinds."""

from typing import Any
from uuid import UUID

import pytest

from kwire.errors import SchemaError
from kwire.messages.join_group import JoinGroupRequest
from kwire.schema import (
    NO_VERSIONS,
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Nested,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    Versions,
    data,
    struct,
)

RANGES = [
    ("0-9", Versions(0, 9), [0, 9], [-1, 10]),
    ("6+", Versions(6, None), [6, 100], [5]),
    ("5", Versions(5, 5), [5], [4, 6]),
    ("none", NO_VERSIONS, [], [-1, 0, 1]),
]


@pytest.mark.parametrize(("text", "versions", "inside", "outside"), RANGES)
def test_version_range(text: str, versions: Versions, inside: list[int], outside: list[int]) -> None:
    assert Versions.parse(text) == versions
    assert str(versions) == text
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


@pytest.mark.parametrize("text", ["", "+", "a", "1-", "-1", "1-b", "1..2", "v1"])
def test_no_version_range(text: str) -> None:
    with pytest.raises(SchemaError, match="invalid version range"):
        Versions.parse(text)


COVERS = [
    ("0+", "3-5", True), ("0-5", "3-5", True), ("4+", "3-5", False), ("0-4", "3-5", False),
    ("3-5", "3+", False), ("3+", "3+", True), ("0-1", "none", True), ("none", "0", False),
]  # fmt: skip


@pytest.mark.parametrize(("outer", "inner", "covers"), COVERS)
def test_covers(outer: str, inner: str, covers: bool) -> None:
    assert Versions.parse(outer).covers(Versions.parse(inner)) is covers


@struct
class Part:
    number: int = Int32()


def declared(annotation: Any, field: Any, *, versions: str = "0-9", flexible: str = "6+") -> type:
    """Declare a message with one field."""
    return data(versions=versions, flexible=flexible)(
        type("Message", (), {"__annotations__": {"field": annotation}, "field": field})
    )


KINDS: list[tuple[Any, Any, object]] = [
    (bool, Bool(), False),
    (int, Int8(), 0),
    (int, Int16(), 0),
    (int, UInt16(), 0),
    (int, Int32(), 0),
    (int, UInt32(), 0),
    (int, Int64(), 0),
    (float, Float64(), 0.0),
    (UUID, Uuid(), UUID(int=0)),
    (str, String(), ""),
    (bytes, Bytes(), b""),
    (bytes, Records(), b""),
    (list[int], Array(Int32), []),
    (Part, Nested(Part), Part()),
    (Part | None, Nested(Part, null=True, default=None), None),
    (int, Int32(default=-1), -1),
]


@pytest.mark.parametrize(("annotation", "field", "default"), KINDS, ids=[row[1].kind for row in KINDS])
def test_every_kind_has_a_default(annotation: Any, field: Any, default: object) -> None:
    value: Any = declared(annotation, field)()
    assert value.field == default


def test_a_default_is_not_shared() -> None:
    one, other = JoinGroupRequest(), JoinGroupRequest()
    one.protocols.append(JoinGroupRequest.Protocol())
    assert other.protocols == []
