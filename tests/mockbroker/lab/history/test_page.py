"""The page of a comparison as a browser shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tools.browser import AXE, Shown, axe_script, opened

from mockbroker.cli.simulate import command as simulate
from mockbroker.lab.history import page
from mockbroker.lab.history.comparison import SCHEMES, Measured, measure
from mockbroker.lab.history.experiments import BUSY, LAGS, SIZES, Experiments, herd, slow, split
from mockbroker.lab.history.story import DEFAULT, GROW, JOIN, Step, Story

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@cache
def measured_of(name: str) -> Measured:
    return measure(name, DEFAULT)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as browser:
        yield browser


@pytest.fixture(scope="module")
def shown(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    path = tmp_path_factory.mktemp("page") / "page.html"
    result = CliRunner().invoke(simulate, ["--scheme", "all", "--html", str(path)])
    assert result.exit_code == 0
    return Shown(browser, path)


@pytest.mark.long
def test_page_is_self_contained(shown: Shown) -> None:
    assert shown.errors == []
    assert shown.requests == []
    assert shown.page.title() == "Ways to rebalance"
    assert shown.page.locator("script").count() == 0


@pytest.mark.long
def test_the_numbers_of_all_schemes(shown: Shown) -> None:
    result = shown.cells("schemes")
    assert [row[0] for row in result] == list(SCHEMES)
    for row in result:
        whole = measured_of(row[0])
        counts = (whole.messages, whole.heartbeats, whole.watchers, whole.notifications, whole.rebalances, whole.moved)
        assert row[1:7] == [f"{n:,}" for n in counts]
        assert row[7:10] == [f"{n:.1f}" for n in (whole.stopped, whole.unread, whole.double)]


@pytest.mark.long
@pytest.mark.parametrize("name", SCHEMES)
def test_chart_has_bands_and_overlaps(shown: Shown, name: str) -> None:
    """A bar for each interval in which a consumer read a partition; intervals with two readers are drawn on top."""
    whole = measured_of(name)
    lanes = shown.page.locator(f"svg.lanes.{name}")
    assert lanes.locator("rect.band").count() == len(whole.bands)
    assert lanes.locator("rect.overlap").count() == len(whole.overlaps)
    assert lanes.locator("line.moment").count() == len(whole.changes)
    widths = lanes.locator("rect.band").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    seconds = [band.end - band.begin for band in whole.bands]
    assert widths == pytest.approx([page.WIDTH * each / DEFAULT.end for each in seconds], abs=0.2)
    settled = [row[-1] for row in shown.cells(f"changes.{name}")]
    assert settled == ["never" if c.settled is None else f"{c.settled:.2f}" for c in whole.changes]


@pytest.mark.long
def test_axe_finds_nothing(shown: Shown) -> None:
    shown.page.evaluate(axe_script())
    for scheme in ("light", "dark"):
        shown.page.emulate_media(color_scheme=scheme)
        assert shown.page.evaluate(AXE) == []


@pytest.mark.long
def test_experiments(shown: Shown) -> None:
    herds = shown.cells("herd")
    assert herds[0] == ["zookeeper", *(str(herd("zookeeper", size, GROW)) for size in SIZES)]
    assert herds[0][1:] == [str(size) for size in SIZES]
    assert [row[1:] for row in herds[1:]] == [["1"] * 5, ["1"] * 5, ["0"] * 5, ["0"] * 5, ["0"] * 5]
    assert shown.page.locator("svg.herd polyline").count() == len(SCHEMES)
    splits = shown.cells("split")
    last = split("zookeeper", LAGS[-1])
    assert splits[0][-1] == f"{last.unread:.2f} / {last.double:.2f}"
    assert [row[-1].endswith(" / 0.00") for row in splits] == [False, True, True, True, True, True]
    assert shown.cells("slow")[3] == ["classic", *(f"{slow('classic', seconds):.2f}" for seconds in BUSY)]


def test_names_are_escaped_in_the_page(browser: Any, tmp_path: Path) -> None:
    bad = "</title><script>document.title='x'</script><img src=x onerror=alert(1)>"
    steps = (Step(1.0, JOIN, bad), Step(20.0, GROW, bad, 3))
    story = Story(topics={bad: 2}, groups={bad: bad}, steps=steps, end=40.0)
    path = tmp_path / "page.html"
    page.save(path, story, [measure("server", story)], Experiments({"server": {2: 1}}, {}, {}))
    shown = Shown(browser, path)
    assert (shown.errors, shown.requests) == ([], [])
    assert shown.cells("changes.server")[0][1] == f"{bad} joins"


def test_numbers_at_the_start_of_names_are_escaped() -> None:
    bad = "1<script>"
    story = Story(topics={"t": 1}, groups={bad: "A"}, steps=(Step(1.0, JOIN, bad),), end=20.0)
    assert "<script>" not in page.page(story, [measure("server", story)], Experiments({"server": {2: 1}}, {}, {}))


def test_partitions_that_were_never_read_have_a_row() -> None:
    story = Story(topics={"t": 2}, groups={"c": "A"}, steps=(Step(1.0, JOIN, "c"), Step(9.0, GROW, "t", 3)), end=20.0)
    measured = replace(measure("server", story), bands=(), overlaps=())
    shown = page.page(story, [measured], Experiments({"server": {2: 1}}, {}, {}))
    rows = re.findall(r'class="unowned" x="(\S+)" .*?<title>(.*?)</title>', shown)
    begins = [page.LEFT + seconds / story.end * page.WIDTH for seconds in (1.0, 1.0, 9.0)]
    assert rows == [(f"{x:.2f}", f"t-{number} of A") for number, x in enumerate(begins)]


def test_unwritable_file_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(simulate, ["--scheme", "server", "--html", str(tmp_path / "none" / "page.html")])
    assert result.exit_code == 1
    assert result.stderr.endswith("page.html: cannot write the file: No such file or directory\n")
