from __future__ import annotations

import sys
import time

import pytest
from interop.stage import HEARTBEAT_MS, MARKS, Member, Stage, start_process

pytestmark = MARKS


def test_a_member_has_the_environment_of_the_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest changes its own in the main thread while other threads start members: exec then failed with EFAULT."""
    monkeypatch.setenv("KWIRE_CHANGED", "since the tests were collected")
    probe = [sys.executable, "-c", "import os, sys; sys.exit('KWIRE_CHANGED' in os.environ)"]
    member = Member(stage, "probe", start_process(probe))
    stage.members.append(member)
    assert member.ended() == 0


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
