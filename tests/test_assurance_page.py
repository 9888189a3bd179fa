from __future__ import annotations

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
    with pytest.raises(ValueError, match=f"the marks of {part} are missing"):
        assurance_page.renewed(text.replace(f"<!-- {part},", "<!--"))
