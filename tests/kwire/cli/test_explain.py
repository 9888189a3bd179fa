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
from effort import every

from kwire import encode_request, encode_response
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.messages import MODULES
from kwire.messages.fetch import FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.records.batch import Record, build_batch
from kwire.records.compression import GZIP

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
0-10                         header                struct
0        000b                 request_api_key      int16            11 JoinGroup
2        0005                 request_api_version  int16            5
4        00000007             correlation_id       int32            7
8        0001|63              client_id            nullable_string  "c"
11       0007|671b5b33316d…  group_id              string           "g\\u001b[31m\\udcff"
20       00000000            session_timeout_ms    int32            0
24       ffffffff            rebalance_timeout_ms  int32            -1
28       0046|61206d656d62…  member_id             string           "a member id that is longer tha…
100      ffff                group_instance_id     nullable_string  null
102      0008|636f6e73756d…  protocol_type         string           "consumer"
112-144  00000001            protocols             array of struct  1 element
116-144                       protocols[0]         struct
116      0005|72616e6765       name                string           "range"
123-144  00000012              metadata            bytes            ConsumerProtocolSubscription v0
127      0000                   version            int16            0
129-140  00000001               topics             array of string  1 element
133      0006|6f7264657273       topics[0]         string           "orders"
141      ffffffff               user_data          nullable_bytes   null

"""


def test_text() -> None:
    result = kwire("explain", FRAME.hex())
    assert result.exit_code == 0
    assert result.stdout == TEXT


def test_the_tree_in_the_guide() -> None:
    metadata = encode_stored(ConsumerProtocolSubscription(topics=["orders"]), 0)
    request = JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    )
    frame = encode_request(request, 5, correlation_id=7, client_id="billing")
    shown = kwire("explain", frame.hex()).stdout
    assert f"```\n{shown.rstrip()}\n```" in (golden.ROOT / "docs/how-to/frames.md").read_text("utf-8")


def test_flat() -> None:
    lines = kwire("explain", "--flat", FRAME.hex()).stdout.splitlines()
    assert '133  0006|6f7264657273   protocols[0].metadata.topics[0]  string           "orders"' in lines
    assert not [line for line in lines if " struct" in line and "array of" not in line]


def test_width() -> None:
    for width in (60, 80, 200):
        result = kwire("explain", "--width", str(width), FRAME.hex())
        assert max(map(len, result.stdout.splitlines())) <= max(width, 80)
    assert "longer than what a line of this table has room for" in result.stdout
    assert kwire("explain", "--width", "1", FRAME.hex()).exit_code == 2


RECORDS = [Record(key=b"k", value=b"tea", timestamp=1_700_000_000_000), Record()]
BATCHES = build_batch(RECORDS, codec=GZIP) + build_batch(RECORDS)[:-1]
PARTITION = FetchResponse.Topic.Partition(records=BATCHES)
FETCHED = encode_response(FetchResponse(responses=[FetchResponse.Topic(partitions=[PARTITION])]), 4, correlation_id=1)
OF_FETCH = ["--response", "--api-key", "1", "--api-version", "4"]


def test_records() -> None:
    result = kwire("explain", *OF_FETCH, FETCHED.hex())
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["+6", "06|746561", "value", "nullable_bytes", "3", "bytes", '"tea"'] in lines
    (damaged,) = [line for line in lines if "unread" in line]
    assert damaged[2:8] == ["records[1]", "unread", "a", "batch", "has", "84"]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_records_as_json() -> None:
    pieces = printed(kwire("explain", "--json", *OF_FETCH, FETCHED.hex()))
    path = "responses[0].partitions[0].records[0].records.gzip"
    unpacked = [piece for piece in pieces if piece.get("within") == path]
    assert [piece["value"] for piece in unpacked if piece["path"].endswith(".value")] == ["dGVh", None]
    assert [piece["reason"] for piece in pieces if piece["type"] == "unread"] == [
        "a batch has 84 bytes, but only 83 remain"
    ]


def test_json() -> None:
    frame = encode_response(HeartbeatResponse(error_code=27), 1, correlation_id=7)
    result = kwire("explain", "--json", "--response", "--api-key", "12", "--api-version", "1", frame.hex())
    assert printed(result) == [
        {"offset": 0, "length": 0, "path": "header", "type": "struct", "value": None, "hex": "", "end": 4, "depth": 0},
        {"offset": 0, "length": 4, "path": "header.correlation_id", "type": "int32", "value": 7, "hex": "00000007", "end": 4, "depth": 1},
        {"offset": 4, "length": 4, "path": "throttle_time_ms", "type": "int32", "value": 0, "hex": "00000000", "end": 8, "depth": 0},
        {"offset": 8, "length": 2, "path": "error_code", "type": "int16", "value": 27, "hex": "001b", "end": 10, "depth": 0, "note": "REBALANCE_IN_PROGRESS"},
    ]  # fmt: skip
    shown = kwire("explain", "--response", "--api-key", "12", "--api-version", "1", frame.hex())
    assert "error_code" in shown.stdout
    assert shown.stdout.endswith("27 REBALANCE_IN_PROGRESS\n\n")


def some_frames(stem: str) -> bytes:
    """Return the lines of an API's frames; in ``make test`` only some of them."""
    lines = gzip.decompress((golden.ROOT / "fixtures" / "frames" / f"{stem}.jsonl.gz").read_bytes()).splitlines(True)
    return b"".join(every(4, lines))


