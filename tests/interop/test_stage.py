from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import psutil
import pytest
from interop import programs
from interop.hosted import Host
from interop.stage import HEARTBEAT_MS, MARKS, MEMBERS, Member, Stage, stage_of, start_process

from mockbroker import run_cluster

pytestmark = MARKS


def test_a_member_has_the_environment_of_the_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest changes its environment in the main thread; with it, exec in other threads could fail with EFAULT."""
    monkeypatch.setenv("KWIRE_CHANGED", "since the tests were collected")
    probe = [sys.executable, "-c", "import os, sys; sys.exit('KWIRE_CHANGED' in os.environ)"]
    member = Member(stage, "probe", start_process(probe))
    stage.members.append(member)
    assert member.ended() == 0


def test_a_program_whose_build_failed_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is built again even if its sources are those of the last complete build."""
    sources, clients = tmp_path / "sources", tmp_path / "clients"
    sources.mkdir()
    monkeypatch.setattr(programs, "CLIENTS", clients)

    def build(folder: Path, target: Path) -> None:
        text = (folder / "source").read_text()
        if text == "wrong":
            raise RuntimeError(text)
        (target / "program").write_text(text)

    def start(target: Path) -> list[str]:
        return [(target / "program").read_text()]

    program = programs.Program(str(sources), build, start)
    (sources / "source").write_text("right")
    assert programs.built_program(program, "p") == ["right"]
    (sources / "source").write_text("wrong")
    with pytest.raises(RuntimeError):
        programs.built_program(program, "p")
    (sources / "source").write_text("right")
    assert programs.built_program(program, "p") == ["right"]


def test_a_host_that_prints_no_port_is_ended() -> None:
    code = "import os; print('process', os.getpid(), flush=True); input()"
    with pytest.raises(ValueError, match="process") as raised:
        Host([sys.executable, "-c", code], os.environ)
    (pid,) = re.findall(r"process (\d+)", str(raised.value))
    assert not psutil.pid_exists(int(pid))


def test_a_member_that_ended_before_a_command_is_cleaned_up(stage: Stage) -> None:
    member = Member(stage, "gone", start_process([sys.executable, "-c", ""]))
    assert member.ended() == 0
    with pytest.raises(AssertionError, match="gone ended before the command 'leave'"):
        member.say("leave")
    member.clean_up()


def test_a_command_interrupts_a_member_until_it_is_taken(stage: Stage) -> None:
    """One signal can come too early: just before the client blocks."""
    talks = """
import itertools, sys, threading
sys.path.append(sys.argv[2])
from talk import command, interrupt_on_command, tell_left

signals = itertools.count(1)
second = threading.Lock()
second.acquire()
interrupt_on_command(lambda *_: next(signals) == 2 and second.release())
second.acquire()
assert command() == "leave"
tell_left()
"""
    member = Member(stage, "probe", start_process([sys.executable, "-c", talks, "{}", str(MEMBERS)]))
    stage.members.append(member)
    member.leave()


class Stubborn(Member):
    """A member whose clean-up fails after the client has ended."""

    def clean_up(self) -> None:
        super().clean_up()
        raise TimeoutError


def test_all_members_are_ended_if_one_cannot_be_ended() -> None:
    waits = [sys.executable, "-c", "input()"]
    processes = [start_process(waits) for _ in range(3)]
    raised = None
    with run_cluster() as cluster:
        try:
            with stage_of(cluster) as stage:
                stage.members += [Member(stage, "first", processes[0]), Stubborn(stage, "stubborn", processes[1])]
                stage.members.append(Member(stage, "last", processes[2]))
        except TimeoutError as error:
            raised = error
    still = [process for process in processes if process.poll() is None]
    for process in still:
        process.kill()
    assert (still, type(raised)) == ([], TimeoutError)


@pytest.mark.clients("java")
def test_a_hosted_client_stops_at_once_and_does_not_leave(stage: Stage) -> None:
    member = stage.joined("java")
    with pytest.raises(RuntimeError, match="own_process=True"):
        member.kill()
    member.clean_up()
    assert member.ended() == 3
    requests = len(stage.cluster.requests())
    time.sleep(2 * HEARTBEAT_MS / 1000)
    assert len(stage.cluster.requests()) == requests
    assert not stage.events("leave")


@pytest.mark.clients("java")
def test_a_hosted_client_that_fails_has_the_error_in_its_log(stage: Stage) -> None:
    member = stage.member("java", assignor="unheard-of")
    assert member.ended() == 1
    assert "NullPointerException" in member.log[0]
