from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.captures import capture
from tools.handmade_calls import BEGIN, GROUP, CallLog, line

from kwire.analysis.events import split_partition
from kwire.analysis.report.by_group import groups
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse

TEA = UUID(int=7)


def beat(
    log: CallLog,
    client: str,
    at: float,
    epoch: int,
    answer: int,
    *,
    owned: Any = None,
    assigned: bool | None = None,
    error: int = 0,
    first: bool = False,
    instance: str | None = None,
) -> None:  # type: ignore[no-untyped-def]
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=client,
        member_epoch=epoch,
        instance_id=instance,
        subscribed_topic_names=["tea"] if first else None,
        topic_partitions=None
        if owned is None
        else [ConsumerGroupHeartbeatRequest.TopicPartition(topic_id=TEA, partitions=owned)],
    )
    share = ConsumerGroupHeartbeatResponse.Assignment
    response = ConsumerGroupHeartbeatResponse(
        error_code=error,
        member_id=client,
        member_epoch=answer,
        heartbeat_interval_ms=100,
        assignment=None
        if assigned is None
        else share(topic_partitions=[share.TopicPartition(topic_id=TEA, partitions=assigned)] if assigned else []),
    )
    log.call(client, at, request, response, 1)


def moved() -> CallLog:
    """Return events in which A has both partitions, and B joins and gets one of them after A revoked it."""
    log = CallLog()
    beat(log, "a", 0, 0, 1, owned=[], assigned=[0, 1], first=True)
    beat(log, "b", 100, 0, 2, owned=[], assigned=[], first=True)
    beat(log, "a", 110, 1, 1, assigned=[0])
    beat(log, "a", 120, 1, 2, owned=[0])
    beat(log, "b", 150, 2, 2, assigned=[1])
    return log


FACTS = "to_generation trigger trigger_member started_ts ended_ts stw_ms_max partitions_moved incomplete"


def test_a_partition_moves() -> None:
    tables = moved().tables()
    assert [line(row, FACTS) for row in tables["rebalances"]] == [
        (1, "joined", "a", 0.0, 1.0, None, 0, False),
        (2, "joined", "b", 100.0, 151.0, 40.0, 1, False),
    ]
    assert [line(row, "generation member_id partition from_prev_owner") for row in tables["assignments"]] == [
        (1, "a", 0, None),
        (1, "a", 1, None),
        (2, "a", 0, "a"),
        (2, "b", 1, "a"),
    ]
    assert [row["event"] for row in tables["group_events"] if row["inferred"]] == ["revocation_acknowledged"]
    assert tables["violations"] == []


def test_revocation_for_the_next_epoch() -> None:
    """B gives up its partition at 9,000, for an epoch that A receives 10 ms later."""
    log = moved()
    for at in range(240, 9000, 90):
        beat(log, "a", at, 2, 2)
        beat(log, "b", at, 2, 2)
    beat(log, "b", 9000, 2, 2, assigned=[])
    beat(log, "a", 9010, 2, 3)
    beat(log, "b", 9020, 2, 3, owned=[])
    beat(log, "a", 9100, 3, 3, assigned=[0, 1])
    ends = [line(row, "to_generation started_ts ended_ts") for row in log.tables()["rebalances"]]
    assert ends == [(1, 0.0, 1.0), (2, 100.0, 151.0), (3, 9011.0, 9101.0)]


def numbers(partitions: list[str]) -> list[int]:
    return [split_partition(partition)[1] for partition in partitions]


