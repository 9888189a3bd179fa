"""Every fact in docs/sources.md has tests or examples, and these exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from golden import ROOT

SECTIONS = {  # section, number of its facts
    "Partitions, groups and coordinators": 9,
    "Coordination by ZooKeeper": 13,
    "The draft of 0.9": 52,
    "The classic protocol": 27,
    "Assignors": 17,
    "The consumer": 25,
    "Offsets and positions": 20,
    "Threads": 4,
    "Errors": 3,
    "Misreadings": 8,
}
LONGEST_FACT = 260  # characters


def tables(text: str) -> dict[str, list[list[str]]]:
    """Return the cells of each row, by section."""
    tables_ = {}
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")][2:]
        tables_[title] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return tables_


TABLES = tables((ROOT / "docs" / "sources.md").read_text("utf-8"))
ROWS = [tuple(row) for rows in TABLES.values() for row in rows]


@cache
def functions(path: Path) -> frozenset[str]:
    """Return the names of the functions of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def exists(name: str) -> bool:
    """Return whether there is a test ``tests/test_one.py::test_it``, or a file of examples/."""
    path, _, test = name.partition("::")
    file = ROOT / path
    if not file.is_file() or not test:
        return file.is_file() and path.startswith("examples/")
    return test in functions(file)


@pytest.mark.parametrize(("fact", "shown_by"), ROWS, ids=[fact for fact, _ in ROWS])
def test_evidence_exists(fact: str, shown_by: str) -> None:
    assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", shown_by), "tests and examples, and no prose"
    assert [name for name in re.findall(r"`([^`]+)`", shown_by) if not exists(name)] == []


@pytest.mark.parametrize("name", ["tests/test_sources.py::test_zz", "tests/zz.py::test_it", "tests/test_sources.py"])
def test_missing_evidence_is_noticed(name: str) -> None:
    assert not exists(name)


@pytest.mark.parametrize("fact", [fact for fact, _ in ROWS])
def test_fact_is_one_plain_sentence(fact: str) -> None:
    assert re.fullmatch(r"[A-Z`].*\.", fact)
    assert not re.match(r"[A-J]\d+\b", fact), "the number of a row that is nowhere else"
    assert len(fact) <= LONGEST_FACT


def test_every_fact_is_there_once() -> None:
    assert {title: len(rows) for title, rows in TABLES.items()} == SECTIONS
    assert len({fact for fact, _ in ROWS}) == len(ROWS) == sum(SECTIONS.values())
