"""Bad inputs of headers and primitive types, decoded: fixtures/bad_inputs.md, under "Header and primitive types".

Each input goes through every engine: it is refused, with this error at this field and byte, or read, as this value.
What is read although Kafka would not have written it is refused in strict decoding. Below the table: the same for
every prefix and every changed byte of a frame of each API.
"""

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

import effort
import golden
import pytest
import targets
from bad_inputs import inputs
from effort import amount, every
from google_crc32c import value as crc32c
from strategies import MESSAGES, cells

from kwire import decode_request, decode_response, encode, encode_request
from kwire.codec import ENGINES, decode
from kwire.engines.chosen import Engine
from kwire.engines.varints import uvarint
from kwire.errors import DecodeError, EncodeError, LimitError, Truncated, UnknownApi
from kwire.fuzz.sites import message_sites
from kwire.fuzz.values import full
from kwire.layout import List, Maybe, Node, Record, resolve, smallest
from kwire.messages import APIS, MODULES
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.records.batch import batches
from kwire.schema import Array, Bytes, Float64, Int32, Nested, Uuid, data, unknown_tags
from kwire.schema import struct as declare

METADATA, HEARTBEAT, API_VERSIONS, VOTE, LEADER_AND_ISR = 3, 12, 18, 52, 4
SMALL = amount(160, 250)  # bytes of a frame that is tried at every byte
MANY = 2_100_000  # elements
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)


@dataclass(frozen=True)
class Input:
    """Bytes, and their decoding by an engine, strictly or not."""

    data: bytes
    decode: Callable[..., Any]


def request(*parts: bytes) -> Input:
    return Input(b"".join(parts), decode_request)


def response(api_key: int, api_version: int, *parts: bytes) -> Input:
    def read(frame: bytes, **options: Any) -> Any:
        return decode_response(frame, api_key, api_version, **options)

    return Input(b"".join(parts), read)


def body(message: type, version: int, *parts: bytes) -> Input:
    return Input(b"".join(parts), lambda given, **options: decode(message, given, version, **options))


@dataclass(frozen=True)
class Refused:
    error: type[DecodeError]
    path: str
    offset: int


@dataclass(frozen=True)
class Reads:
    """The input is decoded, and an attribute such as ``body.topics`` has this value."""

    what: str
    value: Any


def header(key: int, version: int, *, client: bytes = b"\0\1c", tags: bytes = b"") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client + tags


def metadata_v1(topics: bytes) -> Input:
    return request(header(METADATA, 1), topics)


def metadata_v9(topics: bytes, rest: bytes = b"\1\0\0\0", tags: bytes = b"\0") -> Input:
    return request(header(METADATA, 9, tags=tags), topics, rest)


def heartbeat_v4(tags: bytes) -> Input:
    """Return a flexible Heartbeat with this tagged section."""
    return request(header(HEARTBEAT, 4, tags=b"\0"), b"\2g", struct.pack(">i", 1), b"\2m", b"\0", tags)


def join_v5(protocols: bytes) -> Input:
    times = struct.pack(">ii", 10_000, 10_000)
    return request(header(11, 5), b"\0\1g", times, b"\0\0", b"\xff\xff", b"\0\x08consumer", protocols)


def api_versions_v3(name: bytes, tags: bytes = b"\0") -> Input:
    return request(header(API_VERSIONS, 3, tags=tags), name, b"\x041.0\0")


def fetch_with_tags(tags: bytes) -> Input:
    """Return the body of a FetchRequest v12, whose tag 0 is the cluster id."""
    return body(FetchRequest, 12, encode(FetchRequest(), 12)[:-1], tags)


def versions_with_tags(tags: bytes) -> Input:
    """Return the body of an ApiVersionsResponse v3, whose tag 1 is an int64."""
    return body(ApiVersionsResponse, 3, encode(ApiVersionsResponse(), 3)[:-1], tags)


@data(versions="0", flexible="none")
class Numbers:
    number: float = Float64()
    id: UUID = Uuid()


def known(key: int, outcome: Reads) -> Reads | Refused:
    return outcome if key in APIS else Refused(UnknownApi, "request_api_key", 0)


TOPIC = b"\0\0\0\1\0\1t"
AT = 12  # where the body of a flexible request with the client id "c" begins; one less if not flexible
QUIET = struct.pack(">Q", 0x7FF8_0000_0000_0123)  # a NaN with a payload
NO_VALUE = FetchRequest()
SIZE = len(encode(NO_VALUE, 12)) - 1
VERSIONS_SIZE = len(encode(ApiVersionsResponse(), 3)) - 1

