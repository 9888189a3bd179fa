"""``mockbroker serve --http`` in a separate process, and ``mockbroker ctl`` in this one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from plain_client import RawConnection

from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.cli import main

QUICK = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "mockbroker.join.settle.ms=0")


@dataclass
class Ctl:
    """A running broker and the command that controls it."""

    process: subprocess.Popen[str]
    servers: str
    url: str

    def run(self, *words: str, given: str | bytes = "", code: int = 0) -> Result:
        """Run ``mockbroker ctl`` with these arguments; check the exit code."""
        result = run_ctl("--url", self.url, *words, given=given)
        assert result.exit_code == code, result.output
        return result

    def text(self, *words: str) -> str:
        """Return the text output, without the last line end."""
        return self.run(*words).stdout.removesuffix("\n")

    def json(self, *words: str) -> Any:
        """Return the output with ``--json``."""
        return json.loads(self.run("--json", *words).stdout)

    def connect(self, client_id: str = "raw") -> RawConnection:
        """Return a connection of a Kafka client."""
        return RawConnection(self.servers, client_id=client_id)

    def join(self, connection: RawConnection, group: str, session_s: int = 10, assignor: str = "range") -> str:
        """Make a connection the only member of a stable group; return its member id. ``session_s``: its session timeout."""
        self.run("groups", "move-coordinator", group, "0")
        protocols = [JoinGroupRequest.Protocol(name=assignor)]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_s * 1000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        first: JoinGroupResponse = connection.ask(request, 5)
        request.member_id = first.member_id
        joined: JoinGroupResponse = connection.ask(request, 5)
        assert joined.error_code == 0
        sync = SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
        assert connection.ask(sync, 3).error_code == 0
        return joined.member_id


def run_ctl(*words: str, given: str | bytes = "", **environment: str) -> Result:
    """Run ``mockbroker ctl`` in this process."""
    env = {"MOCKBROKER_URL": None, "MOCKBROKER_HTTP_TOKEN": None, **environment}
    return CliRunner().invoke(main, ["ctl", *words], input=given, env=env, catch_exceptions=False)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Ctl]:
    """Start a broker with topic ``orders``, which has three partitions."""
    with started(folder / "ready.json", "serve", "--topic", "orders:3", *QUICK, *arguments) as broker:
        yield broker


@contextmanager
def started(ready: Path, command: str, *words: str) -> Iterator[Ctl]:
    """Start a process of mockbroker with a control API, by default on free ports. ``ready``: its ready file."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mockbroker", command, "--port", "0", "--http", "0", "--ready-file", str(ready), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not ready.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        ready_json = json.loads(ready.read_text())
        yield Ctl(process, ready_json["bootstrap_servers"], ready_json["http"])
    finally:
        process.kill()
        process.communicate()
