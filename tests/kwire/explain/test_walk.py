from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import golden
import pytest
from effort import every
from golden import Line
from hypothesis import given
from hypothesis import strategies as st
from strategies import cells, values

from kwire import decode_request, decode_response, encode_request, encode_response, unknown_tags
from kwire.blobs import KEYS, SELF_DESCRIBED, STORED, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.blobs.sticky import CooperativeStickyUserData, StickyUserData
from kwire.codec import encode
from kwire.envelope import Request, Response
from kwire.errors import DecodeError
from kwire.explain import UNREAD, Explanation, Piece, explain_blob, explain_request, explain_response, records
from kwire.explain.pieces import BOOKKEEPING, STRUCT, TAG_TYPE, TAGGED_FIELDS, TRAILING
from kwire.fuzz.values import full
from kwire.headers import request_header_version, response_header_version
from kwire.json.objects import dump
from kwire.layout import List, Maybe, Node, Record, resolve, versions_of
from kwire.messages import APIS, MODULES
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.describe_groups import DescribeGroupsResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.sync_group import SyncGroupRequest
from kwire.schema import schema_of


def explained(line: Line) -> Explanation:
    frame = bytes.fromhex(line["hex"])
    if line["direction"] == "request":
        return explain_request(frame)
    return explain_response(frame, line["api_key"], line["api_version"])


def coverage_problems(found: Explanation) -> list[str]:
    """Return gaps and overlaps between leaves, a wrong end of the last leaf, and wrong nodes."""
    at = 0
    wrong = []
    for leaf in found.leaves():
        if leaf.offset != at or (leaf.length < 1 and leaf.type != UNREAD):
            wrong.append(f"{leaf.path} is {leaf.offset}+{leaf.length}, expected at {at}")
        at = leaf.end
    wrong += [] if at == len(found.frame) else [f"ends at {at} of {len(found.frame)}"]
    for _, piece in found.walk():
        if piece.pieces and (piece.offset, piece.end) != (piece.pieces[0].offset, piece.pieces[-1].end):
            wrong.append(f"{piece.path} is {piece.offset}+{piece.length}, not what is in it")
        if piece.unpacked is not None:
            wrong += coverage_problems(piece.unpacked)
    return wrong


def fields(pieces: tuple[Piece, ...]) -> Iterator[Piece]:
    """Yield the pieces that represent values of the message, without counts, lengths and contents of bytes fields."""
    for piece in pieces:
        if piece.name in BOOKKEEPING or piece.name == TAGGED_FIELDS or piece.type in (STRUCT, TAG_TYPE):
            yield from fields(piece.fields)
        else:
            yield piece
            if "array of" in piece.type or piece.type == "nullable_struct":
                yield from fields(piece.fields)


def value_problems(found: Explanation, message: Request | Response) -> list[str]:
    """Return the differences between the values of the pieces and the decoded values."""
    shown = {piece.path: piece.value for piece in fields(found.pieces)}
    header_version = request_header_version if isinstance(message, Request) else response_header_version
    header = resolve(type(message.header), header_version(message.api, message.version))
    expected = leaves(message.header, header, "header", shown)
    expected |= leaves(message.body, resolve(type(message.body), message.version), "", shown)
    if message.trailing:
        expected[TRAILING] = message.trailing.hex()
    return (
        [] if shown == expected else [f"{shown.items() ^ expected.items() if hashable(shown) else (shown, expected)}"]
    )


def hashable(shown: dict[str, Any]) -> bool:
    return all(not isinstance(value, (list, dict)) for value in shown.values())


def leaves(value: Any, node: Node, path: str, shown: dict[str, Any]) -> dict[str, Any]:
    """Return the expected value of every piece, by path. A tagged field at its default need not be on the wire."""
    match node:
        case Maybe(record):
            return {path: None if value is None else 1} | ({} if value is None else leaves(value, record, path, shown))
        case Record():
            out: dict[str, Any] = {}
            for slot in (*node.slots, *node.tagged):
                here = f"{path}.{slot.name}".lstrip(".")
                content = getattr(value, slot.name)
                if slot.tag is None or content != slot.field.initial() or here in shown:
                    out |= leaves(content, slot.node, here, shown)
            unknown = {f"{path}._unknown_tags.{tag}".lstrip("."): data for tag, data in unknown_tags(value).items()}
            return out | {here: base64.b64encode(data).decode() for here, data in unknown.items() if data}
        case List(element) if value is not None:
            items = (leaves(item, element, f"{path}[{index}]", shown) for index, item in enumerate(value))
            return {path: len(value)} | {key: inner for item in items for key, inner in item.items()}
        case _:
            return {path: dump(value, node)}