ROWS: list[tuple[str, str, Input, Refused | Reads]] = [  # name in the table, input, result
    ("unknown API key", "key 999", request(header(999, 0)), Refused(UnknownApi, "request_api_key", 0)),
    ("unknown API key", "key -5", request(header(-5, 0)), Refused(UnknownApi, "request_api_key", 0)),
    ("removed version", "Produce v0, which Kafka 4 removed", request(header(0, 0), bytes(10)), Reads("body.topic_data", [])),
    ("version above or below all", "Metadata v99", request(header(METADATA, 99)), Refused(UnknownApi, "request_api_version", 2)),
    ("version above or below all", "Metadata v-1", request(header(METADATA, -1)), Refused(UnknownApi, "request_api_version", 2)),
    ("ApiVersions in an unknown version", "ApiVersions v99", request(header(API_VERSIONS, 99, tags=b"\0")), Refused(UnknownApi, "request_api_version", 2)),
    ("ApiVersions in an unknown version", "ApiVersions v-1", request(header(API_VERSIONS, -1, tags=b"\0")), Refused(UnknownApi, "request_api_version", 2)),
    ("ApiVersions in an unknown version", "the answer to ApiVersions v99", response(API_VERSIONS, 99, b"\0\0\0\7\0\x23\0\0\0\0"), Reads("version", 0)),
    ("ApiVersions in an unknown version", "v0 in answer to ApiVersions v3", response(API_VERSIONS, 3, b"\0\0\0\7\0\x23\0\0\0\0"), Reads("version", 0)),
    ("header of an ApiVersions response", "ApiVersions response with header v0", response(API_VERSIONS, 3, b"\0\0\0\7\0\0\1\0\0\0\0\0"), Reads("body.api_keys", [])),
    ("ApiVersions v3 with a v1 header", "ApiVersions v3 with a v1 header", api_versions_v3(b"\2a", b""), Refused(Truncated, "", AT + 6)),
    ("client software name invalid or empty", "client software name with !", api_versions_v3(b"\3a!"), Reads("body.client_software_name", "a!")),
    ("client software name invalid or empty", "client software name empty", api_versions_v3(b"\1"), Reads("body.client_software_name", "")),
    ("API that a broker's port does not serve", "Vote", request(header(VOTE, 0, tags=b"\0"), b"\0\1\0"), known(VOTE, Reads("body.topics", []))),
    ("API that a broker's port does not serve", "LeaderAndIsr", request(header(LEADER_AND_ISR, 0), bytes(16)), known(LEADER_AND_ISR, Reads("body.live_leaders", []))),
    ("client id null", "client id null", request(header(METADATA, 1, client=b"\xff\xff"), TOPIC), Reads("header.client_id", None)),
    ("client id of length -2", "client id length -2", request(header(METADATA, 1, client=b"\xff\xfe"), TOPIC), Reads("header.client_id", None)),
    ("client id that is not UTF-8", "client id not UTF-8", request(header(METADATA, 1, client=b"\0\2\xff\xfe"), TOPIC), Reads("header.client_id", "\udcff\udcfe")),
    ("client id longer than the frame", "client id of 30000, 1 there", request(header(METADATA, 1, client=b"\x75\x30c")), Refused(Truncated, "client_id", 8)),
    ("array of 2^31-1 elements without bytes", "2^31-1 topics, none there", metadata_v1(b"\x7f\xff\xff\xff"), Refused(LimitError, "topics", AT - 1)),
    ("array of 10^6 elements in 6 bytes", "10^6 topics in 6 bytes", metadata_v1(struct.pack(">i", 10**6) + b"\0\1t\0\1u"), Refused(LimitError, "topics", AT - 1)),
    ("null array that may not be null", "null array of protocols", join_v5(b"\xff\xff\xff\xff"), Refused(DecodeError, "protocols", 36)),
    ("array of length -2", "array count -2 is null", metadata_v1(b"\xff\xff\xff\xfe"), Reads("body.topics", None)),
    ("null string that may not be null", "null topic name", metadata_v1(b"\0\0\0\1\xff\xff"), Refused(DecodeError, "topics[0].name", AT + 3)),
    ("compact length 0 that may not be null", "compact length 0 where null is not allowed", metadata_v9(b"\2\0"), Refused(DecodeError, "topics[0].name", AT + 1)),
    ("compact length off by one", "compact length off by one", metadata_v9(b"\2\1t\0"), Refused(LimitError, "topics[0]", AT + 2)),
    ("varint of 5 bytes that continues", "varint of 5 bytes that continues", metadata_v9(b"\xff\xff\xff\xff\xff\1"), Refused(LimitError, "topics", AT)),
    ("varint above 2^31-1", "varint above 2^31-1", metadata_v9(b"\xff\xff\xff\xff\x0f"), Refused(LimitError, "topics", AT)),
    ("overlong varint", "overlong zero as a count of tags", heartbeat_v4(b"\x80\x80\0"), Reads("body.group_id", "g")),
    ("overlong varint", "overlong length", metadata_v9(b"\2\x82\0t\0"), Reads("body.topics", [MetadataRequest.Topic(name="t")])),
    ("unknown tag", "unknown tag in the header", metadata_v9(b"\1", b"\0\0\0\0", b"\1\x09\2ab"), Reads("header.unknown_tags", {9: b"ab"})),
    ("unknown tag", "unknown tag in the body", heartbeat_v4(b"\1\x09\2ab"), Reads("body.unknown_tags", {9: b"ab"})),
    ("duplicate tag", "an unknown tag twice", heartbeat_v4(b"\2\x09\1a\x09\1b"), Reads("body.unknown_tags", {9: b"b"})),
    ("duplicate tag", "a known tag twice", fetch_with_tags(b"\2\0\2\2a\0\2\2b"), Reads("cluster_id", "b")),
    ("tags out of order", "tags out of order", heartbeat_v4(b"\2\x09\1a\x08\1b"), Reads("body.unknown_tags", {9: b"a", 8: b"b"})),
    ("tags out of order", "a known tag after an unknown one", fetch_with_tags(b"\2\x09\1a\0\2\2b"), Reads("cluster_id", "b")),
    ("tag longer than the frame", "unknown tag past the end", heartbeat_v4(b"\1\x09\x7fa"), Refused(Truncated, "", AT + 10)),
    ("tag longer than the frame", "known tag past the end", fetch_with_tags(b"\1\0\x7f\2b"), Refused(Truncated, "cluster_id", SIZE + 3)),
    ("tag size ff ff ff ff 0f", "tag size ff ff ff ff 0f", heartbeat_v4(b"\1\x09\xff\xff\xff\xff\x0f"), Refused(LimitError, "", AT + 10)),
    ("2^31 tags", "2^31 tags", heartbeat_v4(b"\x80\x80\x80\x80\x08"), Refused(LimitError, "", AT + 9)),
    ("2^31 tags", "2^31-1 tags", heartbeat_v4(b"\xff\xff\xff\xff\x07"), Refused(LimitError, "", AT + 9)),
    ("known tag of another size than its type", "known tag with a shorter body", versions_with_tags(b"\1\1\7" + bytes(7)), Refused(Truncated, "finalized_features_epoch", VERSIONS_SIZE + 3)),
    ("known tag of another size than its type", "known tag with a shorter size", versions_with_tags(b"\1\1\7" + bytes(8)), Refused(DecodeError, "finalized_features_epoch", VERSIONS_SIZE + 3)),
    ("known tag of another size than its type", "known tag with a longer body", versions_with_tags(b"\1\1\x09" + bytes(9)), Refused(DecodeError, "finalized_features_epoch", VERSIONS_SIZE + 3)),
    ("known tag of another size than its type", "a tagged field at its default", fetch_with_tags(b"\1\0\1\0"), Reads("cluster_id", None)),
    ("bytes after the body", "bytes after the body", request(header(METADATA, 1), TOPIC, b"more"), Reads("trailing", b"more")),
    *(("boolean of 2 to 255", f"a boolean of {byte}", request(header(METADATA, 4), b"\0\0\0\0", bytes([byte])), Reads("body.allow_auto_topic_creation", True)) for byte in (2, 127, 128, 255)),
    ("zero UUID, NaN", "UUID zero", body(Numbers, 0, bytes(24)), Reads("id", UUID(int=0))),
    ("zero UUID, NaN", "UUID of ones", body(Numbers, 0, bytes(8), b"\xff" * 16), Reads("id", UUID(int=2**128 - 1))),
]  # fmt: skip
STRICT_ROWS = {  # read, but not as Kafka writes them: refused in strict decoding
    "client id length -2",
    "array count -2 is null",
    "overlong zero as a count of tags",
    "overlong length",
    "an unknown tag twice",
    "a known tag twice",
    "tags out of order",
    "a known tag after an unknown one",
    "a tagged field at its default",
    "bytes after the body",
    "a boolean of 2",
    "a boolean of 127",
    "a boolean of 128",
    "a boolean of 255",
}
BELOW = {  # inputs with a test of their own below
    "string longer than 32767 to be written",
    "array of elements without size",
    "varlong of more than 10 bytes",
    "truncated body",
    "deep nesting",
    "millions of tiny elements",
}
IDS = [what for _, what, _, _ in ROWS]


