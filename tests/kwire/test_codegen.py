from __future__ import annotations

from typing import Any

from kwire.codegen import Lines, Names, StructFunctions, run, source
from kwire.messages.join_group import JoinGroupRequest
from kwire.schema import ZERO_UUID, schema_of


def test_one_name_for_one_expression() -> None:
    names = Names()
    assert names.define("read_ih", "first") == "read_ih"
    assert names.define("read_ih", "first") == "read_ih"
    assert names.define("read_ih", "second") == "read_ih_2"


def test_one_name_for_one_object() -> None:
    names, first, second = Names(), object(), object()
    assert [names.hand_in("thing", each) for each in (first, first, second)] == ["_thing", "_thing", "_thing_2"]


def test_values_are_expressions() -> None:
    names = Names()
    shown = [names.value(each) for each in (None, 7, "a'b", b"x", ZERO_UUID)]
    assert shown == ["None", "7", '"a\'b"', "b'x'", "ZERO_UUID"]
    space = run(f"def f():\n    return [{', '.join(shown)}]", names, {})
    assert space["f"]() == [None, 7, "a'b", b"x", ZERO_UUID]


def test_blocks_are_indented() -> None:
    lines = Lines("def f(x):")
    with lines.block("if x:"):
        lines.add("return 1")
    lines.add("return 2")
    names = Names()
    names.define("one", "1")
    text = source("two results", names, [lines])
    assert text == "# two results\n\none = 1\n\ndef f(x):\n    if x:\n        return 1\n    return 2\n"
    assert run(text, names, {})["f"](0) == 2


def test_struct_functions_get_their_arguments() -> None:
    made = StructFunctions("default or not")
    name, lines = made.begin("is_set", "o")
    lines.add(f"return sign({made.is_not_initial('reason', schema_of(JoinGroupRequest).fields['reason'])})")
    result: Any = made.run(name, {"sign": int})
    assert [result(JoinGroupRequest()), result(JoinGroupRequest(reason="left"))] == [0, 1]
