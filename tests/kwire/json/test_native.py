"""The native package writes the JSON that Python writes, and refuses the bodies that the engines refuse."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from captures import COMMITTED
from effort import amount, every
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MESSAGES, layouts, values
from tools.kept_memory import kept_memory

from kwire import blobs, codec
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.capture import Call, read
from kwire.capture.rows import FIRST, LAST, Row, json_lines, rows
from kwire.engines import native as engine
from kwire.engines.chosen import DEFAULT
from kwire.engines.runtime import NativeRefused
from kwire.errors import DecodeError
from kwire.fuzz.values import full
from kwire.json import native
from kwire.json.expanded import Context, error_of, form_of
from kwire.limits import weight_limit
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataResponse
from kwire.messages.produce import ProduceResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.redact import REDACTED

if DEFAULT != "native":
    pytest.skip("the native engine is not the default engine: make native", allow_module_level=True)

NAMES = {UUID(int=7): 'a "topic" \u20ac', UUID(int=8): "b"}


def name_of(topic_id: UUID) -> str | None:
    return NAMES.get(topic_id)


def text_of(message: type, data: bytes, version: int) -> tuple[Any, int | None] | None:
    """Return the native JSON text of a message and its error code; None if the bytes are refused."""
    form = native.form_of(message, version)
    assert form is not None
    try:
        body = form.body(data, 0, weight_limit(len(data)))
    except NativeRefused:
        return None
    return body.text(name_of), body.error


def expected(message: type, data: bytes, version: int) -> tuple[Any, int | None] | None:
    try:
        value: Any = codec.decode_at(message, data, 0, version, engine="compiled")[0]
    except DecodeError:
        return None
    return json.dumps(form_of(value, version, Context(name_of))).encode(), error_of(value, version)


def check(message: type, data: bytes, version: int) -> bool:
    """Compare both writers; return whether the bytes are a message."""
    theirs = expected(message, data, version)
    assert text_of(message, data, version) == theirs
    return theirs is not None


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
@settings(max_examples=amount(2, 10))
@given(data=st.data())
def test_texts_equal_those_of_python(message: Any, data: st.DataObject) -> None:
    for version in layouts(message):
        if native.form_of(message, version) is not None:
            assert check(message, codec.encode(full(message, version), version), version)
            assert check(message, codec.encode(data.draw(values(message, version)), version), version)


@pytest.mark.parametrize("message", every(3, MESSAGES), ids=lambda message: message.__name__)
def test_changed_bytes_are_refused_or_equal(message: Any) -> None:
    chance = random.Random(message.__name__)
    version = message.__kafka__.versions.last
    data = codec.encode(full(message, version), version)
    for _ in range(amount(300, 5_000)):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 4))):
            changed[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        check(message, bytes(changed[: chance.choice((len(data), chance.randrange(len(data) + 1)))]), version)


@given(st.binary(max_size=40), st.sampled_from(["", "a\u20ac", 'say "no\\"\n\x7f', "\U0001f600", "\ud7ff\ue000"]))
@settings(max_examples=amount(300, 5_000))
def test_strings_are_escaped_as_by_python(raw: bytes, letters: str) -> None:
    for content in (raw, letters.encode() + raw, raw + letters.encode(), letters.encode()[:-1] + raw):
        data = len(content).to_bytes(2, "big") + content + b"\0\0\0\1\0\1m"
        assert check(HeartbeatRequest, data, 0)


@given(st.binary(max_size=70))
def test_bytes_become_base64(raw: bytes) -> None:
    assert check(SaslAuthenticateRequest, len(raw).to_bytes(4, "big") + raw, 0)


def test_redacted_bytes_are_shown_as_such() -> None:
    assert check(SaslAuthenticateRequest, codec.encode(SaslAuthenticateRequest(auth_bytes=REDACTED), 0), 0)
    assert b'"[redacted]"' in native.form_of(SaslAuthenticateRequest, 0).body(
        codec.encode(SaslAuthenticateRequest(auth_bytes=REDACTED), 0), 0, 2**20
    ).text(name_of)


def test_names_of_topics_are_shown() -> None:
    topics = [MetadataResponse.Topic(name="x", topic_id=UUID(int=number)) for number in (0, 7, 8, 9)]
    response = MetadataResponse(topics=topics)
    assert check(MetadataResponse, codec.encode(response, 12), 12)


@pytest.mark.parametrize("protocol_type", ["consumer", "connect", ""])
@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_nested_messages_are_shown(protocol_type: str, assignor: str) -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"\0\0\0\0\0\0\0\7")
    stored = blobs.encode_stored(subscription, 1)
    for metadata in (stored, stored[:-1], b""):
        protocols = [JoinGroupRequest.Protocol(name=assignor, metadata=metadata)]
        request = JoinGroupRequest(group_id="g", protocol_type=protocol_type, protocols=protocols)
        members = [JoinGroupResponse.Member(member_id="m", metadata=metadata)]
        response = JoinGroupResponse(protocol_type=protocol_type, protocol_name=assignor, members=members)
        for version in (0, 6, 7, 9):
            assert check(JoinGroupRequest, codec.encode(request, version), version)
        assert check(JoinGroupResponse, codec.encode(response, 9), 9)


def test_large_nested_messages_are_not_kept() -> None:
    """The cache of nested messages needs little memory, whatever a capture contains."""

    def show(request: JoinGroupRequest) -> None:
        written = text_of(JoinGroupRequest, codec.encode(request, 9), 9)
        assert written is not None
        assert b'"_metadata": {"type": "ConsumerProtocolSubscription"' in written[0]

    assert kept_memory(show) < 1_000_000  # bytes; a cached message takes 500,000


@pytest.mark.parametrize("tags", [2, 15, 16, 17, 40])
def test_unknown_tags_are_shown_or_left_to_python(tags: int) -> None:
    value: Any = HeartbeatResponse()
    value.unknown_tags = {100 + number: bytes([number]) for number in range(tags)}
    data = codec.encode(value, 4)
    if tags > 16:
        assert text_of(HeartbeatResponse, data, 4) is None
    else:
        assert check(HeartbeatResponse, data, 4)


def test_a_repeated_tag_has_its_last_value() -> None:
    data = b"\0\0\0\0" + b"\0\5" + b"\3" + b"\7\1a" + b"\x08\1b" + b"\7\2cc"
    assert check(HeartbeatResponse, data, 4)
    assert not check(HeartbeatResponse, b"\0\0\0\0" + b"\0\5" + b"\3" + b"\7\1a", 4)


def test_the_first_error_code_is_that_of_the_outermost_struct() -> None:
    codes = [[0, 3], [7]]
    of_topic, of_partition = ProduceResponse.Topic, ProduceResponse.Topic.Partition
    topics = [
        of_topic(name="t", partition_responses=[of_partition(index=0, error_code=code) for code in inner])
        for inner in codes
    ]
    data = codec.encode(ProduceResponse(responses=topics), 9)
    assert check(ProduceResponse, data, 9)
    assert native.form_of(ProduceResponse, 9).body(data, 0, 2**20).error == 3
    assert native.form_of(HeartbeatRequest, 4).body(b"\2g\0\0\0\1\2m\0\0", 0, 2**20).error is None


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
@pytest.mark.parametrize("redacted", [True, False], ids=["redacted", "all"])
def test_lines_equal_those_of_python(path: Path, redacted: bool) -> None:
    assert lines_of(path, redacted, as_json=True) == lines_of(path, redacted, as_json=False)


def lines_of(path: Path, redacted: bool, *, as_json: bool) -> list[bytes]:
    reading = read(path, redacted=redacted, as_json=as_json)
    if as_json:
        return [*json_lines(reading, Context(reading.name_of))]
    return [f"{json.dumps(row)}\n".encode() for row in rows(reading, Context(reading.name_of))]


def test_a_filter_selects_the_same_lines() -> None:
    def where(row: Row) -> bool:
        return row["error_code"] is not None and row["latency_ms"] > 0.5

    def selected(as_json: bool) -> list[bytes]:
        reading = read(COMMITTED[0], as_json=as_json)
        found = json_lines(reading, where=where) if as_json else rows(reading, where=where)
        return [line if isinstance(line, bytes) else f"{json.dumps(line)}\n".encode() for line in found]

    assert selected(as_json=True) == selected(as_json=False) != []


TIMES = [0, 1, -1, FIRST, FIRST - 1, LAST, LAST + 999_999, LAST + 1_000_000, 951_782_400_000_000, 4_107_542_399_999_999]


@given(st.one_of(st.sampled_from(TIMES), st.integers(FIRST, LAST)), st.integers(-(10**15), 10**15))
def test_times_and_latencies_are_those_of_python(asked: int, latency: int) -> None:
    call = Call(connection="c", client="1.2.3.4:5", broker="b", number=1, api_key=12, api_version=4, file="f \ud800")
    call.response_file, call.client_id, call.request_us, call.response_us = "f\u20ac", "\0", asked, asked + latency
    call.correlation_id, call.request_size, call.response_size, call.position = -1, 5, 6, 0
    lines = {row["direction"]: f"{json.dumps(row)}\n".encode() for row in rows([call])}
    assert sorted(json_lines([call])) == sorted(lines.values())
    written = native.line_writer(Call, {12: APIS[12].name}).line(call, True, name_of)
    is_usual = FIRST <= asked + latency <= LAST and abs(latency) < 10**15
    assert written == (lines["response"] if is_usual else None)


def test_lines_that_the_package_cannot_write_are_left_to_python() -> None:
    line = native.line_writer(Call, {}).line
    call = Call(connection="c", client="a", broker="b", number=1, file="f", request_us=1, request_size=3)
    assert line(call, False, name_of) is not None
    call.reason = "response_not_seen"
    assert line(call, False, name_of) is None
    call.reason, call.request = None, object()
    assert line(call, False, name_of) is None
    assert line("not a call", False, name_of) is None


def test_a_form_refuses_a_table_of_another_kind() -> None:
    with pytest.raises(ValueError, match="unknown kind of node"):
        engine.package().Form(("struct", [("f", ("new",), "", "", None)], False, []), False, b"", print)
    with pytest.raises(IndexError):
        native.form_of(HeartbeatRequest, 0).body(b"", 1, 100)