@EVERY_ENGINE
@pytest.mark.parametrize(("given", "outcome"), [row[2:] for row in ROWS], ids=IDS)
def test_bad_input(given: Input, outcome: Refused | Reads, engine: Engine) -> None:
    if isinstance(outcome, Reads):
        assert attrgetter(outcome.what)(given.decode(given.data, engine=engine)) == outcome.value
        return
    with pytest.raises(DecodeError) as caught:
        given.decode(given.data, engine=engine)
    result = caught.value
    assert Refused(type(result), result.path, result.offset) == outcome


def strict_cases() -> Iterator[Any]:
    for name, (_, _, given, outcome) in zip(IDS, ROWS, strict=True):
        refused = isinstance(outcome, Refused) or name in STRICT_ROWS
        yield pytest.param(given, refused, id=name)


@EVERY_ENGINE
@pytest.mark.parametrize(("given", "refused"), list(strict_cases()))
def test_bad_input_in_strict_decoding(given: Input, refused: bool, engine: Engine) -> None:
    if not refused:
        given.decode(given.data, engine=engine, strict=True)
        return
    with pytest.raises(DecodeError) as caught:
        given.decode(given.data, engine=engine, strict=True)
    assert 0 <= caught.value.offset <= len(given.data)


def test_strict_inputs_are_inputs() -> None:
    assert set(IDS) >= STRICT_ROWS


