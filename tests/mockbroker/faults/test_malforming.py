"""Malformed responses: the exact bytes of each form, and the error of a decoder."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import golden
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.counting import in_slices, most_calls

from kwire import ErrorCode, decode_response, encode_response
from kwire.apikeys import ApiKey
from kwire.connection import ClientSide
from kwire.errors import DecodeError, FrameError, LimitError, RemoteProtocolError, Truncated
from kwire.frames import PREFIX, FrameBuffer, pack
from kwire.fuzz.sites import Site, response_sites
from kwire.headers import response_header_version
from kwire.layout import Blob, List, Text
from kwire.messages import APIS
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.fetch import FetchResponse
from kwire.messages.find_coordinator import FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.metadata import MetadataResponse
from kwire.messages.sync_group import SyncGroupResponse
from kwire.records import Record, build_batch, read
from kwire.records.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD
from mockbroker.faults.applicability import fitting_fields, malform_obstacle
from mockbroker.faults.malformed import FORMS, Form, Number
from mockbroker.faults.malforming import LARGEST, malformed_in_slices

CORRELATION_ID = 0x01020304
BATCH = build_batch([Record(value=b"one"), Record(value=b"two")])
FIRST_VERSION_OF_TOPIC_IDS = 13


def malformed(*args: Any, **options: Any) -> bytes:
    return in_slices(malformed_in_slices(*args, **options))[1]


def metadata() -> MetadataResponse:
    topic = MetadataResponse.Topic
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=1, host="localhost", port=9092)],
        topics=[topic(name="a"), topic(name="b", partitions=[topic.Partition(replica_nodes=[1, 2])])],
    )


def fetch(version: int, *records: bytes | None) -> FetchResponse:
    partitions = [
        FetchResponse.Topic.Partition(partition_index=index, records=each) for index, each in enumerate(records)
    ]
    name = {"topic": "a"} if version < FIRST_VERSION_OF_TOPIC_IDS else {}
    return FetchResponse(responses=[FetchResponse.Topic(partitions=partitions, **name)])


def join_group() -> JoinGroupResponse:
    members = [JoinGroupResponse.Member(member_id=name, metadata=b"abc") for name in ("m1", "m2")]
    return JoinGroupResponse(generation_id=3, protocol_name="range", leader="m1", member_id="m1", members=members)


def api_versions() -> ApiVersionsResponse:
    api = ApiVersionsResponse.ApiVersion
    feature = ApiVersionsResponse.SupportedFeature(name="kraft.version", max_version=1)
    return ApiVersionsResponse(
        api_keys=[api(api_key=1, max_version=17), api(api_key=18, max_version=4)], supported_features=[feature]
    )


def messages_of(version: int) -> dict[int, Any]:
    return {
        ApiKey.FETCH: fetch(version, BATCH, None, BATCH),
        ApiKey.METADATA: metadata(),
        ApiKey.JOIN_GROUP: join_group(),
        ApiKey.API_VERSIONS: api_versions(),
    }


def every_version() -> Iterator[Any]:
    """Yield the API key, the version and a frame with its length prefix, for each version of four APIs."""
    for key in messages_of(0):
        versions = APIS[key].versions
        assert versions.last is not None
        for version in range(versions.first, versions.last + 1):
            frame = pack(encode_response(messages_of(version)[key], version, correlation_id=CORRELATION_ID))
            yield pytest.param(key, version, frame, id=f"{APIS[key].name} v{version}")


EVERY_VERSION = pytest.mark.parametrize(("key", "version", "frame"), list(every_version()))


def unpacked(data: bytes) -> bytes:
    """Return the only frame, and check that its length prefix is right."""
    buffer = FrameBuffer()
    buffer.feed(data)
    frame = buffer.next_frame()
    assert frame is not None
    assert not buffer.held
    return frame


def refusal(data: bytes, key: int, version: int) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode_response(unpacked(data), key, version)
    return caught.value


def wrong_field(data: bytes, key: int, version: int) -> str:
    """Return the path, without indexes, of the field at which decoding of a frame fails; "" if the frame is valid."""
    try:
        decode_response(unpacked(data), key, version)
    except DecodeError as error:
        return re.sub(r"\[\d+\]", "", error.path)
    return ""


def first_site(frame: bytes, key: int, version: int, *kinds: type) -> Site:
    """Return the first non-nullable field of these kinds in a frame with its length prefix."""
    for site in response_sites(frame[4:], key, version):
        node = site.node
        if isinstance(node, kinds) and isinstance(node, (Text, Blob, List)) and not node.null:
            return site
    raise AssertionError("no such field")


# Malformed frames, in every version of four APIs.


@EVERY_VERSION
def test_length_changes_only_the_prefix(key: int, version: int, frame: bytes) -> None:
    assert malformed("length", {}, frame, key, version) == b"\xff\xff\xff\xff" + frame[4:]
    assert malformed("length", {"value": 7}, frame, key, version) == b"\0\0\0\7" + frame[4:]
    buffer = FrameBuffer()
    buffer.feed(malformed("length", {}, frame, key, version))
    with pytest.raises(FrameError, match="frame length -1 is negative"):
        buffer.next_frame()


@EVERY_VERSION
def test_correlation_id_changes_four_bytes(key: int, version: int, frame: bytes) -> None:
    assert malformed("correlation_id", {}, frame, key, version) == frame[:4] + b"\1\2\3\5" + frame[8:]
    assert malformed("correlation_id", {"add": -1}, frame, key, version) == frame[:4] + b"\1\2\3\3" + frame[8:]


def test_client_refuses_another_correlation_id() -> None:
    client = ClientSide()
    client.send(HeartbeatRequest(), 4)
    frame = pack(encode_response(HeartbeatResponse(), 4, correlation_id=0))
    client.receive(malformed("correlation_id", {"add": 7}, frame, ApiKey.HEARTBEAT, 4))
    with pytest.raises(
        RemoteProtocolError, match="the response has correlation id 7, but the next response must have 0"
    ):
        client.next_response()


def test_correlation_id_wraps_around() -> None:
    frame = pack(encode_response(HeartbeatResponse(), 0, correlation_id=2**31 - 1))
    changed = malformed("correlation_id", {}, frame, ApiKey.HEARTBEAT, 0)
    assert decode_response(unpacked(changed), ApiKey.HEARTBEAT, 0).header.correlation_id == -(2**31)


@EVERY_VERSION
def test_truncated_frame_is_complete(key: int, version: int, frame: bytes) -> None:
    for size in range(len(frame) - 4):
        assert malformed("truncate", {"bytes": size}, frame, key, version) == pack(frame[4 : 4 + size])
    assert isinstance(refusal(malformed("truncate", {}, frame, key, version), key, version), (Truncated, LimitError))


def test_frame_that_is_shorter_than_the_truncated_one() -> None:
    frame = pack(encode_response(HeartbeatResponse(), 0, correlation_id=1))
    assert malformed("truncate", {"bytes": 6}, frame, ApiKey.HEARTBEAT, 0) == frame


@EVERY_VERSION
def test_garbage_leaves_the_header(key: int, version: int, frame: bytes) -> None:
    header = 4 + response_header_version(APIS[key], version)  # an empty tagged section is one byte
    changed = unpacked(malformed("garbage", {"bytes": 10}, frame, key, version, seed=1))
    assert changed[:header] == frame[4 : 4 + header]
    assert len(changed) == header + 10
    assert unpacked(malformed("garbage", {"bytes": 10}, frame, key, version, seed=1)) == changed
    assert unpacked(malformed("garbage", {"bytes": 10}, frame, key, version, seed=2)) != changed
    assert len(unpacked(malformed("garbage", {}, frame, key, version))) == header + 64


# Malformed fields.


@EVERY_VERSION
def test_null_array(key: int, version: int, frame: bytes) -> None:
    changed = malformed("null_array", {}, frame, key, version)
    site = first_site(frame, key, version, List)
    assert isinstance(site.node, List)
    null = b"\0" if site.node.compact else b"\xff\xff\xff\xff"
    assert unpacked(changed) == frame[4:][: site.offset] + null + frame[4:][site.whole :]
    error = refusal(changed, key, version)
    assert (error.path, error.offset) == (site.path, site.offset)
    assert error.reason == "the field is not nullable in this version"


@EVERY_VERSION
def test_huge_array(key: int, version: int, frame: bytes) -> None:
    site = first_site(frame, key, version, List)
    assert isinstance(site.node, List)
    parameters: dict[str, int]
    for parameters, compact, plain in (({}, "8080808008", "7fffffff"), ({"count": 1000}, "e907", "000003e8")):
        changed = malformed("huge_array", parameters, frame, key, version)
        count = bytes.fromhex(compact if site.node.compact else plain)
        assert unpacked(changed) == frame[4:][: site.offset] + count + frame[4:][site.end :]
        error = refusal(changed, key, version)
        assert isinstance(error, LimitError)
        assert error.path == site.path


@EVERY_VERSION
def test_negative_length(key: int, version: int, frame: bytes) -> None:
    site = first_site(frame, key, version, Text, Blob, List)
    changed = malformed("negative_length", {}, frame, key, version)
    length = {Text: b"\xff\xfe"}.get(type(site.node), b"\xff\xff\xff\xfe")
    if site.node.compact:  # type: ignore[union-attr]
        length = b"\xff\xff\xff\xff\x0f"  # the varint of -2 + 1, as 32 bits
    assert unpacked(changed) == frame[4:][: site.offset] + length + frame[4:][site.end :]
    assert refusal(changed, key, version).path == site.path


def test_negative_length_of_a_string_is_an_int16() -> None:
    frame = pack(encode_response(FindCoordinatorResponse(host="h"), 0, correlation_id=1))
    changed = malformed("negative_length", {"value": -(2**31)}, frame, ApiKey.FIND_COORDINATOR, 0)
    assert changed == frame.replace(b"\0\1h", b"\x80\0h")


def test_field_that_cannot_be_null_comes_first() -> None:
    frame = pack(encode_response(SyncGroupResponse(assignment=b"a"), 5, correlation_id=1))
    changed = malformed("negative_length", {}, frame, ApiKey.SYNC_GROUP, 5)
    assert refusal(changed, ApiKey.SYNC_GROUP, 5).path == "assignment"


def test_given_field_may_be_nullable() -> None:
    frame = pack(encode_response(fetch(4, None), 4, correlation_id=1))
    field = {"field": "responses.partitions.aborted_transactions"}
    changed = malformed("null_array", field, frame, ApiKey.FETCH, 4)
    body: Any = decode_response(unpacked(changed), ApiKey.FETCH, 4).body
    assert body.responses[0].partitions[0].aborted_transactions is None


def test_nested_array_is_that_of_the_first_element_with_one() -> None:
    for version in range(13):
        frame = pack(encode_response(metadata(), version, correlation_id=1))
        field = {"field": "topics.partitions.replica_nodes"}
        error = refusal(malformed("null_array", field, frame, ApiKey.METADATA, version), ApiKey.METADATA, version)
        assert error.path == "topics[1].partitions[0].replica_nodes"


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("form", ["null_array", "huge_array", "negative_length"])
def test_size_of_a_tagged_field_is_right(form: str, version: int) -> None:
    """Therefore the array in the tagged field is the first thing that is wrong."""
    frame = pack(encode_response(api_versions(), version, correlation_id=1))
    changed = malformed(form, {"field": "supported_features"}, frame, ApiKey.API_VERSIONS, version)
    assert refusal(changed, ApiKey.API_VERSIONS, version).path == "supported_features"
    size = {"null_array": 1}.get(form, 5 + len(b"\x0ekraft.version\0\0\0\1\0"))
    assert bytes([0, size]) in changed


UNCHANGED = [  # form, parameters, message, version
    pytest.param("null_array", {"field": "node_endpoints"}, FetchResponse(), 12, id="later field"),
    pytest.param("huge_array", {"field": "unknown"}, FetchResponse(), 12, id="unknown field"),
    pytest.param("huge_array", {"field": "topics.partitions"}, MetadataResponse(), 12, id="no element has the field"),
    pytest.param("huge_array", {}, HeartbeatResponse(), 4, id="no array"),
    pytest.param("negative_length", {}, HeartbeatResponse(), 4, id="no length"),
    pytest.param("null_array", {}, FindCoordinatorResponse(), 3, id="array of a later version"),
    pytest.param("crc", {}, FetchResponse(), 12, id="no partition"),
    *(
        pytest.param(form, {}, fetch(12, *records), 12, id=f"{form}, {what}")
        for form, details in FORMS.items()
        if details.part == "records"
        for what, records in (("null", [None]), ("empty", [b""]), ("a cut batch", [BATCH[:-1]]), ("not a batch", [bytes(99)]))
    ),
]  # fmt: skip


@pytest.mark.parametrize(("form", "parameters", "message", "version"), UNCHANGED)
def test_response_without_the_field_is_unchanged(form: str, parameters: Any, message: Any, version: int) -> None:
    key = next(key for key, api in APIS.items() if api.response is type(message))
    frame = pack(encode_response(message, version, correlation_id=1))
    assert malformed(form, parameters, frame, key, version) == frame


# ApiVersions.


@pytest.mark.parametrize("version", range(5))
def test_unknown_version(version: int) -> None:
    frame = pack(encode_response(api_versions(), version, correlation_id=1))
    body: Any = decode_response(
        unpacked(malformed("unknown_version", {}, frame, ApiKey.API_VERSIONS, version)), ApiKey.API_VERSIONS, version
    ).body
    expected = decode_response(frame[4:], ApiKey.API_VERSIONS, version).body
    for api in expected.api_keys:  # type: ignore[attr-defined]
        api.max_version += 100
    assert body == expected
    changed = malformed("unknown_version", {"add": 32_767}, frame, ApiKey.API_VERSIONS, version)
    body = decode_response(unpacked(changed), ApiKey.API_VERSIONS, version).body
    assert [api.max_version for api in body.api_keys] == [32_767, 32_767]


def test_unknown_version_in_the_answer_to_an_unsupported_version() -> None:
    """The body has version 0, whatever version the client requested."""
    message = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)]
    )
    frame = pack(encode_response(message, 0, correlation_id=1))
    for version in (4, 99):
        changed = malformed("unknown_version", {}, frame, ApiKey.API_VERSIONS, version)
        assert changed == frame[:-2] + struct.pack(">h", 103)


# Malformed records; test_malformed_records tests the records themselves.


@pytest.mark.parametrize("version", range(19))
@pytest.mark.parametrize("form", [form for form, details in FORMS.items() if details.part == "records"])
def test_other_fields_of_a_fetch_are_unchanged(form: str, version: int) -> None:
    frame = pack(encode_response(fetch(version, BATCH, None, BATCH), version, correlation_id=1))
    changed = decode_response(
        unpacked(malformed(form, {}, frame, ApiKey.FETCH, version)), ApiKey.FETCH, version, strict=True
    )
    body: Any = changed.body
    found = [partition.records for partition in body.responses[0].partitions]
    every = form in ("corrupt_values", "schema_id", "duplicate_records")
    assert [each != before for each, before in zip(found, (BATCH, None, BATCH), strict=True)] == [True, False, every]
    for partition, before in zip(body.responses[0].partitions, (BATCH, None, BATCH), strict=True):
        partition.records = before
    assert body == decode_response(frame[4:], ApiKey.FETCH, version).body


@pytest.mark.parametrize("version", [0, 12, 13, 18])
@pytest.mark.parametrize("form", ["crc", "duplicate_records"])
def test_only_affected_partitions_are_changed(form: str, version: int) -> None:
    frame = pack(encode_response(fetch(version, BATCH, None, BATCH, BATCH), version, correlation_id=1))
    asked = []

    def affects(topic: object, partition: int) -> bool:
        asked.append((topic, partition))
        return partition == 2

    changed = malformed(form, {}, frame, ApiKey.FETCH, version, affects=affects)
    body: Any = decode_response(unpacked(changed), ApiKey.FETCH, version).body
    assert [partition.records == BATCH for partition in body.responses[0].partitions] == [True, False, False, True]
    topic = "a" if version < FIRST_VERSION_OF_TOPIC_IDS else body.responses[0].topic_id
    assert asked == [(topic, 0), (topic, 2), (topic, 3)]
    assert malformed(form, {}, frame, ApiKey.FETCH, version, affects=lambda *_: False) == frame


def test_duplicates_fit_into_the_largest_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pack(encode_response(fetch(12, BATCH, BATCH), 12, correlation_id=1))
    for limit, copies in ((len(frame) + 7 * len(BATCH), 3), (len(frame), 0), (0, 0)):
        monkeypatch.setattr("mockbroker.faults.malforming.LARGEST", limit)
        changed = malformed("duplicate_records", {"count": 1_000}, frame, ApiKey.FETCH, 12)
        body: Any = decode_response(unpacked(changed), ApiKey.FETCH, 12).body
        assert [each.records for each in body.responses[0].partitions] == [BATCH * (1 + copies)] * 2
    assert LARGEST == 100 * 1024 * 1024


# Frames of real brokers and of Kafka's own encoder.

SAMPLE = 3  # number of frames of each API
FRAME_AND_FIELD_FORMS = [form for form, details in FORMS.items() if details.part != "records"]


def real_frames(stem: str) -> list[Any]:
    lines = list(golden.frames("fixtures", stem, "response"))
    return [*islice(lines, SAMPLE), *lines[-SAMPLE:]]


@pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key].name)
def test_real_frames(key: int) -> None:
    stem = APIS[key].response.__module__.rpartition(".")[2]
    for line in real_frames(stem):
        frame, version = pack(bytes.fromhex(line["hex"])), line["api_version"]
        for form in FRAME_AND_FIELD_FORMS:
            if malform_obstacle(key, form):
                continue
            changed = malformed(form, {}, frame, key, version)
            assert malformed(form, {}, frame, key, version) == changed
            assert len(changed) <= len(frame) + 64
            if form in ("null_array", "huge_array") and changed != frame:
                assert refusal(changed, key, version).path
        for path in fitting_fields(key, "null_array"):
            changed = malformed("null_array", {"field": path}, frame, key, version)
            assert wrong_field(changed, key, version) in ("", path)


@pytest.mark.parametrize("form", [form for form, details in FORMS.items() if details.part == "records"])
def test_real_records(form: str) -> None:
    seen = changed = 0
    for line in golden.frames("fixtures", "fetch", "response"):
        frame, version = pack(bytes.fromhex(line["hex"])), line["api_version"]
        result = malformed(form, {"bytes": 1000} if form == "decompression_bomb" else {}, frame, ApiKey.FETCH, version)
        decode_response(unpacked(result), ApiKey.FETCH, version)
        seen += 1
        changed += result != frame
    assert seen > 90
    assert changed > 5


@given(st.data())
def test_number_parameters_have_bounded_effect(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(list(messages_of(0))))
    versions = APIS[key].versions
    assert versions.last is not None
    version = data.draw(st.integers(versions.first, versions.last))
    form = data.draw(st.sampled_from([form for form in FORMS if not malform_obstacle(key, form)]))
    given: dict[str, int | str] = {}
    for name, parameter in FORMS[form].parameters.items():
        if isinstance(parameter, Number):
            highest = min(parameter.highest, 1 << 20)
            given[name] = data.draw(st.integers(parameter.lowest, highest) | st.just(parameter.lowest))
        elif data.draw(st.booleans()):
            given[name] = data.draw(st.sampled_from(fitting_fields(key, form)))
    frame = pack(encode_response(messages_of(version)[key], version, correlation_id=1))
    changed = malformed(form, given, frame, key, version)
    most = {"garbage": 64 + int(given.get("bytes", 0)), "duplicate_records": 16 + 2 * len(BATCH) * 1000}
    assert len(changed) <= len(frame) + most.get(form, 2_000)
    if form != "length":
        unpacked(changed)


# The table of docs/faults.md.

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
APIS_OF = {
    "frame": "all",
    "array": "responses with an array",
    "length": "responses with a string, array or bytes",
    "api_versions": "ApiVersions",
    "records": "responses with records",
}


def documented(form: Form) -> tuple[str, str]:
    """Return the parameters and APIs of a form as the table contains them."""
    parameters = [
        f"`{name}`: {each.lowest} to {each.highest}, default {each.default}"
        if isinstance(each, Number)
        else f"`{name}`: path"
        for name, each in form.parameters.items()
    ]
    return "; ".join(parameters) or "none", APIS_OF[form.part]


def test_table_of_the_documentation_has_every_form() -> None:
    _, _, section = PAGE.read_text("utf-8").partition("## Malformed responses")
    section, _, _ = section.partition("\n## ")
    rows = [re.split(r" \| ", line.strip("| ")) for line in section.splitlines() if line.startswith("| `")]
    found = {row[0].strip("`"): (row[1], row[2]) for row in rows}
    assert found == {name: documented(form) for name, form in FORMS.items()}
    assert list(found) == list(FORMS)
    assert all(row[3] for row in rows)


# Work in slices.


def large_fetch(partitions: int) -> bytes:
    """Return a response whose partitions have two records each and a tagged field."""
    response = fetch(12, *[BATCH] * partitions)
    for partition in response.responses[0].partitions:
        partition.current_leader = FetchResponse.Topic.Partition.Leader(leader_id=1)
    return pack(encode_response(response, 12, correlation_id=CORRELATION_ID))


@pytest.mark.parametrize(
    ("form", "parameters"),
    [
        ("null_array", {"field": "responses"}),
        ("huge_array", {"field": "responses.partitions.aborted_transactions"}),
        ("crc", {}),
        ("corrupt_values", {}),
        ("duplicate_records", {"count": 3}),
    ],
)
def test_slice_of_a_larger_response_is_not_larger(form: str, parameters: Any) -> None:
    malformed(form, parameters, large_fetch(1), ApiKey.FETCH, 12)  # imports modules and makes tables
    slices, most = zip(
        *(
            most_calls(malformed_in_slices(form, parameters, frame, ApiKey.FETCH, 12))
            for frame in map(large_fetch, (170, 510))
        ),
        strict=True,
    )
    assert slices[1] > 2 * slices[0] > 2
    assert most[1] < 1.25 * most[0]


def test_records_of_one_batch_are_changed_in_slices() -> None:
    batch = build_batch([Record(value=b"v" * 100) for _ in range(10_000)])
    frame = pack(encode_response(fetch(12, batch), 12, correlation_id=CORRELATION_ID))
    slices, changed = in_slices(malformed_in_slices("corrupt_values", {}, frame, ApiKey.FETCH, 12))
    assert slices >= 2 * 10
    assert len(changed) == len(frame)
    assert b"v" * 100 not in changed


@pytest.mark.parametrize(("codec", "slices"), [(NONE, 6), (SNAPPY, 9), (LZ4, 9), (ZSTD, 9), (GZIP, 96)], ids=NAMES.get)
def test_a_large_batch_is_compressed_in_slices(codec: int, slices: int) -> None:
    batch = build_batch([Record(value=bytes(3 << 20))], codec=codec)
    frame = pack(encode_response(fetch(12, batch), 12, correlation_id=CORRELATION_ID))
    found, changed = in_slices(malformed_in_slices("corrupt_values", {}, frame, ApiKey.FETCH, 12))
    assert found >= slices
    response = decode_response(changed[PREFIX.size :], ApiKey.FETCH, 12).body
    (sent,) = read(response.responses[0].partitions[0].records)
    assert sent.codec == codec
    assert [record.value for record in sent.records()] == [b"\xff" * (3 << 20)]


@pytest.mark.parametrize("codec", [NONE, GZIP], ids=NAMES.get)
def test_many_small_records_are_encoded_in_slices(codec: int) -> None:
    batch = build_batch([Record(value=b"v") for _ in range(20_000)], codec=codec)
    frame = pack(encode_response(fetch(12, batch), 12, correlation_id=CORRELATION_ID))
    slices, _ = in_slices(malformed_in_slices("corrupt_values", {}, frame, ApiKey.FETCH, 12))
    assert slices >= 2 * 20  # decoding and encoding, in slices of 1,000 records