@pytest.mark.parametrize("origin", golden.FOLDERS)
@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("stem", MODULES.values())
def test_every_frame_of_kafka(stem: str, direction: str, origin: str) -> None:
    for line in every(2, list(golden.frames(origin, stem, direction))):
        explanation = explained(line)
        assert explanation.error is None
        assert coverage_problems(explanation) == []
        assert value_problems(explanation, golden.decode(line)) == []


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
def test_damage_has_the_error_of_decoding(cell: tuple[type, int], data: st.DataObject) -> None:
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
        *read, rest = found.leaves()
        assert (rest.type, rest.error) == (UNREAD, decoded.reason)
        assert all(leaf.end <= decoded.offset for leaf in read)
    else:
        assert found.error is None


@pytest.mark.parametrize("stem", MODULES.values())
def test_a_damaged_frame_of_kafka(stem: str) -> None:
    chance = random.Random(stem)
    for direction in ("request", "response"):
        for line in every(3, list(golden.frames("fixtures", stem, direction))):
            frame = bytearray.fromhex(line["hex"])
            for _ in range(chance.randrange(1, 4)):
                frame[chance.randrange(len(frame))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            damaged = {**line, "hex": frame[: chance.randrange(len(frame) // 2, len(frame) + 1)].hex()}
            assert coverage_problems(explained(damaged)) == []


def framed(value: object, version: int) -> tuple[bytes, Any]:
    api = next(api for api in APIS.values() if type(value) in (api.request, api.response))
    if type(value) is api.request:
        return encode_request(value, version, correlation_id=7, client_id="c"), api
    return encode_response(value, version, correlation_id=7), api


def both(frame: bytes, request: bool, key: int, version: int) -> tuple[Explanation, Request | Response | DecodeError]:
    """Return the explanation, and the result or error of decoding."""
    result = explain_request(frame) if request else explain_response(frame, key, version)
    try:
        return result, decode_request(frame) if request else decode_response(frame, key, version)
    except DecodeError as error:
        return result, error


def test_a_tree() -> None:
    value = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", unknown_tags={9: b"\x01"})  # type: ignore[call-arg]
    explanation = explain_request(encode_request(value, 4, correlation_id=7) + b"\xca\xfe")
    assert explanation.name == "HeartbeatRequest v4"
    assert [(depth, p.offset, p.length, p.path, p.type, p.value) for depth, p in explanation.walk()] == [
        (0, 0, 11, "header", "struct", None),
        (1, 0, 2, "header.request_api_key", "int16", 12),
        (1, 2, 2, "header.request_api_version", "int16", 4),
        (1, 4, 4, "header.correlation_id", "int32", 7),
        (1, 8, 2, "header.client_id", "nullable_string", None),
        (1, 10, 1, "header._tagged_fields", "uvarint", 0),
        (2, 10, 1, "header._tagged_fields.(count)", "uvarint", 0),
        (0, 11, 2, "group_id", "compact_string", "g"),
        (0, 13, 4, "generation_id", "int32", 3),
        (0, 17, 2, "member_id", "compact_string", "m"),
        (0, 19, 1, "group_instance_id", "compact_nullable_string", None),
        (0, 20, 4, "_tagged_fields", "uvarint", 1),
        (1, 20, 1, "_tagged_fields.(count)", "uvarint", 1),
        (1, 21, 3, "_unknown_tags.9", "tag", 9),
        (2, 21, 1, "_unknown_tags.9.(tag)", "uvarint", 9),
        (2, 22, 1, "_unknown_tags.9.(size)", "uvarint", 1),
        (2, 23, 1, "_unknown_tags.9", "bytes", "AQ=="),
        (0, 24, 2, "trailing", "bytes", "cafe"),
    ]


REFUSED = [  # frame, paths of the decoded leaves, path and offset of the rest
    ("", [], "", 0),
    ("000b00", [], "", 0),
    ("03e70000", [], "header.request_api_key", 0),
    ("000c0005", ["header.request_api_key"], "header.request_api_version", 2),
    ("000c000400000007", ["header.request_api_key", "header.request_api_version", "header.correlation_id"], "header.client_id", 8),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "paths", "path", "offset"), REFUSED)
def test_unreadable_bytes(frame: str, paths: list[str], path: str, offset: int) -> None:
    explanation = explain_request(bytes.fromhex(frame))
    assert explanation.error is not None
    *read, rest = explanation.leaves()
    assert [piece.path for piece in read] == paths
    assert (rest.path, rest.offset, rest.end, rest.type, rest.value) == (path, offset, len(frame) // 2, UNREAD, None)
    assert rest.error == explanation.error.reason


def test_damage_is_shown_at_its_position() -> None:
    request = JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"12345678")])
    frame = encode_request(request, 0, correlation_id=7)[:-3]
    explanation = explain_request(frame)
    node = explanation.pieces[-1]
    assert (node.path, node.end) == ("protocols", len(frame))
    (element,) = node.fields
    assert [(piece.path, piece.type) for piece in element.pieces] == [
        ("protocols[0].name", "string"),
        ("protocols[0].metadata", UNREAD),
    ]
    assert element.pieces[-1].error == "expected 8 bytes, found 5"


def test_unknown_api_of_a_response() -> None:
    explanation = explain_response(b"\0\0\0\7", 999, 0)
    assert [(piece.type, piece.length) for piece in explanation.pieces] == [(UNREAD, 4)]
    assert explanation.name == "response"


def test_api_versions_answer_in_version_0() -> None:
    value = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)])
    explanation = explain_response(encode_response(value, 0, correlation_id=3), 18, 4)
    assert (explanation.name, explanation.error) == ("ApiVersionsResponse v0", None)
    assert coverage_problems(explanation) == []
    assert [piece.note for piece in explanation.leaves() if piece.note] == ["UNSUPPORTED_VERSION", "ApiVersions"]


