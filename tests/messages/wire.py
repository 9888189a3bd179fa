"""Messages of the Python API of kwire: declarations, encoding and decoding of messages, connections, assignors."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from hypothesis import given, settings
from messages.declarations import Empty, declared, deep, inherited
from messages.row import Row, run

import kwire
import kwire.fuzz
from kwire import (
    APIS,
    ClientSide,
    FrameBuffer,
    ServerSide,
    decode,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
    resolve,
)
from kwire.analysis.tables import TABLES
from kwire.analysis.what_if.replay import replay_of
from kwire.assignors import (
    COOPERATIVE,
    EAGER,
    Assignment,
    Assignor,
    MemberSubscription,
    RangeAssignor,
    Subscription,
    assign,
    assignor,
    by_name,
    check,
    common_protocol,
    without_racks,
)
from kwire.blobs import decode_record, encode_stored
from kwire.blobs.control_records import LeaderChangeMessage
from kwire.engines import native
from kwire.engines.chosen import choose
from kwire.engines.varints import uvarint
from kwire.fuzz.strategies import frames
from kwire.headers import RequestHeader
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.schema import Array, Int8, Int32, String, schema_of

HEARTBEAT = b"\2g" + struct.pack(">i", 1) + b"\2m\0"  # the fields of a Heartbeat v4, without the tagged section
TAGGED = encode(FetchRequest(), 12)[:-1]  # the fields of a Fetch v12; its tag 0 is the cluster id
NUMBERED = encode(ApiVersionsResponse(), 3)[:-1]  # of an ApiVersions v3; its tag 1 is an int64
FRAME = encode_request(HeartbeatRequest(), 4, correlation_id=7)
MANY = 2_100_000  # elements
TOPICS = without_racks({"t": 2})


def heartbeat(tags: bytes) -> Callable[[], object]:
    """Decode a Heartbeat v4 with this tagged section."""
    return lambda: decode(HeartbeatRequest, HEARTBEAT + tags, 4)


def without_native() -> None:
    with patch.object(native, "package", lambda: None):
        choose("native")


def other_native() -> None:
    with patch.object(native, "mismatch", lambda: "the installed kwire-native 0.1.0 has interface 1"):
        choose("native")


def metadata(data: bytes, version: int = 9) -> Callable[[], object]:
    return lambda: decode(MetadataRequest, data, version)


def written(message: object, version: int) -> Callable[[], object]:
    return lambda: encode(message, version)


def declaration(*arguments: Any, **options: Any) -> Callable[[], object]:
    return lambda: declared(*arguments, **options)


def response(*chunks: bytes, requests: int = 1) -> Callable[[], object]:
    """Receive these chunks after some requests."""

    def receive() -> None:
        client = ClientSide()
        for _ in range(requests):
            client.send(ApiVersionsRequest(), 0)
        for chunk in chunks:
            client.receive(struct.pack(">i", len(chunk)) + chunk)
        while client.next_response():
            pass

    return receive


def frame(data: bytes) -> Callable[[], object]:
    def receive() -> None:
        buffer = FrameBuffer()
        buffer.feed(data)
        buffer.next_frame()

    return receive


def request(data: bytes) -> Callable[[], object]:
    def receive() -> None:
        server = ServerSide()
        server.receive(data)
        server.next_frame()

    return receive


def checked(
    shares: Mapping[str, Iterable[Any]], protocol: str = EAGER, **members: Subscription
) -> Callable[[], object]:
    """Check assignments of these members; ``a`` and ``b`` subscribe to ``t`` by default."""
    subscriptions = {"a": Subscription(["t"]), "b": Subscription(["t"])} | members
    return lambda: check(
        {name: Assignment([*share]) for name, share in shares.items()}, TOPICS, subscriptions, protocol
    )


class OnlyCooperative(Assignor):
    name, protocols = "mine", (COOPERATIVE,)

    def assign(self, topics: object, members: object) -> dict[str, Assignment]:
        return {}


def drawn() -> None:
    @settings(max_examples=1, database=None)
    @given(frames(APIS[12], 4, "up"))  # type: ignore[arg-type]
    def draw(_: bytes) -> None:
        pass

    draw()


def without(package: str, module: str) -> Callable[[], object]:
    """Return a function that imports a module again, without a package that it needs."""

    def load() -> None:
        loaded = list(sys.modules)
        hidden: dict[str, Any] = {name: None for name in loaded if f"{name}.".startswith(f"{package}.")}
        with patch.dict(sys.modules, hidden | {package: None}):
            for name in loaded:
                if name.startswith(module):
                    del sys.modules[name]
            import_module(module)

    return load


def report_without_pyarrow() -> str:
    Path("empty").mkdir()
    with patch("kwire.cli.lines.find_spec", return_value=None):
        return run("kwire report empty --html page.html").stderr()


def fuzz_without_hypothesis() -> object:
    with patch.dict(sys.modules, {"hypothesis": None}):
        sys.modules.pop("kwire.fuzz.strategies", None)
        return kwire.fuzz.messages


ROWS = [
    # declarations
    Row("field without a kind", declaration(int, 3), "SchemaError: Message.field has no field kind: assign one, such as Int32() or String()"),
    Row("field name", declaration(int, Int32(), name="_field"), "SchemaError: Message._field: invalid field name: use ASCII, no leading underscore"),
    Row("annotation", declaration(str, Int32()), "SchemaError: Message.field: the annotation is <class 'str'>, but a field of kind int32 needs <class 'int'>"),
    Row("annotation that is a string", declaration("int", Int32()), "SchemaError: Message.field: annotation is a string: remove `from __future__ import annotations` from modules that declare messages"),
    Row("null integer", declaration(int | None, Int32(null=True)), "SchemaError: Message.field: a field of kind int32 cannot be null: remove null"),
    Row("nullable versions", declaration(str | None, String("5+", null="4+")), "SchemaError: Message.field: the field is nullable in versions 4+, but exists only in 5+"),
    Row("null default", declaration(str, String(default=None)), "SchemaError: Message.field: the default is null, but no version allows null: set null, or another default"),
    Row("versions of a field", declaration(int, Int32("10+")), "SchemaError: Message.field: the versions 10+ of the field exceed the versions 0-9 of the message"),
    Row("tag in versions that are not flexible", declaration(int, Int32("5+", tag=0)), "SchemaError: Message.field: the field is tagged in versions 5+, but the message is flexible only in 6+"),
    Row("number of a tag", declaration(int, Int32("6+", tag=1)), "SchemaError: Message: tags must be 0 to 0, each once, got [1]"),
    Row("default of another type", declaration(int, Int32(default="x")), "SchemaError: Message.field: default 'x' is not of type int32"),
    Row("default out of range", declaration(int, Int8(default=1_000)), "SchemaError: Message.field: default 1000 is out of range for int8"),
    Row("default of an array", declaration(list[int], Array(Int32, default=[1])), "SchemaError: Message.field: default [1] is not allowed for array: use None or leave it out"),
    Row("version range", lambda: Int32("x"), "SchemaError: invalid version range 'x': expected a form such as 0-9, 6+, 5 or none"),
    Row("version range that is reversed", lambda: Int32("5-3"), "SchemaError: invalid version range '5-3': expected a form such as 0-9, 6+, 5 or none"),
    Row("versions without an end", declaration(int, Int32(), versions="0+"), "SchemaError: Message: a message needs a closed version range, got 0+"),
    Row("subclass of a message", inherited, "SchemaError: Child: message classes cannot be subclassed"),
    Row("class without a declaration", lambda: schema_of(int), "SchemaError: <class 'int'> is not a declared message or struct: declare the class with request, response, data or struct"),
    Row("struct in a struct in a struct", lambda: resolve(deep(), 0), "SchemaError: Struct is nested deeper than 16 structs"),
    Row("array of empty structs", lambda: resolve(declared(list[Empty], Array(Empty)), 0), "SchemaError: array elements of type Empty have size 0: an array needs elements of at least 1 byte"),
    Row("layout of a struct", lambda: resolve(JoinGroupRequest.Protocol, 0), "SchemaError: Protocol is a struct inside messages and has no versions of its own"),
    Row("layout of a version", lambda: resolve(JoinGroupRequest, 99), "SchemaError: JoinGroupRequest has no version 99: its versions are 0-9"),
    Row("layout of half a version", lambda: resolve(JoinGroupRequest, 1.5), "SchemaError: version must be an integer, got 1.5"),  # type: ignore[arg-type]
    # decode
    Row("text as data", lambda: decode(HeartbeatRequest, "00", 0), "TypeError: data must be bytes, bytearray or memoryview, got str"),  # type: ignore[arg-type]
    Row("unknown engine", lambda: decode(HeartbeatRequest, b"", 0, engine="fast"), "EngineError: unknown engine 'fast': use native, compiled or reference"),  # type: ignore[arg-type]
    Row("unknown engine in the environment", lambda: choose("fast"), "EngineError: KWIRE_ENGINE is 'fast', which is not an engine: use native, compiled or reference"),
    Row("native engine of another kwire", other_native, "EngineError: the native engine cannot be used: the installed kwire-native 0.1.0 has interface 1"),
    Row("engine that is not installed", without_native, "EngineError: the native engine is not installed: install kwire-native, or use compiled or reference"),
    Row("truncated string", metadata(b"\0\0\0\1\0\5abc", 1), "Truncated: MetadataRequest v1 at byte 4, topics[0].name: expected 5 bytes, found 3"),
    Row("null string", metadata(b"\0\0\0\1\xff\xff", 1), "DecodeError: MetadataRequest v1 at byte 4, topics[0].name: the field is not nullable in this version"),
    Row("string above its limit", metadata(b"\2" + uvarint(40_001) + bytes(40_000) + b"\0\0\0\0\0"), "LimitError: MetadataRequest v9 at byte 1, topics[0].name: a string of 40000 bytes is above the limit of 32767"),
    Row("array above the data", metadata(b"\x7f\xff\xff\xff", 1), "LimitError: MetadataRequest v1 at byte 0, topics: 2147483647 elements of at least 2 bytes do not fit into the remaining 0 bytes"),
    Row("array above the memory", lambda: decode(JoinGroupRequest, encode(JoinGroupRequest(), 6)[:-2] + uvarint(MANY + 1) + b"\1\1\0" * MANY + b"\0", 6), "LimitError: JoinGroupRequest v6 at byte 16: the decoded message would exceed its memory limit"),
    Row("array above the memory of the reference engine", lambda: decode(JoinGroupRequest, encode(JoinGroupRequest(), 6)[:-2] + uvarint(MANY + 1) + b"\1\1\0" * MANY + b"\0", 6, engine="reference"), "LimitError: JoinGroupRequest v6 at byte 12, protocols: the decoded message would exceed 109188880 bytes of memory"),
    Row("truncated message of 70 kB", metadata(struct.pack(">i", 25_001) + b"\0\1t" * 25_000, 1), "Truncated: MetadataRequest v1 at byte 75004: the data ends before the message does"),
    Row("invalid message of 70 kB", metadata(b"\0\0\0\1\xff\xff" + bytes(70_000), 1), "DecodeError: MetadataRequest v1 at byte $OFFSET: invalid data near this offset"),
    Row("varint of 6 bytes", metadata(b"\xff\xff\xff\xff\xff\1"), "LimitError: MetadataRequest v9 at byte 0, topics: the varint is longer than the limit of 5 bytes"),
    Row("varint out of range", metadata(b"\xff\xff\xff\xff\x0f"), "LimitError: MetadataRequest v9 at byte 0, topics: varint 4294967295 is above the limit of 2147483647"),
    Row("tagged fields above the data", heartbeat(b"\xff\xff\xff\xff\x07"), "LimitError: HeartbeatRequest v4 at byte 9: 2147483647 tagged fields do not fit into the remaining 0 bytes"),
    Row("tagged field above the data", lambda: decode(FetchRequest, TAGGED + b"\1\0\x7f\2b", 12), "Truncated: FetchRequest v12 at byte 31, cluster_id: expected 127 bytes, found 2"),
    Row("size of a tagged field", lambda: decode(ApiVersionsResponse, NUMBERED + b"\1\1\x09" + bytes(9), 3), "DecodeError: ApiVersionsResponse v3 at byte 10, finalized_features_epoch: tag 1 has size 9, but its value takes 8 bytes"),
    Row("overlong varint in strict decoding", lambda: decode(HeartbeatRequest, HEARTBEAT + b"\x80\0", 4, strict=True), "DecodeError: HeartbeatRequest v4 at byte 9: the bytes differ from the canonical encoding of the message"),
    Row("trailing bytes in strict decoding", lambda: decode(HeartbeatRequest, HEARTBEAT + b"\0more", 4, strict=True), "DecodeError: HeartbeatRequest v4 at byte 10: 4 trailing bytes"),
    # encode
    Row("string as an integer", written(HeartbeatRequest(generation_id="1"), 0), "EncodeError: HeartbeatRequest v0, generation_id: expected int, got str"),
    Row("integer out of range", written(HeartbeatRequest(generation_id=2**31), 0), "EncodeError: HeartbeatRequest v0, generation_id: 2147483648 does not fit into 4 bytes"),
    Row("integer of many bits", written(HeartbeatRequest(generation_id=2**99), 0), "EncodeError: HeartbeatRequest v0, generation_id: an integer of 100 bits does not fit into 4 bytes"),
    Row("integer as a boolean", written(MetadataRequest(allow_auto_topic_creation=2), 4), "EncodeError: MetadataRequest v4, allow_auto_topic_creation: expected bool, got int"),
    Row("integer as a string", written(HeartbeatRequest(group_id=1), 0), "EncodeError: HeartbeatRequest v0, group_id: expected str, got int"),
    Row("string that is too long", written(HeartbeatRequest(group_id="x" * 32_768), 0), "EncodeError: HeartbeatRequest v0, group_id: a string of 32768 bytes is above the limit of 32767"),
    Row("string with a lone surrogate", written(HeartbeatRequest(group_id="\ud800"), 0), "EncodeError: HeartbeatRequest v0, group_id: cannot be encoded as UTF-8: surrogates not allowed"),
    Row("null as a string", written(HeartbeatRequest(group_id=None), 0), "EncodeError: HeartbeatRequest v0, group_id: the field is not nullable in this version"),
    Row("string as bytes", written(JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(metadata="x")]), 0), "EncodeError: JoinGroupRequest v0, protocols[0].metadata: expected bytes, got str"),
    Row("dictionary as an array", written(MetadataRequest(topics={}), 1), "EncodeError: MetadataRequest v1, topics: expected list, got dict"),
    Row("string as a struct", written(MetadataRequest(topics=["t"]), 1), "EncodeError: MetadataRequest v1, topics[0]: expected Topic, got str"),
    Row("string as a uuid", written(MetadataRequest(topics=[MetadataRequest.Topic(topic_id="x")]), 12), "EncodeError: MetadataRequest v12, topics[0].topic_id: expected UUID, got str"),
    Row("field that the version lacks", written(HeartbeatRequest(group_instance_id="i"), 0), "EncodeError: HeartbeatRequest v0, group_instance_id: this version does not have the field: leave the field at its default None"),
    Row("tags that the version lacks", written(HeartbeatRequest(unknown_tags={9: b""}), 0), "EncodeError: HeartbeatRequest v0, unknown_tags: this version has no tagged fields"),
    Row("list as tags", written(HeartbeatRequest(unknown_tags=[9]), 4), "EncodeError: HeartbeatRequest v4: expected a mapping of tags to bytes, got list"),
    Row("string as a tagged field", written(HeartbeatRequest(unknown_tags={9: "x"}), 4), "EncodeError: HeartbeatRequest v4: tag 9: expected bytes, got str"),
    Row("tag of a field", written(FetchRequest(unknown_tags={0: b""}), 12), "EncodeError: FetchRequest v12: tag 0 belongs to the field 'cluster_id': set that field instead"),
    Row("tag below zero", written(HeartbeatRequest(unknown_tags={-1: b""}), 4), "EncodeError: HeartbeatRequest v4: expected a tag from 0 to 2147483647, got -1"),
    Row("mapping with an unknown field", lambda: kwire.struct(HeartbeatRequest, 0).build({"group": "g"}), "EncodeError: HeartbeatRequest v0: HeartbeatRequest has no field 'group'"),
    Row("varint below zero", lambda: uvarint(-1), "ValueError: -1 is negative and cannot be an unsigned varint"),
    # requests and responses
    Row("unknown API key", lambda: decode_request(b"\x03\xe7\0\0" + bytes(6)), "UnknownApi: RequestHeader at byte 0, request_api_key: unknown API key 999"),
    Row("unknown version of an API", lambda: decode_request(b"\0\3\0\x63" + bytes(6)), "UnknownApi: RequestHeader at byte 2, request_api_version: Metadata has no version 99: its versions are 0-13"),
    Row("request of 3 bytes", lambda: decode_request(b"\0\3\0"), "Truncated: RequestHeader at byte 0: expected 4 bytes of API key and version, found 3"),
    Row("truncated header", lambda: decode_request(b"\0\3\0\1\0\0\0\7\x75\x30c"), "Truncated: RequestHeader v1 at byte 8, client_id: expected 30000 bytes, found 1"),
    Row("response of an unknown API", lambda: decode_response(b"", 999, 0), "UnknownApi: ResponseHeader at byte 0: unknown API key 999"),
    Row("response of an unknown version", lambda: decode_response(b"", 3, 99), "UnknownApi: ResponseHeader at byte 0: Metadata has no version 99: its versions are 0-13"),
    Row("header of another API", lambda: encode_request(HeartbeatRequest(), 4, correlation_id=0, header=RequestHeader(request_api_key=3)), "SchemaError: the header is for API key 3 v0, but the body is Heartbeat v4: use the same API and version"),
    Row("request of another API than expected", lambda: decode_request(b"\0\x0c\0\0" + bytes(6), JoinGroupRequest), "DecodeError: JoinGroupRequest at byte 0: the frame contains HeartbeatRequest v0 instead"),
    Row("struct as a request", lambda: encode_request(JoinGroupRequest.Protocol(), 4, correlation_id=0), "SchemaError: Protocol is not a request"),
    Row("request as a response", lambda: encode_response(HeartbeatRequest(), 4, correlation_id=0), "SchemaError: HeartbeatRequest is not a response"),
    # connections
    Row("negative length", frame(b"\xff\xff\xff\xff"), "FrameError: frame length -1 is negative (first bytes ff ff ff ff)"),
    Row("HTTP request", frame(b"GET / HTTP/1.1\r\n\r\n"), "FrameError: frame length 1195725856 is above the limit of 104857600 bytes; this looks like an HTTP request (first bytes 47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a 0d 0a)"),
    Row("TLS handshake of a client", request(b"\x16\x03\x01\x02\x00\x01"), "RemoteProtocolError: frame length 369295618 is above the limit of 104857600 bytes; this looks like a TLS handshake (first bytes 16 03 01 02 00 01)"),
    Row("answer without a request", lambda: ServerSide().answer(b""), "LocalProtocolError: no request is waiting for a response"),
    Row("response without a request", response(b"\0\0\0\0", requests=0), "RemoteProtocolError: the peer sent a response, but no request is pending (first bytes 00 00 00 00)"),
    Row("correlation id", response(b"\0\0\0\x05" + bytes(6)), "RemoteProtocolError: the response has correlation id 5, but the next response must have 0"),
    # stored messages
    Row("record without a key", lambda: decode_record("__consumer_offsets", None, None), "DecodeError: __consumer_offsets at byte 0: the record has no key, so its type is unknown"),
    Row("unknown record type", lambda: decode_record("__consumer_offsets", b"\0\x63", None), "UnknownRecordType: __consumer_offsets at byte 0: unknown record type 99: expected 0 to 23"),
    Row("version field", lambda: encode_stored(LeaderChangeMessage(version=1), 0), "EncodeError: LeaderChangeMessage v0, version: the version field is 1, but the message is encoded as version 0: use the same version"),
    # assignors
    Row("unknown assignor", lambda: assignor("fair"), "AssignorError: unknown assignor 'fair': use one of range, roundrobin, sticky, cooperative-sticky, sticky-0.11"),
    Row("unknown assignor of a replay", lambda: replay_of("fair", "", lambda _: None), "AssignorError: unknown assignor 'fair': use one of range, roundrobin, sticky, cooperative-sticky, sticky-0.11, uniform"),
    Row("assignors of one name", lambda: by_name([RangeAssignor(), RangeAssignor()]), "AssignorError: the assignors RangeAssignor and RangeAssignor have the same name 'range': give each its own name"),
    Row("assignors without a common protocol", lambda: common_protocol([RangeAssignor(), OnlyCooperative()]), "AssignorError: range, mine have no rebalance protocol in common: use only eager or only cooperative assignors"),
    Row("assignment of no member", checked({"c": []}), "AssignorError: partitions are assigned to 'c', which is not a member of the group"),
    Row("partition that does not exist", checked({"a": [("t", 2)]}), "AssignorError: t-2 is assigned to 'a', but the metadata has no such partition"),
    Row("topic without a subscription", checked({"a": [("t", 0)]}, a=Subscription(["u"])), "AssignorError: t-0 is assigned to 'a', which does not subscribe to t"),
    Row("partition of two members", checked({"a": [("t", 0)], "b": [("t", 0)]}), "AssignorError: t-0 is assigned to 'b', but also to 'a'"),
    Row("partition that is assigned twice", checked({"a": [("t", 0), ("t", 0)]}), "AssignorError: t-0 is assigned to 'a' twice"),
    Row("partition that is not revoked", checked({"b": [("t", 0)]}, COOPERATIVE, a=Subscription(["t"], owned=[("t", 0)])), "AssignorError: t-0 is assigned to 'b', but 'a' owns it and must revoke it first"),
    Row("subscribed topic without metadata", lambda: assign("range", {"a": MemberSubscription([UUID(int=1)])}, {}), "AssignorError: a member subscribes to topic 00000000-0000-0000-0000-000000000001, which is not in the metadata"),
    # tables, fuzzing, packages
    Row("column of a table", lambda: TABLES["rebalances"].row(nope=1), "ValueError: table rebalances has no column nope; its columns are capture_id, group_id, cluster, life, protocol, from_generation, to_generation, started_ts, joined_ts, ended_ts, duration_ms, trigger, trigger_member, trigger_client, trigger_evidence, trigger_confidence, members_before, members_after, leader, protocol_name, stw_kind, stw_ms_max, stw_ms_avg, partitions_moved, incomplete"),
    Row("direction of a strategy", drawn, "ValueError: direction must be 'request' or 'response', got 'up'"),
    Row("capture without numpy", without("numpy", "kwire.capture"), "ModuleNotFoundError: numpy is missing: pip install 'kwire[capture]'"),
    Row("pipeline without pyspark", without("pyspark", "kwire.spark"), "ModuleNotFoundError: pyspark is missing: pip install 'kwire[spark]'"),
    Row("report without pyarrow", report_without_pyarrow, "Error: pyarrow is missing: pip install 'kwire[report]'"),
    Row("module of strategies without Hypothesis", without("hypothesis", "kwire.fuzz.strategies"), "ModuleNotFoundError: hypothesis is missing: pip install 'kwire[fuzz]'"),
    Row("strategies without Hypothesis", fuzz_without_hypothesis, "ModuleNotFoundError: hypothesis is missing: pip install 'kwire[fuzz]'"),
    Row("unknown name of kwire", lambda: kwire.nope, "AttributeError: module 'kwire' has no attribute 'nope'"),  # type: ignore[attr-defined]
    Row("unknown name of kwire.fuzz", lambda: kwire.fuzz.nope, "AttributeError: module 'kwire.fuzz' has no attribute 'nope'"),  # type: ignore[attr-defined]
]  # fmt: skip
