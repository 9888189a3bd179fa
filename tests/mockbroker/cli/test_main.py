"""The command ``mockbroker`` as a whole."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner
from commands import command
from effort import every
from golden import ROOT

import mockbroker as package
from mockbroker.cli import VERBS, main

CONVERSATION = str(next((ROOT / "fixtures" / "conversations").glob("*/configs_*.gz")))
PRINTING = [  # for each verb, the arguments with which it prints something
    ["conform", CONVERSATION],
    ["ctl", "faults", "add", "--help"],
    ["demo", "--json"],
    ["import", "--help"],
    ["proxy", "--help"],
    ["replay", "--help"],
    ["simulate", "--seeds", "2", "--events", "10"],
    ["simulate", "--seeds", "2", "--events", "10", "--json"],
    ["settings"],
    ["serve", "--help"],
    ["torture", "--list"],
    ["top", "--help"],
    ["--help"],
    ["--version"],
]

HELPERS = {  # files that do not implement a verb
    *(
        "advertising",
        "client_properties",
        "clock_lines",
        "completion",
        "control_client",
        "event_lines",
        "garbage_collection",
        "history_lines",
        "http_address",
        "journal_file",
        "quiet",
        "rule_files",
        "stdin",
    ),
    *(
        "end_signals",
        "followed_events",
        "garbage_collection",
        "ready_file",
        "recording",
        "serve_demo",
        "server_options",
        "tables",
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    result = CliRunner().invoke(main, [verb, "--help"])
    assert result.exit_code == 0
    assert len(result.stdout) > 200


def test_help_names_every_verb() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert all(f" {verb} {summary}" in shown for verb, summary in VERBS.items())


def test_every_file_of_verbs_is_listed() -> None:
    files = {path.stem.rstrip("_") for path in (Path(package.__file__).parent / "cli").glob("[!_]*.py")}
    assert files - HELPERS == set(VERBS) - {"ctl"}  # "ctl" is a folder
    assert files >= HELPERS


def test_every_verb_is_among_those_that_print() -> None:
    assert {arguments[0] for arguments in PRINTING if not arguments[0].startswith("-")} == set(VERBS)


def ended(arguments: list[str], stdout: int) -> tuple[int, bytes]:
    """Return exit code and stderr, without the counts of conform. The environment does not affect the buffering."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with command(*arguments, module="mockbroker", stdout=stdout, env=environment) as process:
        os.close(stdout)
        _, said = process.communicate(timeout=150)
    return process.returncode, b"".join(line for line in said.splitlines(True) if not line.endswith(b" failed\n"))


@pytest.mark.parametrize("arguments", every(3, PRINTING), ids=" ".join)
def test_closed_stdout_pipe_ends_quietly(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    assert ended(arguments, writing) == (-signal.SIGPIPE, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_serve_without_a_reader_is_not_ready(unbuffered: str) -> None:
    """A filter ends quietly, but a broker that cannot print its address fails with the reason."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with command("serve", "--port", "0", module="mockbroker", stdout=writing, env=environment) as process:
        os.close(writing)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said == b"Error: cannot report that the cluster is ready: cannot write stdout: Broken pipe\n"


@pytest.mark.parametrize("arguments", every(3, PRINTING), ids=" ".join)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_full_disk_is_reported(arguments: list[str]) -> None:
    assert ended(arguments, os.open("/dev/full", os.O_WRONLY)) == (
        1,
        b"Error: cannot write: No space left on device\n",
    )
