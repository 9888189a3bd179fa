from __future__ import annotations

import base64
from typing import Any

import golden
import pytest
from golden import Line
from hypothesis import given
from hypothesis import strategies as st
from strategies import cells, values

from kwire import decode_request, decode_response, encode_request, encode_response, jsonform, unknown_tags
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.codec import encode
from kwire.envelope import Request, Response
from kwire.errors import DecodeError
from kwire.explain import TRAILING, UNREAD, Explanation, explain_request, explain_response, explain_stored
from kwire.headers import request_header_version, response_header_version
from kwire.layout import List, Maybe, Node, Record, resolve
from kwire.messages import APIS, MODULES
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record as BatchRecord
from kwire.records.batch import build_batch

BOOKS = {"tag", "size", "uvarint"}  # types of what is on the wire and no value


def explained(line: Line) -> Explanation:
    frame = bytes.fromhex(line["hex"])
    if line["direction"] == "request":
        return explain_request(frame)
    return explain_response(frame, line["api_key"], line["api_version"])


def coverage_problems(found: Explanation) -> list[str]:
    """Where a piece does not begin at the end of the one before it, or the last not end at the end."""
    at = 0
    wrong = []
    for piece in found.pieces:
        if piece.offset != at or (piece.length < 1 and piece.type != UNREAD):
            wrong.append(f"{piece.path} is {piece.offset}+{piece.length}, expected at {at}")
        at = piece.end
    return wrong + ([] if at == len(found.frame) else [f"ends at {at} of {len(found.frame)}"])


def value_problems(found: Explanation, message: Request | Response) -> list[str]:
    """How the values of the pieces differ from those of decoding."""
    told = {piece.path: piece.value for piece in found.pieces if piece.type not in BOOKS}
    header_version = request_header_version if isinstance(message, Request) else response_header_version
    header = resolve(type(message.header), header_version(message.api, message.version))
    expected = leaves(message.header, header, "header", told)
    expected |= leaves(message.body, resolve(type(message.body), message.version), "", told)
    if message.trailing:
        expected[TRAILING] = message.trailing.hex()
    return [] if told == expected else [f"{told.items() ^ expected.items() if hashable(told) else (told, expected)}"]


def hashable(told: dict[str, Any]) -> bool:
    return all(not isinstance(value, (list, dict)) for value in told.values())


def leaves(value: Any, node: Node, path: str, told: dict[str, Any]) -> dict[str, Any]:
    """What every piece of a value should say, by path. A tagged field at its default need not be on the wire."""
    match node:
        case Maybe(record):
            return {path: None if value is None else 1} | ({} if value is None else leaves(value, record, path, told))
        case Record():
            out: dict[str, Any] = {}
            for slot in (*node.slots, *node.tagged):
                here = f"{path}.{slot.name}".lstrip(".")
                content = getattr(value, slot.name)
                if slot.tag is None or content != slot.field.initial() or here in told:
                    out |= leaves(content, slot.node, here, told)
            unknown = {f"{path}._unknown_tags.{tag}".lstrip("."): data for tag, data in unknown_tags(value).items()}
            return out | {here: base64.b64encode(data).decode() for here, data in unknown.items() if data}
        case List(element) if value is not None:
            items = (leaves(item, element, f"{path}[{index}]", told) for index, item in enumerate(value))
            return {path: len(value)} | {key: inner for item in items for key, inner in item.items()}
        case _:
            return {path: jsonform.dump(value, node)}


@pytest.mark.parametrize("origin", golden.FOLDERS)
@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("stem", MODULES.values())
def test_every_frame_of_kafka(stem: str, direction: str, origin: str) -> None:
    for line in golden.frames(origin, stem, direction):
        found = explained(line)
        assert found.error is None
        assert coverage_problems(found) == []
        assert value_problems(found, golden.decode(line)) == []


CELLS = [(message, version) for api in APIS.values() for message in (api.request, api.response) for version in cells(message)]  # fmt: skip


@given(cell=st.sampled_from(CELLS), more=st.binary(max_size=3), data=st.data())
def test_any_value(cell: tuple[type, int], more: bytes, data: st.DataObject) -> None:
    message, version = cell
    value = data.draw(values(message, version))
    frame, api = framed(value, version)
    found, decoded = both(frame + more, message is api.request, api.key, version)
    assert isinstance(decoded, (Request, Response))
    assert coverage_problems(found) == []
    assert value_problems(found, decoded) == []


@given(cell=st.sampled_from(CELLS), data=st.data())
def test_damage_is_told_as_decoding_tells_it(cell: tuple[type, int], data: st.DataObject) -> None:
    message, version = cell
    frame, api = framed(data.draw(values(message, version)), version)
    damaged = bytearray(frame)
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(frame)))])
    found, decoded = both(cut, message is api.request, api.key, version)
    assert coverage_problems(found) == []
    if isinstance(decoded, DecodeError):
        assert found.error is not None
        assert (str(found.error), found.error.offset) == (str(decoded), decoded.offset)
        assert type(found.error) is type(decoded)
        assert found.pieces[-1].type == UNREAD
        assert all(piece.end <= decoded.offset for piece in found.pieces[:-1])
    else:
        assert found.error is None


def framed(value: object, version: int) -> tuple[bytes, Any]:
    api = next(api for api in APIS.values() if type(value) in (api.request, api.response))
    if type(value) is api.request:
        return encode_request(value, version, correlation_id=7, client_id="c"), api
    return encode_response(value, version, correlation_id=7), api


