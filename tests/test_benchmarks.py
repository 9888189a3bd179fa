"""The benchmarks: figures of a process, rows without the figures of a server, and errors of processes that fail."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the benchmarks read /proc")


@pytest.fixture
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module(request.param)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("module", [name], indirect=True)


@of("processes")
def test_cpu_times_are_those_of_the_process(module):
    user, system = module.cpu_times(os.getpid())
    times = os.times()
    assert user == pytest.approx(times.user, abs=0.5)
    assert system == pytest.approx(times.system, abs=0.5)
    assert sum(module.cpu_times(os.getpid(), children=True)) >= user + system
    assert module.cpu_times(0) == (0.0, 0.0)


@of("processes")
def test_exact_cpu_time_and_memory_of_a_process(module):
    before = module.exact_cpu_time(os.getpid())
    while module.exact_cpu_time(os.getpid()) == before:
        pass  # the time of a running thread is renewed at each tick
    assert before > 0
    assert module.resident_memory(os.getpid()) > 1 << 20


@of("attacks")
@pytest.mark.parametrize("code", [-signal.SIGKILL, 1], ids=["out of memory", "error"])
def test_attack_that_fails_is_an_error(module, monkeypatch, code):
    monkeypatch.setattr("sys.argv", ["attacks.py"])
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, code, b""))
    with pytest.raises(SystemExit, match=f"^unknown_topics ended with code {code}$"):
        module.main()


@of("attacks")
def test_attack_that_does_not_exist_is_an_error(module, monkeypatch):
    monkeypatch.setattr("sys.argv", ["attacks.py", "fast"])
    with pytest.raises(SystemExit, match=r"^unknown attack 'fast' \(possible: unknown_topics, "):
        module.main()


@of("attacks")
def test_attack_that_exceeds_its_cpu_time_has_a_row(module, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["attacks.py"])
    ended = -signal.SIGXCPU
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, ended, b""))
    module.main()
    assert "| OffsetCommit, 45,000 partitions | | more than 90 s | | |" in capsys.readouterr().out


def a_bench(module: ModuleType, monkeypatch: pytest.MonkeyPatch, figures: dict[str, Any]) -> Any:
    """Return a bench in which only the mock broker has figures."""
    bench = module.Bench(Path("load"), 1, [None, None, None], [])
    monkeypatch.setattr(bench, "measure", lambda _: [[figures], [], []])
    return bench


@of("broker")
def test_row_of_a_request_without_other_servers(module, monkeypatch, capsys):
    bench = a_bench(module, monkeypatch, {"server_cpu_us_per_req": 40.0, "rps": 1_000})
    bench.requests()
    rows = capsys.readouterr().out.splitlines()
    assert "| Heartbeat | CPU us | <= 20 | 40.0 | - | - |  |  | **missed** |" in rows
    assert "| ApiVersions | CPU us |  | 40.0 | - | - |  |  |  |" in rows


@of("broker")
def test_row_of_clients_without_kafka(module, monkeypatch, capsys):
    a_bench(module, monkeypatch, {"form_ms": 5, "join_ms": 6, "leave_ms": 7}).clients()
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "| 50 librdkafka consumers | form, ms |  | 5 (5) | - | - |  |  |  |"


@of("goals")
def test_goals_without_kafka(module, monkeypatch):
    """A server that has failed has no rounds."""
    broker = importlib.import_module("broker")
    bench = a_bench(broker, monkeypatch, {"server_cpu_us_per_req": 40.0, "form_ms": 5})
    monkeypatch.setattr(broker, "bench", lambda *_: bench)
    goals = module.Goals(1)
    goals.measure("server")
    assert goals.tables["server"].rows == []


@of("beside_kafka")
def test_broker_that_ends_at_once(module):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(RuntimeError, match=f"^mockbroker ended with code 1, before it served port {port}: see its"),
            module.mock(port, {}),
        ):
            pass


@of("bystander")
def test_broker_that_does_not_start(module):
    with (
        pytest.raises(RuntimeError, match=r"^mockbroker did not start: Usage: .*\n.*\n\nError: topic t: "),
        module.serving("t:0"),
    ):
        pass


@of("bystander")
def test_bystander_of_a_broker(module, monkeypatch):
    monkeypatch.setattr(module, "WARM_UP", 0.01)
    monkeypatch.setattr(module, "serving", lambda *_, real=module.serving: real("t:1"))
    row = module.measure("quiet", 0.05)
    assert row.startswith("| none | ")
    assert row.endswith(" |")


@of("bystander")
def test_unknown_attack_is_an_error(module, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bystander.py", "fast"])
    with pytest.raises(SystemExit):
        module.main()
    assert "unknown attacks: fast (possible: quiet, commits, " in capsys.readouterr().err
