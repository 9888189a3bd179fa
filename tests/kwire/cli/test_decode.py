from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import golden
import pytest
from commands import kwire, printed

from kwire import encode_request, encode_response
from kwire.cli import lines
from kwire.messages import MODULES
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.heartbeat import HeartbeatRequest

HEARTBEAT = encode_request(HeartbeatRequest(group_id="g", member_id="m"), 4, correlation_id=7, client_id="c")
LINE = json.dumps({"hex": HEARTBEAT.hex()})
DECODED = {
    "direction": "request",
    "api_key": 12,
    "api_name": "Heartbeat",
    "api_version": 4,
    "header": {"request_api_key": 12, "request_api_version": 4, "correlation_id": 7, "client_id": "c"},
    "body": {"group_id": "g", "generation_id": 0, "member_id": "m", "group_instance_id": None},
}


@pytest.mark.parametrize("stem", MODULES.values())
def test_decode_and_encode_lose_nothing(stem: str) -> None:
    frames = gzip.decompress((golden.ROOT / "fixtures" / "frames" / f"{stem}.jsonl.gz").read_bytes())
    decoded = kwire("decode", given=frames)
    assert decoded.exit_code == 0
    encoded = kwire("encode", "-", given=decoded.stdout)
    assert encoded.exit_code == 0
    given = [json.loads(line)["hex"] for line in frames.splitlines()]
    assert [line["hex"] for line in printed(encoded)] == given


def test_request() -> None:
    assert printed(kwire("decode", given=LINE)) == [DECODED]


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    path.write_text(f"{LINE}\r\n\n  {HEARTBEAT.hex(' ')}")
    assert printed(kwire("decode", str(path))) == [DECODED, DECODED]


def test_byte_order_mark_at_the_begin_of_a_file(tmp_path: Path) -> None:
    for content in (LINE, HEARTBEAT.hex(), f"\n{LINE}"):
        (tmp_path / "frames.jsonl").write_text(content, encoding="utf-8-sig")
        assert printed(kwire("decode", str(tmp_path / "frames.jsonl"))) == [DECODED]
    (tmp_path / "frames.jsonl").write_text(f"{LINE}\n\ufeff{LINE}\n", encoding="utf-8")
    assert kwire("decode", str(tmp_path / "frames.jsonl")).exit_code == 1


def test_bare_hex_as_argument() -> None:
    assert printed(kwire("decode", HEARTBEAT.hex())) == [DECODED]
    assert printed(kwire("decode", HEARTBEAT.hex(" ").upper())) == [DECODED]


def test_bare_hex_of_a_response() -> None:
    flags = ["--response", "--api-key", "12", "--api-version", "0"]
    expected = {
        "direction": "response",
        "api_key": 12,
        "api_name": "Heartbeat",
        "api_version": 0,
        "header": {"correlation_id": 7},
        "body": {"error_code": 25},
    }
    assert printed(kwire("decode", *flags, "000000070019")) == [expected]
    assert printed(kwire("decode", *flags, given="000000070019")) == [expected]
    assert printed(kwire("decode", *flags, given='{"hex": "000000070019", "direction": null}')) != [expected]


def test_trailing_bytes_and_unknown_tags() -> None:
    body = HeartbeatRequest(unknown_tags={9: b"\x01"})  # type: ignore[call-arg]
    frame = encode_request(body, 4, correlation_id=1) + b"\xca\xfe"
    result = kwire("decode", given=frame.hex())
    (form,) = printed(result)
    assert form["trailing"] == "cafe"
    assert form["body"]["_unknown_tags"] == {"9": "AQ=="}
    assert printed(kwire("encode", given=result.stdout)) == [{"hex": frame.hex()}]


def test_api_versions_answer_in_version_0() -> None:
    value = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)])
    frame = encode_response(value, 0, correlation_id=3)
    result = kwire("decode", "--response", "--api-key", "18", "--api-version", "4", frame.hex())
    (form,) = printed(result)
    assert (form["api_version"], form["body"]["error_code"]) == (0, 35)
    assert printed(kwire("encode", given=result.stdout)) == [{"hex": frame.hex()}]


def test_text_that_is_not_utf8_survives() -> None:
    frame = encode_request(HeartbeatRequest(group_id="\udcff"), 4, correlation_id=1)
    assert printed(kwire("encode", given=kwire("decode", frame.hex()).stdout)) == [{"hex": frame.hex()}]


