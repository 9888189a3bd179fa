"""What a user's type checker says of a message class: right constructors pass, wrong ones do not."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from need import lacking

RIGHT = """
import kwire
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse

request = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")])
member: str = request.member_id
reason: str | None = request.reason
frame: bytes = kwire.encode_request(request, 9, correlation_id=1)
response: JoinGroupResponse = kwire.decode(JoinGroupResponse, b"", 9)
empty = JoinGroupRequest()
"""

WRONG = """
from kwire.messages.join_group import JoinGroupRequest

JoinGroupRequest(gruop_id="g")
JoinGroupRequest(group_id=7)
JoinGroupRequest("g")
length: int = JoinGroupRequest().member_id
"""

SCRIPTS = Path(sysconfig.get_path("scripts"))


def check(tool: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / tool[0]), *tool[1:], str(path)]
    if not Path(command[0]).exists():
        lacking(f"{tool[0]} is not installed: it is run over a user's file (extra dev)")
    return subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "tool", [["mypy", "--strict", "--python-executable", sys.executable], ["pyright", "--pythonpath", sys.executable]]
)
def test_a_users_file(tool: list[str], tmp_path: Path) -> None:
    for name, text, errors in (("right.py", RIGHT, []), ("wrong.py", WRONG, [4, 5, 6, 7])):
        path = tmp_path / name
        path.write_text(text)
        done = check(tool, path)
        assert [n for n in range(20) if f"{name}:{n}:" in done.stdout] == errors, done.stdout + done.stderr
        assert bool(done.returncode) is bool(errors)
