"""The page as a browser shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.browser import Shown, opened
from tools.captures import capture
from tools.handmade_calls import BEGIN, CallLog, two_members

from kwire.analysis.report import html_page
from kwire.analysis.tables import PROBLEMS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as browser:
        yield browser


def test_unread_data_is_on_the_page(browser: Any, tmp_path: Path) -> None:
    tables = two_members().tables()
    assert tables["problems"] == []
    assert "Not read" not in shown(browser, tmp_path, tables).page.content()
    row = PROBLEMS.row
    tables["problems"] = [
        row(capture_id="c", client="a:1", broker="b:2", reason="tls", note="TLS"),
        row(capture_id="c", file="x.pcap", position=40, error="the file ends"),
    ]
    result = shown(browser, tmp_path, tables).cells("problems")
    assert result == [["a:1 to b:2", "", "TLS"], ["x.pcap", "40", "the file ends"]]


def shown(browser: Any, tmp_path: Path, tables: Any, title: str = "what happened") -> Shown:
    path = tmp_path / "page.html"
    html_page.save(path, tables, title)
    return Shown(browser, path)


def test_numbers_on_the_page(browser: Any, tmp_path: Path) -> None:
    log = two_members()
    log.commit("a", 750, 3, 0, 5)
    page = shown(browser, tmp_path, log.tables())
    assert page.errors == []
    assert page.requests == []
    assert page.page.title() == "what happened"
    assert page.page.locator("#summary").inner_text().startswith("1 groups, 3 rebalances, 0 violations, 2 errors")
    results = [[row[n] for n in (1, 2, 3, 5, 6, 9)] for row in page.cells("rebalances")]
    assert results == [
        ["1", "joined", "a", "11.0", "", "0"],
        ["2", "joined", "b", "70.0", "18.0", "1"],
        ["3", "left", "b", "224.0", "224.0", "1"],
    ]
    lanes = {trace["name"]: trace for trace in page.data("lanes-0")}
    assert lanes["stopped"]["x"] == [18.0, 224.0]
    assert [generation for generation, *_ in lanes["stopped"]["custom"]] == ["2", "3"]
    assert lanes["generation 2"]["y"] == ["a", "b"]
    assert page.drawn("lanes-0", ".bars .point path") == 6
    heat = page.data("api-versions")[0]
    assert heat["custom"][heat["y"].index("JoinGroup")][heat["x"].index("v7")] == 4


def bars(page: Shown) -> dict[str, list[tuple[str, float, float]]]:
    """What is painted, by trace: lane, and where each bar begins and ends, in ms since BEGIN as the browser drew it."""
    result = page.page.evaluate(
        """() => {
            const chart = document.getElementById("lanes-0"), {xaxis, yaxis} = chart._fullLayout
            const plot = chart.querySelector(".nsewdrag").getBoundingClientRect()
            const of = (trace, node) => chart.data[node.closest(".trace").__data__[0].trace.index]
            return [...chart.querySelectorAll(".bars .point path")].map(node => {
                const box = node.getBoundingClientRect()
                return [of(0, node).name, chart.layout.yaxis.categoryarray[Math.round(yaxis.p2l((box.top + box.bottom) / 2 - plot.top))],
                        xaxis.p2l(box.left - plot.left), xaxis.p2l(box.right - plot.left)]
            })
        }"""
    )
    made: dict[str, list[tuple[str, float, float]]] = {}
    for name, lane, begin, end in result:
        made.setdefault(name, []).append((lane, begin - BEGIN / 1000, end - BEGIN / 1000))
    return made


def hovered(page: Shown) -> list[str]:
    """The tooltip of each bar, with the mouse on it."""
    results = []
    page.page.locator("#lanes-0").scroll_into_view_if_needed()
    for path in page.page.locator("#lanes-0 .bars .point path").all():
        page.page.mouse.move(0, 0)
        page.page.wait_for_function("!document.querySelector('#lanes-0 .hovertext')")
        box = path.bounding_box()
        page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        results.append(page.page.locator("#lanes-0 .hovertext").text_content())
    return results


def test_tooltip_has_the_duration(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, two_members().tables())
    texts = hovered(page)
    assert sorted(texts) == [
        "generation 1a2023-11-14 22:13:20.011 for 139 ms",
        "generation 2a2023-11-14 22:13:20.150 for 18 ms",
        "generation 2a2023-11-14 22:13:20.168 for 542 ms",
        "generation 2b2023-11-14 22:13:20.170 for 330 ms",
        "generation 3a2023-11-14 22:13:20.500 for 224 ms",
    ]


def unfinished(protocol: str = "range") -> CallLog:
    """A leads generation 1; B and C join, the leader never sends a plan; B was never a member before."""
    log = CallLog()
    log.join("a", 0, 1, "a", protocol=protocol)
    log.sync("a", 10, 1, [0, 1], {"a": [0, 1]})
    log.join("b", 100, 2, took=100, protocol=protocol)
    log.join("a", 150, 2, "a", "b", took=50, protocol=protocol)
    log.beat("a", 500, 2)
    log.beat("b", 600, 2)
    return log


def test_unfinished_generation_is_no_band(browser: Any, tmp_path: Path) -> None:
    """Until a member receives its share it reads nothing: its last share ends when it rejoins, red continues."""
    page = shown(browser, tmp_path, unfinished().tables())
    painted = bars(page)
    assert set(painted) == {"generation 1", "stopped"}
    ((lane, begin, end),) = painted["generation 1"]
    assert lane == "a"
    assert (begin, end) == (pytest.approx(11, abs=3), pytest.approx(150, abs=3))
    ((lane, begin, end),) = painted["stopped"]
    assert lane == "a"
    assert (begin, end) == (pytest.approx(150, abs=3), pytest.approx(601, abs=3))
    assert "no assignment yet" in hovered(page)[-1]
    assert page.page.locator("#lanes-0 .ytick").all_text_contents() == ["b", "a"]


def test_unfinished_cooperative_generation_keeps_the_share(browser: Any, tmp_path: Path) -> None:
    painted = bars(shown(browser, tmp_path, unfinished("cooperative-sticky").tables()))
    assert set(painted) == {"generation 1"}
    ((lane, begin, end),) = painted["generation 1"]
    assert (lane, begin, end) == ("a", pytest.approx(11, abs=3), pytest.approx(601, abs=3))


def test_real_capture(browser: Any, tmp_path: Path) -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__timeout")
    page = shown(browser, tmp_path, tables)
    assert (page.errors, page.requests) == ([], [])
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
    log = CallLog()
    bad = "</script><script>document.title='x'</script><img src=x onerror=alert(1)>"
    log.join(bad, 0, 1, bad)
    log.sync(bad, 10, 1, [0], {bad: [0]})
    tables = log.tables()
    for name in ("group_events", "rebalances", "members", "assignments"):
        tables[name] = [{**row, "group_id": bad} for row in tables[name]]
    page = shown(browser, tmp_path, tables, bad)
    assert (page.errors, page.requests) == ([], [])
    assert page.page.title() == bad
    assert page.page.locator("h2.group").inner_text() == bad
    assert page.cells("rebalances")[0][3] == bad


def test_nothing_at_all(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, CallLog().tables())
    assert page.errors == []
    assert "0 groups" in page.page.locator("#summary").inner_text()


def test_size(tmp_path: Path) -> None:
    """Nearly all of a page is plotly.js."""
    path = tmp_path / "page.html"
    html_page.save(path, two_members().tables(), "x")
    assert os.path.getsize(path) < 6_000_000
