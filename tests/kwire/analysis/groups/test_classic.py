from __future__ import annotations

import pytest
from tools.handmade_calls import BEGIN, GROUP, CallLog, line, two_members

from kwire.analysis.report.by_group import groups
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.errorcodes import ErrorCode

FACTS = "to_generation trigger trigger_member started_ts ended_ts duration_ms stw_ms_max partitions_moved incomplete"


def facts(log: CallLog) -> list[tuple[object, ...]]:
    return [line(row, FACTS) for row in log.tables()["rebalances"]]


def test_join_and_leave() -> None:
    assert facts(two_members()) == [
        (1, "joined", "a", 0.0, 11.0, 11.0, None, 0, False),
        (2, "joined", "b", 100.0, 170.0, 70.0, 18.0, 1, False),
        (3, "left", "b", 500.0, 724.0, 224.0, 224.0, 1, False),
    ]


def test_members() -> None:
    rows = two_members().tables()["members"]
    assert [line(row, "generation member_id joined_ts left_ts left_how leader stw_ms join_ms") for row in rows] == [
        (1, "a", 1.0, None, None, True, None, 11.0),
        (2, "a", 1.0, None, None, True, 18.0, 18.0),
        (2, "b", 160.0, 500.0, "leave", False, None, 70.0),
        (3, "a", 1.0, None, None, True, 224.0, 14.0),
    ]
    assert {row["subscription"][0] for row in rows} == {"tea"}


def test_assignments() -> None:
    rows = two_members().tables()["assignments"]
    assert [line(row, "generation member_id partition from_prev_owner source") for row in rows] == [
        (1, "a", 0, None, "told"),
        (1, "a", 1, None, "told"),
        (2, "a", 0, "a", "told"),
        (2, "b", 1, "a", "told"),
        (3, "a", 0, "a", "told"),
        (3, "a", 1, "b", "told"),
    ]


def test_expired_begins_when_the_session_ends() -> None:
    log = two_members()
    del log.calls[8:]
    log.beat("b", 300, 2)
    log.beat("a", 1300, 2)
    log.beat("a", 1600, 2, error=27)
    log.join("a", 1610, 3, "a")
    log.sync("a", 1620, 3, [0, 1], {"a": [0, 1]})
    tables = log.tables()
    last = tables["rebalances"][-1]
    assert line(last, "trigger trigger_member trigger_confidence started_ts") == ("expired", "b", "inferred", 1301.0)
    assert [row["left_how"] for row in tables["members"] if row["member_id"] == "b"] == ["silent"]
    assert [row["member_id"] for row in tables["group_events"] if row["event"] == "member_silent"] == ["b"]


def test_member_that_expires_during_a_rebalance() -> None:
    """B leaves at 500, and the rebalance then waits for C, which sent its last request at 300."""
    log = CallLog()
    log.join("a", 0, 1, "a", "b", "c", took=5)
    for member in "bc":
        log.join(member, 0, 1, took=5)
        log.sync(member, 10, 1, [1], took=5)
    log.sync("a", 10, 1, [0], {"a": [0], "b": [1], "c": [2]}, took=5)
    log.beat("c", 300, 1)
    log.leave("b", 500)
    log.beat("a", 600, 1, error=27)
    log.join("a", 610, 2, "a", took=695)
    log.sync("a", 1310, 2, [0, 1, 2], {"a": [0, 1, 2]})
    tables = log.tables()
    assert line(tables["rebalances"][-1], "trigger trigger_member started_ts") == ("left", "b", 500.0)
    ends = [line(row, "member_id left_how left_ts") for row in tables["members"] if row["generation"] == 1]
    assert ends == [("a", None, None), ("b", "leave", 500.0), ("c", "silent", 1301.0)]
    silent = [(row["member_id"], row["ts"]) for row in tables["group_events"] if row["event"] == "member_silent"]
    assert silent == [("c", BEGIN + 1_301_000)]


