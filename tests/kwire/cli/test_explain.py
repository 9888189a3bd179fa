from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from typing import Any

import golden
import pytest
from commands import kwire, printed

from kwire import encode_request, encode_response
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.messages import MODULES
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest

JOIN = JoinGroupRequest(
    group_id="g\x1b[31m\udcff",
    member_id="a member id that is longer than what a line of this table has room for",
    protocol_type="consumer",
    protocols=[
        JoinGroupRequest.Protocol(
            name="range", metadata=encode_stored(ConsumerProtocolSubscription(topics=["orders"]), 0)
        )
    ],
)
FRAME = encode_request(JOIN, 5, correlation_id=7, client_id="c")
TEXT = """\
JoinGroupRequest v5, 145 bytes
  0  00 0b                        header.request_api_key      int16            11 JoinGroup
  2  00 05                        header.request_api_version  int16            5
  4  00 00 00 07                  header.correlation_id       int32            7
  8  00 01 63                     header.client_id            nullable_string  "c"
 11  00 07 67 1b 5b 33 31 6d +1   group_id                    string           "g\\u001b[31m\\udcff"
 20  00 00 00 00                  session_timeout_ms          int32            0
 24  ff ff ff ff                  rebalance_timeout_ms        int32            -1
 28  00 46 61 20 6d 65 6d 62 +64  member_id                   string           "a member id that is longer than what a line of this table ha" ...
100  ff ff                        group_instance_id           nullable_string  null
102  00 08 63 6f 6e 73 75 6d +2   protocol_type               string           "consumer"
112  00 00 00 01                  protocols                   array of struct  1 element
116  00 05 72 61 6e 67 65         protocols[0].name           string           "range"
123  00 00 00 12 00 00 00 00 +14  protocols[0].metadata       bytes            18 bytes
127  00 00                          version                   int16            0
129  00 00 00 01                    topics                    array of string  1 element
133  00 06 6f 72 64 65 72 73        topics[0]                 string           "orders"
141  ff ff ff ff                    user_data                 nullable_bytes   null

"""


def test_text() -> None:
    result = kwire("explain", FRAME.hex())
    assert result.exit_code == 0
    assert result.stdout == TEXT


def test_json() -> None:
    frame = encode_response(HeartbeatResponse(error_code=27), 1, correlation_id=7)
    result = kwire("explain", "--json", "--response", "--api-key", "12", "--api-version", "1", frame.hex())
    assert printed(result) == [
        {"offset": 0, "length": 4, "path": "header.correlation_id", "type": "int32", "value": 7, "hex": "00000007"},
        {"offset": 4, "length": 4, "path": "throttle_time_ms", "type": "int32", "value": 0, "hex": "00000000"},
        {"offset": 8, "length": 2, "path": "error_code", "type": "int16", "value": 27, "hex": "001b"},
    ]
    shown = kwire("explain", "--response", "--api-key", "12", "--api-version", "1", frame.hex())
    assert "error_code" in shown.stdout
    assert shown.stdout.endswith("27 REBALANCE_IN_PROGRESS\n\n")


@pytest.mark.parametrize("stem", MODULES.values())
def test_json_covers_every_frame(stem: str) -> None:
    frames = gzip.decompress((golden.ROOT / "fixtures" / "frames" / f"{stem}.jsonl.gz").read_bytes())
    result = kwire("explain", "--json", given=frames)
    assert result.exit_code == 0
    told: list[str] = []
    for piece in printed(result):
        if piece["offset"] == 0:
            told.append("")
        assert len(told[-1]) == 2 * piece["offset"]
        assert len(piece["hex"]) == 2 * piece["length"]
        told[-1] += piece["hex"]
    assert told == [json.loads(line)["hex"] for line in frames.splitlines()]


@pytest.mark.parametrize("stem", MODULES.values())
def test_text_of_every_frame(stem: str) -> None:
    frames = gzip.decompress((golden.ROOT / "fixtures" / "frames" / f"{stem}.jsonl.gz").read_bytes())
    result = kwire("explain", given=frames)
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(character.isprintable() or character == "\n" for character in result.stdout)


CUT = encode_request(HeartbeatRequest(group_id="group", member_id="m"), 0, correlation_id=7)[:-2]


def test_a_frame_cut_short() -> None:
    result = kwire("explain", given=f"{CUT.hex()}\n{FRAME.hex()}\n")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"HeartbeatRequest v0, {len(CUT)} bytes"
    assert lines[6].split() == ["17", "00", "00", "00", "00", "generation_id", "int32", "0"]
    assert result.stdout.count("unread") == 1
    assert "JoinGroupRequest v5" in result.stdout  # the next is told all the same
    assert result.stderr.startswith("<stdin>:1: HeartbeatRequest v0 at byte 21, member_id: expected ")


def test_a_frame_cut_short_as_json() -> None:
    result = kwire("explain", "--json", CUT.hex())
    *_, rest, error = printed(result)
    assert (rest["path"], rest["type"], rest["value"], rest["offset"]) == ("member_id", "unread", None, 21)
    assert rest["hex"] == CUT[21:].hex()
    assert error == {"error": {"message": result.stderr.strip().partition(": ")[2], "path": "member_id", "offset": 21}}
    assert result.exit_code == 1


def test_much_that_cannot_be_read() -> None:
    frame = encode_request(HeartbeatRequest(), 0, correlation_id=7)[:10] + b"\x7f\xff" + bytes(range(256)) * 2
    result = kwire("explain", frame.hex())
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[5:9]] == ["10", "18", "26", "34"]
    assert lines[-2].split() == [f"+{len(frame) - 10 - 256}"]


REFUSED: list[tuple[str, list[str]]] = [
    ("{}", ["hex: missing"]),
    ("012", ["hex: an odd number of hex digits"]),
    ('{"hex": "00", "direction": "response"}', ["api_key: missing"]),
    ("00", ["RequestHeader at byte 0: expected 4 bytes of API key and version, found 1"]),
    ("03e70000", ["RequestHeader at byte 0, request_api_key: API key 999 is not known"]),
]


@pytest.mark.parametrize(("line", "messages"), REFUSED)
def test_refused(line: str, messages: list[str]) -> None:
    result = kwire("explain", "--json", given=line)
    assert [form["error"]["message"] for form in printed(result) if "error" in form] == messages
    assert kwire("explain", given=line).stderr == f"<stdin>:1: {messages[0]}\n"
    assert result.exit_code == 1


def test_ends_quietly_without_input() -> None:
    result = kwire("explain")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]
)
def test_colours_on_a_terminal(environment: dict[str, str], coloured: bool) -> None:
    ours, theirs = pty.openpty()
    plain: dict[str, Any] = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    command = [sys.executable, "-m", "kwire", "explain", FRAME.hex()]
    subprocess.run(command, stdout=theirs, env=plain | environment, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert (b"\x1b[" in shown) is coloured
