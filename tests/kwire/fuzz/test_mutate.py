from __future__ import annotations

import struct
from functools import partial
from random import Random
from typing import Any

import golden
import pytest
import targets
from effort import amount, every
from hypothesis import given
from hypothesis import strategies as st

from kwire import WireError, decode_request, encode, encode_request
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.fuzz.mutate import BYTES, Mutation, field_mutations, mutate, mutate_message
from kwire.fuzz.values import full
from kwire.messages import MODULES
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, batches, build_batch

SOME = amount(60, 300)  # mutations of a frame
USUAL = 200  # bytes
HEARTBEAT = encode_request(full(HeartbeatRequest, 4), 4, correlation_id=7, client_id="c")
BATCH = build_batch([Record(value=b"v"), Record(value=b"w")])


def produce(records: bytes | None) -> bytes:
    Topic = ProduceRequest.Topic  # noqa: N806 - a class
    part = Topic.Partition(index=0, records=records)
    return encode_request(
        ProduceRequest(acks=1, timeout_ms=1, topic_data=[Topic(name="t", partition_data=[part])]), 9, correlation_id=7
    )


def test_mutation_is_described_in_one_line() -> None:
    mutation = Mutation(b"", "count 1 says 2", "topics", 4)
    assert str(mutation) == "topics, byte 4: count 1 says 2"
    assert str(Mutation(b"", "truncated, 2 bytes removed", "", 4)) == "byte 4: truncated, 2 bytes removed"


WHATS: list[tuple[bytes, str]] = [
    (HEARTBEAT, "header.request_api_key, byte 0: int16 12 becomes 13"),
    (HEARTBEAT, "header.request_api_version, byte 2: int16 4 becomes 5"),
    (HEARTBEAT, "header.client_id, byte 8: length 1 becomes -2"),
    (HEARTBEAT, "header.client_id, byte 8: is null"),
    (HEARTBEAT, "header, byte 11: tagged field 127 of 2 bytes is added"),
    (HEARTBEAT, "group_id, byte 12: length 2 becomes 2147483647"),
    (HEARTBEAT, "group_id, byte 12: length 2 becomes 2^32-1"),
    (HEARTBEAT, "group_id, byte 12: length 2 becomes an unterminated varint"),
    (HEARTBEAT, "group_id, byte 12: length 2 as an overlong varint"),
    (HEARTBEAT, "group_id, byte 12: becomes b'\\xff\\xfe'"),
    (HEARTBEAT, "generation_id, byte 15: int32 5 becomes -2147483648"),
    (HEARTBEAT, "group_instance_id, byte 22: is null"),
    (HEARTBEAT, "byte 25: its last tagged field is duplicated"),
    (HEARTBEAT, "byte 27: size 1 of tagged field 20 becomes 2"),
    (HEARTBEAT, "byte 26: tagged field 20 becomes 128"),
    (produce(BATCH), "topic_data[0].partition_data[0].records, byte 35: batch length of the first batch, 65, becomes 2147483647"),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "what"), WHATS)
def test_field_mutations(frame: bytes, what: str) -> None:
    mutations = [str(mutation) for mutation in field_mutations(frame)]
    ours = [line for line in mutations if line.split(":")[0].split("byte")[0] == what.split(":")[0].split("byte")[0]]
    assert what in mutations, ours


def test_a_boolean_can_be_anything() -> None:
    frame = encode_request(DescribeClusterRequest(), 0, correlation_id=7)
    mutations = {str(mutation) for mutation in field_mutations(frame)}
    at = len(frame) - 2
    assert {
        f"include_cluster_authorized_operations, byte {at}: bool False becomes {n}" for n in (1, 2, 127, 128, 255)
    } <= mutations


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("stem", every(3, list(MODULES.values())))
def test_every_field_mutation_changes_the_bytes_and_is_survived(stem: str, direction: str) -> None:
    line = min(
        golden.frames("fixtures", stem, direction),
        key=lambda line: (-line["api_version"], abs(len(line["hex"]) - 2 * USUAL)),
    )
    frame = bytes.fromhex(line["hex"])
    known = {} if direction == "request" else {"api_key": line["api_key"], "api_version": line["api_version"]}
    check = partial(targets.answer, **known) if known else targets.request
    results = list(field_mutations(frame, **known))
    for mutation in results:
        assert mutation.data != frame
        assert mutation.data[: mutation.offset] == frame[: mutation.offset]
        assert "\n" not in str(mutation)
    small = [mutation.data for mutation in results if len(mutation.data) < 8_000]
    for data in Random(1).sample(small, min(len(small), SOME)):
        check(data)


def test_batches() -> None:
    right = wrong = 0
    frame = produce(BATCH)
    assert BATCH in frame
    for mutation in field_mutations(frame):
        if "of the first batch" not in mutation.what:
            continue
        records: Any = decode_request(mutation.data).body
        data = records.topic_data[0].partition_data[0].records
        try:
            (batch,) = batches(data)
        except (WireError, ValueError):
            continue
        right += batch.crc_is_right()
        wrong += not batch.crc_is_right()
    assert right > 20
    assert wrong > 20


def test_two_batches_in_one() -> None:
    (twice,) = (
        mutation for mutation in field_mutations(produce(BATCH)) if mutation.what == "its batches are duplicated"
    )
    records: Any = decode_request(twice.data).body
    assert records.topic_data[0].partition_data[0].records == BATCH * 2


@pytest.mark.parametrize("null", [None, b""])
def test_records_that_are_not_there(null: bytes | None) -> None:
    assert [mutation for mutation in field_mutations(produce(null)) if "records" in mutation.path]


@given(seed=st.integers(0, 2**32), size=st.integers(0, len(HEARTBEAT)))
def test_mutate_is_a_function_of_the_seed(seed: int, size: int) -> None:
    frame = HEARTBEAT[:size]
    first, second = mutate(frame, Random(seed)), mutate(frame, Random(seed))
    assert first == second
    assert first.data != frame
    assert 0 <= first.offset <= len(frame)


def test_responses() -> None:
    frame = struct.pack(">i", 7) + b"\0" + encode(HeartbeatResponse(error_code=27), 4)
    paths = {mutate(frame, Random(seed), api_key=12, api_version=4).path for seed in range(200)}
    assert {"header.correlation_id", "error_code", "throttle_time_ms", ""} <= paths


def test_blobs() -> None:
    data = encode(full(ConsumerProtocolSubscription, 3), 3)
    paths = {mutate_message(ConsumerProtocolSubscription, data, 3, Random(seed)).path for seed in range(200)}
    assert {"topics", "topics[0]", "user_data", "owned_partitions[0].partitions"} <= paths


@pytest.mark.parametrize("data", [b"", b"\0", b"abc"])
@pytest.mark.parametrize("change", BYTES)
def test_bytes_of_any_size(change: Any, data: bytes) -> None:
    for seed in range(20):
        result = change(data, Random(seed))
        assert result.path == ""
        assert result.what


def test_splice() -> None:
    join = encode_request(full(JoinGroupRequest, 9), 9, correlation_id=8)
    meta = encode_request(full(MetadataRequest, 9), 9, correlation_id=9)
    results = [mutate(join, Random(seed), other=meta) for seed in range(300)]
    spliced = [mutation for mutation in results if "another frame" in mutation.what]
    assert spliced
    for mutation in spliced:
        tail = mutation.data[mutation.offset :]
        assert join.startswith(mutation.data[: mutation.offset])
        assert meta.endswith(tail)
