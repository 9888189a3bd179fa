"""The elements and texts of an HTML page."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """A parsed page.

    Attributes:
        elements: Name and attributes of every element, in order.
        texts: The texts between tags, without those of white space.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Record a text."""
        if data.strip():
            self.texts.append(data)

    @property
    def names(self) -> set[str]:
        """Return the names of the elements."""
        return {name for name, _ in self.elements}
