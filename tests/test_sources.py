"""Every row of the documents is in docs/sources.md or known to be missing; every test and example named there is there."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

import pytest
from golden import ROOT

LETTERS = {"A": 9, "B": 13, "C": 52, "D": 27, "E": 17, "F": 26, "G": 20, "H": 4, "I": 10, "J": 12}  # how many rows
SECTIONS = {  # and the letter that rows in them begin with
    "Foundations": "A",
    "Historic schemes": "B",
    "The draft of 0.9": "C",
    "The classic protocol": "D",
    "Assignors": "E",
    "The consumer": "F",
    "Offsets and positions": "G",
    "Threads": "H",
    "Errors": "I",
    "Where the documents are wrong": "J",
}


def spelled(ids: str) -> list[str]:
    """``A1-A3 B7`` one by one."""
    found = []
    for part in ids.split():
        first, _, last = part.partition("-")
        found += [f"{first[0]}{number}" for number in range(int(first[1:]), int((last or first)[1:]) + 1)]
    return found


EVERY = spelled(" ".join(f"{letter}1-{letter}{count}" for letter, count in LETTERS.items()))


def tables(text: str) -> list[tuple[str, list[list[str]]]]:
    """The cells of each row, by section."""
    found = []
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")][2:]
        found.append((title, [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]))
    return found


def problems(tables: list[tuple[str, list[list[str]]]]) -> list[str]:
    """What is wrong with the ids: out of order, in the wrong section, twice, or nowhere."""
    found = []
    titles = [title for title, _ in tables]
    if titles != [title for title in SECTIONS if title in titles]:
        found.append(f"sections: {titles}")
    seen: list[str] = []
    for title, rows in tables:
        listed = [cells[0].split(", ") for cells in rows]
        for ids in [*listed, [ids[0] for ids in listed]]:
            found += [f"{after} behind {before}" for before, after in pairwise(ids) if place(before) >= place(after)]
        found += [f"{ids[0]} in {title}" for ids in listed if ids[0][0] != SECTIONS.get(title)]
        seen += [row for ids in listed for row in ids]
    found += [f"{row} is no row" for row in seen if row not in EVERY]
    found += [f"{row} twice" for row in set(seen) if seen.count(row) > 1]
    found += [f"{row} is missing" for row in EVERY if row not in seen]
    return found


def place(row: str) -> tuple[str, int]:
    return row[0], int(row[1:])


TABLES = tables((ROOT / "docs" / "sources.md").read_text("utf-8"))
ROWS = [(cells[0], cells[2]) for _, rows in TABLES for cells in rows]


def is_there(name: str) -> bool:
    """``tests/test_one.py::test_it``, or a file of examples/."""
    path, _, test = name.partition("::")
    file = ROOT / path
    if not file.is_file() or not test:
        return file.is_file() and path.startswith("examples/")
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return any(isinstance(node, functions) and node.name == test for node in ast.parse(file.read_text()).body)


@pytest.mark.parametrize(("row", "shown_by"), ROWS, ids=[row for row, _ in ROWS])
def test_what_is_named_is_there(row: str, shown_by: str) -> None:
    assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", shown_by), "tests and examples, and no prose"
    assert [name for name in re.findall(r"`([^`]+)`", shown_by) if not is_there(name)] == []


@pytest.mark.parametrize("name", ["tests/test_sources.py::test_zz", "tests/zz.py::test_it", "tests/test_sources.py"])
def test_what_is_not_there(name: str) -> None:
    assert not is_there(name)


def test_every_row_is_there() -> None:
    assert len(EVERY) == 178 + 12
    assert problems(TABLES) == []


def of(*sections: tuple[str, str]) -> list[tuple[str, list[list[str]]]]:
    """Tables with rows of these ids, ``A2+A3`` is one row, and of all others."""
    given = [(title, [[ids.replace("+", ", "), "x", ""] for ids in rows.split()]) for title, rows in sections]
    named = {row[0].upper() for _, rows in sections for row in rows.split()}
    rest = [(title, [[ids, "x", ""] for ids in EVERY if ids[0] == letter]) for title, letter in SECTIONS.items()]
    titles = [title for title, _ in sections]
    return given + [one for one in rest if one[0] not in titles and one[1][0][0][0] not in named]


A4_ON = "A4 A5 A6 A7 A8 A9"
WRONG = [
    (of(("Foundations", f"A1 A2+A3 {A4_ON}")), []),
    (of(("Foundations", f"A1 A2 {A4_ON}")), ["A3 is missing"]),
    (of(("Foundations", f"A2 A1 A3 {A4_ON}")), ["A1 behind A2"]),
    (of(("Foundations", f"A1+A3 A2 {A4_ON}")), []),
    (of(("Foundations", f"A2+A1 A3 {A4_ON}")), ["A1 behind A2"]),
    (of(("Foundations", f"A1 A2 A3 {A4_ON} A10")), ["A10 is no row"]),
    (of(("Foundations", f"A1+A2 A2 A3 {A4_ON}")), ["A2 twice"]),
]


@pytest.mark.parametrize(("given", "expected"), WRONG)
def test_what_is_noticed(given: list[tuple[str, list[list[str]]]], expected: list[str]) -> None:
    assert problems(given) == expected


def test_sections_have_their_order_and_their_rows() -> None:
    whole = of()
    assert problems(whole) == []
    assert problems([*whole[1:], whole[0]])[0].startswith("sections: ")
    moved = [(title, rows[1:] if title == "Threads" else rows) for title, rows in whole]
    moved = [(title, [*rows, ["H1", "x", ""]] if title == "Errors" else rows) for title, rows in moved]
    assert "H1 behind I10" in problems(moved)
    lone = [(title, [["H1", "x", ""], *rows] if title == "Errors" else rows) for title, rows in whole]
    assert "H1 in Errors" in problems(lone)
    assert "H1 twice" in problems(lone)
