"""docs/torture.md has the tables that tools/torture_page.py makes of the results."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden import ROOT

pytest.importorskip("psutil")

import torture_page

from mockbroker.lab.torture.catalogue import CASES

PAGE = ROOT / "docs" / "torture.md"
RESULTS = ROOT / "benchmarks" / "results" / "torture.tsv"


def test_the_tables_are_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "torture.md"
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    torture_page.main(page, RESULTS, [])
    assert page.read_text("utf-8") == PAGE.read_text("utf-8")


def test_results_are_of_cases_that_exist() -> None:
    assert {row["case"] for row in torture_page.read(RESULTS)} <= set(CASES)
