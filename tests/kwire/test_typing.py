"""The strictest settings of type checkers: correct code of a user passes with the right types, wrong code fails.

The project below is checked in its own folder, outside this repository, against the installed package.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from need import lacking

import kwire

RIGHT = """
from collections.abc import Mapping

import kwire
from kwire import APIS, DecodeError, WireError, explain
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataRequest
from kwire.schema import Api


def ask() -> bytes:
    subscription = ConsumerProtocolSubscription(topics=["orders"])
    metadata = encode_stored(subscription, 1)
    request = JoinGroupRequest(
        group_id="g", protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)]
    )
    reveal_type(request.member_id)  # str
    reveal_type(request.reason)  # str | None
    reveal_type(request.protocols[0].metadata)  # bytes
    reveal_type(MetadataRequest().topics)  # list[MetadataRequest.Topic] | None
    request.reason = None
    return kwire.encode_request(request, 9, correlation_id=1, client_id="me")


def read(frame: bytes) -> JoinGroupResponse:
    try:
        response = kwire.decode_response(frame, api_key=11, api_version=9)
    except DecodeError as error:
        reveal_type(error.offset)  # int
        raise
    reveal_type(response.header.correlation_id)  # int
    reveal_type(response.body)  # Any
    assert isinstance(response.body, JoinGroupResponse)
    for member in response.body.members:
        blob, version = decode_stored(ConsumerProtocolSubscription, member.metadata)
        reveal_type(blob)  # ConsumerProtocolSubscription
        reveal_type(version)  # int
        reveal_type(blob.owned_partitions[0].partitions)  # list[int]
    return response.body


def bodies(data: bytes) -> bytes:
    value = kwire.decode(JoinGroupRequest, data, 9, strict=True)
    reveal_type(value)  # JoinGroupRequest
    tags: Mapping[int, bytes] = kwire.unknown_tags(value)
    reveal_type(tags)  # Mapping[int, bytes]
    again = kwire.encode(value, 9, engine="reference")
    reveal_type(again)  # bytes
    return again + kwire.encode(ConsumerProtocolAssignment(), 0)


def look(frame: bytes) -> list[str]:
    request = kwire.decode_request(frame)
    reveal_type(request.api)  # Api
    api: Api = APIS[request.header.request_api_key]
    reveal_type(api.versions.first)  # int
    error = kwire.ErrorCode(27)
    reveal_type(error.retriable)  # bool
    found = explain.explain_request(frame)
    reveal_type(found.error)  # DecodeError | None
    reveal_type(next(found.leaves()).note)  # str
    return [f"{depth} {piece.path}" for depth, piece in found.walk()]


def stream(chunks: list[bytes]) -> int:
    buffer = kwire.FrameBuffer()
    seen = 0
    for chunk in chunks:
        buffer.feed(chunk)
        while (frame := buffer.next_frame()) is not None:
            reveal_type(frame)  # bytes
            seen += len(frame)
    server, client = kwire.ServerSide(), kwire.ClientSide()
    del server, client
    return seen


def careful(frame: bytes) -> str:
    try:
        return kwire.decode_request(frame).api.name
    except WireError as error:
        return str(error)
"""

WRONG = """
import kwire
from kwire.messages.join_group import JoinGroupRequest

JoinGroupRequest(gruop_id="g")  # error
JoinGroupRequest(group_id=7)  # error
JoinGroupRequest("g")  # error
JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(name=b"range")])  # error
length: int = JoinGroupRequest().member_id  # error
JoinGroupRequest().members  # error
kwire.decode(JoinGroupRequest, "text", 9)  # error
kwire.encode(JoinGroupRequest())  # error
kwire.encode(JoinGroupRequest(), 9, engine="quick")  # error
kwire.decode_response(b"", 11)  # error
kwire.decoed(JoinGroupRequest, b"", 9)  # error
frame: str = kwire.encode_request(JoinGroupRequest(), 9, correlation_id=1)  # error
kwire.APIS["JoinGroup"]  # error
kwire.ErrorCode.REBALANCING  # error
fine = JoinGroupRequest(group_id="g")
"""

EVERY_NAME = "import kwire\n\n" + "".join(f"print(kwire.{name})\n" for name in kwire.__all__)

SCRIPTS = Path(sysconfig.get_path("scripts"))
SETTINGS = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportUnusedExpression": False}


def run(tool: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = SCRIPTS / tool
    if not command.exists():
        lacking(f"{tool} is not installed: it is run over a user's project (extra dev)")
    return subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)


Found = tuple[
    dict[str, set[int]], dict[tuple[str, int], str], str
]  # lines with errors, revealed types, the whole output


def with_mypy(folder: Path) -> Found:
    done = run("mypy", "--strict", "--python-executable", sys.executable, ".", folder=folder)
    errors: dict[str, set[int]] = {}
    types: dict[tuple[str, int], str] = {}
    for name, line, kind, text in re.findall(r"^(\w+\.py):(\d+): (error|note): (.*)$", done.stdout, re.MULTILINE):
        if kind == "error":
            errors.setdefault(name, set()).add(int(line))
        elif revealed := re.fullmatch(r'Revealed type is "(.*)"', text):
            types[name, int(line)] = revealed[1]
    return errors, types, done.stdout + done.stderr


def with_pyright(folder: Path) -> Found:
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS), "utf-8")
    done = run("pyright", "--pythonpath", sys.executable, "--outputjson", folder=folder)
    errors: dict[str, set[int]] = {}
    types: dict[tuple[str, int], str] = {}
    for said in json.loads(done.stdout)["generalDiagnostics"]:
        name, line = Path(said["file"]).name, said["range"]["start"]["line"] + 1
        if said["severity"] == "error":
            errors.setdefault(name, set()).add(line)
        elif revealed := re.fullmatch(r'Type of ".*" is "(.*)"', said["message"], re.DOTALL):
            types[name, line] = revealed[1]
    return errors, types, done.stdout + done.stderr


def short(type_: str) -> str:
    """Return a type as either checker writes it, without the modules."""
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z])", "", type_)


def marked(text: str, mark: str) -> dict[int, str]:
    """Return the number of each line with a ``mark`` in it, and the text of the comment."""
    lines = enumerate(text.splitlines(), start=1)
    return {number: line.partition("  # ")[2] for number, line in lines if mark in line}


@pytest.mark.parametrize("check", [with_mypy, with_pyright])
def test_a_users_project(check: Callable[[Path], Found], tmp_path: Path) -> None:
    files: Mapping[str, str] = {"right.py": RIGHT, "wrong.py": WRONG, "names.py": EVERY_NAME}
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    errors, types, said = check(tmp_path)
    assert errors == {"wrong.py": set(marked(WRONG, "# error"))}, said
    expected = {("right.py", line): short(type_) for line, type_ in marked(RIGHT, "reveal_type").items()}
    assert {key: short(type_) for key, type_ in types.items()} == expected


def test_package_has_a_py_typed_marker() -> None:
    assert (Path(kwire.__file__).parent / "py.typed").exists()
