from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.browser import AXE, Shown, axe_script, opened

from kwire.analysis.readiness import BLOCKED, NOTE, READY, Statement
from kwire.analysis.report.readiness_page import page

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

HOSTILE = "</script><script>document.title='x'</script><img src=x onerror=alert(1)>"
ROWS = [
    Statement(READY, "client", "new", "apache-kafka-java 4.2.0", "all requests are served", (2,), ("TV2",)),
    Statement(BLOCKED, "client", HOSTILE, None, "", (0, 1), (), ("Produce v0 (3)", "ListOffsets v0 (1)")),
    Statement(READY, "group", "orders", None, "can move to KIP-848 with the same assignor"),
    Statement(NOTE, "group", "own-" + "x" * 300, None, "no KIP-848 equivalent of assignor own"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as browser:
        yield browser


@pytest.mark.parametrize("width", [390, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_rows_are_ordered_by_state_and_fit(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    path = tmp_path / "ready.html"
    path.write_text(page(ROWS, "4.2", "monday.pcap"), "utf-8")
    shown = Shown(browser, path, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert (shown.errors, shown.requests) == ([], [])
    assert shown.page.title() == "Readiness for Kafka 4.2: monday.pcap"
    summary = "2 clients: 1 blocked, 1 ready; 2 groups: 1 note, 1 ready."
    assert shown.page.locator("#summary").inner_text() == summary
    assert shown.cells("ready-clients") == [
        ["blocked", HOSTILE, "unknown", "Produce v0 (3), ListOffsets v0 (1)", "0 and 1", ""],
        ["ready", "new", "apache-kafka-java 4.2.0", "", "2", "TV2"],
    ]
    assert [row[0] for row in shown.cells("ready-groups")] == ["note", "ready"]
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    shown.page.evaluate(axe_script())
    assert shown.page.evaluate(AXE) == []


def test_hidden_characters_have_their_code() -> None:
    html = page([Statement(READY, "group", "a\u202eb\u0007", None, "")], "4.2", "\u202e.pcap")
    assert not {"\u202e", "\u0007"} & set(html)
    assert r"a\u202eb\x07" in html
