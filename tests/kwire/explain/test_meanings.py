from __future__ import annotations

import pytest

from kwire.explain.meanings import NAMES, api_name, meaning
from kwire.layout import Fixed, List, Maybe, Node, Record, resolve, versions_of
from kwire.messages import APIS

MEANINGS = [
    ("HeartbeatResponse", "error_code", "int16", 27, "REBALANCE_IN_PROGRESS"),
    ("HeartbeatResponse", "error_code", "int16", 9999, ""),
    ("X", "partition_error_code", "int16", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("RequestHeader", "request_api_key", "int16", 23, "OffsetForLeaderEpoch"),
    ("RequestHeader", "request_api_key", "int16", 999, ""),
    ("JoinGroupRequest", "session_timeout_ms", "int32", 45_000, "45 s"),
    ("JoinGroupRequest", "session_timeout_ms", "int32", 300_000, "5 min"),
    ("JoinGroupRequest", "session_timeout_ms", "int32", 5_400_000, "1.5 h"),
    ("OffsetCommitRequest", "retention_time_ms", "int64", 86_400_000, "1 d"),
    ("JoinGroupRequest", "rebalance_timeout_ms", "int32", 2**31 - 1, ""),
    ("FetchRequest", "max_wait_ms", "int32", 500, ""),
    ("ListOffsetsResponse.Topic.Partition", "timestamp", "int64", 1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
    ("ListOffsetsResponse.Topic.Partition", "timestamp", "int64", -1, ""),
    ("ListOffsetsRequest.Topic.Partition", "timestamp", "int64", -1, "latest"),
    ("ListOffsetsRequest.Topic.Partition", "timestamp", "int64", 0, "1970-01-01T00:00:00.000Z"),
    ("X", "timestamp", "int64", 2**63 - 1, ""),
    ("X", "timestamp", "string", "now", ""),
    ("ProduceRequest", "acks", "int16", -1, "all"),
    ("ProduceRequest", "acks", "int16", 2, ""),
    ("X", "error_code", "bool", True, ""),
]


@pytest.mark.parametrize(("struct", "field", "wire", "value", "expected"), MEANINGS)
def test_meaning(struct: str, field: str, wire: str, value: object, expected: str) -> None:
    assert meaning(struct, field, wire, value) == expected


def test_names_of_apis_are_those_of_their_classes() -> None:
    assert {key: api_name(key) for key in APIS} == {key: api.name for key, api in APIS.items()}


def numbers(node: Node) -> set[str]:
    match node:
        case List(element):
            return numbers(element)
        case Maybe(record):
            return numbers(record)
        case Record(type_, slots, _, tagged):
            results = {f"{type_.__qualname__}.{slot.name}" for slot in slots if isinstance(slot.node, Fixed)}
            return results.union(*(numbers(slot.node) for slot in (*slots, *tagged)))
        case _:
            return set()


def test_every_named_field_is_there() -> None:
    messages = [(message, api.versions) for api in APIS.values() for message in (api.request, api.response)]
    result = set().union(
        *(numbers(resolve(m, version)) for m, versions in messages for version in versions_of(versions))
    )
    assert set(NAMES) <= result
