"""Every test and example that docs/sources.md names is there."""

from __future__ import annotations

import ast
import re

import pytest
from golden import ROOT

ROWS = [
    (cells[0].strip(), cells[2])
    for line in (ROOT / "docs" / "sources.md").read_text("utf-8").splitlines()
    if re.match(r"\| [A-J]\d", line)
    for cells in [line.strip("|").split("|")]
]


def is_there(name: str) -> bool:
    """``tests/test_one.py::test_it``, or a file of examples/."""
    path, _, test = name.partition("::")
    file = ROOT / path
    if not file.is_file() or not test:
        return file.is_file() and path.startswith("examples/")
    return any(
        isinstance(node, ast.FunctionDef) and node.name == test for node in ast.walk(ast.parse(file.read_text()))
    )


@pytest.mark.parametrize(("row", "shown_by"), ROWS, ids=[row for row, _ in ROWS])
def test_what_is_named_is_there(row: str, shown_by: str) -> None:
    names = re.findall(r"`([^`]+)`", shown_by)
    assert names
    assert [name for name in names if not is_there(name)] == []


@pytest.mark.parametrize("name", ["tests/test_sources.py::test_zz", "tests/zz.py::test_it", "tests/test_sources.py"])
def test_what_is_not_there(name: str) -> None:
    assert not is_there(name)


def test_no_row_twice() -> None:
    rows = [row for listed, _ in ROWS for row in listed.split(", ")]
    assert len(rows) == len(set(rows)) > 0