REFUSED: list[tuple[str | bytes, str, str]] = [  # line, message, path
    ("{", "invalid JSON: Expecting property name enclosed in double quotes at character 1", ""),
    ("[1]", "hex: invalid hex digit '[' at position 0", "hex"),
    ('{"hex": "012"}', "hex: odd number of hex digits", "hex"),
    ("012", "hex: odd number of hex digits", "hex"),
    ('{"hex": 12}', "hex: expected hex, got a number", "hex"),
    ('{"hex": null}', "hex: missing", "hex"),
    ("{}", "hex: missing", "hex"),
    ('{"hex": "00", "direction": "sideways"}', "direction: expected request or response, got 'sideways'", "direction"),
    ('{"hex": "00", "direction": ["request"]}', "direction: expected request or response, got ['request']", "direction"),
    ('{"hex": "00", "direction": "response"}', "api_key: the key is missing: add it to the line, or use --api-key", "api_key"),
    ('{"hex": "00", "direction": "response", "api_key": 12}', "api_version: the key is missing: add it to the line, or use --api-version", "api_version"),
    ('{"hex": "00", "direction": "response", "api_key": "12"}', "api_key: expected an integer, got a string", "api_key"),
    ('{"hex": "00", "direction": "response", "api_key": true}', "api_key: expected an integer, got a boolean", "api_key"),
    ('{"hex": "00120000", "api_key": 3}', "api_key: the line has 3, but the header of the frame has 18: remove api_key from the line", "api_key"),
    ('{"hex": "00120000", "api_version": 1}', "api_version: the line has 1, but the header of the frame has 0: remove api_version from the line", "api_version"),
    ('{"hex": "' + "9" * 5000 + ", ", "invalid JSON: Unterminated string at character 8", ""),
    ("\x00\x00", "hex: invalid hex digit '\\x00' at position 0", "hex"),
    (b"\xff\xfe", "invalid UTF-8: invalid start byte at byte 0 of the line", ""),
    ("[" * 200_000, "hex: invalid hex digit '[' at position 0", "hex"),
    ('{"hex":' + "[" * 200_000, "the JSON is nested too deeply", ""),
    ('{"hex":' * 200_000, "the JSON is nested too deeply", ""),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message", "path"), REFUSED, ids=range(len(REFUSED)))
def test_refused_line(line: str | bytes, message: str, path: str) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    result = kwire("decode", given=b"\n".join([LINE.encode(), raw, LINE.encode()]))
    assert printed(result) == [DECODED, {"error": {"message": message, "path": path, "offset": None}}, DECODED]
    assert result.stderr == f"<stdin>:2: {message}\n"
    assert result.exit_code == 1


WRONG_FRAMES = [  # hex, message, path, offset
    ("", "RequestHeader at byte 0: expected 4 bytes of API key and version, found 0", "", 0),
    ("03e70000", "RequestHeader at byte 0, request_api_key: unknown API key 999", "request_api_key", 0),
    ("000c0005", "RequestHeader at byte 2, request_api_version: Heartbeat has no version 5: its versions are 0-4", "request_api_version", 2),
    ("000c0004", "RequestHeader v2 at byte 4, correlation_id: expected 4 bytes, found 0", "correlation_id", 4),
    (HEARTBEAT.hex()[:-4], f"HeartbeatRequest v4 at byte {len(HEARTBEAT) - 2}, group_instance_id: expected 1 bytes, found 0", "group_instance_id", len(HEARTBEAT) - 2),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "message", "path", "offset"), WRONG_FRAMES)
def test_refused_frame(frame: str, message: str, path: str, offset: int) -> None:
    result = kwire("decode", given=json.dumps({"hex": frame}))
    assert printed(result) == [{"error": {"message": message, "path": path, "offset": offset}}]
    assert result.exit_code == 1


def test_an_integer_of_thousands_of_digits() -> None:
    result = kwire("decode", given='{"hex": ' + "9" * 5000 + "}")
    assert printed(result)[0]["error"]["message"].startswith("unsupported JSON: ")


def test_huge_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 200)
    result = kwire("decode", given="\n".join([LINE, "0" * 1000, LINE, "1" * 201]))
    refusal: Any = {"error": {"message": "the line is longer than the limit of 200 bytes", "path": "", "offset": None}}
    assert printed(result) == [DECODED, refusal, DECODED, refusal]
    assert result.stderr.count("\n") == 2


def test_complaint_is_one_printable_line() -> None:
    key = "a\nb\x1b[31m\ud800" * 1000
    result = kwire(
        "encode", given=json.dumps({"direction": "request", "api_key": 12, "api_version": 4, "body": {key: 1}})
    )
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 2000
    assert "\x1b" not in result.stderr


def test_ends_quietly_without_input() -> None:
    result = kwire("decode")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("source", ["no/such/file", "/"])
def test_unreadable_file_is_wrong_usage(source: str) -> None:
    result = kwire("decode", source)
    assert result.exit_code == 2
    assert f"cannot read '{source}'" in result.stderr


@pytest.mark.parametrize("flags", [["--engine", "other"], ["--api-key", "x"], ["--annotate"], ["a", "b"]])
def test_wrong_usage(flags: list[str]) -> None:
    assert kwire("decode", *flags).exit_code == 2


def test_file_wins_over_hex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "00").write_text(LINE)
    monkeypatch.chdir(tmp_path)
    assert printed(kwire("decode", "00")) == [DECODED]


def test_engine() -> None:
    for engine in ("compiled", "reference"):
        assert printed(kwire("decode", "--engine", engine, given=LINE)) == [DECODED]


def test_request_that_is_no_request() -> None:
    frame = encode_request(ApiVersionsRequest(), 0, correlation_id=1)
    assert (
        printed(kwire("decode", "--response", given=json.dumps({"hex": frame.hex(), "direction": "request"})))[0][
            "body"
        ]
        == {}
    )
