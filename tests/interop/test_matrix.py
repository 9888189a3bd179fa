"""docs/clients.md has the scenarios of these tests, and no failed result."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop import matrix
from interop.stage import FAMILIES

PAGE = Path(__file__).parent.parent.parent / "docs" / "clients.md"


pytestmark = pytest.mark.interop


def tables() -> list[list[list[str]]]:
    """Return the tables of the page, each as its head and its rows."""
    results: list[list[list[str]]] = [[]]
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| ---"):
            continue
        if line.startswith("|"):
            results[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif results[-1]:
            results.append([])
    return [table for table in results if table]


def test_matrix_has_the_pinned_versions() -> None:
    versions = dict(tables()[0][1:])
    assert set(versions) == set(FAMILIES)
    assert versions | matrix.pinned() == versions


@pytest.mark.parametrize(("at", "title"), [*enumerate(matrix.SCENARIOS, 1)])
def test_every_client_in_every_scenario(at: int, title: str) -> None:
    head, *rows = tables()[at]
    assert head == ["scenario", *FAMILIES]
    well = {(scenario, family): "ok" for scenario in matrix.SCENARIOS[title] for family in FAMILIES}
    well = {about: said for about, said in well.items() if about not in matrix.REASONS}
    expected = [
        [matrix.row_name(scenario), *(matrix.cell(well, scenario, family) for family in FAMILIES)]
        for scenario in matrix.SCENARIOS[title]
    ]
    assert rows == expected


@pytest.mark.parametrize(("at", "meeting"), [*enumerate(matrix.MEETINGS.values(), 1 + len(matrix.SCENARIOS))])
def test_every_meeting(at: int, meeting: matrix.Meeting) -> None:
    head, *rows = tables()[at]
    assert head == [*meeting.head, "result"]
    assert rows == [[*row, "ok"] for row in meeting.rows]