def both(frame: bytes, request: bool, key: int, version: int) -> tuple[Explanation, Request | Response | DecodeError]:
    """The explanation, and what decoding gives or raises."""
    found = explain_request(frame) if request else explain_response(frame, key, version)
    try:
        return found, decode_request(frame) if request else decode_response(frame, key, version)
    except DecodeError as error:
        return found, error


def test_pieces() -> None:
    value = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", unknown_tags={9: b"\x01"})  # type: ignore[call-arg]
    found = explain_request(encode_request(value, 4, correlation_id=7) + b"\xca\xfe")
    assert found.name == "HeartbeatRequest v4"
    assert [(p.offset, p.length, p.path, p.type, p.value) for p in found.pieces] == [
        (0, 2, "header.request_api_key", "int16", 12),
        (2, 2, "header.request_api_version", "int16", 4),
        (4, 4, "header.correlation_id", "int32", 7),
        (8, 2, "header.client_id", "nullable_string", None),
        (10, 1, "header._tagged_fields", "uvarint", 0),
        (11, 2, "group_id", "compact_string", "g"),
        (13, 4, "generation_id", "int32", 3),
        (17, 2, "member_id", "compact_string", "m"),
        (19, 1, "group_instance_id", "compact_nullable_string", None),
        (20, 1, "_tagged_fields", "uvarint", 1),
        (21, 1, "_unknown_tags.9", "tag", 9),
        (22, 1, "_unknown_tags.9", "size", 1),
        (23, 1, "_unknown_tags.9", "bytes", "AQ=="),
        (24, 2, "trailing", "bytes", "cafe"),
    ]


REFUSED = [  # frame, paths that are told, path and offset of the rest
    ("", [], "", 0),
    ("000b00", [], "", 0),
    ("03e70000", [], "header.request_api_key", 0),
    ("000c0005", ["header.request_api_key"], "header.request_api_version", 2),
    ("000c000400000007", ["header.request_api_key", "header.request_api_version", "header.correlation_id"], "header.client_id", 8),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "paths", "path", "offset"), REFUSED)
def test_what_cannot_be_read(frame: str, paths: list[str], path: str, offset: int) -> None:
    found = explain_request(bytes.fromhex(frame))
    assert found.error is not None
    rest = found.pieces[-1]
    assert [piece.path for piece in found.pieces[:-1]] == paths
    assert (rest.path, rest.offset, rest.end, rest.type, rest.value) == (path, offset, len(frame) // 2, UNREAD, None)


def test_unknown_api_of_a_response() -> None:
    found = explain_response(b"\0\0\0\7", 999, 0)
    assert [(piece.type, piece.length) for piece in found.pieces] == [(UNREAD, 4)]
    assert found.name == "response"


def test_api_versions_answer_in_version_0() -> None:
    value = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)])
    found = explain_response(encode_response(value, 0, correlation_id=3), 18, 4)
    assert (found.name, found.error) == ("ApiVersionsResponse v0", None)
    assert coverage_problems(found) == []


def test_a_subscription_inside() -> None:
    metadata = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["t"]), 0) + b"more"
    request = JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)])
    frame = encode_request(request, 9, correlation_id=1)
    (inside,) = [piece.inside for piece in explain_request(frame).pieces if piece.path == "protocols[0].metadata"]
    assert [(p.path, p.value, frame[p.offset : p.end].hex()) for p in inside] == [
        ("version", 0, "0000"),
        ("topics", 1, "00000001"),
        ("topics[0]", "t", "000174"),
        ("user_data", None, "ffffffff"),
        ("trailing", b"more".hex(), b"more".hex()),
    ]


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff", b"of another protocol type"])
def test_no_subscription_inside(metadata: bytes) -> None:
    request = JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(name="x", metadata=metadata)])
    found = explain_request(encode_request(request, 5, correlation_id=1))
    assert [piece.inside for piece in found.pieces if piece.inside] == []


def test_batches_inside() -> None:
    one = build_batch([BatchRecord(value=b"v")], codec=3)
    two = build_batch([BatchRecord(), BatchRecord()], base_offset=7, producer_id=4, producer_epoch=1, base_sequence=9)
    wrong = two[:-1] + b"\x07"
    topic = ProduceRequest.Topic(partition_data=[ProduceRequest.Topic.Partition(records=one + two + wrong + two[:70])])
    frame = encode_request(ProduceRequest(topic_data=[topic]), 9, correlation_id=1)
    (inside,) = [piece.inside for piece in explain_request(frame).pieces if piece.inside]
    assert [(piece.path, piece.value) for piece in inside] == [
        ("[0]", f"1 record, offset 0, lz4, {len(one)} bytes"),
        ("[1]", f"2 records, offsets 7-8, none, {len(two)} bytes, producer 4 epoch 1 sequence 9"),
        ("[2]", f"2 records, offsets 7-8, none, {len(two)} bytes, producer 4 epoch 1 sequence 9, wrong checksum"),
    ]
    assert [frame[piece.offset : piece.end] for piece in inside] == [one[:61], two[:61], wrong[:61]]


def test_stored() -> None:
    data = b"\0\0" + encode(ConsumerProtocolSubscription(), 0)
    assert sum(piece.length for piece in explain_stored(ConsumerProtocolSubscription, data)) == len(data)
    with pytest.raises(DecodeError):
        list(explain_stored(ConsumerProtocolSubscription, data[:-1]))
