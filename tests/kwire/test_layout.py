import sys

import pytest

from kwire.errors import SchemaError
from kwire.layout import (
    Blob,
    Fixed,
    List,
    Maybe,
    Record,
    Text,
    element_weight,
    form,
    resolve,
    smallest,
    text,
    versions_of,
    weight,
)
from kwire.limits import MAX_NESTING
from kwire.messages.fetch import FetchRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.schema import Array, Int32, Nested, String, Versions, data, struct


@struct
class Inner:
    number: int = Int32()


@data(versions="0-2", flexible="1+")
class Outer:
    inner: Inner | None = Nested(Inner, null="1+", default=None)
    late: str = String("2+", tag=0)
    names: list[str] | None = Array(String, null=True)


@struct
class Empty:
    late: int = Int32("1+")


@data(versions="0-1", flexible="none")
class Holder:
    things: list[Empty] = Array(Empty)


def test_no_version_is_left() -> None:
    layout = resolve(Outer, 0)
    assert [slot.name for slot in layout.slots] == ["inner", "names"]
    assert [slot.name for slot in layout.absent] == ["late"]
    assert isinstance(layout.slots[0].node, Record)
    assert layout.slots[1].node == List(Text(False, False), False, True)


def test_flexible_version() -> None:
    layout = resolve(Outer, 2)
    assert layout.flexible
    assert isinstance(layout.slots[0].node, Maybe)
    assert [(slot.name, slot.tag) for slot in layout.tagged] == [("late", 0)]
    assert layout.slots[1].node == List(Text(True, False), True, True)


FORMS = [
    (Fixed("int32"), "int32", 4),
    (Fixed("uuid"), "uuid", 16),
    (Text(False, False), "string", 2),
    (Text(True, True), "compact_nullable_string", 1),
    (Blob(False, True), "nullable_bytes", 4),
    (Blob(True, False, records=True), "compact_records", 1),
    (List(Fixed("int8"), False, False), "array of int8", 4),
    (List(Text(True, False), True, True), "compact_nullable_array of compact_string", 1),
    (resolve(Outer, 0), "struct", 8),
    (Maybe(resolve(Outer, 0), tagged=False), "nullable_struct", 1),
]


@pytest.mark.parametrize(("node", "words", "size"), FORMS, ids=[row[1] for row in FORMS])
def test_form_and_size(node: object, words: str, size: int) -> None:
    assert form(node) == words  # type: ignore[arg-type]
    assert smallest(node) == size  # type: ignore[arg-type]


def test_text() -> None:
    assert text(Outer, 2) == "\n".join(
        [
            "Outer v2",
            "  inner: nullable_struct",
            "    number: int32",
            "    (tagged fields)",
            "  names: compact_nullable_array of compact_string",
            "  late: compact_string  [tag 0]",
            "  (tagged fields)",
        ]
    )
    assert "    high_watermark: int64  [tag 1]" in text(FetchRequest, 18)


def test_versions_of() -> None:
    assert list(versions_of(Versions(2, 4))) == [2, 3, 4]


def test_elements_of_no_size_are_refused() -> None:
    with pytest.raises(SchemaError, match="have size 0: an array needs elements of at least 1 byte"):
        resolve(Holder, 0)


def test_nesting_has_a_limit() -> None:
    deepest: type = Inner
    for _ in range(MAX_NESTING):
        deepest = struct(deeper(deepest))
    with pytest.raises(SchemaError, match=f"nested deeper than {MAX_NESTING} structs"):
        resolve(data(versions="0", flexible="none")(deeper(deepest)), 0)


def deeper(inner: type) -> type:
    return type("Deeper", (), {"__annotations__": {"inner": inner}, "inner": Nested(inner)})


def test_weight_of_the_lightest_message() -> None:
    """The weight is at least the memory that CPython uses."""
    message = resolve(JoinGroupResponse, 9)
    members = next(slot.node for slot in message.slots if slot.name == "members")
    assert isinstance(members, List)
    before = JoinGroupResponse(members=[JoinGroupResponse.Member() for _ in range(1000)])
    kept = sum(sys.getsizeof(member) for member in before.members) + sys.getsizeof(before.members)
    assert kept <= 1000 * element_weight(members) + weight(message) <= 1.2 * kept


def test_no_such_version() -> None:
    with pytest.raises(SchemaError, match="Outer has no version 3: its versions are 0-2"):
        resolve(Outer, 3)
    with pytest.raises(SchemaError, match="Protocol is a struct inside messages and has no versions of its own"):
        resolve(JoinGroupRequest.Protocol, 0)
