from __future__ import annotations

from uuid import UUID

from tools.captures import capture
from tools.said import GROUP, Wire, line

from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

TEA = UUID(int=7)


def beat(
    wire: Wire,
    client: str,
    at: float,
    epoch: int,
    answer: int,
    *,
    owned=None,
    told=None,
    error: int = 0,
    first: bool = False,
) -> None:  # type: ignore[no-untyped-def]
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=client,
        member_epoch=epoch,
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
        if told is None
        else share(topic_partitions=[share.TopicPartition(topic_id=TEA, partitions=told)] if told else []),
    )
    wire.call(client, at, request, response, 1)


def moved() -> Wire:
    """A has both partitions, B comes and is given one after A gave it up."""
    wire = Wire()
    beat(wire, "a", 0, 0, 1, owned=[], told=[0, 1], first=True)
    beat(wire, "b", 100, 0, 2, owned=[], told=[], first=True)
    beat(wire, "a", 110, 1, 1, told=[0])
    beat(wire, "a", 120, 1, 2, owned=[0])
    beat(wire, "b", 150, 2, 2, told=[1])
    return wire


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


def test_silent_member() -> None:
    wire = moved()
    beat(wire, "a", 200, 2, 2)
    beat(wire, "a", 290, 2, 2)
    beat(wire, "a", 380, 2, 3, told=[0, 1])
    row = wire.tables()["rebalances"][-1]
    assert line(row, FACTS) == (3, "expired", "b", 381.0, 381.0, 230.0, 1, False)


def test_two_owners() -> None:
    wire = moved()
    beat(wire, "b", 200, 2, 2, told=[0, 1])
    (row,) = wire.tables()["violations"]
    assert line(row, "kind member_id partition") == ("two_owners", "b", 0)


def test_fenced() -> None:
    wire = moved()
    beat(wire, "b", 200, 2, 0, error=110)
    tables = wire.tables()
    assert [row["left_how"] for row in tables["members"] if row["member_id"] == "b"] == ["fenced"]


def test_gap() -> None:
    wire = moved()
    beat(wire, "a", 900, 2, 2)
    assert [row["kind"] for row in wire.tables()["violations"]] == ["heartbeat_gap"]


def test_real_one_names_its_topics() -> None:
    tables = capture("java-4.2.0__kafka-4.2.0__kip848")
    assert {row["topic"] for row in tables["assignments"]} == {"t-kip848-java-4.2.0-r3"}
    assert {row["protocol"] for row in tables["rebalances"]} == {"consumer"}
