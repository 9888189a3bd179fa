"""Declarations that are refused."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kwire.errors import SchemaError
from kwire.messages.join_group import JoinGroupRequest
from kwire.schema import (
    Array,
    Bool,
    Int8,
    Int32,
    Nested,
    String,
    Uuid,
    data,
    struct,
)


@struct
class Part:
    number: int = Int32()


def declared(annotation: Any, field: Any, *, versions: str = "0-9", flexible: str = "6+") -> type:
    """Declare a message with one field."""
    return data(versions=versions, flexible=flexible)(
        type("Message", (), {"__annotations__": {"field": annotation}, "field": field})
    )


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("no kind", lambda: declared(int, 3), "Message.field has no field kind"),
    ("annotation of another type", lambda: declared(str, Int32()), "the annotation is <class 'str'>, but a field of kind int32 needs <class 'int'>"),
    ("annotation as text", lambda: declared("int", Int32()), "annotation is a string"),
    ("null not annotated", lambda: declared(str, String(null=True)), "the annotation is <class 'str'>, but a field of kind string needs str | None"),
    ("null annotated only", lambda: declared(str | None, String()), "a field of kind string needs <class 'str'>"),
    ("list of another type", lambda: declared(list[str], Array(Int32)), r"a field of kind array needs list\[int\]"),
    ("another struct", lambda: declared(int, Nested(Part)), "a field of kind struct needs <class '.*Part'>"),
    ("number that is null", lambda: declared(int | None, Int32(null=True)), "int32 cannot be null"),
    ("bool that is null", lambda: declared(bool | None, Bool(null=True)), "bool cannot be null"),
    ("uuid that is null", lambda: declared(UUID | None, Uuid(null=True)), "uuid cannot be null"),
    ("null where absent", lambda: declared(str | None, String("5+", null="4+")), r"the field is nullable in versions 4\+, but exists only in 5\+"),
    ("null beyond its versions", lambda: declared(str | None, String("5-6", null="5+")), r"the field is nullable in versions 5\+, but exists only in 5-6"),
    ("default null, never null", lambda: declared(str, String(default=None)), "the default is null, but no version allows null"),
    ("version above the message's", lambda: declared(int, Int32("10+")), r"the versions 10\+ of the field exceed the versions 0-9 of the message"),
    ("versions beyond the message's", lambda: declared(int, Int32("5-10")), "the versions 5-10 of the field exceed the versions 0-9 of the message"),
    ("versions turned round", lambda: declared(int, Int32("5-3")), "invalid version range '5-3'"),
    ("not a range", lambda: declared(int, Int32("x")), "invalid version range 'x'"),
    ("tag where not flexible", lambda: declared(int, Int32("5+", tag=0)), r"tagged in versions 5\+, but the message is flexible only in 6\+"),
    ("tag without flexible versions", lambda: declared(int, Int32(tag=0), flexible="none"), "tagged in versions 0"),
    ("first tag is not 0", lambda: declared(int, Int32("6+", tag=1)), "tags must be 0 to 0, each once"),
    ("message range", lambda: declared(int, Int32(), versions="0-"), "invalid version range '0-'"),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_declaration(declare: Callable[[], object], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        declare()


def test_tags_twice_or_with_a_gap() -> None:
    for tags in ([0, 0], [0, 2]):
        fields = {f"field{n}": Int32("6+", tag=tag) for n, tag in enumerate(tags)}
        body = {"__annotations__": dict.fromkeys(fields, int), **fields}
        with pytest.raises(SchemaError, match=r"tags must be 0 to 1, each once, got \[0, "):
            data(versions="0-9", flexible="6+")(type("Message", (), body))


def child() -> type:
    return struct(type("Child", (JoinGroupRequest.Protocol,), {"__annotations__": {}}))


ODD_DECLARATIONS = [
    (lambda: struct(type("X", (), {"__annotations__": {"self": int}, "self": Int32()})), "invalid field name"),
    (lambda: struct(type("X", (), {"__annotations__": {"_a": int}, "_a": Int32()})), "invalid field name"),
    (lambda: declared(int, Int32(default="x")), "default 'x' is not of type int32"),
    (lambda: declared(int, Int8(default=1000)), "default 1000 is out of range for int8"),
    (lambda: declared(bool, Bool(default=2)), "default 2 is not of type bool"),
    (lambda: declared(list[int], Array(Int32, default=[1])), r"default \[1\] is not allowed for array"),
    (
        lambda: data(versions="0+", flexible="none")(type("X", (), {"__annotations__": {}})),
        "needs a closed version range",
    ),
    (child, "cannot be subclassed"),
]


@pytest.mark.parametrize(("declare", "text"), ODD_DECLARATIONS)
def test_odd_declarations_are_refused(declare: Callable[[], object], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        declare()
