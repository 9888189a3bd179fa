"""The native engine, where it differs from a translation of the compiled one: memory, objects that change, classes."""

from __future__ import annotations

import gc
import sys
from typing import Any
from uuid import UUID

import pytest

from kwire import codec
from kwire.engines import native
from kwire.engines.runtime import NativeRefused
from kwire.errors import LimitError, SchemaError, Truncated
from kwire.fuzz.values import full
from kwire.layout import resolve
from kwire.messages.fetch import FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataResponse
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.schema import Array, Int32, String, struct
from kwire.schema import data as message_of

if not native.package():
    pytest.skip("the native engine is not installed: make native", allow_module_level=True)

Protocol = JoinGroupRequest.Protocol
CLASSES = [HeartbeatRequest, JoinGroupRequest, MetadataResponse, FetchResponse, OffsetFetchRequest]


@pytest.mark.parametrize("message", CLASSES, ids=lambda message: message.__name__)
def test_no_object_is_lost_or_kept(message: Any) -> None:
    """After many decodings and encodings, also refused ones, the number of memory blocks is the same."""
    version = resolve_last(message)
    read, write = native.reader_of(message, version), native.writer_of(message, version)
    value = full(message, version)
    data = write(value)
    spoiled = full(message, version)
    spoiled.unknown_tags = {1: "text"}

    def work() -> None:
        for _ in range(200):
            assert write(read(data, 0)[0]) == data
            for size in (len(data) - 1, len(data) // 2):
                with pytest.raises(NativeRefused):
                    read(data[:size], 0)
            with pytest.raises(ValueError):  # noqa: PT011 - of any kind
                write(spoiled)

    work()
    gc.collect()
    before = sys.getallocatedblocks()
    work()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100  # 200 for a block that each turn loses


@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "disabled"])
def test_the_garbage_collector_is_as_before(enabled: bool) -> None:
    data = native.encode(full(MetadataResponse, 12), 12)
    (gc.enable if enabled else gc.disable)()
    try:
        native.decode(MetadataResponse, data, 0, 12, 2**30)
        assert gc.isenabled() == enabled
        for size in range(0, len(data), 7):
            with pytest.raises(NativeRefused):
                native.decode(MetadataResponse, data[:size], 0, 12, 2**30)
            assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_no_collection_runs_while_a_message_is_decoded() -> None:
    response = MetadataResponse(topics=[MetadataResponse.Topic(name="t") for _ in range(5_000)])
    data, runs = native.encode(response, 12), list[str]()
    gc.callbacks.append(lambda phase, _: runs.append(phase))
    try:
        gc.collect()
        runs.clear()
        native.decode(MetadataResponse, data, 0, 12, 2**30)
        assert len(runs) <= 2  # at most one begins and ends, after the message
    finally:
        gc.callbacks.pop()


def resolve_last(message: Any) -> int:
    return int(message.__kafka__.versions.last)


def test_decoded_objects_are_ordinary() -> None:
    value = full(MetadataResponse, 12)
    decoded, end = native.decode(MetadataResponse, b"??" + codec.encode(value, 12), 2, 12, 2**30)
    assert decoded == value
    assert repr(decoded) == repr(value)
    assert end == len(codec.encode(value, 12)) + 2
    assert gc.is_tracked(decoded)
    decoded.topics.append(MetadataResponse.Topic(name="t"))
    decoded.topics[0].topic_id = UUID(int=2**127 + 1)
    del decoded.cluster_id
    decoded.cluster_id = None
    assert native.reader_of(MetadataResponse, 12)(native.encode(decoded, 12), 0)[0] == decoded


def test_defaults_are_new_objects() -> None:
    read = native.reader_of(FetchResponse, 12)
    partition = FetchResponse.Topic.Partition()
    data = codec.encode(FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=[partition] * 2)]), 12)
    one, other = read(data, 0)[0].responses[0].partitions
    assert one == other
    assert one.diverging_epoch is not other.diverging_epoch


def test_another_class_is_refused() -> None:
    write = native.writer_of(HeartbeatRequest, 4)
    for other in (None, JoinGroupRequest(), 5, HeartbeatRequest):
        with pytest.raises(NativeRefused):
            write(other)


