"""docs/command-line.md, settings.md, python-api.md and rebalance.svg are what the code makes."""

from __future__ import annotations

import pytest
import rebalance_picture
from golden import ROOT
from usage_pages import attributes, pages

from mockbroker.base.settings import Settings
from mockbroker.lab.history.comparison import measure

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == PAGES[name], "make docs"


def test_picture_is_current() -> None:
    story = rebalance_picture.STORY
    drawn = rebalance_picture.picture(story, measure("classic", story))
    assert (ROOT / "docs" / "rebalance.svg").read_text("utf-8") == drawn, "make docs"


def test_every_setting_has_a_meaning() -> None:
    assert set(attributes(Settings)) == set(Settings.__dataclass_fields__)
