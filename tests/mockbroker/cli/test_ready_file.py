"""The ready file is complete when it can be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest

from mockbroker.cli.ready_file import check_ready_file, write_ready_file


def test_the_file_has_the_content_and_the_process_id(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("before")
    check_ready_file(path)
    write_ready_file(path, {"bootstrap_servers": "h:1"})
    assert json.loads(path.read_text()) == {"bootstrap_servers": "h:1", "pid": os.getpid()}
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="does not exist"):
        check_ready_file(tmp_path / "none" / "ready.json")


def test_nothing_is_written_without_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_ready_file(None)
    write_ready_file(None, {})
    assert list(tmp_path.iterdir()) == []
