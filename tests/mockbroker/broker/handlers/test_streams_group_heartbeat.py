"""StreamsGroupHeartbeat: checks of the request. The group itself: tests/mockbroker/groups/streams."""

from __future__ import annotations

from typing import Any

import pytest
from tools.streams_group_harness import NOTHING, Request, StreamsGroupHarness, internal, owned_fields, part, topology

from kwire import ErrorCode as E
from mockbroker.base.release import RELEASES
from mockbroker.broker.handlers.streams_group_heartbeat import MAX_SUBTOPOLOGIES, MAX_TOPICS

SIMPLE = topology(part("0", "t"))
TASKS = [Request.TaskIds(subtopology_id="0", partitions=[0])]
JOIN: dict[str, Any] = {"member_epoch": 0, "rebalance_timeout_ms": 1, "topology": SIMPLE, **owned_fields(NOTHING)}

REFUSED: list[tuple[dict[str, Any], E, str]] = [
    (JOIN | {"member_id": " "}, E.INVALID_REQUEST, "MemberId can't be empty."),
    (JOIN | {"group_id": ""}, E.INVALID_REQUEST, "GroupId can't be empty."),
    (JOIN | {"rack_id": ""}, E.INVALID_REQUEST, "RackId can't be empty."),
    (JOIN | {"instance_id": "i"}, E.INVALID_REQUEST, "Static membership is not yet supported."),
    (JOIN | {"task_offsets": []}, E.INVALID_REQUEST, "TaskOffsets are not supported yet."),
    (JOIN | {"task_end_offsets": []}, E.INVALID_REQUEST, "TaskEndOffsets are not supported yet."),
    (JOIN | {"warmup_tasks": TASKS}, E.INVALID_REQUEST, "WarmupTasks are not supported yet."),
    (JOIN | {"rebalance_timeout_ms": -1}, E.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request."),
    (JOIN | {"active_tasks": TASKS}, E.INVALID_REQUEST, "ActiveTasks must be empty when (re-)joining."),
    (JOIN | {"standby_tasks": None}, E.INVALID_REQUEST, "StandbyTasks must be empty when (re-)joining."),
    (JOIN | {"topology": None}, E.INVALID_REQUEST, "Topology must be non-null when (re-)joining."),
    (
        JOIN | {"topology": topology(part("0", "t", source_topic_regex=["t"]))},
        E.INVALID_REQUEST,
        "Regular expressions for source topics are not supported yet.",
    ),
    (
        JOIN | {"topology": topology(part("0", "t", state_changelog_topics=[internal("log", 2)]))},
        E.STREAMS_INVALID_TOPOLOGY,
        "Changelog topic log must have an undefined partition count, but it is set to 2.",
    ),
    (
        JOIN | {"topology": topology(part("0", "__consumer_offsets"))},
        E.STREAMS_INVALID_TOPOLOGY,
        "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
    ),
    (
        JOIN | {"topology": topology(part("0", "a b"))},
        E.STREAMS_INVALID_TOPOLOGY,
        "Topic names a b are not valid topic names.",
    ),
    ({"member_epoch": -2}, E.INVALID_REQUEST, "InstanceId can't be null."),
    ({"member_epoch": -3}, E.INVALID_REQUEST, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ({"member_epoch": 1, "topology": SIMPLE}, E.INVALID_REQUEST, "Topology can only be provided when (re-)joining."),
    (
        {"member_epoch": 1, "active_tasks": []},
        E.INVALID_REQUEST,
        "If one task-type is non-null, all must be non-null.",
    ),
    ({"member_epoch": 1}, E.GROUP_ID_NOT_FOUND, "Streams group g not found."),
    ({"member_epoch": -1}, E.GROUP_ID_NOT_FOUND, "Group g not found."),
]


@pytest.mark.parametrize(("fields", "error", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_refused(fields: dict[str, Any], error: E, message: str) -> None:
    harness = StreamsGroupHarness()
    answer = harness.beat("a", **fields)
    assert (answer.error_code, answer.error_message) == (error, message)
    assert harness.broker.groups == {}


def test_size_of_a_topology_is_checked_before_its_names() -> None:
    names = ("__consumer_offsets", "a b", *(f"t{n}" for n in range(MAX_TOPICS)))
    answer = StreamsGroupHarness().beat("a", **JOIN | {"topology": topology(part("0", *names))})
    assert f"1 subtopologies with {MAX_TOPICS + 2} topics" in answer.error_message


def test_topology_with_too_many_subtopologies_is_refused() -> None:
    harness = StreamsGroupHarness()
    answer = harness.beat(
        "a", **JOIN | {"topology": topology(*(part(f"{n}", "t") for n in range(MAX_SUBTOPOLOGIES + 1)))}
    )
    assert answer.error_code == E.STREAMS_INVALID_TOPOLOGY
    assert f"the maximum is {MAX_SUBTOPOLOGIES} with {MAX_TOPICS}" in answer.error_message


def test_only_the_coordinator_answers() -> None:
    harness = StreamsGroupHarness(brokers=2)
    other = 1 - harness.broker.coordinator("g")
    answer = harness.ask(Request(group_id="g", member_id="a", **JOIN), 0, node=other)
    assert answer.error_code == E.NOT_COORDINATOR


def test_protocol_that_is_not_enabled_is_unsupported() -> None:
    harness = StreamsGroupHarness(config={"group.coordinator.rebalance.protocols": "classic,consumer"})
    assert harness.beat("a", **JOIN).error_code == E.UNSUPPORTED_VERSION


def test_releases_before_4_2_do_not_serve_it() -> None:
    harness = StreamsGroupHarness(release=RELEASES["4.1"])
    assert not harness.router.serves(88, 0)
