"""The page of a report in a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tools.browser import AXE, Shown, axe_script, opened
from tools.captures import capture
from tools.handmade_calls import BEGIN, CallLog, two_members
from tools.page_html import Page
from tools.rotating_group import rotating_group

from kwire.analysis.report import html_page
from kwire.analysis.tables import PROBLEMS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

HOSTILE = "</script><script>document.title='x'</script><img src=x onerror=alert(1)>"
SIZES = {"3 members": (3, 8, 6), "50 members": (50, 6, 60), "200 rebalances": (4, 200, 8)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as browser:
        yield browser


def shown(browser: Any, tmp_path: Path, tables: Any, title: str = "what happened", **how: Any) -> Shown:
    path = tmp_path / "page.html"
    html_page.save(path, tables, title)
    result = Shown(browser, path, **how)
    if how.get("java_script_enabled", True):
        result.page.wait_for_selector("html[data-ready]")
    return result


def test_unread_data_is_on_the_page(browser: Any, tmp_path: Path) -> None:
    tables = two_members().tables()
    assert tables["problems"] == []
    assert "Not decoded" not in shown(browser, tmp_path, tables).page.content()
    row = PROBLEMS.row
    tables["problems"] = [
        row(capture_id="c", client="a:1", broker="b:2", reason="tls", note="TLS"),
        row(capture_id="c", file="x.pcap", position=40, error="the file ends"),
    ]
    result = shown(browser, tmp_path, tables).cells("problems")
    assert result == [["a:1 to b:2", "", "TLS"], ["x.pcap", "40", "the file ends"]]


def test_numbers_on_the_page(browser: Any, tmp_path: Path) -> None:
    log = two_members()
    log.commit("a", 750, 3, 0, 5)
    page = shown(browser, tmp_path, log.tables())
    assert page.errors == []
    assert page.requests == []
    assert page.page.title() == "what happened"
    assert page.page.locator("#summary").inner_text().startswith("1 group, 3 rebalances, 0 violations, 2 errors")
    results = [[row[n] for n in (1, 2, 3, 5, 6, 9, 12)] for row in page.cells("rebalances")]
    assert results == [
        ["1", "joined", "a", "11.0", "", "0", ""],
        ["2", "joined", "b", "70.0", "18.0", "1", "1 partition"],
        ["3", "left", "b", "224.0", "224.0", "1", "1 partition"],
    ]
    assert [row[0] for row in page.cells("members")] == ["a", "b"]
    assert page.cells("overview")[0][:6] == ["billing", "0", "0", "0", "2", "3"]
    versions = {row[0]: row for row in page.cells("api-versions")}
    heads = page.page.locator("table.api-versions th").all_inner_texts()
    assert versions["JoinGroup"][heads.index("v7")] == "4"


@pytest.mark.parametrize("size", SIZES)
def test_numbers_equal_the_tables_without_scripts(browser: Any, tmp_path: Path, size: str) -> None:
    tables = rotating_group(*SIZES[size])
    page = shown(browser, tmp_path, tables, java_script_enabled=False)
    results = page.page.locator("table.rebalances tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert [(row[1], row[5], row[9], row[11]) for row in results] == [
        (
            str(row["to_generation"]),
            str(round(row["duration_ms"], 1)),
            str(row["partitions_moved"]),
            str(SIZES[size][0]),
        )
        for row in tables["rebalances"]
    ]
    members = page.page.locator("table.members tbody tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[6].textContent, row.cells[8].textContent])"
    )
    stopped: dict[str, float] = {}
    for row in tables["members"]:
        stopped[row["client_id"]] = stopped.get(row["client_id"], 0) + (row["stw_ms"] or 0)
    assert members == [[name, str(SIZES[size][1]), str(round(total, 1))] for name, total in stopped.items()]
    single = page.page.locator("table.findings tbody tr:not(:has(li))").count()
    assert single + page.page.locator("table.findings li").count() == len(tables["findings"])


HOVER = """([lanes, points]) => {
    const box = document.getElementById(lanes), svg = box.querySelector("svg"), tip = document.getElementById("tip")
    const {from, to, gutter, row} = Object.fromEntries(Object.entries(svg.dataset).map(([k, v]) => [k, Number(v)]))
    return points.map(([lane, time, part]) => {
        const x = gutter + (time - from) / (to - from) * (svg.clientWidth - gutter), y = 22 + lane * row + part * row
        const place = svg.getBoundingClientRect()
        svg.dispatchEvent(new MouseEvent("mousemove", {clientX: place.left + x, clientY: place.top + y, bubbles: true}))
        const point = svg.createSVGPoint()
        Object.assign(point, {x, y})
        const painted = [...svg.querySelectorAll("path")].filter(path => path.isPointInFill(point)).map(path => path.className.baseVal)
        return [tip.hidden ? "" : tip.textContent, painted]
    })
}"""


def hovered(page: Shown, points: list[tuple[int, float, float]]) -> list[tuple[str, list[str]]]:
    """Return tooltip and classes of the element at each point: lane, time in 0.1 ms, height in the lane from 0 to 1."""
    return [(text, painted) for text, painted in page.page.evaluate(HOVER, ["lanes-0", points])]


@pytest.mark.parametrize("size", SIZES)
def test_every_band_of_members_can_be_hovered(browser: Any, tmp_path: Path, size: str) -> None:
    tables = rotating_group(*SIZES[size])
    page = shown(browser, tmp_path, tables, viewport={"width": 1900, "height": 900})
    end = max(row["ts"] for row in tables["group_events"])
    lanes = list(dict.fromkeys(row["client_id"] for row in tables["members"]))
    points, expected = [], []
    for row in tables["members"]:
        later = [one for one in tables["members"] if one["member_id"] == row["member_id"]]
        until = min((one["stopped_ts"] for one in later if one["generation"] > row["generation"]), default=end)
        points.append((lanes.index(row["client_id"]), ((row["resumed_ts"] + until) / 2 - BEGIN) / 100, 0.7))
        duration = (until - row["resumed_ts"]) / 1000
        text = f"{duration / 1000:.3f} s" if duration >= 1000 else f"{duration:.1f} ms"
        expected.append(
            (row["client_id"], f"generation {row['generation']}", f"for {text}", f"g{row['generation'] % 6}")
        )
    for (text, painted), (name, generation, duration, kind) in zip(hovered(page, points), expected, strict=True):
        first, second, third = text.split("\n")
        assert (first, second) == (name, generation)
        assert third.endswith(duration)
        assert kind in painted
    assert page.errors == []


def test_every_stop_can_be_hovered(browser: Any, tmp_path: Path) -> None:
    tables = rotating_group(3, 8, 6)
    page = shown(browser, tmp_path, tables)
    stops = [row for row in tables["members"] if row["stopped_ts"] is not None]
    lanes = list(dict.fromkeys(row["client_id"] for row in tables["members"]))
    points = [
        (lanes.index(r["client_id"]), ((r["stopped_ts"] + r["resumed_ts"]) / 2 - BEGIN) / 100, 0.2) for r in stops
    ]
    for (text, painted), row in zip(hovered(page, points), stops, strict=True):
        assert text.split("\n")[:2] == [row["client_id"], f"stopped, generation {row['generation']}"]
        assert text.endswith(f"for {row['stw_ms']:.1f} ms")
        assert "stop" in painted


@pytest.mark.parametrize("size", SIZES)
def test_every_band_of_partitions_has_its_owner(browser: Any, tmp_path: Path, size: str) -> None:
    tables = rotating_group(*SIZES[size])
    page = shown(browser, tmp_path, tables, viewport={"width": 1900, "height": 900})
    page.page.get_by_role("button", name="By partition").click()
    resumed = {(row["generation"], row["member_id"]): row["resumed_ts"] for row in tables["members"]}
    rows = tables["assignments"]
    middle = [(resumed[row["generation"], row["member_id"]] + 300_000 - BEGIN) / 100 for row in rows]
    points = [(row["partition"], at, 0.6) for row, at in zip(tables["assignments"], middle, strict=True)]
    for (text, painted), row in zip(hovered(page, points), tables["assignments"], strict=True):
        assert text.split("\n")[:2] == [
            f"tea-{row['partition']}",
            f"read by {row['client_id']}, generation {row['generation']}",
        ]
        assert f"g{int(row['client_id'][-2:]) % 6}" in painted
    assert page.errors == []


def test_gap_between_readers_and_commit_can_be_hovered(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, rotating_group(3, 8, 6))
    page.page.get_by_role("button", name="By partition").click()
    gaps = hovered(page, [(0, 10_600, 0.6)])
    assert "no reader" in gaps[0][0]
    commit = hovered(page, [(0, 5_000, 0.6)])
    assert commit[0][0].endswith("commit at 22:13:20.500, lag 0")


def test_tooltip_follows_the_mouse(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, two_members().tables())
    box = page.page.locator("#lanes-0 svg").bounding_box()
    page.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 22 + 12)
    assert page.page.locator("#tip").inner_text().split("\n")[:2] == ["a", "generation 2"]
    page.page.mouse.move(2, 2)
    assert page.page.locator("#tip").is_hidden()


def unfinished(protocol: str = "range") -> CallLog:
    """Return events in which A leads generation 1, then B joins and the leader never sends an assignment."""
    log = CallLog()
    log.join("a", 0, 1, "a", protocol=protocol)
    log.sync("a", 10, 1, [0, 1], {"a": [0, 1]})
    log.join("b", 100, 2, took=100, protocol=protocol)
    log.join("a", 150, 2, "a", "b", took=50, protocol=protocol)
    log.beat("a", 500, 2)
    log.beat("b", 600, 2)
    return log


def test_unfinished_generation_is_no_band(browser: Any, tmp_path: Path) -> None:
    """A member reads nothing until it receives its share: its last share ends when it rejoins, and red continues."""
    page = shown(browser, tmp_path, unfinished().tables())
    lanes = page.page.locator("#lanes-0 text.name").all_text_contents()
    assert sorted(lanes) == ["a", "b"]
    lane = lanes.index("a")
    reading, waiting = hovered(page, [(lane, 800, 0.7), (lane, 3000, 0.2)])
    assert (reading[0].split("\n")[1], reading[1]) == ("generation 1", ["g1"])
    assert reading[0].endswith("for 139.0 ms")
    assert (waiting[0].split("\n")[1], waiting[1]) == ("stopped, no assignment yet, generation 2", ["stop"])
    assert waiting[0].endswith("for 451.0 ms")


def test_unfinished_cooperative_generation_keeps_the_share(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, unfinished("cooperative-sticky").tables())
    lane = page.page.locator("#lanes-0 text.name").all_text_contents().index("a")
    ((text, painted),) = hovered(page, [(lane, 3000, 0.7)])
    assert (text.split("\n")[1], painted) == ("generation 1", ["g1"])
    assert text.endswith("for 590.0 ms")


def test_real_capture(browser: Any, tmp_path: Path) -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__timeout")
    page = shown(browser, tmp_path, tables)
    assert (page.errors, page.requests) == ([], [])
    assert [row[2] for row in page.cells("rebalances")] == ["joined", "joined", "expired", "left"]
    assert sum(int(row[2]) for row in page.cells("commits")) == len(tables["offset_commits"])
    counts = [int(cell) for row in page.cells("histogram") for cell in row[1:] if cell]
    assert sum(counts) == sum(row["n"] for row in tables["latency"])
    assert {row[0]: row[1] for row in page.cells("latencies")}["Heartbeat"] == "17"
    assert page.cells("error-families")[0][:4] == ["apache-kafka-java", "Heartbeat", "REBALANCE_IN_PROGRESS", "2"]


def test_what_if_is_beside_the_rebalances(browser: Any, tmp_path: Path) -> None:
    tables = capture("confluent-kafka-2.16.1__kafka-4.2.0__three", "sticky")
    page = shown(browser, tmp_path, tables)
    assert page.page.locator("table.rebalances th").all_inner_texts()[-2] == "moved with sticky"
    moved = {row["generation"]: str(row["moved_what_if"]) for row in tables["what_if"]}
    assert {int(row[1]): row[-2] for row in page.cells("rebalances") if row[-2]} == moved


def test_restart_of_a_static_member(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, capture("aiokafka-0.14.0__kafka-4.2.0__static"))
    assert [row[2] for row in page.cells("rebalances")] == ["joined", "joined"]
    ((_, generation, trigger, by, _, away),) = page.cells("restarts")
    assert (generation, trigger, by, away) == ("2", "restart", "m2 ..752bb4af", "1552.0")


def hostile_tables() -> Any:
    log = CallLog()
    log.join(HOSTILE, 0, 1, HOSTILE)
    log.sync(HOSTILE, 10, 1, [0], {HOSTILE: [0]})
    log.beat(HOSTILE, 500, 1)
    tables = log.tables()
    for name in ("group_events", "rebalances", "members", "assignments"):
        tables[name] = [{**row, "group_id": HOSTILE} for row in tables[name]]
    return tables


def test_hostile_names_are_only_text(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, hostile_tables(), HOSTILE)
    assert (page.errors, page.requests) == ([], [])
    assert page.page.title() == HOSTILE
    assert page.page.locator("h2.group").inner_text() == HOSTILE
    assert page.cells("rebalances")[0][3] == HOSTILE
    ((text, _),) = hovered(page, [(0, 2_000, 0.7)])
    assert text.split("\n")[0] == HOSTILE
    page.page.locator("button.zoom").first.click()
    assert page.page.locator("table.before-after td").first.inner_text() == HOSTILE
    assert page.page.locator("img").count() == 0


def test_hostile_names_close_no_element(tmp_path: Path) -> None:
    names = [name for name, _ in Page(html_page.page(hostile_tables(), HOSTILE)).elements]
    assert names.count("script") == 2  # the data of the group, and the page's own
    assert "img" not in names


def test_forced_colours_show_what_is_chosen(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, two_members().tables(), forced_colors="active").page
    page.locator("button.zoom").first.click()
    looks = (
        "all => all.map(each => [getComputedStyle(each).backgroundColor, getComputedStyle(each).outlineStyle].join())"
    )
    assert len(set(page.locator(".bar [aria-pressed]").evaluate_all(looks))) == 2
    assert len(set(page.locator(".rebalances tbody tr").evaluate_all(looks))) == 2


HIDDEN = "a\u202eb\u0007c\u200bd"


def test_hidden_characters_have_their_code(browser: Any, tmp_path: Path) -> None:
    log = CallLog()
    log.join(HIDDEN, 0, 1, HIDDEN)
    log.sync(HIDDEN, 10, 1, [0, 1], {HIDDEN: [0, 1]})
    log.beat(HIDDEN, 400, 1)
    page = shown(browser, tmp_path, log.tables(), HIDDEN).page
    text = page.inner_text("body") + page.title() + page.locator("svg").first.text_content()
    assert not set(HIDDEN) - set("abcd") & set(text)
    assert page.title() == r"a\u202eb\x07c\u200bd"
    assert r"\u202eb\x07c\u200b" in page.locator("svg").first.text_content().lower()


@pytest.mark.parametrize("width", [390, 768, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_every_width(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    tables = rotating_group(12, 6, 24, group="a-group-with-a-name-that-is-longer-than-a-telephone-is-wide" * 2)
    how = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    page = shown(browser, tmp_path, tables, **how)
    for mode in ("By member", "By partition"):
        page.page.get_by_role("button", name=mode).click()
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        content = page.page.content()
        body = content[content.index("<body") : content.rindex("<script")]
        assert not [word for word in ("NaN", "undefined", "Infinity", "[object") if word in body]
        boxes = page.page.locator("#lanes-0 text.name").evaluate_all(
            "nodes => nodes.map(node => node.getBoundingClientRect()).map(box => [box.top, box.bottom, box.right])"
        )
        assert all(one[1] <= two[0] + 2 for one, two in pairwise(boxes))  # labels do not overlap
        left = page.page.locator("#lanes-0 svg").bounding_box()["x"]
        gutter = int(page.page.locator("#lanes-0 svg").get_attribute("data-gutter"))
        assert max(box[2] for box in boxes) <= left + gutter
    colours = page.page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light, dark = (sum(map(int, one[4:-1].split(", "))) for one in colours)
    assert (light > dark) == (scheme == "dark")


def until(page: Shown, condition: str) -> None:
    """Wait for a condition in the page, frame by frame: its policy forbids the ``wait_for_function`` of playwright."""
    page.page.evaluate(f"async () => {{ while (!({condition})) await new Promise(requestAnimationFrame) }}")


BOXES = """() => [...document.querySelectorAll(".scroll")].filter(box => box.clientWidth).map(box => {
    const style = getComputedStyle(box), hint = box.previousElementSibling
    return {name: box.getAttribute("aria-label"), hidden: box.scrollWidth - box.clientWidth, tab: box.tabIndex,
        left: parseFloat(style.getPropertyValue("--left")), right: parseFloat(style.getPropertyValue("--right")),
        hint: hint?.classList.contains("hint") && hint.checkVisibility() ? hint.textContent : ""}
})"""


@pytest.mark.parametrize("name", ["three", "kip848_static"])
def test_wide_screens_show_all_columns(browser: Any, tmp_path: Path, name: str) -> None:
    tables = capture(f"confluent-kafka-2.16.1__kafka-4.2.0__{name}", "range")
    page = shown(browser, tmp_path, tables, viewport={"width": 1920, "height": 900})
    assert [box for box in page.page.evaluate(BOXES) if box["hidden"] > 0] == []


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_a_table_that_scrolls_shows_it(browser: Any, tmp_path: Path, width: int) -> None:
    """Its edge fades where columns are hidden, a text is above it, and it is a tab stop, unlike other tables."""
    tables = capture("confluent-kafka-2.16.1__kafka-4.2.0__three", "sticky")
    page = shown(browser, tmp_path, tables, viewport={"width": width, "height": 900})
    until(page, "document.querySelector('.scroll[tabindex]') && document.querySelector('.hint')")
    boxes = page.page.evaluate(BOXES)
    wide = [box for box in boxes if box["hidden"] > 1]
    assert "Rebalances" in [box["name"] for box in wide]
    for box in wide:
        assert (box["tab"], box["left"]) == (0, 0)
        assert box["right"] > 10
        assert "sideways" in box["hint"]
    assert [box for box in boxes if box["hidden"] <= 1 and (box["tab"] == 0 or box["hint"] or box["right"])] == []
    box = page.page.locator('.scroll[aria-label="Rebalances"]')
    box.focus()
    page.page.keyboard.press("ArrowRight")
    until(page, "document.activeElement.scrollLeft > 0")
    page.page.evaluate("document.activeElement.scrollLeft = 1e5")
    until(page, "getComputedStyle(document.activeElement).getPropertyValue('--right') === '0px'")
    (after,) = [each for each in page.page.evaluate(BOXES) if each["name"] == "Rebalances"]
    assert after["left"] > 10
    assert after["right"] == pytest.approx(0, abs=0.5)


def test_zoom_to_a_rebalance_shows_before_and_after(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, rotating_group(3, 8, 6))
    page.page.locator("#rebalance-0-4 button.zoom").click()
    svg = page.page.locator("#lanes-0 svg")
    begin, end = float(svg.get_attribute("data-from")), float(svg.get_attribute("data-to"))
    assert begin < 40_000 < 41_204 < end
    assert end - begin < 5_000
    rows = page.cells("before-after")
    assert rows[0] == ["worker-00", "2", "2", "tea-1, tea-4", "tea-2, tea-5"]
    assert "chosen" in page.page.locator("#rebalance-0-4").get_attribute("class")


def test_band_leads_to_its_rebalance(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, rotating_group(3, 8, 6))
    page.page.locator("#lanes-0 svg").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
        page.page.keyboard.press(key)
    assert page.page.locator("#tip").inner_text().split("\n")[:2] == ["worker-01", "generation 2"]
    page.page.keyboard.press("Enter")
    assert page.page.evaluate("document.activeElement.closest('tr').id") == "rebalance-0-1"


def test_focus_is_never_under_the_navigation(browser: Any, tmp_path: Path) -> None:
    """Backwards with Shift-Tab, the browser scrolls as little as it can."""
    page = shown(browser, tmp_path, rotating_group(6, 12, 6), viewport={"width": 1280, "height": 500})
    page.page.locator("table.latencies th button, table.members th button").last.focus()
    page.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    covered = """() => {
        const focus = document.activeElement, bottom = document.querySelector("nav").getBoundingClientRect().bottom
        return !focus.closest("nav, .skip") && focus.getBoundingClientRect().top < bottom && focus.outerHTML.slice(0, 80)
    }"""
    for _ in range(60):
        page.page.keyboard.press("Shift+Tab")
        assert not page.page.evaluate(covered)


def test_tables_and_lanes_have_names(browser: Any, tmp_path: Path) -> None:
    """For screen readers, every table and button has a name, and the lanes react to the arrow keys."""
    tables = capture("confluent-kafka-2.16.1__kafka-4.2.0__kip848_static", "range")
    page = shown(browser, tmp_path, tables)
    tree = page.page.locator("body").aria_snapshot().splitlines()
    assert not [line for line in tree if line.strip() in ("- table:", "- button", "- link:", "- region:")]
    for part in ('heading "Findings"', 'table "Findings"', 'table "Groups by trouble"', 'table "Rebalances"'):
        assert any(part in line for line in tree), part
    assert any('application "Lanes. Arrow keys' in line for line in tree)


def test_escape_hides_the_tooltip(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, rotating_group(3, 8, 6))
    page.page.locator("#lanes-0 svg").hover(position={"x": 600, "y": 32})
    assert page.page.locator("#tip").is_visible()
    page.page.keyboard.press("Escape")
    assert page.page.locator("#tip").is_hidden()


def test_search_and_sort(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, rotating_group(3, 12, 6))
    heads = page.page.locator("table.rebalances th")
    for expected, direction in ((range(1, 13), "ascending"), (range(12, 0, -1), "descending")):
        heads.nth(1).get_by_role("button").click()
        assert heads.nth(1).get_attribute("aria-sort") == direction
        assert [row[1] for row in page.cells("rebalances")] == [str(number) for number in expected]
    page.page.get_by_role("searchbox").fill("Generation 11 of")
    assert page.page.locator("#findings li:visible").count() == 1
    assert page.page.locator("#errors").is_hidden()
    page.page.get_by_role("searchbox").fill("")
    assert page.page.locator("#findings li:visible").count() == 0
    page.page.locator("#findings summary").click()
    assert page.page.locator("#findings li:visible").count() == 12


def test_findings_lead_to_the_rows_that_show_them(browser: Any, tmp_path: Path) -> None:
    tables = several_groups(5)
    wanted = [row for row in tables["findings"] if row["group_id"] == "group-4"]
    last = [row for row in tables["members"] if row["group_id"] == "group-4"][-1]
    member = f"members member_id={last['member_id']} generation={last['generation']} life=1"
    others = [
        member,
        "rebalances to_generation=2 life=1 trigger=metadata",
        "assignments generation=3 topic=tea partition=0",
    ]
    others += ["errors api_name=Fetch", "rebalances to_generation=9 life=1", "frames client_id=x"]
    tables["findings"] = [{**wanted[0], "evidence": others[:3], "finding": "a"}]
    tables["findings"] += [{**wanted[0], "evidence": others[3:], "finding": "b"}]
    page = shown(browser, tmp_path, tables)
    links = page.page.locator("table.findings td:last-child a")
    hrefs = [link.get_attribute("href") for link in links.all()]
    place = hrefs[0].split("-")[1]
    assert hrefs == [f"#member-{place}-1", f"#rebalance-{place}-1", f"#rebalance-{place}-2", "#errors"]
    page.page.evaluate(f"document.querySelectorAll('#group-{place} > details').forEach(one => one.open = false)")
    page.page.locator("table.findings summary").first.click()
    links.nth(1).click()
    row = page.page.locator(f"#rebalance-{place}-1")
    assert row.is_visible()
    assert row.locator("td").nth(1).inner_text() == "2"
    assert page.cells("members")[int(place) * 2 + 1][1] == last["member_id"]


def test_equal_findings_are_one_line(browser: Any, tmp_path: Path) -> None:
    """The line has the worst finding and their number, and opens without scripts. Each severity has its own line."""
    tables = rotating_group(3, 12, 6)
    first = tables["findings"][0]
    worse = {**first, "rank": 2, "severity": "warning", "sentence": "It was worse.", "cost": 9.0}
    other = {**first, "group_id": None, "client_id": "x", "sentence": "A client.", "cost": 1.0}
    tables["findings"] = [other, *tables["findings"], worse, {**other, "cost": 2.0, "sentence": "A client again."}]
    page = shown(browser, tmp_path, tables, java_script_enabled=False)
    lines = page.cells("findings")
    assert [(row[0], row[1], row[2]) for row in lines] == [
        ("warning", "It was worse.", "billing"),
        ("notice", "Generation 1 of `billing` stopped consumption for 120 ms. And 11 more like it.", "billing"),
        ("notice", "A client again. And 1 more like it.", "x"),
    ]
    assert (lines[1][4], lines[1][5], lines[1][6]) == ("2023-11-14 22:13:20.000", "2023-11-14 22:13:31.120", "12 rows")
    items = page.page.locator("#findings tbody tr").nth(1).locator("li")
    assert items.count() == 12
    assert items.first.is_hidden()
    page.page.locator("#findings summary").nth(1).click()
    assert items.first.is_visible()
    assert items.last.text_content() == (
        "Generation 12 of `billing` stopped consumption for 120 ms. 2023-11-14 22:13:31.000 to 22:13:31.120; "
        "rebalances to_generation=12 life=1"
    )


def several_groups(count: int) -> Any:
    parts = [rotating_group(2, 3, 2, f"group-{number}") for number in range(count)]
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def test_search_opens_what_it_finds(browser: Any, tmp_path: Path) -> None:
    """A search opens folded groups and folded findings with a match, but not many groups at once."""
    tables = several_groups(40)
    page = shown(browser, tmp_path, tables)
    opened = page.page.locator("section.group > details[open]")
    assert opened.count() == 3
    page.page.get_by_role("searchbox").fill("worker")  # in all groups
    assert opened.count() == 3
    last = page.page.locator("h2.group").last.inner_text()
    page.page.get_by_role("searchbox").fill(last)
    assert opened.count() == 4
    assert page.page.locator("section.group:visible table.rebalances tbody tr:visible").count() == 3
    assert page.page.locator("#findings tbody tr:visible").count() == 1


def test_address_of_a_folded_group_opens_it(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    html_page.save(path, several_groups(5), "x")
    page = browser.new_page()
    page.goto(f"{path.as_uri()}#group-4")
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#group-4 > details").get_attribute("open") is not None
    assert page.locator("#group-3 > details").get_attribute("open") is None


def test_groups_are_ordered_by_trouble(browser: Any, tmp_path: Path) -> None:
    tables = rotating_group(2, 3, 2, "calm")
    tables["findings"] = []
    worse = rotating_group(2, 2, 2, "worse")
    page = shown(browser, tmp_path, {name: [*rows, *worse[name]] for name, rows in tables.items()})
    assert [row[0] for row in page.cells("overview")] == ["worse", "calm"]
    assert page.page.locator("h2.group").all_inner_texts() == ["worse", "calm"]


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_script()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, tmp_path: Path, axe: str, scheme: str) -> None:
    tables = capture("confluent-kafka-2.16.1__kafka-4.2.0__kip848_static", "range")
    assert tables["findings"]
    page = shown(browser, tmp_path, tables, color_scheme=scheme)
    page.page.locator("button.zoom").first.click()
    page.page.evaluate(axe)
    assert page.page.evaluate(AXE) == []


def test_nothing_at_all(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, CallLog().tables())
    assert page.errors == []
    assert "0 groups" in page.page.locator("#summary").inner_text()


def test_size(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    html_page.save(path, rotating_group(100, 200, 180), "x")
    assert os.path.getsize(path) <= 600_000
