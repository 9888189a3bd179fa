"""``mockbroker conform``: its output and its exit code."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from golden import ROOT

from mockbroker import run_cluster
from mockbroker.cli import main

FILES = ROOT / "fixtures" / "conversations" / "4.2.0"
GOOD, ANOTHER = FILES / "sync_again.json.gz", FILES / "sync_errors.json.gz"


def conform(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["conform", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return a conversation with an error code that no broker returns."""
    result = json.loads(gzip.decompress(GOOD.read_bytes()))
    result["steps"][1]["fields"]["errorCode"] = 42
    path = tmp_path / "planted.json"
    path.write_text(json.dumps(result))
    return path


def test_first_difference_is_printed_last(planted: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    result = conform(planted, tmp_path / "x.json", GOOD)
    assert result.exit_code == 1
    good, differs, failed = result.stdout.splitlines()
    assert good == "ok       sync_again (Apache Kafka 4.2.0)"
    assert differs == (
        "differs  sync_again (Apache Kafka 4.2.0): step 2 JoinGroup v9 on A: error_code: recorded 42, got 79"
    )
    assert failed.startswith("failed   ")


def test_the_log_of_our_own_brokers_does_not_hide_the_verdict() -> None:
    """The conversation has a malformed request, for which a broker logs a warning."""
    command = [sys.executable, "-m", "mockbroker", "conform", str(FILES / "api_versions.json.gz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == "1 ok, 0 differs, 0 waiting, 0 failed\n"


def test_json(planted: Path) -> None:
    result = conform("--json", GOOD, planted)
    assert result.exit_code == 1
    good, bad = (json.loads(line) for line in result.stdout.splitlines())
    assert good == {"name": "sync_again (Apache Kafka 4.2.0)", "verdict": "ok", "detail": ""}
    assert bad["verdict"] == "differs"


WAITING = [  # content of a file beside the waiting one, exit code, counts
    pytest.param(None, 0, "0 ok, 0 differs, 1 waiting, 0 failed", id="alone"),
    pytest.param("{", 1, "0 ok, 0 differs, 1 waiting, 1 failed", id="beside one that failed"),
]


@pytest.mark.parametrize(("text", "code", "counts"), WAITING)
def test_waiting_conversations_alone_exit_0(text: str | None, code: int, counts: str, tmp_path: Path) -> None:
    """The recorded users need a broker with a SASL listener, which the broker of --against does not have."""
    (tmp_path / "other.json").write_text(text or "")
    others = [] if text is None else [tmp_path / "other.json"]
    with run_cluster() as cluster:
        result = conform("--against", cluster.bootstrap_servers, FILES / "sasl_plain.json.gz", *others)
    first, *_ = result.stdout.splitlines()
    assert first == "waiting  sasl_plain (Apache Kafka 4.2.0): for a broker with a SASL listener for its users"
    assert (result.exit_code, result.stderr) == (code, f"{counts}\n")


def test_file_that_is_not_a_conversation_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    result = conform(tmp_path / "x.json")
    assert result.exit_code == 1
    assert "not valid JSON" in result.stdout


BAD_ARGUMENTS = [[], ["nothing-there.json"], ["--against", "nowhere", str(GOOD)], ["--against", "host:x", str(GOOD)]]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS)
def test_bad_arguments(arguments: list[str]) -> None:
    assert conform(*arguments).exit_code == 2
