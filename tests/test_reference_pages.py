"""docs/reference is generated from the declarations."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden import ROOT
from reference_pages import api_page, data_modules, data_page, pages, write

from kwire.blobs import consumer_protocol
from kwire.messages import APIS, MODULES

FOLDER = ROOT / "docs" / "reference"
PAGES = pages()


def test_there_is_a_page_for_everything() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == set(PAGES), "make docs"
    assert {f"{stem}.md" for stem in MODULES.values()} < set(PAGES)
    assert len(PAGES) == 1 + len(MODULES) + len(data_modules())  # no two pages have the same name


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == PAGES[name], "make docs"


def test_the_page_of_an_api() -> None:
    lines = api_page(APIS[11]).splitlines()
    assert lines[:3] == [
        "# JoinGroup (key 11)",
        "",
        "Join a group. The coordinator sends the response when the join phase ends.",
    ]
    assert "| `session_timeout_ms` | int32 | 0-9 | - | 0 | - | - | - |" in lines
    assert "| `rebalance_timeout_ms` | int32 | 1-9 | - | -1 | - | yes | - |" in lines
    assert "| `protocols[]` | array of Protocol | 0-9 | - | empty | - | - | - |" in lines
    assert "| &nbsp;&nbsp;`metadata` | bytes | 0-9 | - | empty | - | - | - |" in lines
    assert "| `protocol_name` | string | 0-9 | 7-9 | empty | - | - | - |" in lines
    assert "| 5 | added `members[].group_instance_id` |" in lines
    assert "| 6 | flexible: compact lengths, tagged fields |" in lines
    assert "| 7 | added `protocol_type`; nullable `protocol_name` |" in lines


def test_the_page_of_a_fetch() -> None:
    text = api_page(APIS[1])
    assert "| &nbsp;&nbsp;`topic` | string | 0-12 | - | empty | - | yes | topicName |" in text
    assert "| `cluster_id` | string | 12-18 | 12-18 | null | 0 | yes | - |" in text
    assert "| 15 | added, tagged `replica_state`; removed `replica_id` |" in text


def test_the_page_of_blobs() -> None:
    text = data_page(consumer_protocol)
    assert "## ConsumerProtocolSubscription\n\nVersions 0-3, never flexible." in text
    assert "| 3 | added `rack_id` |" in text


def test_the_index() -> None:
    assert (
        "| 11 | [JoinGroup](join_group.md) | 0-9 | 6 "
        "| join a group. The coordinator sends the response when the join phase ends. |" in PAGES["README.md"]
    )


def test_writing(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("", "utf-8")
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)