def test_each_change_of_a_share_is_a_row() -> None:
    """Two changes are in epoch 2 and one before epoch 3; ``assignments`` has only the last share of each member."""
    log = moved()
    beat(log, "a", 200, 2, 2, assigned=[])
    beat(log, "a", 210, 2, 2, owned=[])
    beat(log, "b", 250, 2, 2, assigned=[0, 1])
    beat(log, "a", 260, 2, 2, assigned=[])
    tables = log.tables()
    results = [
        (*line(row, "generation member_id unread_ms"), *(numbers(row[of]) for of in ("partitions", "gained", "lost")))
        for row in tables["assignment_changes"]
    ]
    assert results == [
        (1, "a", None, [0, 1], [0, 1], []),
        (2, "a", None, [0], [], [1]),
        (2, "b", 40.0, [1], [1], []),
        (2, "a", None, [], [], [0]),
        (2, "b", 50.0, [0, 1], [0], []),
    ]
    assert [(row["ts"] - BEGIN) / 1000 for row in tables["assignment_changes"]] == [1, 111, 151, 201, 251]
    last = [line(row, "member_id partition") for row in tables["assignments"] if row["generation"] == 2]
    assert last == [("b", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("again", "stop"), [(300, (111.0, 151.0, 40.0)), (250, (111.0, 151.0, 40.0)), (390, (290.0, 391.0, 101.0))]
)
def test_stop_is_the_longest_of_an_epoch(again: float, stop: tuple[float, ...]) -> None:
    """Partition 1 is not read for 40 ms, and later partition 0 from 290 on: the two stops are not added."""
    log = moved()
    beat(log, "a", 249 if again == 250 else 289, 2, 2, assigned=[])
    beat(log, "b", again, 2, 2, assigned=[0, 1])
    row = log.tables()["members"][-1]
    assert line(row, "generation member_id stopped_ts resumed_ts stw_ms") == (2, "b", *stop)


def test_silent_member() -> None:
    log = moved()
    beat(log, "a", 200, 2, 2)
    beat(log, "a", 290, 2, 2)
    beat(log, "a", 380, 2, 3, assigned=[0, 1])
    row = log.tables()["rebalances"][-1]
    assert line(row, FACTS) == (3, "expired", "b", 381.0, 381.0, 230.0, 1, False)


def test_frozen_member_is_evicted_and_returns() -> None:
    """B hears of its eviction after A has received its partition, and joins again with the same member id."""
    log = moved()
    beat(log, "a", 200, 2, 2)
    beat(log, "a", 290, 2, 2)
    beat(log, "a", 380, 2, 3, assigned=[0, 1])
    beat(log, "b", 500, 2, 0, owned=[1], error=25)
    beat(log, "b", 510, 0, 4, owned=[], assigned=[], first=True)
    tables = log.tables()
    assert tables["violations"] == []
    assert [line(row, FACTS) for row in tables["rebalances"]][2:] == [
        (3, "expired", "b", 381.0, 381.0, 230.0, 1, False),
        (4, "joined", "b", 510.0, 511.0, None, 0, True),
    ]
    ends = [line(row, "generation left_how left_ts") for row in tables["members"] if row["member_id"] == "b"]
    assert ends == [(2, "silent", 381.0), (4, None, None)]
    silent = [(row["member_id"], row["ts"]) for row in tables["group_events"] if row["event"] == "member_silent"]
    assert silent == [("b", BEGIN + 381_000)]
    found = [line(row, "member_id end_ts") for row in tables["findings"] if row["finding"] == "expired-member"]
    assert found == [("b", 381.0)]


def statics(back: str = "b2", epoch: int = 2) -> CallLog:
    """Return events as ``moved`` with static members. B leaves for a while, and returns as ``back`` in ``epoch``."""
    log = CallLog()
    beat(log, "a", 0, 0, 1, owned=[], assigned=[0, 1], first=True, instance="one")
    beat(log, "b", 100, 0, 2, owned=[], assigned=[], first=True, instance="two")
    beat(log, "a", 110, 1, 1, assigned=[0])
    beat(log, "a", 120, 1, 2, owned=[0])
    beat(log, "b", 150, 2, 2, assigned=[1])
    beat(log, "b", 200, -2, -2, instance="two")
    beat(log, "a", 220, 2, 2)
    beat(log, back, 300, 0, epoch, owned=[], assigned=[1], first=True, instance="two")
    beat(log, "a", 310, 2, epoch)
    beat(log, back, 390, epoch, epoch)
    return log


ENDS = "generation member_id joined_ts left_ts left_how stopped_ts resumed_ts"


def test_static_member_leaves_temporarily() -> None:
    """The member remains in the group as a suspended member."""
    log = statics()
    del log.calls[7:]
    tables = log.tables()
    assert [line(row, "member_id left_ts left_how") for row in tables["members"][1:]] == [
        ("a", None, None),
        ("b", 200.0, "suspended"),
    ]
    assert [line(row, FACTS) for row in tables["rebalances"]][1:] == [
        (2, "joined", "b", 100.0, 151.0, 40.0, 1, False),
    ]


def test_static_member_does_not_return() -> None:
    log = statics()
    del log.calls[7:]
    for at in (300, 390, 480):
        beat(log, "a", at, 2, 2)
    beat(log, "a", 570, 2, 3, assigned=[0, 1])
    tables = log.tables()
    assert line(tables["rebalances"][-1], FACTS) == (3, "expired", "b", 571.0, 571.0, 371.0, 1, False)
    assert {row["left_how"] for row in tables["members"] if row["member_id"] == "b"} == {"suspended"}


def test_static_member_returns() -> None:
    """The member has a new id in the same epoch. There is no rebalance, and the previous one did not take longer."""
    tables = statics().tables()
    assert [line(row, FACTS) for row in tables["rebalances"]] == [
        (1, "joined", "a", 0.0, 1.0, None, 0, False),
        (2, "joined", "b", 100.0, 151.0, 40.0, 1, False),
    ]
    assert tables["rebalances"][1]["members_after"] == ["a", "b"]
    assert [line(row, ENDS) for row in tables["members"] if row["generation"] == 2] == [
        (2, "a", 1.0, None, None, None, 121.0),
        (2, "b", 101.0, 200.0, "suspended", 111.0, 151.0),
        (2, "b2", 301.0, None, None, 200.0, 301.0),
    ]
    assert [line(row, "member_id partition from_prev_owner") for row in tables["assignments"]][2:] == [
        ("a", 0, "a"),
        ("b", 1, "a"),
        ("b2", 1, "b"),
    ]
    (event,) = [row for row in tables["group_events"] if row["event"] == "static_restart"]
    assert (event["member_id"], event["generation"]) == ("b2", 2)
    assert event["reason"] == "instance two came back, it was b; no rebalance"
    (group,) = groups(tables)
    (restart,) = group["restarts"]
    assert (restart["trigger"], restart["trigger_member"], restart["stw_ms"]) == ("restart", "b2", 101.0)
    assert tables["violations"] == []


def test_static_member_returns_under_its_id() -> None:
    tables = statics(back="b").tables()
    assert [row["to_generation"] for row in tables["rebalances"]] == [1, 2]
    assert [line(row, ENDS) for row in tables["members"] if row["member_id"] == "b"] == [
        (2, "b", 101.0, None, None, 111.0, 151.0)
    ]
    assert line(tables["rebalances"][-1], FACTS) == (2, "joined", "b", 100.0, 151.0, 40.0, 1, False)
    assert [one["stw_ms"] for group in groups(tables) for one in group["restarts"]] == [None]
    assert tables["violations"] == []


def test_static_member_returns_with_changes() -> None:
    """In the new epoch there is a rebalance that the restart triggered; the partitions of the member have not moved."""
    tables = statics(epoch=3).tables()
    assert line(tables["rebalances"][-1], FACTS) == (3, "restart", "b2", 300.0, 311.0, 101.0, 0, False)
    assert tables["rebalances"][-1]["members_after"] == ["a", "b2"]
    assert [list(group["restarts"]) for group in groups(tables)] == [[]]
    assert tables["violations"] == []


def test_two_owners() -> None:
    log = moved()
    beat(log, "b", 200, 2, 2, assigned=[0, 1])
    (row,) = log.tables()["violations"]
    assert line(row, "kind member_id partition") == ("two_owners", "b", 0)


@pytest.mark.parametrize(("owned", "kinds"), [(None, []), ([1], ["commit_not_owner"])], ids=["unknown", "known"])
def test_commit_of_a_member_of_before_the_capture(owned: Any, kinds: list[str]) -> None:
    """Its assignment was not captured, so a commit is a violation only after a request with all partitions it owns."""
    log = CallLog()
    beat(log, "a", 0, 3, 3, owned=owned)
    beat(log, "a", 100, 3, 3)
    log.commit("a", 150, 3, 0, 5)
    names = MetadataResponse(topics=[MetadataResponse.Topic(name="tea", topic_id=TEA)])
    log.call("a", 160, MetadataRequest(), names, 12)
    assert [row["kind"] for row in log.tables()["violations"]] == kinds


def test_fenced() -> None:
    log = moved()
    beat(log, "b", 200, 2, 0, error=110)
    tables = log.tables()
    assert [row["left_how"] for row in tables["members"] if row["member_id"] == "b"] == ["fenced"]


def test_gap() -> None:
    log = moved()
    beat(log, "a", 900, 2, 2)
    assert [row["kind"] for row in log.tables()["violations"]] == ["heartbeat_gap"]


def test_real_one_names_its_topics() -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__kip848")
    assert {row["topic"] for row in tables["assignments"]} == {"t-kip848-java-4.2.0-r3"}
    assert {row["protocol"] for row in tables["rebalances"]} == {"consumer"}
