from __future__ import annotations

import pytest
from tools.captures import capture
from tools.handmade_calls import BEGIN, CallLog, line, two_members

from kwire.analysis.usage import Refusal, latency_row, percentile, refusals, removed_in_4
from kwire.messages import APIS
from kwire.messages.metadata import MetadataRequest, MetadataResponse


def test_refusals_name_api_and_version() -> None:
    log = CallLog()
    log.commit("a", 0, 1, 3, 5, error=22)
    assert refusals(log.calls[0]) == [Refusal(22, "billing", "tea", 3)]
    part = MetadataResponse.Topic.Partition(error_code=5, partition_index=1)
    answer = MetadataResponse(topics=[MetadataResponse.Topic(error_code=3, name="milk", partitions=[part])])
    call = log.call("a", 0, MetadataRequest(), answer, 12)
    assert refusals(call) == [Refusal(3, None, "milk"), Refusal(5, None, "milk", 1)]


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_response_can_be_walked(api) -> None:  # type: ignore[no-untyped-def]
    call = CallLog().call("a", 0, api.request(), api.response(), 0)
    assert refusals(call) == []


def test_tables() -> None:
    tables = two_members().tables()
    results = [line(row, "api_name api_version client_id software_name count") for row in tables["api_usage"]]
    assert ("JoinGroup", 7, "a", "tea", 3) in results
    assert [line(row, "client_id calls connections calls_removed_in_4") for row in tables["clients"]] == [
        ("a", 9, 1, 0),
        ("b", 3, 1, 0),
    ]
    assert [line(row, "api_name error_name group_id count") for row in tables["errors"]] == [
        ("Heartbeat", "REBALANCE_IN_PROGRESS", "billing", 2)
    ]


RANKS = [([5], 50, 5), ([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 90, 4), (list(range(1, 101)), 99, 99)]


@pytest.mark.parametrize(("ordered", "percent", "expected"), RANKS)
def test_percentile(ordered: list[int], percent: int, expected: int) -> None:
    assert percentile(ordered, percent) == expected


def test_latency_row() -> None:
    row = latency_row("x", BEGIN, 12, 4, "b:1", [0, 1, 1500, 2047, 3000])
    assert line(row, "n p50_ms max_ms histogram") == (5, 1.5, 3.0, {0: 2, 10: 2, 11: 1})


VERSIONS = [(0, 2, True), (0, 3, False), (1, 3, True), (8, 1, True), (11, 0, False), (6, 8, True), (18, 0, False)]


@pytest.mark.parametrize(("key", "version", "removed"), VERSIONS)
def test_versions_removed_in_kafka_4(key: int, version: int, removed: bool) -> None:
    assert removed_in_4(key, version) is removed


def test_a_broker_of_4_2_serves_the_rest() -> None:
    """Its own ApiVersions response in a capture is the source; for Produce it lists versions that it refuses."""
    import json

    frames = capture("java-4.2.0__kafka-4.2.0__kip848")["frames"]
    (text, *_) = [row["response"] for row in frames if row["api_name"] == "ApiVersions"]
    for api in json.loads(text)["api_keys"]:
        first, last = api["min_version"], api["max_version"]
        assert all(not removed_in_4(api["api_key"], v) for v in range(first, last + 1) if api["api_key"])
        assert all(removed_in_4(api["api_key"], v) for v in range(first)), api
