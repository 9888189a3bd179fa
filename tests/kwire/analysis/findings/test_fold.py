"""Findings of stories with and without planted trouble; ``make findings`` has many more of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import amount
from tools.handmade_calls import GROUP, CallLog, two_members
from tools.story import TOPIC
from tools.trouble import SCENARIOS, Scenario, group

from kwire.analysis.findings.catalogue import DETECTORS
from kwire.analysis.findings.fold import settings_of
from kwire.analysis.findings.model import MOST_EVIDENCE
from kwire.analysis.run import analyse
from kwire.analysis.tables import EVERY
from kwire.capture import Call, Connection, read
from kwire.errorcodes import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

NUMBERS = range(amount(1, 6))


def test_every_detector_has_stories() -> None:
    assert [one.detector for one in SCENARIOS] == [one.name for one in DETECTORS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.detector)
def test_planted_trouble_is_found(scenario: Scenario, tmp_path: Path) -> None:
    for number in NUMBERS:
        rows = scenario.planted(number).tables(tmp_path)["findings"]
        own = [row for row in rows if row["finding"] == scenario.detector]
        assert own, number
        for row in own:
            assert row["begin_ts"] <= row["end_ts"]
            assert row["sentence"].endswith(".")
            assert 0 < len(row["evidence"]) == min(row["evidence_count"], MOST_EVIDENCE)
            for reference in row["evidence"]:
                table, *columns = reference.split(" ")
                named = {column.partition("=")[0] for column in columns if "=" in column}
                assert named <= {column.name for column in EVERY[table].columns}, reference


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.detector)
def test_innocent_story_has_no_such_finding(scenario: Scenario, tmp_path: Path) -> None:
    for number in NUMBERS:
        rows = scenario.innocent(number).tables(tmp_path)["findings"]
        assert [row["sentence"] for row in rows if row["finding"] == scenario.detector] == [], number


@pytest.mark.parametrize("number", [44, 46], ids=["consumer group", "classic group"])
def test_jitter_of_many_or_slightly_late_heartbeats(number: int, tmp_path: Path) -> None:
    story = next(one for one in SCENARIOS if one.detector == "heartbeat-jitter").planted(number)
    found = [row["client_id"] for row in story.tables(tmp_path)["findings"] if row["finding"] == "heartbeat-jitter"]
    assert found == ["worker-1"]


def test_thresholds_change_findings(tmp_path: Path) -> None:
    story = next(one for one in SCENARIOS if one.detector == "expired-member").planted(0)
    items = list(read(story.capture(tmp_path)))
    calls = [item for item in items if isinstance(item, Call)]
    connections = [item for item in items if isinstance(item, Connection)]
    for limit, expected in (("1", True), ("1000000", False)):
        settings = settings_of([f"costly-rebalance.stopped_ms={limit}"])
        rows = analyse(calls, connections, "story", settings=settings)["findings"]
        assert ("costly-rebalance" in {row["finding"] for row in rows}) == expected


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.detector)
def test_finding_has_evidence_with_thresholds_of_zero(scenario: Scenario, tmp_path: Path) -> None:
    items = list(read(scenario.innocent(0).capture(tmp_path)))
    calls = [item for item in items if isinstance(item, Call)]
    connections = [item for item in items if isinstance(item, Connection)]
    settings = settings_of([f"{one.name}.{limit.name}=0" for one in DETECTORS for limit in one.thresholds])
    rows = analyse(calls, connections, "story", settings=settings)["findings"]
    assert [row["sentence"] for row in rows if not row["evidence"]] == []


@pytest.mark.parametrize(
    ("planted", "number", "finding", "sentence"),
    [
        (
            "costly-rebalance",
            1,
            "costly-rebalance",
            "Generation 3 of `billing` stopped consumption for 12.0 s because `worker-1` was lost by session timeout; "
            "5 of 6 partitions moved.",
        ),
        (
            "expired-static-member",
            3,
            "costly-rebalance",
            "Generation 3 of `billing` stopped consumption for 6.0 s because `pinned-1` was lost by session timeout; "
            "4 of 6 partitions moved.",
        ),
        (
            "unavailable-partition",
            2,
            "costly-rebalance",
            "Epoch 4 of `billing` stopped consumption for 49.7 s because `worker-1` was lost by session timeout; "
            "2 of 6 partitions moved.",
        ),
        (
            "unavailable-partition",
            2,
            "unavailable-partition",
            "`orders-4` and 1 other partition were not fetched for up to 45.0 s around epoch 4 of `billing`.",
        ),
        (
            "heartbeat-near-miss",
            0,
            "heartbeat-near-miss",
            "`worker-1 ..00000005` sent nothing to the coordinator of `billing` for 6.1 s and was evicted; its session "
            "timeout is 6.0 s.",
        ),
        (
            "reconnect-loop",
            3,
            "reconnect-loop",
            "`shaky` at 10.0.1.4 opened 19 connections in 16.8 s, which ended within 1 ms.",
        ),
        (
            "throttled-client",
            12,
            "throttled-client",
            "Brokers throttled `shop` at 10.0.1.1: throttle times of 9.0 s in total in responses within 19.0 s "
            "(Produce).",
        ),
    ],
    ids=["lost member", "static member", "epoch", "partitions", "evicted member", "connections", "throttle times"],
)
def test_sentence(planted: str, number: int, finding: str, sentence: str, tmp_path: Path) -> None:
    story = next(one for one in SCENARIOS if one.detector == planted).planted(number)
    rows = [row for row in story.tables(tmp_path)["findings"] if row["finding"] == finding]
    assert [row["sentence"] for row in rows] == [sentence]


@pytest.mark.parametrize("number", [1, 2, 3], ids=["lost member", "slow joiner", "another lost member"])
def test_time_of_a_costly_rebalance_includes_the_stop(number: int, tmp_path: Path) -> None:
    story = next(one for one in SCENARIOS if one.detector == "costly-rebalance").planted(number)
    (row,) = (row for row in story.tables(tmp_path)["findings"] if row["finding"] == "costly-rebalance")
    assert (row["end_ts"] - row["begin_ts"]) / 1000 >= row["cost"] > 5_000


@pytest.mark.parametrize(
    ("node_id", "port", "found"),
    [(1, 9092, []), (1, 9093, []), (2, 9093, ["coordinator-moved"])],
    ids=["not ready", "another listener", "moved"],
)
def test_coordinator_that_was_not_ready_has_not_moved(node_id: int, port: int, found: list[str]) -> None:
    """A broker that has just started returns NOT_COORDINATOR, and FindCoordinator still names it."""
    log = CallLog()
    for at, node, place in ((0, 1, 9092), (20, node_id, port)):
        response = FindCoordinatorResponse(node_id=node, host="10.0.0.9", port=place)
        log.call("a", at, FindCoordinatorRequest(key=GROUP), response, 3)
    log.join("a", 10, -1, error=ErrorCode.NOT_COORDINATOR)
    log.join("a", 30, 1, "a")
    assert [row["finding"] for row in log.tables()["findings"]] == found


@pytest.mark.parametrize(("partitions", "found"), [(1, []), (2, ["slow-poll"])], ids=["none left", "one left"])
def test_member_without_partitions_does_not_poll_slowly(partitions: int, found: list[str], tmp_path: Path) -> None:
    """Another member joins at 20 s, and gets the first partition."""
    story, (first,) = group(0, 1, modern=False, rebalance=20.0, config={"topics": {TOPIC: partitions}})
    story.member("another", 20.0, rebalance=20.0)
    story.at(25.0, lambda: first.stall(19.0))
    story.run(60)
    rows = [row for row in story.tables(tmp_path)["findings"] if row["finding"] == "slow-poll"]
    assert [row["finding"] for row in rows] == found


@pytest.mark.parametrize(
    ("error", "found"),
    [(ErrorCode.NONE, ["slow-poll"]), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])],
    ids=["topic exists", "topic deleted"],
)
def test_member_whose_topic_was_deleted_does_not_poll_slowly(error: ErrorCode, found: list[str]) -> None:
    """The member remains in its generation and commits every second."""
    log = CallLog()
    log.join("a", 0, 1, "a")
    log.sync("a", 10, 1, [0], {"a": [0]})
    asked, answered = FetchRequest.Topic, FetchResponse.Topic
    request = FetchRequest(topics=[asked(topic="tea", partitions=[asked.Partition(partition=0)])])
    response = FetchResponse(responses=[answered(topic="tea", partitions=[answered.Partition(partition_index=0)])])
    for at in (100, 1_000):
        log.call("a", at, request, response, 4)
    for at in range(1_500, 20_000, 500):
        log.beat("a", at, 1)
        log.commit("a", at + 10, 1, 0, 5, error=error)
    assert [row["finding"] for row in log.tables()["findings"] if row["finding"] == "slow-poll"] == found


@pytest.mark.parametrize("change", ["storm.count=3", "rebalance-storm.count", "rebalance-storm.count=many"])
def test_threshold_that_cannot_be(change: str) -> None:
    with pytest.raises(ValueError, match=r"threshold|number"):
        settings_of([change])


def test_group_in_good_order_has_no_findings() -> None:
    assert two_members().tables()["findings"] == []
