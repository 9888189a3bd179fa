"""The page as a browser shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.browser import Shown, opened
from tools.captures import capture
from tools.said import Wire, two_members

from kwire.analysis import report
from kwire.analysis.tables import PROBLEMS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as browser:
        yield browser


def test_what_was_not_read_is_on_the_page(browser: Any, tmp_path: Path) -> None:
    tables = two_members().tables()
    assert tables["problems"] == []
    assert "Not read" not in shown(browser, tmp_path, tables).page.content()
    row = PROBLEMS.row
    tables["problems"] = [
        row(capture_id="c", client="a:1", broker="b:2", reason="tls", note="TLS"),
        row(capture_id="c", file="x.pcap", position=40, error="the file ends"),
    ]
    found = shown(browser, tmp_path, tables).cells("problems")
    assert found == [["a:1 to b:2", "", "TLS"], ["x.pcap", "40", "the file ends"]]


def shown(browser: Any, tmp_path: Path, tables: Any, title: str = "what happened") -> Shown:
    path = tmp_path / "page.html"
    report.save(path, tables, title)
    return Shown(browser, path)


def test_numbers_on_the_page(browser: Any, tmp_path: Path) -> None:
    wire = two_members()
    wire.commit("a", 750, 3, 0, 5)
    page = shown(browser, tmp_path, wire.tables())
    assert page.said == []
    assert page.asked == []
    assert page.page.title() == "what happened"
    assert page.page.locator("#summary").inner_text().startswith("1 groups, 3 rebalances, 0 violations, 2 errors")
    found = [[row[n] for n in (1, 2, 3, 5, 6, 9)] for row in page.cells("rebalances")]
    assert found == [
        ["1", "joined", "a", "11.0", "", "0"],
        ["2", "joined", "b", "70.0", "18.0", "1"],
        ["3", "left", "b", "224.0", "14.0", "1"],
    ]
    lanes = {trace["name"]: trace for trace in page.data("lanes-0")}
    assert lanes["stopped"]["x"] == [18.0, 14.0]
    assert lanes["stopped"]["custom"] == [2, 3]
    assert lanes["generation 2"]["y"] == ["a", "b"]
    assert page.drawn("lanes-0", ".bars .point path") == 6
    heat = page.data("api-versions")[0]
    assert heat["custom"][heat["y"].index("JoinGroup")][heat["x"].index("v7")] == 4


def test_real_capture(browser: Any, tmp_path: Path) -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__timeout")
    page = shown(browser, tmp_path, tables)
    assert (page.said, page.asked) == ([], [])
    assert [row[2] for row in page.cells("rebalances")] == ["joined", "joined", "expired", "left"]
    lag = page.data("lag-0")
    assert sum(len(trace["x"]) for trace in lag) == len([r for r in tables["offset_commits"] if r["lag"] is not None])
    assert page.drawn("latency", ".hm image") == 1
    total = sum(count or 0 for line in page.data("latency")[0]["custom"] for count in line)
    assert total == sum(row["n"] for row in tables["latency"])


def test_restart_of_a_static_member(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, capture("aiokafka-0.14.0__kafka-4.2.0__static"))
    assert [row[2] for row in page.cells("rebalances")] == ["joined", "joined"]
    ((_, generation, trigger, by, _, away),) = page.cells("restarts")
    assert (generation, trigger, by, away) == ("2", "restart", "m2 ..752bb4af", "1552.0")


def test_hostile_names_are_only_text(browser: Any, tmp_path: Path) -> None:
    wire = Wire()
    bad = "</script><script>document.title='x'</script><img src=x onerror=alert(1)>"
    wire.join(bad, 0, 1, bad)
    wire.sync(bad, 10, 1, [0], {bad: [0]})
    tables = wire.tables()
    for name in ("group_events", "rebalances", "members", "assignments"):
        tables[name] = [{**row, "group_id": bad} for row in tables[name]]
    page = shown(browser, tmp_path, tables, bad)
    assert (page.said, page.asked) == ([], [])
    assert page.page.title() == bad
    assert page.page.locator("h2.group").inner_text() == bad
    assert page.cells("rebalances")[0][3] == bad


def test_nothing_at_all(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, Wire().tables())
    assert page.said == []
    assert "0 groups" in page.page.locator("#summary").inner_text()


def test_size(tmp_path: Path) -> None:
    """Nearly all of a page is plotly.js."""
    path = tmp_path / "page.html"
    report.save(path, two_members().tables(), "x")
    assert os.path.getsize(path) < 6_000_000
