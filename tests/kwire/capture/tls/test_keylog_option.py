"""The option --keylog: captures over TLS, printed by each command that reads captures."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from golden import ROOT

from kwire.cli import capture, compare, groups, readiness, top

TRACE, KEYS = (str(ROOT / "fixtures" / "tls" / f"kafka_python_1_3.{kind}") for kind in ("pcap", "keys"))


def run(command: object, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)  # type: ignore[arg-type]


def test_frames_are_printed() -> None:
    done = run(capture.command, "--keylog", KEYS, TRACE)
    assert done.exit_code == 0, done.output
    names = {json.loads(line)["api_name"] for line in done.stdout.splitlines()}
    assert {"Produce", "Fetch", "JoinGroup", "OffsetCommit"} <= names


@pytest.mark.parametrize(
    ("command", "arguments"), [(groups.command, ()), (readiness.command, ()), (top.command, ("--once",))]
)
def test_groups_are_shown(command: object, arguments: tuple[str, ...]) -> None:
    done = run(command, "--keylog", KEYS, *arguments, TRACE)
    assert done.exit_code == 0, done.output
    assert "billing" in done.stdout
    assert "billing" not in run(command, *arguments, TRACE).output


def test_captures_are_compared() -> None:
    done = run(compare.command, "--keylog", KEYS, "--all", TRACE, TRACE)
    assert done.exit_code == 0, done.output
    assert "group billing" in done.stdout


def test_wrong_key_log_is_reported() -> None:
    done = run(capture.command, "--keylog", KEYS.replace("1_3", "1_2"), "--format", "table", TRACE)
    assert "TLS: the key log has no secret for the client random " in done.output
    assert "5 connections not decoded completely: tls" in done.output