@pytest.mark.parametrize(("heard", "began"), [(1205, 1201.0), (1250, 1251.0)])
def test_late_sync_extends_a_session_only_if_the_member_stays(heard: float, began: float) -> None:
    """B syncs 50 ms after the assignment is there: since 4.0, brokers keep counting the session from its JoinGroup."""
    log = CallLog()
    log.join("a", 100, 1, "a", "b", took=101)
    log.join("b", 200, 1)
    log.sync("a", 210, 1, [0], {"a": [0], "b": [1]})
    log.sync("b", 250, 1, [1])
    for at in (700, heard - 1):
        log.beat("a", at, 1)
    log.calls[-1].response.error_code = 0 if began > 1201 else 27
    if began > 1201:
        log.beat("a", 1255, 1, error=27)
    log.join("a", 1300, 2, "a")
    log.sync("a", 1310, 2, [0, 1], {"a": [0, 1]})
    row = log.tables()["rebalances"][-1]
    assert line(row, "trigger trigger_member started_ts") == ("expired", "b", began)


STOPS = "generation member_id stopped_ts resumed_ts stw_ms"


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_stop_includes_partitions_of_an_expired_member(protocol: str) -> None:
    """B sends its last request at 301; A has the partitions of B at 1621, 11 ms after it rejoined."""
    log = CallLog()
    log.join("a", 0, 1, "a", "b", protocol=protocol, took=60)
    log.join("b", 50, 1, protocol=protocol, took=10)
    log.sync("a", 65, 1, [0], {"a": [0], "b": [1]})
    log.sync("b", 65, 1, [1])
    log.beat("b", 300, 1)
    log.beat("a", 700, 1)
    log.beat("a", 1300, 1, error=27)
    mine = [ConsumerProtocolSubscription.TopicPartition(topic="tea", partitions=[0])]
    log.join("a", 1610, 2, "a", protocol=protocol, owned=mine)
    log.sync("a", 1620, 2, [0, 1], {"a": [0, 1]})
    tables = log.tables()
    assert line(tables["members"][-1], STOPS) == (2, "a", 301.0, 1621.0, 1320.0)
    assert line(tables["rebalances"][-1], "stw_ms_max stw_ms_avg") == (1320.0, 1320.0)


def replaced(instance: str | None = None, protocol: str = "range") -> CallLog:
    """Return events in which B is killed and restarted within its session as C, which replaces it in generation 3."""
    log = two_members() if protocol == "range" and instance is None else CallLog()
    if not log.calls:
        log.join("a", 100, 2, "a", "b", protocol=protocol, took=60)
        log.join("b", 150, 2, protocol=protocol, instance=instance, took=10)
        log.sync("a", 165, 2, [0], {"a": [0], "b": [1]}, took=3)
        log.sync("b", 165, 2, [1], took=3)
    else:
        del log.calls[8:]
    log.beat("b", 300, 2)
    log.join("c", 900, 3, took=500, protocol=protocol, instance=instance)
    log.beat("a", 1000, 2, error=27)
    log.join("a", 1010, 3, "a", "c", took=390, protocol=protocol)
    log.sync("a", 1410, 3, [0], {"a": [0], "c": [1]}, took=3)
    log.sync("c", 1410, 3, [1], took=5)
    return log


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("instance", [None, "two"])
def test_stop_of_a_new_member_in_place_of_a_killed_one(instance: str | None, protocol: str) -> None:
    """The killed member expired, was removed by the rebalance, or is the same static member under another id."""
    tables = replaced(instance, protocol).tables()
    assert line(tables["members"][-1], STOPS) == (3, "c", 301.0, 1415.0, 1114.0)
    assert tables["rebalances"][-1]["stw_ms_max"] == 1114.0


