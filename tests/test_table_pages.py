from __future__ import annotations

import pytest
from golden import ROOT
from table_pages import made, renewed

from kwire.analysis.tables import EVERY


def test_docs_are_up_to_date() -> None:
    text = (ROOT / "docs" / "pipeline.md").read_text("utf-8")
    assert renewed(text) == text, "make docs"


def test_every_column_is_there() -> None:
    text = made()
    for table in EVERY.values():
        assert f"### {table.name}\n" in text
        assert all(f"| `{column.name}` | {column.type} |" in text for column in table.columns)


def test_without_marks() -> None:
    with pytest.raises(ValueError, match="marks"):
        renewed("# Nothing")
