"""Tables and names that are printed on a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mockbroker.cli.tables import LONGEST, cell, escape, json_line, table


def test_numbers_are_aligned_to_the_right() -> None:
    assert table(["NAME", "LAG"], [("a", 5), ("bcdef", 12), ("", None)]).splitlines() == [
        "NAME   LAG",
        "a        5",
        "bcdef   12",
        '""       -',
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table(["NAME", "LAG"], []) == "NAME  LAG"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("caf\xe9 \u65e5\u672c", "caf\xe9 \u65e5\u672c"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\r\n\tb\x7f\x9b", r"a\r\n\tb\x7f\x9b"),
        ("\u202eevil\u200f\u2066", r"\u202eevil\u200f\u2066"),
        ("\u2028\ufeff", r"\u2028\ufeff"),
        ("\udcff", r"\udcff"),
    ],
    ids=["letters", "escape sequence", "control characters", "text direction", "separators", "surrogate"],
)
def test_what_a_terminal_interprets_is_escaped(name: str, shown: str) -> None:
    assert escape(name) == cell(name) == shown
    assert json.loads(json_line(name)) == name
    assert json_line(name).isascii()
    assert json_line(name).isprintable()


def test_what_stdout_cannot_encode_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert escape("caf\xe9") == r"caf\xe9"


def test_long_names_are_cut() -> None:
    assert cell("x" * 10_000) == "x" * LONGEST + " ..."


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), ("", '""'), (True, "yes"), (False, "no"), (7, "7")])
def test_values_of_cells(value: object, shown: str) -> None:
    assert cell(value) == shown
