"""The methods of a declared class."""

import dataclasses
import inspect
import pprint

import pytest

from kwire.messages.join_group import JoinGroupRequest
from kwire.schema import (
    Array,
    Int32,
    String,
    struct,
)


def test_a_value_has_slots_and_takes_keywords_only() -> None:
    value = JoinGroupRequest(group_id="g")
    assert dataclasses.replace(value, reason="r") != value
    with pytest.raises(AttributeError):
        value.gruop_id = "typo"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        JoinGroupRequest("g")  # type: ignore[misc]
    assert "unknown_tags" not in repr(value)


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
def test_dataclass_fields_are_built_once(attribute: str) -> None:
    @struct
    class Once:
        number: int = Int32()

    assert getattr(Once, attribute) is getattr(Once, attribute)
    assert getattr(Once(), attribute) is vars(Once)[attribute]


def test_repr_is_that_of_a_dataclass() -> None:
    assert pprint.pformat(JoinGroupRequest(group_id="g" * 200)).startswith("JoinGroupRequest(group_id=")
    assert JoinGroupRequest.__dataclass_params__.eq  # type: ignore[attr-defined]


def test_methods_of_a_declaration_are_its_own() -> None:
    @struct
    class WithOwnRepr:
        number: int = Int32()

        def __repr__(self) -> str:
            return f"<{self.number}>"

    assert repr(WithOwnRepr(number=7)) == "<7>"
