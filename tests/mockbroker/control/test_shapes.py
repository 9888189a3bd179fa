"""Shapes of JSON values: the values that they accept, and JSON Schemas that accept the same values."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mockbroker.control.shapes import (
    SHOWN,
    Anything,
    Either,
    Flag,
    Items,
    MapOf,
    Null,
    Number,
    Object,
    Shape,
    Text,
    Whole,
    closest,
    shown,
)

POINT = Object({"x": Whole(0, 9)}, {"name": Text(("a", "b"))})
CASES: list[tuple[Shape, list[Any], list[Any]]] = [  # shape, accepted values, refused values
    (Text(), ["", "x"], [1, None, ["x"]]),
    (Text(("a", "b")), ["a"], ["c", "", 1]),
    (Whole(1, 9), [1, 9], [0, 10, 1.5, "1", None, 10**400]),
    (Number(9), [0, 9, 1.5], [-1, 9.5, "1", None]),
    (Flag(), [True, False], [1, 0, "true", None]),
    (Anything(), [None, {}, [1]], []),
    (Items(Whole()), [[], [1, 2]], [{}, [1, "x"], "12"]),
    (MapOf(Whole()), [{}, {"a": 1}], [[], {"a": "x"}]),
    (Null(Text()), [None, "x"], [1]),
    (Null(POINT), [None, {"x": 1}], [{}, []]),
    (Either((Text(), Whole()), "text or number"), ["x", 1], [1.5, None]),
    (POINT, [{"x": 1}, {"x": 1, "name": "a"}], [{}, [], {"x": 10}, {"x": 1, "y": 2}, {"x": 1, "name": "c"}]),
    (Object(further=Whole()), [{}, {"any": 1}], [{"any": "x"}]),
]


@pytest.mark.parametrize(("shape", "accepted", "refused"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_values_and_schema_agree(shape: Shape, accepted: list[Any], refused: list[Any]) -> None:
    validator = Draft202012Validator(shape.schema())
    for value in accepted:
        assert not list(shape.problems(value, "")), value
        assert validator.is_valid(value), value
    for value in refused:
        assert list(shape.problems(value, "")), value
        assert not validator.is_valid(value), value


def test_problems_have_path_and_possible_values() -> None:
    shape = Object({"points": Items(POINT)}, {"map": MapOf(Flag())})
    value = {"points": [{"x": 1}, {"x": "1", "nam": "a"}, {"name": "bb"}], "map": {"k": 1}}
    assert [(each.path, each.detail, each.possible) for each in shape.problems(value, "")] == [
        ("points[1].x", "expected a whole number, got '1'", ()),
        ("points[1].nam", "unknown key 'nam'", ("name", "x")),
        ("points[2].x", "missing", ()),
        ("points[2].name", "'bb' is not one of the possible values", ("b", "a")),
        ("map.k", "expected true or false, got 1", ("true", "false")),
    ]


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        (Whole(), "12", 12),
        (Whole(), "-1", -1),
        (Whole(), "1e3", "1e3"),
        (Whole(), "\u0661", "\u0661"),
        (Whole(), "9" * 5_000, "9" * 5_000),
        (Flag(), "true", True),
        (Flag(), "1", "1"),
        (Text(), "1", "1"),
    ],
)
def test_values_of_parameters(shape: Shape, text: str, value: object) -> None:
    assert shape.parse(text) == value


def test_values_in_messages_are_short_and_printable() -> None:
    assert shown("\x1b[31m\u202e") == r"'\x1b[31m\u202e'"
    assert len(shown("x" * 10_000)) == SHOWN + 3
    assert [shown(each) for each in ({}, [], None, 1.5)] == ["an object", "a list", "None", "1.5"]


def test_similar_values_come_first() -> None:
    assert closest("stabel", ("Dead", "Empty", "stable")) == ("stable", "Dead", "Empty")


def test_named_objects_are_references() -> None:
    named = Object({"a": Text()}, name="Named")
    assert Items(Null(named)).schema() == {
        "type": "array",
        "items": {"anyOf": [{"$ref": "#/components/schemas/Named"}, {"type": "null"}]},
    }
    assert list(Object({"x": Either((MapOf(named), Text()), "")}, further=Anything()).named()) == [named]