def inside(found: Explanation, path: str) -> list[tuple[str, Any, str]]:
    """Return the contents of a field without its length: rest of the path, value, hex."""
    (field,) = [piece for _, piece in found.walk() if piece.path == path]
    return [
        (piece.path.removeprefix(f"{path}."), piece.value, found.frame[piece.offset : piece.end].hex())
        for inner in field.fields
        for piece in ([inner] if not inner.fields else inner.fields)
    ]


def joining(metadata: bytes, protocol_type: str = "consumer", name: str = "range") -> bytes:
    protocols = [JoinGroupRequest.Protocol(name=name, metadata=metadata)]
    return encode_request(JoinGroupRequest(protocol_type=protocol_type, protocols=protocols), 9, correlation_id=1)


def test_a_subscription_inside() -> None:
    metadata = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["t"]), 0) + b"more"
    explanation = explain_request(joining(metadata))
    assert coverage_problems(explanation) == []
    assert inside(explanation, "protocols[0].metadata") == [
        ("version", 0, "0000"),
        ("topics[0]", "t", "000174"),
        ("user_data", None, "ffffffff"),
        ("trailing", b"more".hex(), b"more".hex()),
    ]


def test_the_user_data_of_sticky_inside() -> None:
    owned = StickyUserData.TopicPartition(topic="t", partitions=[1])
    data = encode(StickyUserData(previous_assignment=[owned], generation=3), 1)
    metadata = encode_stored(ConsumerProtocolSubscription(topics=["t"], user_data=data), 0)
    explanation = explain_request(joining(metadata, name="sticky"))
    assert coverage_problems(explanation) == []
    path = "protocols[0].metadata.user_data"
    (field,) = [piece for _, piece in explanation.walk() if piece.path == path]
    assert field.note == "StickyUserData v1"
    assert inside(explanation, path)[-1] == ("generation", 3, "00000003")
    old = encode_stored(ConsumerProtocolSubscription(user_data=data[:-4]), 0)
    explanation = explain_request(joining(old, name="sticky"))
    assert [piece.note for _, piece in explanation.walk() if piece.path == path] == ["StickyUserData v0"]
    cooperative = encode_stored(ConsumerProtocolSubscription(user_data=encode(CooperativeStickyUserData(), 0)), 0)
    explanation = explain_request(joining(cooperative, name="cooperative-sticky"))
    assert [piece.note for _, piece in explanation.walk() if piece.path == path] == ["CooperativeStickyUserData v0"]
    explanation = explain_request(joining(cooperative))
    assert [piece.note for _, piece in explanation.walk() if piece.path == path] == [""]


BROKEN = [b"\0", b"\xff\xff", b"of another protocol type"]


@pytest.mark.parametrize("metadata", [b"", *BROKEN])
def test_another_protocol_type_has_bytes_of_its_own(metadata: bytes) -> None:
    explanation = explain_request(joining(metadata, protocol_type="connect"))
    assert [piece.pieces for _, piece in explanation.walk() if piece.path == "protocols[0].metadata"] == [()]


