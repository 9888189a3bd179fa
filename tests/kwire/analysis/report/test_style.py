"""The style sheet of pages is self-contained, as the pages are."""

from __future__ import annotations

from kwire.analysis.report.style import STYLE


def test_style_loads_nothing_from_elsewhere() -> None:
    assert "table {" in STYLE
    assert not any(word in STYLE for word in ("url(", "@import", "</", "http"))
