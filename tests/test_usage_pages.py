"""The pages and pictures of docs/ that are made from the code are current."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import layers_picture
import pytest
import rebalance_picture
from golden import ROOT
from usage_pages import NAMES, attributes, pages

from mockbroker.base.settings import Settings
from mockbroker.lab.history.comparison import measure

made = cache(pages)  # not at import: every process of pytest-xdist imports this file


@pytest.mark.parametrize("name", NAMES)
def test_page_is_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == made()[name], "make docs"


def test_picture_is_current() -> None:
    story = rebalance_picture.STORY
    drawn = rebalance_picture.picture(story, measure("classic", story))
    assert (ROOT / "docs" / "rebalance.svg").read_text("utf-8") == drawn, "make docs"


def test_sections_of_docstrings_are_no_code_blocks() -> None:
    page = pages()["python-api.md"]
    assert "- `FailoverError`, `UnknownTopicError`, `InternalTopicError`: " in page
    assert "**Returns**\n\nThe new log start offset" in page


def test_every_setting_has_a_meaning() -> None:
    assert set(attributes(Settings)) == set(Settings.__dataclass_fields__)


def test_layer_is_above_those_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"low": "", "middle": "import toy.low", "high": "from toy import low\nfrom toy.middle import name"}
    write_package(tmp_path, sources)
    monkeypatch.setattr(layers_picture, "ROOT", tmp_path)
    assert layers_picture.layers("toy") == [["low"], ["middle"], ["high"]]


def test_cycle_of_imports_has_no_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path, {"first": "import toy.second", "second": "import toy.first"})
    monkeypatch.setattr(layers_picture, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="cycle of imports: first -> second -> first"):
        layers_picture.layers("toy")


def write_package(folder: Path, sources: dict[str, str]) -> None:
    (folder / "toy").mkdir()
    for name, text in sources.items():
        (folder / "toy" / f"{name}.py").write_text(text, "utf-8")
