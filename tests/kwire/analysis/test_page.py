from __future__ import annotations

import pytest
from golden import ROOT

from kwire.analysis import page
from kwire.analysis.tables import EVERY


def test_docs_are_up_to_date() -> None:
    text = (ROOT / "docs" / "pipeline.md").read_text("utf-8")
    assert page.renewed(text) == text, "make docs"


def test_every_column_is_there() -> None:
    made = page.made()
    for table in EVERY.values():
        assert f"### {table.name}\n" in made
        assert all(f"| `{column.name}` | {column.type} |" in made for column in table.columns)


def test_without_marks() -> None:
    with pytest.raises(ValueError, match="marks"):
        page.renewed("# Nothing")
