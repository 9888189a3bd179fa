from __future__ import annotations

from pathlib import Path

import assurance_page
import pytest
from golden import ROOT


def test_docs_are_up_to_date() -> None:
    text = (ROOT / "docs" / "assurance.md").read_text("utf-8")
    assert assurance_page.renewed(text) == text, "make docs"


@pytest.mark.parametrize("page", assurance_page.PAGES)
def test_page_with_a_table_is_up_to_date(page: str) -> None:
    assert assurance_page.PAGES[page]() == (ROOT / "docs" / page).read_text("utf-8"), "make docs"


@pytest.mark.parametrize("part", assurance_page.PARTS)
def test_every_table_has_its_marks(part: str) -> None:
    text = (ROOT / "docs" / "assurance.md").read_text("utf-8")
    with pytest.raises(ValueError, match=f"the page has 0 marks '<!-- {part}, from here -->'"):
        assurance_page.renewed(text.replace(f"<!-- {part},", "<!--"))


def test_a_new_scheme_of_the_simulator_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rates of the engines are measured later, and are kept when the seeds run again."""
    monkeypatch.setattr(assurance_page, "RESULTS", tmp_path)
    (tmp_path / "simulator.json").write_text("{}")
    reached = dict.fromkeys(("seeds", "count", "states", "pairs", "cells"), 1)
    assurance_page.keep({"new": reached})
    assert "| `new` | 1 | 1 | 1 | 1 | 1 |  |  |  |" in assurance_page.simulator_table()
    assurance_page.keep({"new": {"rates": {"compiled": 2_000, "native": 3_000, "calls": 9_000}}})
    assurance_page.keep({"new": reached | {"seeds": 4}})
    assert "| `new` | 4 | 1 | 1 | 1 | 1 | 2,000 | 3,000 | 9,000 |" in assurance_page.simulator_table()
