"""Requests with their bytes, and frame logs."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.control_api import Api, control_api

from kwire import decode_request, decode_response
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker.control.resources import request_frames


async def commit(api: Api, group: str = "g", partitions: int = 1) -> None:
    topic = OffsetCommitRequest.Topic(
        name="t",
        partitions=[
            OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=n) for n in range(partitions)
        ],
    )
    await api.cluster.connect(client_id="c").ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)


def leaves(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in tree["children"]:
        if "children" in piece:
            yield from leaves(piece)
        else:
            yield piece


async def test_the_trees_cover_every_byte_of_both_frames() -> None:
    async with control_api() as api:
        await commit(api)
        result = await api.get("/v1/requests/1")
    for frame, name in (
        (result["request_frame"], "OffsetCommitRequest v8"),
        (result["response_frame"], "OffsetCommitResponse v8"),
    ):
        assert frame["explain"]["name"] == name
        at = 0
        for leaf in leaves(frame["explain"]):
            assert leaf["offset"] == at
            at += leaf["length"]
        assert at == frame["size"] == len(frame["hex"]) // 2
    values = {piece["path"]: piece["value"] for piece in leaves(result["request_frame"]["explain"])}
    assert (values["group_id"], values["topics[0].name"]) == ("g", "t")
    assert (result["groups"], result["topics"], result["request"]["group_id"]) == (["g"], ["t"], "g")
    assert decode_request(bytes.fromhex(result["request_frame"]["hex"])).body.group_id == "g"


async def test_a_request_without_response_has_one_frame() -> None:
    async with control_api() as api:
        await api.post("/v1/faults", {"match": {"api": "ApiVersions"}, "action": {"error": "INVALID_REQUEST"}})
        await api.cluster.connect().ask(ApiVersionsRequest(), 0)
        api.server.control.request_log.entries(0)[0].response = None
        assert (await api.get("/v1/requests/1"))["response_frame"] is None


@pytest.mark.parametrize("number", ["0", "2", "-1", "x", "99999999999999999999"])
async def test_a_request_that_is_not_kept(number: str) -> None:
    async with control_api() as api:
        await commit(api)
        assert await api.status("GET", f"/v1/requests/{number}") == 404


async def test_a_large_frame_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_frames, "EXPLAINED", 1_000)
    monkeypatch.setattr(request_frames, "SHOWN", 2_000)
    async with control_api() as api:
        await commit(api, partitions=1_000)
        frame = (await api.get("/v1/requests/1"))["request_frame"]
    assert frame["size"] > 10_000
    assert frame["left_out"] == frame["size"] - 1_000
    assert len(frame["hex"]) == 4_000
    assert list(leaves(frame["explain"]))[-1]["type"] == "unread"


async def test_large_messages_are_not_decoded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_frames, "DECODED", 100)
    async with control_api() as api:
        await commit(api, partitions=50)
        await commit(api)
        large, small = await api.get("/v1/requests/1"), await api.get("/v1/requests/2")
    assert (large["request"], large["bodies_left_out"], large["groups"]) == ({}, True, ["g"])
    assert small["request"]["group_id"] == "g"
    assert "bodies_left_out" not in small


async def test_no_secret_is_in_bytes_or_values() -> None:
    async with control_api(listeners=["SASL_PLAINTEXT"], users={"alice": "s3cret"}) as api:
        connection = api.cluster.connect()
        await connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await connection.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0s3cret"), 2)
        number = (await api.get("/v1/requests", api="SaslAuthenticate"))["items"][0]["id"]
        response = await api.ask("GET", f"/v1/requests/{number}")
        log = (await api.ask("GET", "/v1/requests/frames?api=SaslAuthenticate")).text
    frame = response.json()["request_frame"]
    assert frame["hex"] is None
    values = {piece["path"]: piece["value"] for piece in leaves(frame["explain"])}
    assert b64decode(values["auth_bytes"]) == b"[redacted]"
    assert "s3cret" not in response.text
    lines = [json.loads(line) for line in log.splitlines()]
    assert decode_request(bytes.fromhex(lines[0]["hex"])).body.auth_bytes == b"[redacted]"
    assert b"s3cret".hex() not in log


async def test_a_frame_log_has_requests_and_responses() -> None:
    async with control_api() as api:
        for group in ("a", "b", "c"):
            await commit(api, group)
        response = await api.ask("GET", "/v1/requests/frames?ids=1,3,7")
        assert response.headers["content-disposition"] == 'attachment; filename="requests.jsonl"'
        lines = [json.loads(line) for line in response.text.splitlines()]
        assert [line["direction"] for line in lines] == ["request", "response"] * 2
        assert [decode_request(bytes.fromhex(line["hex"])).body.group_id for line in lines[::2]] == ["a", "c"]
        for line in lines[1::2]:
            decode_response(bytes.fromhex(line["hex"]), line["api_key"], line["api_version"])
        for query, count in (("group=b", 1), ("after=1", 2), ("limit=2", 2), ("ids=1,2&group=b", 1), ("", 3)):
            assert len((await api.ask("GET", f"/v1/requests/frames?{query}")).text.splitlines()) == 2 * count
        for ids in ("x", "1,,2", "1;2"):
            assert await api.status("GET", f"/v1/requests/frames?ids={ids}") == 422


async def test_kwire_reads_a_frame_log(tmp_path: Path) -> None:
    async with control_api() as api:
        await commit(api)
        text = (await api.ask("GET", "/v1/requests/frames")).text
    file = tmp_path / "requests.jsonl"
    file.write_text(text)
    decoded = run("decode", str(file))
    assert [line["api_name"] for line in decoded] == ["OffsetCommit"] * 2
    captured = run("capture", str(file), "--format", "jsonl")
    assert [line["direction"] for line in captured] == ["request", "response"]


def run(*arguments: str) -> list[dict[str, Any]]:
    """Return the lines that a command of kwire prints."""
    words = [sys.executable, "-m", "kwire", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]
