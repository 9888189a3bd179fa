"""The recorder of conversations, with our own broker in place of a real one."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden import ROOT

from mockbroker import run_cluster

CONVERSATIONS = ROOT / "fixtures" / "conversations"
SCRIPT = "acls_without_authorizer"
# A separate process, because tests/oracle/kafka.py has the name of a client's package.
RECORD = """
import sys
from contextlib import contextmanager
from pathlib import Path

oracle, target, address, script = sys.argv[1:]
sys.path.insert(0, oracle)
import kafka, record

@contextmanager
def running(release, port, settings):
    yield address

kafka.running = running
record.CONVERSATIONS = Path(target)
sys.argv = ["record.py", script]
record.main()
"""
SETTINGS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import kafka
print(json.dumps(kafka.SETTINGS))
"""


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, str(ROOT / "tests" / "oracle"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def read(path: Path) -> dict[str, Any]:
    conversation: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return conversation


def steps(conversation: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return the steps of a conversation, without times and ids."""
    fields = ("conn", "event", "api", "api_version")
    return [tuple(step.get(field) for field in fields) for step in conversation["steps"]]


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """Return the settings of the brokers from which conversations are recorded."""
    given: dict[str, str] = json.loads(python(SETTINGS).stdout)
    return given


def test_recording_is_kept_and_played(settings: dict[str, str], tmp_path: Path) -> None:
    with run_cluster(config=settings) as cluster:
        done = python(RECORD, tmp_path, cluster.bootstrap_servers, SCRIPT)
    assert (done.stdout, done.stderr, done.returncode) == (f"ok       {SCRIPT} \n", "", 0)
    made, kept = (read(folder / "4.2.0" / f"{SCRIPT}.json.gz") for folder in (tmp_path, CONVERSATIONS))
    head = ("scenario", "doc", "broker", "broker_config")
    assert [made[name] for name in head] == [kept[name] for name in head]
    assert steps(made) == steps(kept)


def test_recording_of_a_broker_with_other_settings_fails(settings: dict[str, str], tmp_path: Path) -> None:
    """The script is played immediately after it was recorded, and waits for a broker with its settings."""
    with run_cluster(config=settings | {"offset.metadata.max.bytes": "10"}) as cluster:
        done = python(RECORD, tmp_path, cluster.bootstrap_servers, SCRIPT)
    assert done.stdout.startswith(f"waiting  {SCRIPT} for a broker with offset.metadata.max.bytes=4096")
    assert done.returncode == 1