def test_refused_commits_do_not_lengthen_a_session() -> None:
    log = two_members()
    del log.calls[8:]
    log.beat("b", 300, 2)
    log.commit("b", 900, 2, 1, 5, error=22)
    log.beat("a", 1000, 2)
    log.beat("a", 1600, 2, error=27)
    log.join("a", 1610, 3, "a")
    log.sync("a", 1620, 3, [0, 1], {"a": [0, 1]})
    assert line(log.tables()["rebalances"][-1], "trigger trigger_member started_ts") == ("expired", "b", 1301.0)


def test_all_members_leave() -> None:
    log = two_members()
    log.leave("a", 900)
    row = log.tables()["rebalances"][-1]
    assert line(row, "from_generation to_generation trigger started_ts members_after incomplete") == (
        3,
        4,
        "left",
        900.0,
        [],
        False,
    )


def test_not_finished() -> None:
    log = two_members()
    log.join("b", 900, 4)
    log.calls[-1].response = log.calls[-1].response_us = None
    log.beat("a", 950, 3, error=27)
    row = log.tables()["rebalances"][-1]
    assert line(row, "to_generation trigger started_ts ended_ts incomplete") == (None, "joined", 900.0, None, True)


REJOINS = [  # member, its rejoin, the trigger
    ("a", {}, "metadata"),
    ("a", {"topics": ["milk", "tea"]}, "subscription"),
    ("b", {"topics": ["milk"]}, "subscription"),
]


@pytest.mark.parametrize(("who", "how", "trigger"), REJOINS)
def test_rejoins(who: str, how: dict[str, object], trigger: str) -> None:
    log = two_members()
    del log.calls[8:]
    log.join(who, 500, 3, *(["a", "b"] if who == "a" else []), took=300, **how)
    other = "b" if who == "a" else "a"
    log.beat(other, 600, 2, error=27)
    log.join(other, 700, 3, *(["a", "b"] if other == "a" else []), took=100)
    for member in ("a", "b"):
        log.sync(member, 810, 3, [0], {"a": [0]} if member == "a" else None)
    assert log.tables()["rebalances"][-1]["trigger"] == trigger


def test_unknown_trigger() -> None:
    """Members are asked to rejoin, and no captured call shows the reason."""
    log = two_members()
    del log.calls[8:]
    log.beat("a", 400, 2, error=27)
    log.beat("b", 450, 2, error=27)
    log.join("a", 500, 3, "a", "b", took=50)
    log.join("b", 510, 3, took=40)
    row = log.tables()["rebalances"][-1]
    assert line(row, "trigger trigger_confidence started_ts") == ("unknown", "inferred", 401.0)


def test_cooperative_counts_moved_partitions() -> None:
    log = CallLog()
    how = {"protocol": "cooperative-sticky"}
    mine = [ConsumerProtocolSubscription.TopicPartition(topic="tea", partitions=[0, 1])]
    log.join("a", 0, 1, "a", **how)
    log.sync("a", 10, 1, [0, 1], {"a": [0, 1]})
    log.join("b", 100, 2, took=60, **how)
    log.beat("a", 120, 1, error=27)
    log.join("a", 150, 2, "a", "b", took=10, owned=mine, **how)
    log.sync("a", 165, 2, [0], {"a": [0], "b": []}, took=5)
    log.sync("b", 161, 2, [], took=9)
    log.join("a", 180, 3, "a", "b", took=50, **how)
    log.beat("b", 190, 2, error=27)
    log.join("b", 200, 3, took=30, **how)
    log.sync("a", 240, 3, [0], {"a": [0], "b": [1]}, took=5)
    log.sync("b", 241, 3, [1], took=9)
    rows = log.tables()["rebalances"]
    assert [line(row, "trigger stw_kind stw_ms_max partitions_moved") for row in rows] == [
        ("joined", "cooperative", None, 0),
        ("joined", "cooperative", None, 0),
        ("revocation", "cooperative", 80.0, 1),
    ]