@pytest.mark.parametrize("metadata", BROKEN)
def test_damaged_subscription_is_reported(metadata: bytes) -> None:
    explanation = explain_request(joining(metadata))
    assert explanation.error is None
    assert coverage_problems(explanation) == []
    assert [piece.type for piece in explanation.leaves() if piece.path.startswith("protocols[0].metadata")][
        -1
    ] == UNREAD


def test_metadata_without_protocol_type() -> None:
    for data, held in ((b"?", 0), (encode_stored(ConsumerProtocolAssignment(), 0), 3)):
        request = SyncGroupRequest(assignments=[SyncGroupRequest.Assignment(assignment=data)])
        explanation = explain_request(encode_request(request, 0, correlation_id=1))
        (field,) = [piece for _, piece in explanation.walk() if piece.path == "assignments[0].assignment"]
        assert len(field.fields) == held


def test_each_group_has_its_own_protocol_type() -> None:
    members = [DescribeGroupsResponse.Group.Member(member_metadata=encode_stored(ConsumerProtocolSubscription(), 0))]
    groups = [DescribeGroupsResponse.Group(protocol_type=name, members=members) for name in ("connect", "consumer")]
    explanation = explain_response(encode_response(DescribeGroupsResponse(groups=groups), 0, correlation_id=1), 15, 0)
    notes = [piece.note for _, piece in explanation.walk() if piece.name == "member_metadata"]
    assert notes == ["", "ConsumerProtocolSubscription v0"]


def test_the_user_data_of_a_described_group() -> None:
    data = encode(StickyUserData(generation=7), 1)
    metadata = encode_stored(ConsumerProtocolSubscription(topics=["t"], user_data=data), 3)
    member = DescribeGroupsResponse.Group.Member(member_metadata=metadata)
    group = DescribeGroupsResponse.Group(protocol_type="consumer", protocol_data="sticky", members=[member])
    frame = encode_response(DescribeGroupsResponse(groups=[group]), 5, correlation_id=1)
    path = "groups[0].members[0].member_metadata.user_data.generation"
    assert [piece.value for piece in explain_response(frame, 15, 5).leaves() if piece.path == path] == [7]


def test_the_members_of_an_answer() -> None:
    member = JoinGroupResponse.Member(metadata=encode_stored(ConsumerProtocolSubscription(topics=["t"]), 3))
    response = JoinGroupResponse(protocol_type="consumer", protocol_name="range", members=[member])
    explanation = explain_response(encode_response(response, 9, correlation_id=1), 11, 9)
    assert [piece.value for piece in explanation.leaves() if piece.path == "members[0].metadata.topics[0]"] == ["t"]


def test_a_blob() -> None:
    data = encode_stored(ConsumerProtocolSubscription(), 0)
    explanation = explain_blob(ConsumerProtocolSubscription, data)
    assert (explanation.name, explanation.error, coverage_problems(explanation)) == (
        "ConsumerProtocolSubscription v0",
        None,
        [],
    )
    cut = explain_blob(ConsumerProtocolSubscription, data[:-1])
    assert isinstance(cut.error, DecodeError)
    assert coverage_problems(cut) == []


@pytest.mark.parametrize("name", STORED)
def test_a_blob_of_each_kind(name: str) -> None:
    versions = schema_of(STORED[name]).versions
    assert versions is not None
    for version in versions_of(versions):
        value: Any = full(STORED[name], version)
        if name in SELF_DESCRIBED:
            value.version = version
        data = encode_stored(value, version)
        explanation = explain_blob(STORED[name], data)
        assert (explanation.name, explanation.error) == (f"{name} v{version}", None)
        assert coverage_problems(explanation) == []
        first = next(explanation.leaves())
        assert (first.path, first.value) == (
            "record_type" if name in KEYS else "version",
            int.from_bytes(data[: first.length], "big"),
        )


def test_the_leaves_of_a_frame_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaves of messages inside bytes fields count, too."""
    monkeypatch.setattr(records, "FRAME_LEAVES", 30)
    metadata = encode_stored(ConsumerProtocolSubscription(topics=["t"] * 10), 0)
    protocols = [JoinGroupRequest.Protocol(name=str(number), metadata=metadata) for number in range(9)]
    body = JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=protocols)
    frame = encode_request(body, 5, correlation_id=1, client_id="c")
    explanation = explain_request(frame)
    leaves = list(explanation.leaves())
    assert len(leaves) <= 31
    assert (leaves[-1].end, leaves[-1].error) == (len(frame), records.TOO_MANY_FRAME_LEAVES)
    assert any(leaf.path.endswith("topics[9]") for leaf in leaves)
