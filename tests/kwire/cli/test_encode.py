from __future__ import annotations

import json
from typing import Any

import pytest
from commands import kwire, printed

GOOD: dict[str, Any] = {"direction": "request", "api_key": 12, "api_version": 0, "body": {"group_id": "g"}}


def test_fields_that_may_be_omitted() -> None:
    assert printed(kwire("encode", given=json.dumps(GOOD))) == [{"hex": "000c000000000000ffff000167000000000000"}]


def test_response() -> None:
    line = {**GOOD, "direction": "response", "header": {"correlation_id": 7}, "body": {"error_code": 25}}
    assert printed(kwire("encode", given=json.dumps(line))) == [{"hex": "000000070019"}]


REFUSED: list[tuple[dict[str, Any], str, str]] = [  # changed keys of the line, message, path
    ({"direction": None}, "direction: expected request or response, got None", "direction"),
    ({"api_key": None}, "api_key: missing", "api_key"),
    ({"api_key": 999}, "api_key: unknown API key 999", "api_key"),
    ({"api_version": 9}, "api_version: Heartbeat has no version 9: its versions are 0-4", "api_version"),
    ({"direction": "response", "api_version": 9}, "api_version: Heartbeat has no version 9: its versions are 0-4", "api_version"),
    ({"api_version": 1.0}, "api_version: expected an integer, got a number", "api_version"),
    ({"body": None}, "body: missing", "body"),
    ({"body": []}, "body: expected an object, got an array", "body"),
    ({"header": "x"}, "header: expected an object, got a string", "header"),
    ({"header": {"request_api_key": 3}}, "header.request_api_key: the value is 3, but api_key of the line is 12", "header.request_api_key"),
    ({"header": {"request_api_key": "12"}}, "header.request_api_key: the value is '12', but api_key of the line is 12", "header.request_api_key"),
    ({"header": {"client": ""}}, "RequestHeader v1, client: unknown field in this version", "client"),
    ({"body": {"generation_id": 2**31}}, "HeartbeatRequest v0, generation_id: 2147483648 does not fit into 4 bytes", "generation_id"),
    ({"body": {"group_id": None}}, "HeartbeatRequest v0, group_id: the field is not nullable in this version", "group_id"),
    ({"body": {"group_id": "x" * 32768}}, "HeartbeatRequest v0, group_id: a string of 32768 bytes is above the limit of 32767", "group_id"),
    ({"body": {"group_id": "\ud800"}}, "HeartbeatRequest v0, group_id: cannot be encoded as UTF-8: surrogates not allowed", "group_id"),
    ({"trailing": "0"}, "trailing: odd number of hex digits", "trailing"),
]  # fmt: skip


@pytest.mark.parametrize(("other", "message", "path"), REFUSED)
def test_refused(other: dict[str, Any], message: str, path: str) -> None:
    result = kwire("encode", given="\n".join(json.dumps(line) for line in (GOOD, {**GOOD, **other}, GOOD)))
    first, refused, last = printed(result)
    assert first == last == {"hex": "000c000000000000ffff000167000000000000"}
    assert refused == {"error": {"message": message, "path": path, "offset": None}}
    assert result.stderr == f"<stdin>:2: {message}\n"
    assert result.exit_code == 1


def test_errors_of_decode_stay_errors() -> None:
    decoded = kwire("decode", given="00\n")
    result = kwire("encode", given=decoded.stdout)
    assert (
        printed(result)[0]["error"]["message"]
        == "error: the line reports a decoding error and has no message: remove the line"
    )
    assert result.exit_code == 1


@pytest.mark.parametrize("line", ["1", "null", "[]", '"x"', "NaN"])
def test_not_an_object(line: str) -> None:
    assert printed(kwire("encode", given=line))[0]["error"]["message"].startswith("expected a JSON object, got ")
