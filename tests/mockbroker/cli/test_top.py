"""``mockbroker top``: one frame of a broker in a separate process, and frames of given samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from rich.console import Console
from tools.ctl_process import running

from mockbroker.cli import main
from mockbroker.cli.top import Sample, frame

HOSTILE = "[red]a\x1b[31m\nb\u202ec"
SHOWN = r"[red]a\x1b[31m\nb\u202ec"
CLUSTER = {
    "bootstrap_servers": "127.0.0.1:9092",
    "release": "4.2",
    "brokers": [{"state": "running"}, {"state": "stopped"}],
    "counts": {"topics": 1, "connections": 2},
}


def group(offset: int, *, name: str = "billing") -> dict[str, Any]:
    members = [
        {"member_id": f"{name}-1", "client_id": name, "assignment": {"t": [0]}},
        {"member_id": "idle", "client_id": "c", "assignment": None},
    ]
    offsets = [
        {"topic": "t", "partition": 0, "offset": offset, "lag": 100 - offset},
        {"topic": "t", "partition": 1, "offset": 0, "lag": 7},
    ]
    return {"id": name, "state": "Stable", "generation": 3, "members": members, "offsets": offsets}


def shown(sample: Sample, before: Sample | None) -> list[list[str]]:
    """Return the words of the lines of a frame, without its empty lines."""
    console = Console(width=150, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(frame(sample, before))
    return [line.split() for line in capture.get().splitlines() if line.strip()]


def test_rates_are_since_the_frame_before() -> None:
    first = Sample(10.0, CLUSTER, [group(10)], {("t", 0): 100})
    second = Sample(12.0, CLUSTER, [group(50)], {("t", 0): 160, ("u", 0): 40})
    head, _, of_group, of_member, idle = shown(second, first)
    assert head[-1] == "50"
    assert "(1 stopped)" in " ".join(head)
    assert of_group == ["billing", "Stable", "2", "members", "3", "57", "20"]
    assert of_member == ["billing-1", "billing", "t:0", "50"]
    assert idle == ["idle", "c", "0"]
    assert shown(first, None)[0][-1] == "-"


def test_names_are_shown_without_markup_and_escaped() -> None:
    lines = shown(Sample(0.0, CLUSTER, [group(0, name=HOSTILE)], {}), None)
    assert [lines[2][0], lines[3][:2]] == [SHOWN, [f"{SHOWN}-1", SHOWN]]


def test_once_prints_one_frame(tmp_path: Path) -> None:
    with running(tmp_path) as ctl:
        ctl.run("topics", "produce", "orders", "a", "b", "--partition", "0")
        ctl.run("groups", "set-offsets", HOSTILE, "orders:0=1")
        result = CliRunner().invoke(main, ["top", "--once", "--url", ctl.url], catch_exceptions=False)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert result.stdout.splitlines()[-1].split() == [SHOWN, "Empty", "0", "members", "0", "1", "-"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mockbroker.cli.top")
    with patch.dict(sys.modules, {"rich": None, "rich.console": None}):
        result = CliRunner().invoke(main, ["top", "--once"])
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: mockbroker top needs the package rich: pip install 'kwire[http]'\n",
    )