@pytest.mark.parametrize("flags", [[], ["--flat"]])
@pytest.mark.parametrize("stem", MODULES.values())
def test_json_covers_every_frame(stem: str, flags: list[str]) -> None:
    frames = some_frames(stem)
    result = kwire("explain", "--json", *flags, given=frames)
    assert result.exit_code == 0
    frames_shown: list[str] = []
    for piece in printed(result):
        if "within" in piece:
            continue
        if piece["path"] == ("header.request_api_key" if flags else "header") or (
            piece["path"] == "header.correlation_id" and flags and not piece["offset"]
        ):
            frames_shown.append("")
        assert len(frames_shown[-1]) == 2 * piece["offset"]
        assert len(piece["hex"]) == 2 * piece["length"]
        frames_shown[-1] += piece["hex"]
    assert frames_shown == [json.loads(line)["hex"] for line in frames.splitlines()]


@pytest.mark.parametrize("stem", MODULES.values())
def test_text_of_every_frame(stem: str) -> None:
    frames = some_frames(stem)
    result = kwire("explain", given=frames)
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(character.isprintable() or character == "\n" for character in result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 100


CUT = encode_request(HeartbeatRequest(group_id="group", member_id="m"), 0, correlation_id=7)[:-2]


def test_a_frame_cut_short() -> None:
    result = kwire("explain", given=f"{CUT.hex()}\n{FRAME.hex()}\n")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"HeartbeatRequest v0, {len(CUT)} bytes"
    assert lines[7].split() == ["17", "00000000", "generation_id", "int32", "0"]
    assert lines[8].split(maxsplit=4) == ["21", "00", "member_id", "unread", "expected 2 bytes, found 1"]
    assert result.stdout.count("unread") == 1
    assert "JoinGroupRequest v5" in result.stdout  # the next one is explained nevertheless
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
    assert [line.split()[0] for line in lines[6:10]] == ["10", "18", "26", "34"]
    assert lines[-2].split() == [f"+{len(frame) - 10 - 256}"]


REFUSED: list[tuple[str, list[str]]] = [
    ("{}", ["hex: missing"]),
    ("012", ["hex: odd number of hex digits"]),
    ('{"hex": "00", "direction": "response"}', ["api_key: the key is missing: add it to the line, or use --api-key"]),
    ("00", ["RequestHeader at byte 0: expected 4 bytes of API key and version, found 1"]),
    ("03e70000", ["RequestHeader at byte 0, request_api_key: unknown API key 999"]),
]


@pytest.mark.parametrize(("line", "messages"), REFUSED)
def test_refused(line: str, messages: list[str]) -> None:
    result = kwire("explain", "--json", given=line)
    assert [form["error"]["message"] for form in printed(result) if "error" in form] == messages
    assert kwire("explain", given=line).stderr == f"<stdin>:1: {messages[0]}\n"
    assert result.exit_code == 1


@pytest.mark.parametrize("frame", ["", "00", "000c00"])
def test_request_without_api_and_version(frame: str) -> None:
    piece, error = printed(kwire("explain", "--json", given=json.dumps({"hex": frame})))
    size = len(frame) // 2
    reason = f"expected 4 bytes of API key and version, found {size}"
    assert (piece["offset"], piece["length"], piece["hex"], piece["reason"]) == (0, size, frame, reason)
    assert error == {"error": {"message": f"RequestHeader at byte 0: {reason}", "path": "", "offset": 0}}


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