def test_static_member_returns() -> None:
    log = CallLog()
    log.join("a", 0, 1, "a", member_id="", instance="one")
    log.sync("a", 10, 1, [0], {"a": [0]})
    log.join("a2", 500, 1, "a", member_id="", instance="one")
    log.sync("a2", 510, 1, [0])
    tables = log.tables()
    assert [row["to_generation"] for row in tables["rebalances"]] == [1]
    assert [line(row, "member_id left_how") for row in tables["members"]] == [("a", "replaced"), ("a2", None)]
    (event,) = [row for row in tables["group_events"] if row["inferred"]]
    assert (event["event"], event["reason"]) == ("static_restart", "instance one came back, it was a; no rebalance")
    (group,) = groups(tables)
    assert [(one["trigger"], one["trigger_member"], one["stw_ms"]) for one in group["restarts"]] == [
        ("restart", "a2", 500.0)
    ]
    assert tables["violations"] == []


VIOLATIONS = [  # kind, what happens after two_members()
    ("commit_fenced", lambda log: log.commit("b", 800, 2, 1, 5, error=25)),
    ("commit_old_generation", lambda log: log.commit("a", 800, 2, 0, 5, error=22)),
    ("commit_not_owner", lambda log: log.commit("a", 800, 3, 7, 5)),
    ("heartbeat_gap", lambda log: log.beat("a", 3000, 3)),
]


@pytest.mark.parametrize(("kind", "happens"), VIOLATIONS)
def test_violation(kind, happens) -> None:  # type: ignore[no-untyped-def]
    log = two_members()
    assert log.tables()["violations"] == []
    happens(log)
    assert [row["kind"] for row in log.tables()["violations"]] == [kind]


def from_the_middle(first: str = "a") -> CallLog:
    """Return a capture that begins with generation 5. ``first``: member id in the first JoinGroup of member A."""
    log = CallLog()
    log.join("a", 0, 5, "a", "b", took=20, member_id=first)
    log.join("b", 10, 5, took=10)
    log.sync("a", 30, 5, [0], {"a": [0], "b": [1]})
    log.sync("b", 31, 5, [1])
    return log


def test_earlier_members_do_not_cause_the_first_rebalance() -> None:
    (row,) = from_the_middle().tables()["rebalances"]
    assert line(row, "to_generation trigger trigger_member trigger_confidence incomplete") == (
        5,
        "unknown",
        None,
        "inferred",
        True,
    )
    (row,) = from_the_middle(first="").tables()["rebalances"]
    assert line(row, "trigger trigger_member") == ("joined", "a")


@pytest.mark.parametrize(("first", "kinds"), [("a", []), ("", ["commit_not_owner"])], ids=["unknown", "known"])
def test_commit_of_an_assignment_of_before_the_capture(first: str, kinds: list[str]) -> None:
    log = from_the_middle(first)
    log.commit("a", 40, 5, 1, 9)
    assert [row["kind"] for row in log.tables()["violations"]] == kinds


def test_two_owners() -> None:
    log = two_members()
    log.join("b", 900, 4, took=50)
    log.beat("a", 910, 3, error=27)
    log.join("a", 920, 4, "a", "b", took=30)
    log.sync("a", 960, 4, [0, 1], {"a": [0, 1], "b": [1]})
    log.sync("b", 961, 4, [1])
    (row,) = log.tables()["violations"]
    assert line(row, "kind generation member_id topic partition group_id") == ("two_owners", 4, "b", "tea", 1, GROUP)


def test_generation_went_back() -> None:
    log = two_members()
    log.join("a", 900, 2, "a")
    assert [row["kind"] for row in log.tables()["violations"]] == ["generation_went_back"]


def test_new_group_has_no_coordinator_that_moved() -> None:
    """A broker that has just started rejects the first JoinGroup, because its coordinator is not ready."""
    log = CallLog()
    log.join("a", 0, -1, error=ErrorCode.NOT_COORDINATOR)
    log.join("a", 100, 1, "a")
    log.sync("a", 110, 1, [0, 1], {"a": [0, 1]})
    (row,) = log.tables()["rebalances"]
    assert (row["trigger"], row["trigger_member"]) == ("joined", "a")
