from __future__ import annotations

from tools.handmade_calls import BEGIN, CallLog, line, two_members

from kwire.analysis.events import GroupEvent
from kwire.analysis.extract import events_of
from kwire.analysis.groups.lives import Life, lives


def of(log: CallLog) -> list[Life]:
    events = sorted((event for call in log.calls for event in events_of(call)), key=lambda event: event.key)
    return list(lives(events))


def restarted() -> CallLog:
    """All members leave and the group is deleted; two new members join 60 ms apart and wait for each other."""
    log = two_members()
    log.join("x", 5000, -1, error=79, member_id="", given="x")
    log.join("x", 5010, 1, "x", "y", took=100)
    log.join("y", 5060, 1, took=52)
    log.sync("x", 5120, 1, [0], {"x": [0], "y": [1]})
    log.sync("y", 5121, 1, [1])
    return log


def test_one_life() -> None:
    (life,) = of(two_members())
    assert (life.number, life.until, life.remembered) == (1, None, None)
    assert list(lives([])) == [Life(1, [], None)]


def test_new_life_of_a_group() -> None:
    first, second = of(restarted())
    assert first.until == BEGIN + 5_000_000 == second.events[0].ts
    assert (second.number, second.until, second.remembered) == (2, None, None)
    assert [event.member_id for event in second.events if event.event == "join_done"] == ["x", "y"]


def test_rows_of_both_lives() -> None:
    tables = restarted().tables()
    assert [line(row, "life from_generation to_generation trigger incomplete") for row in tables["rebalances"]] == [
        (1, 0, 1, "joined", False),
        (1, 1, 2, "joined", False),
        (1, 2, 3, "left", False),
        (1, 3, 4, "expired", False),
        (2, 0, 1, "joined", False),
    ]
    assert [line(row, "life member_id left_ts left_how") for row in tables["members"] if row["generation"] == 1] == [
        (1, "a", 1724.0, "silent"),
        (2, "x", None, None),
        (2, "y", None, None),
    ]
    assert [line(row, "member_id partition from_prev_owner") for row in tables["assignments"] if row["life"] == 2] == [
        ("x", 0, None),
        ("y", 1, None),
    ]
    assert {row["life"] for row in tables["group_events"]} == {1, 2}
    assert tables["violations"] == []


def test_coordinator_without_memory() -> None:
    """Members get UNKNOWN_MEMBER_ID. Their commits are lost, so new commits may be lower."""
    log = two_members()
    log.commit("a", 800, 3, 0, 50)
    log.beat("a", 900, 3, error=25)
    log.join("a2", 910, 1, "a2")
    log.sync("a2", 920, 1, [0], {"a2": [0]})
    log.commit("a2", 930, 1, 0, 5)
    tables = log.tables()
    assert tables["violations"] == []
    assert [line(row, "life offset") for row in tables["offset_commits"]] == [(1, 50), (2, 5)]
    assert [line(row, "life left_how left_ts") for row in tables["members"] if row["member_id"] == "a"][-1] == (
        1,
        "dropped",
        910.0,
    )


def test_the_coordinator_knew_the_member() -> None:
    log = two_members()
    log.join("a", 900, 2, "a")
    *_, life = of(log)
    assert life.remembered is not None
    assert life.remembered.generation == 2
    (row,) = log.tables()["violations"]
    assert line(row, "kind life generation member_id") == ("generation_went_back", 2, 2, "a")


def test_an_answer_that_was_under_way_is_of_the_same_life() -> None:
    def event(ts: int, name: str, generation: int | None = None, conn: str = "c") -> GroupEvent:
        code = None if generation is None else 0
        return GroupEvent(
            ts=ts, group_id="g", protocol="consumer", event=name, generation=generation, error_code=code, conn_id=conn
        )

    events = [
        event(1, "join_sent"),
        event(2, "epoch_change", 5, "d"),
        event(3, "join_done", 4),
        event(4, "heartbeat", 4),
    ]
    assert [life.number for life in lives(events)] == [1]


def test_new_life_after_lower_epochs() -> None:
    """A member of the new protocol keeps its id."""
    events = []
    for ts, epoch in ((1, 1), (11, 2), (21, 1)):
        for more, name, generation in ((0, "join_sent", 0), (1, "join_done", epoch)):
            code = 0 if name == "join_done" else None
            events.append(
                GroupEvent(
                    ts=ts + more,
                    group_id="g",
                    protocol="consumer",
                    event=name,
                    generation=generation,
                    error_code=code,
                    member_id="m",
                    conn_id="c",
                    number=ts,
                )
            )
    assert [(life.number, len(life.events), life.remembered) for life in lives(events)] == [(1, 4, None), (2, 2, None)]


def test_a_negative_generation_begins_no_life() -> None:
    """A JoinGroup response without an error never has a negative generation."""
    log = CallLog()
    log.join("a", 0, -5, "a")
    log.join("a", 10, -7, "a")
    (life,) = of(log)
    assert len(life.events) == 4