def test_deleted_field() -> None:
    value = HeartbeatRequest(group_id="g")
    del value.member_id
    with pytest.raises(AttributeError):
        codec.encode(value, 4, engine="native")


def test_offset_after_the_data() -> None:
    read = native.reader_of(HeartbeatRequest, 0)
    with pytest.raises(IndexError):
        read(b"", 1)
    with pytest.raises(OverflowError):
        read(b"", -1)


class Encodable:
    """An object that is no string, but has the method of one."""

    def __init__(self, encoded: object) -> None:
        self.encoded = encoded

    def encode(self, *_: str) -> object:
        return self.encoded


@pytest.mark.parametrize("encoded", [5, [97, 98], "ab", None], ids=["size", "list", "text", "none"])
def test_text_that_encodes_to_no_bytes_is_refused(encoded: object) -> None:
    value: Any = HeartbeatRequest(group_id=Encodable(encoded))  # type: ignore[arg-type]
    for version in (0, 4):
        for engine in codec.ENGINES:
            with pytest.raises((TypeError, ValueError)):
                codec.encode(value, version, engine=engine)


class Shrinking:
    """A number that empties a list while the list is encoded."""

    def __init__(self, elements: list[Any]) -> None:
        self.elements = elements

    def __index__(self) -> int:
        self.elements.clear()
        return 7


def test_list_that_shrinks_while_it_is_encoded() -> None:
    numbers: list[Any] = []
    numbers += [Shrinking(numbers), *range(1000)]
    topic = OffsetFetchRequest.Group.Topic(name="t", partition_indexes=numbers)
    with pytest.raises(IndexError):
        native.encode(OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=[topic])]), 8)


def test_struct_that_changes_while_it_is_encoded() -> None:
    class Changing:
        def __index__(self) -> int:
            value.member_id = None
            value.group_instance_id = ["other"]
            return 1

    value: Any = HeartbeatRequest(group_id="g", generation_id=Changing(), member_id="m" * 100)  # type: ignore[arg-type]
    with pytest.raises(NativeRefused):
        native.encode(value, 4)


def test_class_with_attribute_access_of_its_own() -> None:
    """Such a class is decoded and encoded by the compiled engine."""

    stored: list[str] = []

    def store(self: object, name: str, value: object) -> None:
        stored.append(name)
        object.__setattr__(self, name, value)

    fields = {"__annotations__": {"number": int}, "number": Int32(), "__setattr__": store}
    counted = struct(type("Counted", (), fields))
    fields = {"__annotations__": {"items": list[counted], "name": str}, "items": Array(counted), "name": String()}
    counters: Any = message_of(versions="0", flexible="none")(type("Counters", (), fields))
    data = b"\0\0\0\2" + bytes(8) + b"\0\1n"
    value, _ = native.decode(counters, data, 0, 0, 2**30)
    assert stored.count("number") == 2
    assert native.encode(value, 0) == data


def test_no_such_version() -> None:
    with pytest.raises(SchemaError):
        native.reader_of(HeartbeatRequest, 99)


def test_memory_limit_and_rough_errors() -> None:
    data = codec.encode(OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=[])] * 20_000), 8)
    for given, weight, kind in ((data, 1000, LimitError), (data[:-1], 2**40, Truncated)):
        with pytest.raises(kind) as caught:
            codec.decode_at(OffsetFetchRequest, given, 0, 8, engine="native", weight=weight)
        assert caught.value.path == ""


@pytest.mark.parametrize(
    "wrong", [(), ("struct",), ("circle",), ("struct", HeartbeatRequest, ["no_slot"], [], False, [], [], [])]
)
def test_wrong_table(wrong: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, TypeError, IndexError, AttributeError)):
        native.package().Message(wrong)


def test_table_with_a_slot_out_of_range() -> None:
    kind, cls, names, slots, *others = native.table(resolve(HeartbeatRequest, 0))
    for number in (len(names) - 1, len(names), 10**6):  # unknown_tags is no field
        with pytest.raises(ValueError, match="a slot has no name"):
            native.package().Message((kind, cls, names, [(number, slots[0][1])], *others))
