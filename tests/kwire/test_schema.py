"""Declarations: what a version range is, what a declared class can do, and which declarations are refused."""

import dataclasses
import inspect
import pprint
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kwire.errors import SchemaError
from kwire.messages import APIS, MODULES, api_named
from kwire.messages.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse
from kwire.schema import (
    ALL_VERSIONS,
    NO_VERSIONS,
    Api,
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
    request,
    response,
    schema_of,
    struct,
    unknown_tags,
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
    with pytest.raises(SchemaError, match="not a version range"):
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
    """A message with one field."""
    return data(versions=versions, flexible=flexible)(
        type("Message", (), {"__annotations__": {"field": annotation}, "field": field})
    )


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("no kind", lambda: declared(int, 3), "Message.field has no field kind"),
    ("annotation of another type", lambda: declared(str, Int32()), "annotated <class 'str'>, but its kind needs <class 'int'>"),
    ("annotation as text", lambda: declared("int", Int32()), "annotated with text"),
    ("null not annotated", lambda: declared(str, String(null=True)), "annotated <class 'str'>, but its kind needs str | None"),
    ("null annotated only", lambda: declared(str | None, String()), "its kind needs <class 'str'>"),
    ("list of another type", lambda: declared(list[str], Array(Int32)), r"its kind needs list\[int\]"),
    ("another struct", lambda: declared(int, Nested(Part)), "its kind needs <class '.*Part'>"),
    ("number that is null", lambda: declared(int | None, Int32(null=True)), "int32 cannot be null"),
    ("bool that is null", lambda: declared(bool | None, Bool(null=True)), "bool cannot be null"),
    ("uuid that is null", lambda: declared(UUID | None, Uuid(null=True)), "uuid cannot be null"),
    ("null where absent", lambda: declared(str | None, String("5+", null="4+")), r"null in 4\+, but present in 5\+"),
    ("null beyond its versions", lambda: declared(str | None, String("5-6", null="5+")), r"null in 5\+, but present in 5-6"),
    ("default null, never null", lambda: declared(str, String(default=None)), "the default is null, but no version allows null"),
    ("version above the message's", lambda: declared(int, Int32("10+")), r"versions 10\+ are not among the message's 0-9"),
    ("versions beyond the message's", lambda: declared(int, Int32("5-10")), "versions 5-10 are not among the message's 0-9"),
    ("versions turned round", lambda: declared(int, Int32("5-3")), "not a version range: '5-3'"),
    ("not a range", lambda: declared(int, Int32("x")), "not a version range: 'x'"),
    ("tag where not flexible", lambda: declared(int, Int32("5+", tag=0)), r"tagged in 5\+, but flexible in 6\+"),
    ("tag without flexible versions", lambda: declared(int, Int32(tag=0), flexible="none"), "tagged in 0"),
    ("first tag is not 0", lambda: declared(int, Int32("6+", tag=1)), "tags must be 0 to 0, each once"),
    ("message range", lambda: declared(int, Int32(), versions="0-"), "not a version range: '0-'"),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_declaration(declare: Callable[[], object], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        declare()


def test_tags_twice_or_with_a_gap() -> None:
    for tags in ([0, 0], [0, 2]):
        fields = {f"field{n}": Int32("6+", tag=tag) for n, tag in enumerate(tags)}
        body = {"__annotations__": dict.fromkeys(fields, int), **fields}
        with pytest.raises(SchemaError, match=r"tags must be 0 to 1, each once, not \[0, "):
            data(versions="0-9", flexible="6+")(type("Message", (), body))


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


def test_a_value_has_slots_and_takes_keywords_only() -> None:
    value = JoinGroupRequest(group_id="g")
    assert dataclasses.replace(value, reason="r") != value
    with pytest.raises(AttributeError):
        value.gruop_id = "typo"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        JoinGroupRequest("g")  # type: ignore[misc]
    assert "unknown_tags" not in repr(value)


def test_schema_of_a_declared_class() -> None:
    schema = schema_of(JoinGroupRequest)
    assert (schema.name, schema.api, str(schema.versions), str(schema.flexible)) == (
        "JoinGroupRequest",
        JOIN_GROUP,
        "0-9",
        "6+",
    )
    assert schema.fields["reason"].versions == Versions(8, None)
    assert schema.fields["group_id"].versions == ALL_VERSIONS
    assert schema_of(JoinGroupRequest.Protocol).versions is None
    with pytest.raises(SchemaError, match="is not a declared message or struct"):
        schema_of(int)


def test_api() -> None:
    api = Api(999, versions="0-2", flexible="none")

    @request(api)
    class EchoRequest:
        text: str = String()

    @response(api)
    class EchoResponse:
        text: str = String()

    assert (api.request, api.response, api.name) == (EchoRequest, EchoResponse, "Echo")
    assert repr(api) == "<Api 999 Echo v0-2>"


def test_apis() -> None:
    assert list(APIS) == sorted(MODULES)
    assert len(APIS) == len(MODULES)
    assert [api.key for api in APIS.values()] == list(APIS)
    assert (APIS[11].request, APIS[11].response) == (JoinGroupRequest, JoinGroupResponse)
    assert 9999 not in APIS
    assert {api_named(api.name) for api in APIS.values()} == set(APIS.values())
    with pytest.raises(KeyError):
        api_named("Join")


def test_unknown_tags_of_anything() -> None:
    assert unknown_tags(JoinGroupRequest()) == {}
    assert unknown_tags(object()) == {}


def test_the_constructor_is_made_when_it_is_needed() -> None:
    @struct
    class Late:
        number: int = Int32(default=7)
        names: list[str] = Array(String)

    assert str(inspect.signature(Late)) == "(*, number=7, names=<unset>, unknown_tags=None)"
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        Late(1)  # type: ignore[misc]
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Late(other=1)  # type: ignore[call-arg]
    first, second = Late(), Late()
    first.names.append("x")
    assert second == Late(number=7, names=[])

    class Heir(Late):
        pass

    assert Heir(number=1).number == 1


@pytest.mark.parametrize("attribute", ["__dataclass_fields__", "__dataclass_params__"])
def test_what_dataclasses_look_for_is_made_once(attribute: str) -> None:
    @struct
    class Once:
        number: int = Int32()

    assert getattr(Once, attribute) is getattr(Once, attribute)
    assert getattr(Once(), attribute) is vars(Once)[attribute]


def test_it_is_printed_like_a_dataclass() -> None:
    assert pprint.pformat(JoinGroupRequest(group_id="g" * 200)).startswith("JoinGroupRequest(group_id=")
    assert JoinGroupRequest.__dataclass_params__.eq  # type: ignore[attr-defined]


def test_methods_of_a_declaration_are_its_own() -> None:
    @struct
    class Told:
        number: int = Int32()

        def __repr__(self) -> str:
            return f"<{self.number}>"

    assert repr(Told(number=7)) == "<7>"


def child() -> type:
    return struct(type("Child", (JoinGroupRequest.Protocol,), {"__annotations__": {}}))


ODD_DECLARATIONS = [
    (lambda: struct(type("X", (), {"__annotations__": {"self": int}, "self": Int32()})), "no field can be called that"),
    (lambda: struct(type("X", (), {"__annotations__": {"_a": int}, "_a": Int32()})), "no field can be called that"),
    (lambda: declared(int, Int32(default="x")), "'x' is no int32"),
    (lambda: declared(int, Int8(default=1000)), "1000 is no int8"),
    (lambda: declared(bool, Bool(default=2)), "2 is no bool"),
    (lambda: declared(list[int], Array(Int32, default=[1])), "the default of array is null, or an empty one"),
    (lambda: data(versions="0+", flexible="none")(type("X", (), {"__annotations__": {}})), "have an end"),
    (child, "cannot go on from another"),
]


@pytest.mark.parametrize(("declare", "text"), ODD_DECLARATIONS)
def test_odd_declarations_are_refused(declare: Callable[[], object], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        declare()
