"""docs/torture.md has the tables that tools/torture_page.py generates from the results."""

from __future__ import annotations

import re
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


def test_each_failed_case_has_a_command_that_repeats_it() -> None:
    rows = torture_page.read(RESULTS)
    lines = [line for line in torture_page.commands(rows) if "`mockbroker torture" in line]
    assert len(lines) == sum(row["verdict"] in torture_page.FAILED for row in rows)
    for line in lines:
        found = re.search(r"`mockbroker torture (?P<options>.*?)--case (?P<case>\S+) -- (?P<program>.*)`", line)
        assert found is not None, line
        case = CASES[found["case"]]
        assert ("SSL" in found["options"]) == (case.step == "TLS"), line
        assert ("SASL" in found["options"]) == (case.step in {"SaslHandshake", "SaslAuthenticate"}), line
        for file in re.findall(r"examples/\S+", found["program"]):
            assert (ROOT / file).is_file(), line


def test_page_without_a_mark_is_not_changed() -> None:
    with pytest.raises(ValueError, match=f"no mark '{torture_page.END}'"):
        torture_page.renewed(f"before {torture_page.BEGIN} without an end", [])


def test_results_of_a_client_are_by_release() -> None:
    case = next(iter(CASES))
    rows = [
        {"client": "kcat", "release": release, "case": case, "verdict": "survived", "outcome": ""}
        for release in ("1", "1", "2")
    ]
    counted = [line for line in torture_page.tables(rows) if line.startswith("| kcat |")]
    assert [line.split(" | ")[1:3] for line in counted] == [["1", "2"], ["2", "1"]]