def test_every_bad_input_has_a_test() -> None:
    assert {name for name, *_ in ROWS} | BELOW == set(inputs("Header and primitive types"))


@EVERY_ENGINE
@pytest.mark.parametrize("version", [0, 4])
def test_string_longer_than_its_length_field_is_not_written(version: int, engine: Engine) -> None:
    encode(HeartbeatRequest(group_id="x" * 32_767), version, engine=engine)
    with pytest.raises(EncodeError) as caught:
        encode(HeartbeatRequest(group_id="x" * 32_768), version, engine=engine)
    assert caught.value.path == "group_id"


def nodes(node: Node) -> Iterator[Node]:
    """Yield a form and all forms in it."""
    yield node
    match node:
        case List(inner) | Maybe(inner):
            yield from nodes(inner)
        case Record():
            for slot in (*node.slots, *node.tagged):
                yield from nodes(slot.node)
        case _:
            return


def test_no_array_has_elements_of_size_zero() -> None:
    for message in MESSAGES:
        for version in cells(message):
            assert all(smallest(node.element) for node in nodes(resolve(message, version)) if isinstance(node, List))


FLEXIBLE = [message for message in MESSAGES if any(resolve(message, version).flexible for version in cells(message))]


@EVERY_ENGINE
@pytest.mark.parametrize("message", FLEXIBLE, ids=lambda message: message.__name__)
def test_compact_length_off_by_one_changes_the_value(message: Any, engine: Engine) -> None:
    """The length is written as n instead of n + 1, as in older encodings; the bytes never decode to the same value."""
    for version in cells(message):
        value = full(message, version)
        written = encode(value, version)
        for site in message_sites(message, written, version):
            if not getattr(site.node, "compact", False):
                continue
            wrong = written[: site.offset] + uvarint(site.value) + written[site.end :]
            try:
                read = decode(message, wrong, version, engine=engine)
            except DecodeError:
                continue
            assert read != value, site


@pytest.mark.parametrize("byte", [b"\x80", b"\xff"])
def test_varlong_of_more_than_10_bytes_is_refused(byte: bytes) -> None:
    tail = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + byte * 10 + b"\0" * 10
    batch = struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail
    with pytest.raises(DecodeError):
        [list(found.records()) for found in batches(batch)]


def small_frame(stem: str, direction: str) -> golden.Line:
    """Return a frame of Kafka's in the newest version: the largest small one, or else the smallest."""
    lines = [line for line in golden.frames("fixtures", stem, direction) if line["source"] == "generated"]
    newest = max(line["api_version"] for line in lines)
    return min(
        (line for line in lines if line["api_version"] == newest and not line.get("trailing")),
        key=lambda line: (len(line["hex"]) > 2 * SMALL, abs(len(line["hex"]) - 2 * SMALL)),
    )


