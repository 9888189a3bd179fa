"""The parts of the documentation site that need no site generator: links, navigation, the HTTP reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documentation_site import NAVIGATION, broken_links, http_reference, rewrite
from golden import ROOT

from mockbroker.control.table import openapi

PAGE = '<h1 id="top">T</h1><a href="{}">x</a>'


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("other.html", False),
        ("other.html#top", False),
        ("#top", False),
        ("other.html?x=1", False),
        ("https://example.invalid/", False),
        ("missing.html", True),
        ("other.html#missing", True),
        ("#missing", True),
        ("../outside.html", True),
    ],
)
def test_link_without_a_target_is_reported(link: str, broken: bool, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE.format(link), "utf-8")
    (tmp_path / "other.html").write_text(PAGE.format("page.html"), "utf-8")
    assert len(list(broken_links(tmp_path))) == broken


def test_links_lead_to_pages_of_the_site(tmp_path: Path) -> None:
    """A README is the index of its folder, and a file outside of docs/ is copied."""
    page = tmp_path / "how-to" / "page.md"
    page.parent.mkdir()
    changelog = "/".join(["..", "..", "CHANGELOG.md"])  # from docs/how-to/
    page.write_text(f"[a](../README.md) [b](../faults.md#presets) [c]({changelog}) [d](https://x.invalid/y)", "utf-8")
    rewrite(page, ROOT / "docs" / "how-to" / "page.md", tmp_path)
    expected = "[a](../index.md) [b](../faults.md#presets) [c](../files/CHANGELOG.md) [d](https://x.invalid/y)"
    assert page.read_text("utf-8") == expected
    assert (tmp_path / "files" / "CHANGELOG.md").exists()


def test_every_page_is_in_the_navigation() -> None:
    """Exceptions are generated pages of the navigation, and pages to which other pages link."""
    patterns = [pattern for text in NAVIGATION.values() for pattern in text.split()]
    listed = {path for pattern in patterns for path in (ROOT / "docs").glob(f"{pattern}.md")}
    missing = set((ROOT / "docs").rglob("*.md")) - listed
    assert missing == set(), "add the page to NAVIGATION of tools/documentation_site.py"


def test_http_reference_has_every_operation() -> None:
    text = "\n".join(http_reference())
    expected = {f"{method.upper()} {path}" for path, methods in openapi()["paths"].items() for method in methods}
    assert set(re.findall(r"^## ([A-Z]+ /.*)$", text, re.MULTILINE)) == expected
