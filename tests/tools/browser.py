"""Pages in a browser, for tests of their content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import page as page_tool
from need import CACHE, lacking, need

# Returns the accessibility problems that axe finds in a page, after ``axe_script`` was evaluated in it.
AXE = """async () => (await axe.run()).violations.flatMap(
  ({id, nodes}) => nodes.map(node => `${id}: ${node.html.slice(0, 120)} ${node.failureSummary.slice(0, 200)}`))"""


@contextmanager
def opened() -> Iterator[Any]:
    """Start a browser; skip the test if none is installed (need.py)."""
    try:
        from playwright import sync_api
    except ImportError:
        lacking("playwright is not installed")
    path = need("chromium", "Debian has it as a package")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def axe_script() -> str:
    """Return axe-core; skip the test if it cannot be installed."""
    try:
        return (page_tool.packages(CACHE) / "axe-core" / "axe.min.js").read_text("utf-8")
    except page_tool.NotBuilt as error:
        lacking(str(error))


class Shown:
    """An open page. ``how``: options of playwright, such as viewport and color_scheme.

    Attributes:
        requests: URLs that the page requested, except its own.
        errors: texts of console messages and of uncaught exceptions.
    """

    def __init__(self, browser: Any, path: Path, **how: Any) -> None:
        self.page = browser.new_page(**how)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri())
        self.requests = [url for url in self.requests if url != path.as_uri()]

    def cells(self, table: str) -> list[list[str]]:
        rows = self.page.locator(f"table.{table} tbody tr").all()
        return [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]
