"""The command ``mockbroker torture``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

pytest.importorskip("psutil")

import psutil

from mockbroker.cli import main
from mockbroker.lab.torture.catalogue import CASES
from mockbroker.lab.torture.process import ClientProcess

PROGRAM = str(Path(__file__).parents[1] / "lab" / "torture" / "client.py")


def torture(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["torture", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_cases_are_listed() -> None:
    code, out, _ = torture("--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(CASES)


def test_results_are_printed_and_written(tmp_path: Path) -> None:
    xml = tmp_path / "junit.xml"
    arguments = ["--case", "no-results", "--case", "no-leaders", "--bad", "0.3", "--start", "30", "--junit", str(xml)]
    code, out, err = torture(*arguments, "--json", "--", sys.executable, PROGRAM, "abort")
    (result,) = map(json.loads, out.splitlines())
    assert (code, result["case"], result["verdict"]) == (1, "no-results", "crashed")
    assert err == "1 crashed; 1 cases of steps that the client does not take\n"
    assert ElementTree.parse(xml).getroot().attrib["failures"] == "1"


def test_bad_results_have_details() -> None:
    code, out, _ = torture("--case", "no-results", "--bad", "0.3", "--", sys.executable, PROGRAM, "end")
    assert code == 0
    assert out.startswith("refused  no-results")


def test_clients_are_started_outside_the_main_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the start of a process and its handle, a KeyboardInterrupt would lose the process."""
    threads: list[threading.Thread] = []
    start = ClientProcess.__init__

    def noted(self: ClientProcess, *arguments: Any) -> None:
        threads.append(threading.current_thread())
        start(self, *arguments)

    monkeypatch.setattr(ClientProcess, "__init__", noted)
    arguments = ("--case", "no-results", "--bad", "0.1", "--start", "30")
    torture(*arguments, "--", sys.executable, PROGRAM, "end")
    assert len(threads) == 2
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_clients(number: signal.Signals, tmp_path: Path) -> None:
    """The clients run in their own sessions, so that no signal to the process group ends them."""
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(f'{{os.getpid()}}.'); time.sleep(600)"
    command = [sys.executable, "-m", "mockbroker", "torture", "--start", "600", "--", sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (pid.exists() and pid.read_text().endswith(".")) and time.monotonic() < deadline:
            time.sleep(0.05)
        client = psutil.Process(int(pid.read_text()[:-1]))
        try:
            process.send_signal(number)
            assert process.wait(30) == 128 + number
            assert not client.is_running()
        finally:
            if client.is_running():
                client.kill()
    finally:
        process.kill()
        process.wait()