def reader(line: golden.Line) -> Callable[..., Any]:
    if line["direction"] == "request":
        return decode_request
    return partial(decode_response, api_key=line["api_key"], api_version=line["api_version"])


EVERY_SMALL_FRAME = [(stem, direction) for stem in MODULES.values() for direction in ("request", "response")]


@EVERY_ENGINE
@pytest.mark.parametrize(("stem", "direction"), EVERY_SMALL_FRAME)
def test_every_prefix_of_a_frame_is_refused(stem: str, direction: str, engine: Engine) -> None:
    line = small_frame(stem, direction)
    frame, read = bytes.fromhex(line["hex"]), reader(line)
    read(frame, engine=engine, strict=True)
    for size in range(len(frame)):
        with pytest.raises(DecodeError) as caught:
            read(frame[:size], engine=engine)
        assert caught.value.offset <= size


@pytest.mark.parametrize(("stem", "direction"), every(3, EVERY_SMALL_FRAME))
def test_every_changed_byte_is_read_or_refused(stem: str, direction: str) -> None:
    """The bytes are refused, or read as a value that can be written and read again, equally in every engine."""
    line = small_frame(stem, direction)
    frame = bytes.fromhex(line["hex"])
    known = {key: line[key] for key in ("api_key", "api_version")}
    check = targets.request if direction == "request" else partial(targets.answer, **known)
    for at, byte in enumerate(frame):
        others = [byte ^ 0x01, byte ^ 0x80, 0xFF]
        for other in others if effort.LONG else others[at % 3 :][:1]:
            check(frame[:at] + bytes([other]) + frame[at + 1 :])


@EVERY_ENGINE
@pytest.mark.parametrize("bits", [QUIET, b"\xff" * 8, struct.pack(">d", math.inf)])
def test_floats_keep_their_bits(bits: bytes, engine: Engine) -> None:
    written = bits + bytes(16)
    assert encode(decode(Numbers, written, 0, engine=engine), 0, engine=engine) == written


def nested(levels: int) -> Any:
    """Declare a message of nested structs."""
    inner: Any = None
    for number in range(levels):
        fields: dict[str, Any] = {"__module__": __name__, "__annotations__": {"number": int}, "number": Int32()}
        if inner is not None:
            fields["__annotations__"]["inner"] = list[inner]
            fields["inner"] = Array(inner)
        inner = declare(type(f"Level{number}", (), fields))
    outer = {"__module__": __name__, "__annotations__": {"outer": inner, "rest": bytes}}
    return data(versions="0", flexible="none")(type("Deep", (), {**outer, "outer": Nested(inner), "rest": Bytes()}))


Deep = nested(10)


@EVERY_ENGINE
def test_structs_nested_ten_deep(engine: Engine) -> None:
    """A declaration has no more levels than are written down, so nothing can be nested deeper than it says."""
    value = full(Deep, 0)
    written = encode(value, 0, engine=engine)
    assert decode(Deep, written, 0, engine=engine) == value
    with pytest.raises(DecodeError) as caught:
        decode(Deep, written[:40], 0, engine=engine)
    assert caught.value.path.count("inner") > 3


def depth(node: Node) -> int:
    match node:
        case List(inner) | Maybe(inner):
            return depth(inner)
        case Record():
            return 1 + max((depth(slot.node) for slot in (*node.slots, *node.tagged)), default=0)
        case _:
            return 0


def test_no_message_is_nested_deeper_than_ten() -> None:
    assert max(depth(resolve(message, version)) for message in MESSAGES for version in cells(message)) <= 10


@EVERY_ENGINE
def test_number_of_elements_is_limited(engine: Engine) -> None:
    """Elements take much more memory than their bytes, so their number in a message is limited."""
    head = encode(JoinGroupRequest(), 6)[:-2]
    with pytest.raises(LimitError):
        decode(JoinGroupRequest, head + uvarint(MANY + 1) + b"\1\1\0" * MANY + b"\0", 6, engine=engine)


@EVERY_ENGINE
def test_unknown_tags_survive_a_round_trip(engine: Engine) -> None:
    given = metadata_v9(b"\1", b"\0\0\0\0", b"\1\x09\2ab").data
    decoded = decode_request(given, engine=engine)
    assert unknown_tags(decoded.header) == {9: b"ab"}
    assert encode_request(decoded.body, 9, correlation_id=0, header=decoded.header, engine=engine) == given
