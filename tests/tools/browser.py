"""A page as a browser shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from need import lacking, need


@contextmanager
def opened() -> Iterator[Any]:
    """A browser. Without one the test is skipped, as need.py has it."""
    try:
        from playwright import sync_api
    except ImportError:
        lacking("playwright is not installed")
    path = need("chromium", "Debian has it as a package")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Shown:
    """A page that is open; ``asked``: every address that it wanted beside its own; ``said``: what went wrong."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.page = browser.new_page()
        self.asked: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(path.as_uri())
        self.asked = [url for url in self.asked if url != path.as_uri()]

    def cells(self, table: str) -> list[list[str]]:
        rows = self.page.locator(f"table.{table} tbody tr").all()
        return [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]

    def data(self, chart: str) -> Any:
        """The traces of a chart of plotly."""
        return self.page.evaluate(
            "name => document.getElementById(name).data.map(d => ({name: d.name, x: d.x, y: d.y, custom: d.customdata}))",
            chart,
        )

    def drawn(self, chart: str, what: str) -> int:
        return int(self.page.locator(f"#{chart} {what}").count())
