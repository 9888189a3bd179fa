"""The first paint of the live page, for states with hostile names."""

from __future__ import annotations

from typing import Any

import pytest
from tools.page_html import Page

from mockbroker.control.page import first_paint
from mockbroker.control.page.first_paint import login_page, state_page, text

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "</main></body>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "<!--",
    "]]><svg/onload=alert(1)>",
    "&lt;b&gt;&#60;",
    "\x1b]0;owned\x07\x1b[2J",
    "\u202egpj.exe\u2066",
    "a\u200bb\ufeff",
    "\ud800 \U0001f600 é",
    "\x00\r\n\t\x85\u2028",
]
ELEMENTS = {
    *("html", "head", "meta", "title", "link", "script", "body", "main", "h1", "h2", "h3", "p", "noscript", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


def state(name: str = "x", members: int = 1, groups: int = 1) -> dict[str, Any]:
    """Return a state in which clients have chosen the same name for everything."""
    member = {"member_id": name, "client_id": name, "host": name, "instance_id": name, "assignment": {name: [0, 1]}}
    group = {
        "id": name,
        "type": "classic",
        "state": "Stable",
        "generation": 1,
        "protocol": name,
        "coordinator": 0,
        "members": {f"{name}{n}": member for n in range(members)},
        "offsets": {name: {"0": {"offset": 5, "lag": 2}, "1": {"offset": 6}}},
    }
    return {
        "cluster": {
            "release": "4.2",
            "cluster_id": "id",
            "bootstrap_servers": "h:1",
            "brokers": [{"id": 0, "host": "h", "port": 1, "state": "running"}],
        },
        "clock": {"mode": "real", "time": "2026-01-01T00:00:00.000Z"},
        "groups": {f"{name}{n}": group for n in range(groups)},
        "topics": {name: {"internal": False, "partitions": {"0": {"start": 1, "end": 4}}}},
        "faults": {
            "f": {
                "name": name,
                "match": {"group": name},
                "action": {"error": name},
                "position": 0,
                "matched": 1,
                "applied": 1,
                "holding": 0,
            }
        },
    }


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_that_clients_choose_stay_text(name: str) -> None:
    html = state_page(state(name))
    page, plain = Page(html), Page(state_page(state()))
    assert page.elements == plain.elements
    assert page.names == ELEMENTS
    assert len(page.texts) == len(plain.texts)
    assert html.replace("\n", "").isprintable()


def test_no_inline_script_or_style() -> None:
    for html in (state_page(state()), login_page()):
        page = Page(html)
        assert [attributes for name, attributes in page.elements if name == "script"] == [
            {"type": "module", "src": "/page/app.js"}
        ]
        assert "style" not in page.names
        assert not [key for _, attributes in page.elements for key in attributes if key.startswith(("on", "style"))]


def test_the_tables_have_the_state() -> None:
    texts = Page(state_page(state("orders"))).texts
    for row in (["orders", "0", "5", "2"], ["orders", "1", "6", "-"], ["orders", "1", "3"], ["0", "h:1", "running"]):
        assert any(texts[at : at + len(row)] == row for at in range(len(texts)))
    assert "orders 0 1" in texts


def test_a_text_is_cut() -> None:
    assert len(text("x" * 10_000)) == first_paint.LONGEST + 3


def test_rows_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_paint, "ROWS", 5)
    monkeypatch.setattr(first_paint, "ROWS_IN_ALL", 20)
    html = state_page(state("g", members=10, groups=10))
    assert html.count("<tr>") <= 20 + html.count("<table>")
    assert "<p>Further rows are not shown.</p>" in html
    assert "<p>Further groups are not shown.</p>" in html
