from __future__ import annotations

import sys

import pytest
from interop.stage import MARKS, Member, Stage

pytestmark = MARKS


def test_a_member_has_the_environment_of_the_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest changes its own in the main thread while other threads start members: exec then failed with EFAULT."""
    monkeypatch.setenv("KWIRE_CHANGED", "since the tests were collected")
    member = Member(stage, "probe", [sys.executable, "-c", "import os, sys; sys.exit('KWIRE_CHANGED' in os.environ)"])
    stage.members.append(member)
    assert member.ended() == 0
