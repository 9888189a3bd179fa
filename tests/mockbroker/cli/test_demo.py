"""The output of ``mockbroker demo``, which scripts depend on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from mockbroker.cli import main

DEMO = [sys.executable, "-m", "mockbroker", "demo"]


@pytest.mark.interop
def test_json_lines_and_checks() -> None:
    done = subprocess.run([*DEMO, "--json"], capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    *events, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert set(last) == {"checks"}
    assert len(last["checks"]) == 6
    assert all(set(check) == {"name", "held", "detail"} and check["held"] for check in last["checks"])
    assert all({"time_ms", "client", "member_id", "event", "generation", "assignment"} <= set(line) for line in events)
    assert [line["time_ms"] for line in events] == sorted(line["time_ms"] for line in events)
    owners = {line["client"] for line in events if line["event"] == "assign" and line["generation"] == 3}
    assert owners == {"kafka-python", "confluent-kafka", "aiokafka"}
    assert {"kill", "stop", "expire", "leave", "commit"} <= {line["event"] for line in events}


def test_without_its_extra_it_exits_2_and_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mockbroker.cli.demo.find_spec", lambda name: None if name in ("aiokafka", "rich") else object()
    )
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 2
    assert (
        "the demo requires packages that are not installed (aiokafka, rich): pip install 'kwire[demo]'" in done.stderr
    )
